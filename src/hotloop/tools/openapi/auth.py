"""Which credentials an operation wants, and what the environment has for it when the tool is called."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote

import msgspec

from hotloop.errors import ConfigError, ToolUnavailable
from hotloop.tools.openapi.document import Document, Node
from hotloop.tools.openapi.slots import TOKEN, LeftOut

Kind = Literal["bearer", "basic", "header", "query", "cookie"]

_FITS = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_SHORTEST = 8  # characters of a secret that can be told from other text


class Scheme(msgspec.Struct, frozen=True):
    """One credential: how it is sent, under which key, and the environment variable that has it."""

    kind: Kind
    key: str
    variable: str

    @property
    def place(self) -> tuple[str, str]:
        """Where in the request it goes, as parameters name it."""
        return ("header" if self.kind in ("bearer", "basic") else self.kind, self.key.lower())


Security = tuple[tuple[Scheme, ...], ...]
"""Ways to be allowed, each with all its credentials; () is a way without any, no ways at all is a public operation."""


class Credentials(msgspec.Struct, frozen=True):
    """Parts of a request that no one but the service may see, the `secrets` in them, and where those come from."""

    headers: list[tuple[str, str]]
    query: list[str]
    cookies: list[str]
    secrets: list[str]
    variables: str


def read_security(operation: Node, auth: Mapping[str, str]) -> Security:
    """The ways to be allowed that an operation names; `auth` has variables for schemes.

    Raises LeftOut if none of them can be gone, ToolDefinitionError for a scheme that the document does not describe.
    """
    top = operation.document.top
    ways = (operation.get("security") or top.get("security")).elements()
    read = [[_scheme(way, name, auth) for name in way.names()] for way in ways]
    usable = [tuple(scheme for scheme in way if scheme) for way in read if None not in way]
    if ways and not usable:
        raise LeftOut(f"it wants {' or '.join(' and '.join(way.names()) for way in ways)}, which hotloop cannot give")
    return tuple(sorted(usable, key=lambda way: not way))  # without any credentials only if there are none


def check_auth(document: Document, auth: Mapping[str, str]) -> None:
    """Raise ConfigError if variables are given for schemes that the document does not have."""
    known = document.top.find("components").find("securitySchemes").names()
    for name in auth:
        if name not in known:
            raise ConfigError(
                f"auth: {document.source} has no security scheme {name!r}; it has {', '.join(known) or 'none'}."
            )


def places(security: Security) -> set[tuple[str, str]]:
    """Where credentials go, which is no place for arguments: ("header", "x-key")."""
    return {scheme.place for way in security for scheme in way}


def missing(security: Security) -> str:
    """The variables that would have to be set, in words; "" if the environment has what is needed."""
    if not security or any(_is_set(way) for way in security):
        return ""
    return " or ".join(" and ".join(scheme.variable for scheme in way) for way in security)


def credentials(security: Security) -> Credentials:
    """What to send so that the operation is allowed.

    Raises ToolUnavailable, with the name of the variable, if the environment does not have it.
    """
    if names := missing(security):
        raise ToolUnavailable(f"Credentials are missing: the environment variable {names} is not set.", retryable=False)
    way = next((way for way in security if _is_set(way)), ())
    found = Credentials([], [], [], [], " and ".join(scheme.variable for scheme in way))
    for scheme in way:
        _add(found, scheme, _secret(scheme.variable))
    return found


def _secret(variable: str) -> str:
    secret = os.environ[variable].strip()
    if not _FITS.fullmatch(secret):
        raise ToolUnavailable(
            f"The environment variable {variable} has characters that cannot be sent.", retryable=False
        )
    return secret


def _add(found: Credentials, scheme: Scheme, secret: str) -> None:
    sent = secret
    match scheme.kind:
        case "bearer":
            found.headers.append((scheme.key, f"Bearer {secret}"))
        case "basic":
            sent = base64.b64encode(secret.encode()).decode()
            found.headers.append((scheme.key, f"Basic {sent}"))
        case "header":
            found.headers.append((scheme.key, secret))
        case "query":
            sent = quote(secret, safe="")
            found.query.append(f"{quote(scheme.key, safe='')}={sent}")
        case "cookie":
            found.cookies.append(f"{scheme.key}={secret}")
    password = secret.partition(":")[2] if scheme.kind == "basic" else ""
    found.secrets.extend(text for text in (secret, sent, password) if len(text) >= _SHORTEST)


def _is_set(way: tuple[Scheme, ...]) -> bool:
    return all(os.environ.get(scheme.variable, "").strip() for scheme in way)


def _scheme(way: Node, name: str, auth: Mapping[str, str]) -> Scheme | None:
    """The scheme of this name, None if it is of a kind that no variable can serve."""
    top = way.document.top
    node = top.find("components").find("securitySchemes").find(name)
    if not node:
        raise way.fault(f"there is no security scheme {name!r} in components.securitySchemes")
    title = top.find("info").text("title")
    variable = auth.get(name) or re.sub(r"[^A-Z0-9]+", "_", f"OPENAPI_{title}_{name}".upper()).strip("_")
    match node.text("type"), node.text("scheme").lower(), node.text("in"):
        case ("http", "bearer", _) | ("oauth2" | "openIdConnect", _, _):
            return Scheme("bearer", "Authorization", variable)
        case "http", "basic", _:
            return Scheme("basic", "Authorization", variable)
        case "apiKey", _, "header" | "query" | "cookie" as place:
            if place != "query" and not TOKEN.fullmatch(node.text("name")):
                raise node.fault(f"{node.text('name')!r} cannot be the name of a {place}")
            return Scheme(place, node.text("name"), variable)
    return None
