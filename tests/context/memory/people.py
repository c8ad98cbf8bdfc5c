"""What is known of two people, and requests, each with the fact that it needs: in words of it, or in others."""

from __future__ import annotations

ANN = """
Ann is allergic to peanuts and shellfish.
She lives in Lyon, near the Part-Dieu station.
Her daughter Mila was born on 3 May 2019.
She prefers answers in short bullet points.
Ann works as a nurse on night shifts.
Her car is a blue Renault Zoe, which is electric.
She has a cat named Biscuit who needs insulin twice a day.
Ann is learning Portuguese and is at level A2.
She dislikes phone calls and wants to be written to.
Her husband Paul plays the cello in an amateur orchestra.
She runs ten kilometres every Sunday morning.
Ann's favourite author is Ursula K. Le Guin.
She is afraid of flying and takes trains where she can.
Her bank account is with La Banque Postale.
She pays for her parking subscription on the first of each month.
Ann's shoe size is 39.
Her mother lives in a care home in Grenoble.
She drinks her coffee without sugar, with oat milk.
Ann sleeps badly before exams.
Their holiday last year was on the island of Madeira.
She uses a MacBook with a French keyboard.
Ann has a degree in biology from Nantes.
Her dentist is Doctor Moreau, in the Rue Garibaldi.
She is saving for a new kitchen, up to 12,000 euros.
Paul is a vegetarian, Ann is not.
Her neighbour Karim waters the plants when they are away.
She wants no emails after eight in the evening.
Ann broke her left wrist while skiing in 2021.
Her internet provider is Free, with a fibre line.
She is a member of the city library.
Mila is in the first year of primary school.
Ann's order 20250101 was delivered to the wrong address.
She likes jazz, above all Bill Evans.
The heating of their flat is by gas.
Ann's passport expires in March 2027.
She votes in the seventh arrondissement.
Her best friend Chloé is getting married in September.
Ann reads the news on her phone in the tram.
She has a discount card for trains.
Their wedding anniversary is on 14 June.
""".strip().splitlines()

ASKED_OF_ANN = {
    "Does Ann have allergies I should tell the caterer about?": 0,
    "Can you suggest a snack? Something with nuts, maybe.": 0,
    "Which station is closest to her home?": 1,
    "What shall we give Mila for her birthday?": 2,
    "How old is my child now?": 2,
    "When am I usually at work?": 4,
    "Where can I charge my vehicle on the way to Nice?": 5,
    "The cat was sick this morning, can he still have his insulin?": 6,
    "What medicine does my pet get?": 6,
    "Give me an exercise for my Portuguese": 7,
    "Which foreign language do I study?": 7,
    "Should the shop ring me, or send a message?": 8,
    "What instrument does Paul play?": 9,
    "Plan my training for a half marathon": 10,
    "Recommend a novel to me": 11,
    "How do I get from here to Rome without a plane?": 12,
    "When is my parking subscription due?": 14,
    "Are these sneakers available in my size?": 15,
    "How is my mum doing, and how far away is she?": 16,
    "Order me a latte": 17,
    "Where did we go on vacation?": 19,
    "How do I type an accent on my keyboard?": 20,
    "I have a toothache, whom do I call?": 22,
    "How much money can we spend on the kitchen?": 23,
    "What can I cook for my husband that has no meat in it?": 24,
    "Who looks after our flowers during the holidays?": 25,
    "Which bone did I fracture?": 27,
    "The wifi is down, whom do I contact?": 28,
    "Where can I borrow books?": 29,
    "What happened to order 20250101?": 31,
    "Put on some music for dinner": 32,
    "Is my passport still valid for a trip in April 2027?": 34,
    "Whose wedding are we invited to in autumn?": 36,
    "Do I get cheaper train tickets?": 38,
    "When did Paul and I marry?": 39,
}

LI = """
李娜对花生和海鲜过敏。
她住在杭州西湖区，离地铁站很近。
她的儿子小明2018年5月出生。
她喜欢简短的回答，最好分点列出。
李娜在医院当护士，经常上夜班。
她开一辆蓝色的电动汽车。
她养了一只猫，名叫饼干，每天要打两次胰岛素。
李娜正在学日语，水平是N4。
她不喜欢接电话，希望用微信联系。
她的丈夫王强在业余乐队里拉大提琴。
她每个星期天早上跑十公里。
李娜最喜欢的作家是刘慈欣。
她害怕坐飞机，出门尽量坐高铁。
她的工资卡是招商银行的。
她每月一号交停车费。
李娜穿37码的鞋。
她的母亲住在南京的养老院。
她喝咖啡不加糖，只加燕麦奶。
李娜考试前总是睡不好。
他们去年在三亚度假。
她用的是苹果笔记本电脑。
李娜毕业于浙江大学生物系。
她的牙医是莫医生，诊所在文三路。
她在攒钱装修厨房，预算八万元。
王强吃素，李娜不吃素。
他们外出时，邻居老张帮忙浇花。
晚上八点以后她不想收到邮件。
李娜2021年滑雪时摔断了左手腕。
她家的宽带是中国电信的光纤。
她有市图书馆的借书证。
小明在读小学一年级。
李娜的订单20250101被送错了地址。
她爱听爵士乐。
他们家用燃气取暖。
李娜的护照2027年3月到期。
她最好的朋友小芳九月结婚。
李娜在地铁上用手机看新闻。
她的会员卡坐火车可以打折。
他们的结婚纪念日是6月14日。
她习惯早上六点起床。
""".strip().splitlines()

ASKED_OF_LI = {
    "订餐时要不要告诉餐厅我对什么过敏？": 0,
    "推荐一个零食，有坚果的也可以": 0,
    "她家附近有地铁站吗？": 1,
    "小明的生日快到了，送什么礼物好？": 2,
    "我的孩子今年多大了？": 2,
    "我一般什么时候上班？": 4,
    "去上海的路上哪里可以充电？": 5,
    "猫今天早上吐了，还能打胰岛素吗？": 6,
    "我的宠物吃什么药？": 6,
    "给我出几道日语练习题": 7,
    "我在学哪门外语？": 7,
    "快递员应该打电话还是发消息给我？": 8,
    "王强会什么乐器？": 9,
    "帮我制定一个半程马拉松的训练计划": 10,
    "推荐一本小说给我": 11,
    "不坐飞机怎么去北京？": 12,
    "停车费什么时候要交？": 14,
    "这双运动鞋有我的尺码吗？": 15,
    "我妈妈离我有多远？": 16,
    "帮我点一杯拿铁": 17,
    "我们去年去哪里旅游了？": 19,
    "我的笔记本电脑怎么截屏？": 20,
    "我牙疼，应该找谁？": 22,
    "厨房最多可以花多少钱？": 23,
    "给我老公做什么菜不用肉？": 24,
    "我们度假时谁照顾植物？": 25,
    "我哪里骨折过？": 27,
    "家里上不了网，该联系谁？": 28,
    "我可以去哪里借书？": 29,
    "订单20250101怎么了？": 31,
    "晚饭时放点音乐": 32,
    "我的护照明年四月还有效吗？": 34,
    "秋天我们要参加谁的婚礼？": 35,
    "我买火车票有优惠吗？": 37,
    "我和王强是哪天结婚的？": 38,
}
