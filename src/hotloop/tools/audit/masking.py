"""What of a call's arguments may be written down: secrets become ***, long texts are shortened."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from hotloop.tools.defining.schema import is_pydantic

HIDDEN = "***"
_LONGEST = 2_000  # characters of one text that are shown
_MARGIN = 512  # a key that is cut off by the end of what is looked at may show no more than this
_DEEPEST = 32  # levels of an argument

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
_RULES = tuple((mark, re.compile(f"({kept}){secret}", re.ASCII)) for mark, kept, secret in _SECRETS_IN_TEXT)


def masked(arguments: Mapping[str, Any], secrets: Collection[str]) -> dict[str, Any]:
    """The arguments as plain JSON values in which nothing is left that should not be read.

    Hidden are the parameters in `secrets`, whatever is named like a secret at any depth (`api_key`, not `tokens_used`),
    and keys, tokens and passwords inside texts. A value that has no JSON form is shown as its type's name; a text of
    more than 2,000 characters is cut, with its length.
    """
    return {name: HIDDEN if name in secrets else _member(name, _plain(value), 0) for name, value in arguments.items()}


def masked_text(text: str) -> str:
    """The text without keys, tokens and passwords, cut after 2,000 characters."""
    if len(text) <= _LONGEST:
        return _without_secrets(text)
    start = _without_secrets(text[: _LONGEST + _MARGIN])
    return f"{start[: max(0, min(_LONGEST, len(start) - _MARGIN))]}… ({len(text):,} characters)"


def _plain(value: Any) -> Any:
    """The value as dicts, lists and scalars, so that the names of what it holds can be seen."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.to_builtins(value, str_keys=True, builtin_types=(bytes, bytearray), enc_hook=_foreign)
    except Exception:  # a type's own code may raise anything; the call is none the worse for it
        return _type_name(value)


def _foreign(value: Any) -> Any:
    return dict(value) if is_pydantic(type(value)) else _type_name(value)


def _type_name(value: object) -> str:
    return f"<{type(value).__name__}>"


def _member(name: str, value: Any, depth: int) -> Any:
    return HIDDEN if _is_secret(name) else _shown(value, depth)


def _shown(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return masked_text(value)
    if value is None or isinstance(value, int | float):
        return value
    if depth < _DEEPEST and isinstance(value, dict):
        return {masked_text(str(name)): _member(str(name), each, depth + 1) for name, each in value.items()}
    if depth < _DEEPEST and isinstance(value, list | tuple):
        return [_shown(each, depth + 1) for each in value]
    return _type_name(value)


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    words = (word.lower() for word in _WORD.findall(name))
    letters = "".join(filter(str.isalpha, name)).lower()
    return any(map(_SECRET_WORD.fullmatch, words)) or _SECRET_PART.search(letters) is not None


def _without_secrets(text: str) -> str:
    lowered = text.lower()
    for mark, rule in _RULES:
        if mark in lowered:
            text = rule.sub(rf"\1{HIDDEN}", text)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
