"""What must be the same in two questions for one answer to do for both, however alike they sound.

An embedding hardly sees a "not", one digit, or which way round two names stand, so it is never asked alone: all words
have to be the same, in the same order, only that what is said before a question word may also be said at the end. What
may differ are articles, forms of "be", politeness, a plural, and ways to say one thing that are known, in English and
Chinese. Whatever is not known to mean nothing counts: one too many costs a hit, one too few a right answer.
"""

from __future__ import annotations

import re

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
_FILLING = "an the this that these those there it is are am be been being"
_FILLING_WORDS = frozenset(_FILLING.split())
_ASKING = "what who whom whose when where why how price 谁 怎 何 哪"
_ASKING_WORDS = frozenset(_ASKING.split())
_SAID_OTHERWISE = (  # ways to say one thing, and the one that stands for all
    (r"^\W*(?:hi|hello|hey|ok|okay|dear|thanks|thank you)\b(?=\W+\w)", " "),
    (r"\b(?:please|kindly)\b|^\W*could you\b", " "),
    (r"^\W*can you\b(?= (?:list|show|give|tell|explain))", " "),
    (r"\bcannot\b|\bcan['’]t\b", "can not"),
    (r"\bwon['’]t\b", "will not"),
    (r"n['’]t\b", " not"),
    (r"\bwhich\b", "what"),
    (r"\bwhat time\b|是?(?:什么时候|何时|几点)(?!的)", " when "),
    (r"\b(?:what(?: is|['’]s) (?:the|a) way|how) to\b|\bhow (?:can|could|do|should) (?:i|we|one)\b", "how"),
    (r"\bis it possible to\b|\bam i able to\b|\b(?:may|could) i\b", "can i"),
    (r"\bwhat(?: is| are|['’]s) (.*?) like\b", r"how \1"),
    (r"^\s*(?:tell me|explain)(?: to me)?(?= (?:what|who|when|where|why|how)\b)", " "),
    (r"^\s*tell me(?: about)?\b", "what"),
    (r"^\s*(?:(?:list|show)(?: me)?|give me)\b", "show"),
    (r"\bwhat(?: is| are|['’]s) the (?:price|cost)s? of\b", "price"),
    (r"\b(?:what|how much) do(?:es)? (.*?) costs?\b", r"price \1"),
    (r"\bhow much (?:is|are)\b|(?:是|要)?多少钱(?!的)|什么价|(?:的?价格|的?价钱|的?费用)是?多少", " price "),
    (r"\bdo(?=\W*$)", "act"),
    (r"\b(?:turn|switch)(ed|ing|es|s)? on\b", r"enable\1"),
    (r"\b(?:turn|switch)(ed|ing|es|s)? off\b", r"disable\1"),
    (r"\ba (few|little|lot)\b", r"a_\1"),  # which without the article are another number
    (r"\b(?-i:a) (?=[^\W\d_]{2})", " "),  # the article, not the letter
    (r"\bdoes\b", "do"),
    (r"\bwere\b", "was"),
    ("请问|麻烦|请|帮我|给我|告诉我|我想知道|我想要?|查一下|查询|一下|是不是", " "),
    (r"(.)[不没]\1", r"\1"),  # 能不能, 有没有
    ("可以|能够|能否|可否", "能"),
    ("怎样的|哪个|哪种", "什么"),
    ("是?(?:怎么样|怎么|怎样|如何)", "怎"),
    ("为什么|为何", "何"),
    ("在?(?:哪里|哪儿|什么地方)", "哪"),
    (r"^\W*(?:解释)?什么是(.+?)\W*$|^\W*(?:介绍|解释)(.+?)\W*$", r"\1\2是什么"),
    ("是?(?:什么|哪些)是?", "啥"),
    ("谁的", "孰"),
    ("是?由?谁是?", "谁"),
    ("是?(?:多少|几)", "几"),
    ("需要", "要"),
    (r"[吗呢吧啊呀]+(?=\W*$)", " "),
    ("是否|这家|这个|那个|的", " "),
)
_PHRASES = [(re.compile(pattern, re.IGNORECASE), plain) for pattern, plain in _SAID_OTHERWISE]
_PLURAL = re.compile(r"(?<=..[^aiosuw])s$")


def content_key(question: str) -> tuple[str, ...]:
    """What of a question must be the same in another one that has the same answer: its words that mean something."""
    text = question.strip()
    for pattern, plain in _PHRASES:
        text = pattern.sub(plain, text)
    words = [_plain(found) for found in _TOKEN.finditer(text)]
    telling = [word for word in words if word not in _FILLING_WORDS] or words
    first = next((place for place, word in enumerate(telling) if word in _ASKING_WORDS), 0)
    return (*telling[first:], *telling[:first])


def _plain(found: re.Match[str]) -> str:
    """A word as it is compared; abbreviations as they are written ("US" is not "us"), names with all their letters."""
    token = found[0].replace("’", "'").removesuffix("'s").rstrip(".,:?")
    if not found["word"]:
        return token.casefold()
    if len(token) > 1 and token.isupper():
        return token
    word = token.casefold()
    is_name = found.start() > 0 and not token.islower()
    return word if is_name or word in _FILLING_WORDS else _PLURAL.sub("", word)
