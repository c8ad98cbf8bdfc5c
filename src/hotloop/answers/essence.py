"""What must be the same in two questions for one answer to do for both, however alike they sound.

An embedding hardly sees a "not", one digit, or which of two opposites it was, so it is never asked alone. All words
that carry meaning have to be the same, and in the same order, except that what begins one question may end the other.
What may differ are words that hold a sentence together or make it polite, and inflection. These are known, in English
and Chinese, and whatever is not known to be one of them counts: one too many costs a hit, one too few a right answer.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<exact>
          "[^"]+" | “[^”]+” | 「[^」]+」 | 《[^》]+》 | `[^`]+`
        | [a-z0-9_./:@\#%+&=?$€£¥~^*\\-]*\d[a-z0-9_./:@\#%+&=?$€£¥~^*\\-]*
        | [\w.+-]+@[\w.-]+ | \w+://\S+ | [\w.-]*[/\\_][\w./\\-]+ | [%$€£¥°^<>=+*\#&]+
      )
    | (?P<word>[^\W\d_\u3400-\u9fff]+(?:['’][^\W\d_]+)?)
    | (?P<character>[\u3400-\u9fff])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FILLING = (
    "a an the this that these those there here it its i i'm i'd i've i'll me we us you he she they them is are am be "
    "been being isn do does done have has having got can could may might would will what what's which of to in on at "
    "for with by as and or please kindly just so then also too possible able any hi hello hey dear ok okay thanks thank"
)
_FILLING_WORDS = frozenset(_FILLING.split())
_SAID_OTHERWISE = (  # ways to say one thing, and the one that stands for all
    (r"^(?:(?:please|can you|could you) )*(?:list|show|tell|give|explain)(?: to)?(?: me)?(?: about)?\b", " "),
    (r"\b(?:turn|switch)(?:ed|ing|es|s)? on\b", "enable"),
    (r"\b(?:turn|switch)(?:ed|ing|es|s)? off\b", "disable"),
    (r"\b(?:what is|what's|is there) (?:the|a) way to\b", "how"),
    (r"\bhow much\b|\b(?:cost|price)s?\b|多少钱|什么价|价格|价钱|费用", " price "),
    (r"\bwhat time\b|什么时候|何时|几点", " when "),
    (r"\b(?:was|were|did|had)\b", "past"),
    (r"\bcannot\b|\b\w+n['’]t\b", " not "),
    (r"(.)[不没]\1", r"\1"),  # 是不是, 能不能
    ("可以|能够|能否|可否", "能"),
    ("怎么样|怎么|怎样|如何", "怎"),
    ("为什么|为何|什么原因", "何"),
    ("在?(?:哪里|哪儿|什么地方)", "哪"),
    ("多少|几", "几"),
    ("需要", "要"),
    (r"[吗呢吧啊呀了]+(?=\W*$)", " "),
    ("请问|麻烦|请|帮我|帮忙|给我|告诉我|我想要?|我要|我能|我该|查一下|查询|一下|现在", " "),
    ("有没有|是否|知道|介绍|解释|有什么|有哪些|什么|哪些|哪个|哪种|这家|这个|那个|[的是]", " "),
)
_PHRASES = [(re.compile(pattern, re.IGNORECASE), plain) for pattern, plain in _SAID_OTHERWISE]
_CHINESE = re.compile("[\u3400-\u9fff]")


class Essence(NamedTuple):
    """What of a question must be the same: numbers, ids and names in their order, all words, and the script."""

    exact: tuple[str, ...]
    words: tuple[str, ...]
    chinese: bool


def essence(question: str) -> Essence:
    """What of a question must be the same in another one that has the same answer."""
    text = question.strip()
    for pattern, plain in _PHRASES:
        text = pattern.sub(plain, text)
    exact, words = [], []
    for number, found in enumerate(_TOKEN.finditer(text)):
        token = found[0]
        word = token.casefold().replace("’", "'").removesuffix("'s").rstrip(".,:?")
        if word in _FILLING_WORDS and not _is_abbreviation(token):
            continue
        if found["exact"] or (found["word"] and _is_name(token, number)):
            exact.append(word)
        words.append(_root(word) if found["word"] else word)
    return Essence(tuple(exact), _turned(words), bool(_CHINESE.search(question)))


def _is_abbreviation(token: str) -> bool:
    return len(token) > 1 and token.isupper()


def _is_name(token: str, number: int) -> bool:
    """Whether a word is written as names are; the first one is written so in any case."""
    return _is_abbreviation(token) or (number > 0 and not token.islower())


def _root(word: str) -> str:
    """A word without its inflection: "approves", "approved" and "approving" become one."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") else word.removesuffix("e")


def _turned(words: list[str]) -> tuple[str, ...]:
    """Each of the words once, in their order, begun at whichever place makes it the first in the alphabet."""
    once = list(dict.fromkeys(words))
    return min((tuple(once[place:] + once[:place]) for place in range(len(once))), default=())
