"""Whether a text begins with a refusal: English or Chinese words of a model that says it cannot, or may not, help."""

from __future__ import annotations

import re
from functools import cache

_SORRY = r"(?:i'm |i am )?(?:very |really |so )?(?:sorry|afraid)|unfortunately|i apologi[sz]e|as an ai[\w ]*"
_CANNOT = r"(?:cannot|can't|can not|(?:am |'m )(?:unable|not able|not allowed) to|won't be able to)"
_ACT = (  # what assistants are for: "I can't wait" and "I cannot say" are no refusals
    r"(?:help(?! but)|assist|access|perform|browse|retrieve|check|provide|comply|fulfil|use|look|answer (?:that|this)"
    r"|do (?:that|this|it|so|anything))\b"
)
_LACK = r"(?:don't|do not) (?:currently )?have (?:any |the |a |direct )*(?:access|ability|permission|tool|way to)"
_ENGLISH = rf"(?:(?:{_SORRY})\W*(?:but |that )?)?i ?(?:{_CANNOT} (?:currently |directly |actually )?{_ACT}|{_LACK})"
_CHINESE = (
    r"(?:(?:很|非常)?(?:抱歉|遗憾|对不起|不好意思)\W*)?(?:但是?)?我(?:目前|现在|暂时)?(?:没有(?:权限|办法|工具|访问)"
    r"|(?:无法|不能|没办法)(?:直接|[为帮替][您你])*(?:帮|协助|提供|访问|查|执行|回答|完成|处理|使用|获取))"
)
_BEGINNING = 200  # characters


def is_refusal(text: str) -> bool:
    """Whether its first words say that the model cannot help, or cannot do what an assistant is for."""
    beginning = " ".join(text[:_BEGINNING].casefold().replace("’", "'").split())
    return _refusal().match(beginning) is not None


@cache
def _refusal() -> re.Pattern[str]:
    """Compiled when it is first needed, which takes as long as many an import."""
    return re.compile(f"{_ENGLISH}|{_CHINESE}")
