"""What of a call's arguments may be written down: secrets become ***, long texts are shortened."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from hotloop.hiding import HIDDEN, masked_member, type_name
from hotloop.tools.defining.schema import is_pydantic


def masked(arguments: Mapping[str, Any], secrets: Collection[str]) -> dict[str, Any]:
    """The arguments as plain JSON values in which nothing is left that should not be read.

    Hidden are the parameters in `secrets`, whatever is named like a secret at any depth (`api_key`, not `tokens_used`),
    and keys, tokens and passwords inside texts. A value that has no JSON form is shown as its type's name; a text of
    more than 2,000 characters is cut, with its length.
    """
    return {
        name: HIDDEN if name in secrets else masked_member(name, _plain(value)) for name, value in arguments.items()
    }


def _plain(value: Any) -> Any:
    """The value as dicts, lists and scalars, so that the names of what it holds can be seen."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.to_builtins(value, str_keys=True, builtin_types=(bytes, bytearray), enc_hook=_foreign)
    except Exception:  # a type's own code may raise anything; the call is none the worse for it
        return type_name(value)


def _foreign(value: Any) -> Any:
    return dict(value) if is_pydantic(type(value)) else type_name(value)
