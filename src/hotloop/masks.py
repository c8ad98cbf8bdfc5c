"""What must not be read where a declaration is printed: fields that are secret, and what URLs carry."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hotloop.fields import marked

_USER = r"(?<=://)[^\s/@'\"]+@|[^\s/:@'\"]+:[^\s/:@'\"]*@"
_QUERY = r"(://[^\s?'\"]*\?)[^\s'\"]+"


def without_secrets(text: str) -> str:
    """The text without what may be secret in its URLs: users with their passwords, and queries."""
    return re.sub(_QUERY, r"\1***", re.sub(_USER, "***@", text))


def masked(value: msgspec.Struct) -> str:
    """The repr of a Struct: what is not the default, with *** for what is secret, also in URLs."""
    given = ((field, getattr(value, field.name)) for field in msgspec.structs.fields(value))
    shown = (f"{field.name}={_shown(each, field.type)}" for field, each in given if each != _default(field))
    return f"{type(value).__name__}({', '.join(shown)})"


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _shown(value: Any, kind: Any) -> str:
    if value is None or not marked(kind, "secret"):
        return without_secrets(repr(value))
    return repr(dict.fromkeys(value, "***") if isinstance(value, dict) else "***")
