"""What must be the same in two questions for one answer to do for both, however alike they sound.

An embedding hardly sees a "not", one digit, or which of two opposites it was. So these are compared as they stand, in
English and in Chinese: numbers, ids, addresses, quotations and names in their order; dates, negations and opposites.
A detail that is found where there is none costs a hit; one that is overlooked may cost a right answer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<quoted>"[^"]+"|“[^”]+”|「[^」]+」|《[^》]+》|`[^`]+`)
    | (?P<code>[a-z0-9_./:@\#%+&=?$€£¥~^*\\-]*\d[a-z0-9_./:@\#%+&=?$€£¥~^*\\-]*)
    | (?P<address>[\w.+-]+@[\w.-]+|\w+://\S+|[\w.-]*[/\\_][\w./\\-]+)
    | (?P<word>[^\W\d_\u2e80-\u9fff\uac00-\ud7af]+(?:['’][^\W\d_]+)?)
    | (?P<symbol>[%$€£¥°^<>=+*\#&]+)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen "
    "half double twice once both first second third fourth fifth sixth seventh eighth ninth tenth last next previous"
)
_TIMES = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december spring summer autumn winter today tomorrow yesterday tonight morning noon "
    "afternoon evening night midnight ago daily weekly monthly yearly minute hour day week month year before after "
    "since until during was were did had"
)
_NEGATIONS = (
    "no not never none nothing nobody nowhere neither nor without except against instead only all every false wrong "
    "hardly stop avoid fail refuse deny more less most least fewer why who"
)
_OPPOSITES = (
    "enable disable off out up down open close opening closing start begin end allow forbid block unblock include "
    "exclude import export connect disconnect install uninstall add remove delete create update upgrade downgrade "
    "increase decrease raise lower buy sell send receive lend borrow accept reject approve lock unlock subscribe "
    "unsubscribe encrypt decrypt upload download push pull read write big small large high low long short fast slow "
    "hot cold new old young early late left right top bottom min max minimum maximum best worst cheap cheapest "
    "expensive safe unsafe free paid public private internal external incoming outgoing arrive depart arrival "
    "departure win lose profit loss male female from over under above below"
)
_OPENERS = (
    "a about am an and are at can could describe did do does explain find for get give had has have hello help hey hi "
    "how i if in is it its let list make may me my no of ok on or our please show so summarize tell thank thanks that "
    "the their then there these they this those to was we were what when where which who whose why will with would "
    "write yes you your i'm i'd i've i'll"
)
_ORDERED = frozenset(_NUMBERS.split())
_COUNTED = frozenset([*_TIMES.split(), *_NEGATIONS.split(), *_OPPOSITES.split()])
_NO_NAMES = _COUNTED.union(_OPENERS.split())
_CHINESE_NUMBER = re.compile("[零〇一二两三四五六七八九十百千万亿半双首末]+")
_CHINESE_WORD = re.compile(
    "周[日天末]|星期[日天]|[上下]个?(?:周|月|季度|星期)|上午|中午|下午|晚上|早上|凌晨|[今明后昨前去][天年]|[年月日号点分秒周]|"
    "以前|曾|[不没無无未非别勿莫禁拒]|除了|除外|为什么|为何|谁|最|"
    "[开关停启入出]|连接|断|安装|卸载|新增|添加|增加|减少|删除|创建|更新|升级|降级|买|卖|购|售|发送|接收|收到|允许|上传|下载|"
    "注册|注销|提高|降低|[大小高低长短快慢新旧早晚左右内外男女]|从|被"
)
_NO_DETAIL = re.compile(r"(.)[不没]\1|有没有|是否|能否|可否|一下|一些|一点|一样|统一")
_SWITCHED = re.compile(r"\b(?:turn|switch)(?:ed|ing)? (on|off)\b", re.IGNORECASE)
_CHINESE = re.compile("[\u3400-\u9fff]")


class Details(NamedTuple):
    """What is compared in its order, what is compared in any, and whether the question is in Chinese."""

    ordered: tuple[str, ...]
    others: tuple[str, ...]
    chinese: bool


def details(question: str) -> Details:
    """The details of a question, to be the same in another one that has the same answer."""
    text = _SWITCHED.sub(lambda found: "enable" if found[1].lower() == "on" else "disable", question)
    text = _NO_DETAIL.sub(" ", text)
    chinese = bool(_CHINESE.search(text))
    ordered, others = [], []
    for found in _TOKEN.finditer(text):
        word = found[0].casefold().replace("’", "'")
        plain = word.removesuffix("'s")
        if found.lastgroup != "word":
            ordered.append(word.strip(".,?"))
        elif plain in _ORDERED or chinese or _is_name(found[0], plain):
            ordered.append(plain)
        elif word.endswith("n't") or word == "cannot":
            others.append("not")
        elif root := next((each for each in (plain, plain[:-1], plain[:-2]) if each in _COUNTED), ""):
            others.append(root)
    ordered += _CHINESE_NUMBER.findall(text)
    others += _CHINESE_WORD.findall(text)
    return Details(tuple(ordered), tuple(sorted(others)), chinese)


def _is_name(written: str, word: str) -> bool:
    """Whether a word is written as names and abbreviations are; the words that requests begin with are none."""
    return not written.islower() and word not in _NO_NAMES
