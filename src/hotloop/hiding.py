"""What nobody should read in what is written down: keys, tokens and passwords, in texts and under names that say so."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

HIDDEN = "***"

_LONGEST = 2_000  # characters of one text that are shown
_MARGIN = 512  # a key that is cut off by the end of what is looked at may show no more than this
_DEEPEST = 32  # levels of a value

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile("auth|bearer|cookies?|csrf|cvc|cvv|jwt|otp|passcode|pin|pwd|secrets?|ssn|token")
_SECRET_PART = re.compile(
    "(access|api|private|secret|signing)key|(access|auth|refresh)token|authorization|cardnumber|clientsecret|credential"
    "|passphrase|passwd|password|密码|口令|密钥|令牌|验证码"
)

_KEY_PREFIXES = (
    *("sk-", "sk_live_", "sk_test_", "rk_live_", "gsk_", "hf_", "nvapi-", "xai-", "npm_", "pypi-", "glpat-"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xoxb-", "xoxp-", "xoxa-", "xoxs-", "xapp-"),
)
_ASSIGNED = ("password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "api-key", "apikey", "access_key")
_VALUE = r"""(?:(?<=")[^"]+|(?<=')[^']+|[^\s"'&;,]+)"""
# What is in a text with such a secret (in lower case), which is quick to look for; what stays before it; the secret.
_SECRETS_IN_TEXT = (
    ("-----begin", "", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ("bearer", r"\b(?i:bearer)\s+", r"""[^\s"',;]+"""),
    ("basic", r"\b(?i:basic)\s+", r"(?=\S*[\d=])[A-Za-z0-9+/]{8,}={0,2}"),
    ("://", "://", r"[^\s/@:]*:[^\s/]+(?=@)"),
    ("eyj", "", r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)*"),
    ("aiza", "", r"(?<![A-Za-z0-9])AIza[\w-]{30,}"),
    *((mark, "", r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}") for mark in ("akia", "asia")),
    *((prefix, "", rf"(?<![A-Za-z0-9]){prefix}(?=[\w-]{{0,64}}\d)[\w-]{{12,}}") for prefix in _KEY_PREFIXES),
    *((name, rf"""(?i:{name})[\\"']*\s*[=:]\s*[\\"']*""", _VALUE) for name in _ASSIGNED),
)


def masked_text(text: str, most: int = _LONGEST) -> str:
    """The text without keys, tokens and passwords, cut after so many characters."""
    if len(text) <= most:
        return _without_secrets(text)
    start = _without_secrets(text[: most + _MARGIN])
    return f"{start[: max(0, min(most, len(start) - _MARGIN))]}… ({len(text):,} characters)"


def masked_value(value: Any, most: int = _LONGEST, depth: int = 0) -> Any:
    """A value of dicts, lists and scalars with its texts masked, and all that is named like a secret hidden.

    That is `api_key`, not `tokens_used`. What is anything else, or too deep, is shown as its type's name.
    """
    if isinstance(value, str):
        return masked_text(value, most)
    if value is None or isinstance(value, int | float):
        return value
    if depth < _DEEPEST and isinstance(value, dict):
        shown = ((str(name), each) for name, each in value.items())
        return {masked_text(name, most): masked_member(name, each, most, depth + 1) for name, each in shown}
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return [masked_value(each, most, depth + 1) for each in value]
    return type_name(value)


def masked_member(name: str, value: Any, most: int = _LONGEST, depth: int = 0) -> Any:
    """`masked_value` of what has this name."""
    return HIDDEN if _is_secret(name) else masked_value(value, most, depth)


def type_name(value: object) -> str:
    """What is shown of a value that has no form as JSON."""
    return f"<{type(value).__name__}>"


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    words = (word.lower() for word in _WORD.findall(name))
    letters = "".join(filter(str.isalpha, name)).lower()
    return any(map(_SECRET_WORD.fullmatch, words)) or _SECRET_PART.search(letters) is not None


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compiled when they are first needed, which takes as long as many an import."""
    return tuple((mark, re.compile(f"({kept}){secret}", re.ASCII)) for mark, kept, secret in _SECRETS_IN_TEXT)


def _without_secrets(text: str) -> str:
    lowered = text.lower()
    for mark, rule in _rules():
        if mark in lowered:
            text = rule.sub(rf"\1{HIDDEN}", text)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
