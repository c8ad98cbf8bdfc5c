"""Questions with others that ask the same, and others that look alike and ask something else.

Of each group every second one is for choosing a threshold (`DEVELOPMENT`), the others for measuring it (`TEST`).
"""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """A question, ways to ask the same, and near misses: questions whose answer is another one."""

    question: str
    same: tuple[str, ...]
    other: tuple[str, ...]


GROUPS = (
    Group(
        "How do I reset my password?",
        ("How can I reset my password?", "I want to reset my password, how?", "What is the way to reset a password?"),
        ("How do I reset my router?", "How do I change my username?", "Can I reset my password without an email?"),
    ),
    Group(
        "What is your refund policy?",
        ("What's your policy on refunds?", "Tell me about your refund policy.", "How does your refund policy work?"),
        ("What is your privacy policy?", "What is your exchange policy?", "Why is there no refund policy?"),
    ),
    Group(
        "Where is order 20250101?",
        ("Where's my order 20250101?", "Can you tell me where order 20250101 is?", "order 20250101, where is it"),
        ("Where is order 20250102?", "When was order 20250101 placed?", "Who placed order 20250101?"),
    ),
    Group(
        "How long does shipping to Germany take?",
        ("How long will shipping to Germany take?", "What is the shipping time to Germany?"),
        (
            "How long does shipping to France take?",
            "How much does shipping to Germany cost?",
            "How long does shipping from Germany take?",
        ),
    ),
    Group(
        "Can I cancel my subscription at any time?",
        ("Am I able to cancel my subscription at any time?", "Is it possible to cancel my subscription any time?"),
        (
            "Can I not cancel my subscription at any time?",
            "Can I pause my subscription at any time?",
            "Can I cancel my order at any time?",
        ),
    ),
    Group(
        "What are your opening hours on Monday?",
        ("What are the opening hours on Monday?", "On Monday, what are your opening hours?"),
        ("What are your opening hours on Sunday?", "What are your phone hours on Monday?", "Are you closed on Monday?"),
    ),
    Group(
        "How do I enable two-factor authentication?",
        ("How can I enable two-factor authentication?", "How do I turn on two-factor authentication?"),
        (
            "How do I disable two-factor authentication?",
            "How do I enable single sign-on?",
            "Why should I enable two-factor authentication?",
        ),
    ),
    Group(
        "Which payment methods do you accept?",
        ("What payment methods do you accept?", "Which methods of payment do you accept?"),
        (
            "Which payment methods do you not accept?",
            "Which currencies do you accept?",
            "Which payment method is cheapest?",
        ),
    ),
    Group(
        "Summarize the meeting of 3 May.",
        ("Please summarize the meeting of 3 May.", "Give me a summary of the meeting of 3 May."),
        ("Summarize the meeting of 8 May.", "Summarize the meeting of 3 June.", "Who was at the meeting of 3 May?"),
    ),
    Group(
        "How many users signed up in January?",
        ("How many users have signed up in January?", "What number of users signed up in January?"),
        (
            "How many users signed up in February?",
            "How many users left in January?",
            "Which users signed up in January?",
        ),
    ),
    Group(
        "What does error E1042 mean?",
        ("What is the meaning of error E1042?", "What does the error E1042 mean?"),
        ("What does error E1024 mean?", "What does warning E1042 mean?", "How do I fix error E1042?"),
    ),
    Group(
        "Is the API rate limit 100 requests per minute?",
        ("Is the rate limit of the API 100 requests per minute?", "Is the API's rate limit 100 requests per minute?"),
        (
            "Is the API rate limit 1000 requests per minute?",
            "Is the API rate limit 100 requests per second?",
            "Is the API rate limit 100 tokens per minute?",
        ),
    ),
    Group(
        "Who is the CEO of Acme?",
        ("Who's the CEO of Acme?", "Tell me who the CEO of Acme is."),
        ("Who is the CFO of Acme?", "Who is the CEO of Apex?", "Who was the CEO of Acme?"),
    ),
    Group(
        "How do I export my data as CSV?",
        ("How can I export my data as CSV?", "How do I export data to CSV?"),
        ("How do I import my data as CSV?", "How do I export my data as PDF?", "How do I delete my data?"),
    ),
    Group(
        "Does the premium plan include phone support?",
        ("Is phone support included in the premium plan?", "Does the premium plan come with phone support?"),
        (
            "Does the basic plan include phone support?",
            "Does the premium plan include email support?",
            "Does the premium plan exclude phone support?",
        ),
    ),
    Group(
        "What is the capital of Australia?",
        ("What's the capital of Australia?", "Which city is the capital of Australia?"),
        (
            "What is the capital of Austria?",
            "What is the population of Australia?",
            "What is the largest city of Australia?",
        ),
    ),
    Group(
        "How do I connect to the office VPN?",
        ("How can I connect to the office VPN?", "How do I connect to the VPN of the office?"),
        (
            "How do I disconnect from the office VPN?",
            "How do I connect to the office printer?",
            "How do I connect to the home VPN?",
        ),
    ),
    Group(
        "Send the report to Anna.",
        ("Please send the report to Anna.", "Could you send Anna the report?"),
        ("Send the report to Hanna.", "Do not send the report to Anna.", "Send the invoice to Anna."),
    ),
    Group(
        "Is it safe to restart the server now?",
        ("Is restarting the server now safe?", "Can the server be restarted safely now?"),
        (
            "Is it unsafe to restart the server now?",
            "Is it safe to stop the server now?",
            "Is it safe to restart the database now?",
        ),
    ),
    Group(
        "How many vacation days do I have left?",
        ("How many vacation days are left for me?", "How many days of vacation do I have left?"),
        (
            "How many sick days do I have left?",
            "How many vacation days have I taken?",
            "How many vacation days does Tom have left?",
        ),
    ),
    Group(
        "What is the price of the 64 GB model?",
        ("What does the 64 GB model cost?", "How much is the 64 GB model?"),
        (
            "What is the price of the 128 GB model?",
            "What is the weight of the 64 GB model?",
            "What is the price of two 64 GB models?",
        ),
    ),
    Group(
        "When does the store open tomorrow?",
        ("What time does the store open tomorrow?", "Tomorrow, when does the store open?"),
        (
            "When does the store open today?",
            "When does the store close tomorrow?",
            "When does the cafe open tomorrow?",
        ),
    ),
    Group(
        "Explain what a mutex is.",
        ("What is a mutex?", "Explain to me what a mutex is."),
        ("Explain what a semaphore is.", "Explain why a mutex is slow.", "Explain what a mutex is not."),
    ),
    Group(
        "Does Alice report to Bob?",
        ("Is Bob who Alice reports to?", "Does Alice report to Bob, please?"),
        ("Does Bob report to Alice?", "Does Alice report to Rob?", "Does Alice not report to Bob?"),
    ),
    Group(
        "How do I install the package on Windows?",
        ("How can I install the package on Windows?", "How to install the package on Windows?"),
        (
            "How do I install the package on Linux?",
            "How do I uninstall the package on Windows?",
            "How do I update the package on Windows?",
        ),
    ),
    Group(
        "What is the warranty on the X200 laptop?",
        ("What's the warranty of the X200 laptop?", "What warranty does the X200 laptop have?"),
        (
            "What is the warranty on the X220 laptop?",
            "What is the weight of the X200 laptop?",
            "What is the warranty on the X200 tablet?",
        ),
    ),
    Group(
        "怎么重置密码？",
        ("如何重置密码？", "请问怎么重置密码", "密码怎么重置？"),
        ("怎么重置路由器？", "怎么修改用户名？", "不用邮箱怎么重置密码？"),
    ),
    Group(
        "你们的退货政策是什么？",
        ("退货政策是什么？", "你们的退货政策是怎样的？", "请介绍一下你们的退货政策。"),
        ("你们的隐私政策是什么？", "你们的换货政策是什么？", "你们的退货政策为什么变了？"),
    ),
    Group(
        "订单 20250101 在哪里？",
        ("订单 20250101 现在在哪里？", "请问订单 20250101 在哪儿？", "查一下订单 20250101 在哪里"),
        ("订单 20250102 在哪里？", "订单 20250101 什么时候下的？", "订单 20250101 是谁下的？"),
    ),
    Group(
        "寄到北京要几天？",
        ("寄到北京需要几天？", "寄到北京要多少天？"),
        ("寄到南京要几天？", "从北京寄出要几天？", "寄到北京要多少钱？"),
    ),
    Group(
        "可以随时取消订阅吗？",
        ("能随时取消订阅吗？", "订阅可以随时取消吗？"),
        ("不可以随时取消订阅吗？", "可以随时暂停订阅吗？", "可以随时取消订单吗？"),
    ),
    Group(
        "周一的营业时间是什么？",
        ("周一营业时间是什么？", "周一的营业时间是几点？"),
        ("周日的营业时间是什么？", "周一的休息时间是什么？", "周一不营业吗？"),
    ),
    Group(
        "怎么开启两步验证？",
        ("如何开启两步验证？", "两步验证怎么开启？"),
        ("怎么关闭两步验证？", "怎么开启单点登录？", "为什么要开启两步验证？"),
    ),
    Group(
        "支持哪些支付方式？",
        ("你们支持哪些支付方式？", "支持什么支付方式？"),
        ("不支持哪些支付方式？", "支持哪些货币？", "哪种支付方式最便宜？"),
    ),
    Group(
        "总结五月三日的会议。",
        ("请总结五月三日的会议。", "总结一下五月三日的会议"),
        ("总结五月八日的会议。", "总结六月三日的会议。", "五月三日的会议谁参加了？"),
    ),
    Group(
        "一月份有多少新用户？",
        ("一月份新用户有多少？", "一月份有多少个新用户？"),
        ("二月份有多少新用户？", "一月份有多少老用户？", "一月份流失了多少用户？"),
    ),
    Group(
        "错误 E1042 是什么意思？",
        ("E1042 错误是什么意思？", "错误 E1042 代表什么意思？"),
        ("错误 E1024 是什么意思？", "警告 E1042 是什么意思？", "怎么修复错误 E1042？"),
    ),
    Group(
        "公司的法人是谁？",
        ("公司法人是谁？", "谁是公司的法人？"),
        ("公司的财务是谁？", "公司的客户是谁？", "公司以前的法人是谁？"),
    ),
    Group(
        "怎么把数据导出成 CSV？",
        ("如何把数据导出成 CSV？", "怎么将数据导出为 CSV？"),
        ("怎么导入 CSV 数据？", "怎么把数据导出成 PDF？", "怎么把数据删除？"),
    ),
    Group(
        "高级版包含电话支持吗？",
        ("高级版有电话支持吗？", "高级版是否包含电话支持？"),
        ("基础版包含电话支持吗？", "高级版包含邮件支持吗？", "高级版不包含电话支持吗？"),
    ),
    Group(
        "澳大利亚的首都是哪里？",
        ("澳大利亚首都是哪里？", "澳大利亚的首都是哪个城市？"),
        ("奥地利的首都是哪里？", "澳大利亚的人口是多少？", "澳大利亚最大的城市是哪里？"),
    ),
    Group(
        "怎么连接公司的 VPN？",
        ("如何连接公司的 VPN？", "公司的 VPN 怎么连接？"),
        ("怎么断开公司的 VPN？", "怎么连接公司的打印机？", "怎么连接家里的 VPN？"),
    ),
    Group(
        "把报告发给小王。",
        ("请把报告发给小王。", "帮我把报告发给小王"),
        ("把报告发给小黄。", "不要把报告发给小王。", "把发票发给小王。"),
    ),
    Group(
        "现在重启服务器安全吗？",
        ("现在可以安全地重启服务器吗？", "服务器现在重启安全吗？"),
        ("现在重启服务器不安全吗？", "现在停止服务器安全吗？", "现在重启数据库安全吗？"),
    ),
    Group(
        "我还剩几天年假？",
        ("我的年假还剩几天？", "我还有几天年假？"),
        ("我还剩几天病假？", "我休了几天年假？", "小李还剩几天年假？"),
    ),
    Group(
        "64GB 的型号多少钱？",
        ("64GB 型号的价格是多少？", "64GB 的型号价格是多少？"),
        ("128GB 的型号多少钱？", "64GB 的型号多重？", "两个 64GB 的型号多少钱？"),
    ),
    Group(
        "商店明天几点开门？",
        ("明天商店几点开门？", "商店明天什么时候开门？"),
        ("商店今天几点开门？", "商店明天几点关门？", "咖啡馆明天几点开门？"),
    ),
    Group(
        "什么是互斥锁？",
        ("互斥锁是什么？", "请解释什么是互斥锁。"),
        ("什么是信号量？", "互斥锁为什么慢？", "什么不是互斥锁？"),
    ),
)

DEVELOPMENT, TEST = GROUPS[::2], GROUPS[1::2]
