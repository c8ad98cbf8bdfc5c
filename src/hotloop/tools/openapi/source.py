"""Where an OpenAPI document comes from: a file or a URL, as JSON or as YAML."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlunsplit

import msgspec

from hotloop.errors import ConfigError
from hotloop.models.http.proxy import is_loopback
from hotloop.models.http.target import split_url

_MOST_BYTES = 64 << 20
_YAML_TAG = "tag:yaml.org,2002:"
_DIGITS = list("-0123456789")
_SCALARS = {  # as JSON knows them, each with its first characters: a date is text, so are `yes` and 12:30
    "null": ("~|null|", ["~", "n", ""]),
    "bool": ("true|false", ["t", "f"]),
    "int": ("-?(?:0|[1-9][0-9]*)", _DIGITS),
    "float": ("-?(?:0|[1-9][0-9]*)(?:[.][0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", _DIGITS),
    "merge": ("<<", ["<"]),
}


class Source(NamedTuple):
    """What a document is called in messages, the URL it was fetched from ("" for a file), and its text."""

    name: str
    url: str
    text: str


def read_source(source: str | Path) -> Source:
    """The text at a path or an http(s) URL. Raises ConfigError for what cannot be read or fetched."""
    if re.match("https?://", str(source), re.IGNORECASE):
        return _fetch(str(source))
    path = Path(source)
    try:
        return Source(str(path), "", _decoded(str(path), path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"The OpenAPI document {path} cannot be read: {error.strerror}.") from None


def parse(name: str, text: str) -> Any:
    """The values in JSON or YAML text. Raises ConfigError with the place for text that is neither."""
    try:
        return msgspec.json.decode(text) if text.lstrip().startswith("{") else _parse_yaml(name, text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name} is no JSON: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{name} is nested too deeply to be read.") from None


def _fetch(url: str) -> Source:
    parts = split_url(url)
    if "@" in parts.netloc:
        raise ConfigError("The address of the OpenAPI document has a password in it; download the document to a file.")
    name = urlunsplit(parts._replace(query="", fragment=""))  # a query may carry a key
    proxies = not is_loopback(parts.hostname or "")
    import httpx2

    try:
        with (
            httpx2.Client(timeout=10.0, follow_redirects=True, trust_env=proxies) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != 200:
                raise ConfigError(f"{name} answered {response.status_code}; an OpenAPI document was expected.")
            return Source(name, str(response.url), _decoded(name, _body(name, response)))
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConfigError(f"{name} cannot be fetched: {error or type(error).__name__}.") from error


def _body(name: str, response: Any) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise ConfigError(
                f"{name} is larger than {_MOST_BYTES >> 20} MiB; download it to a file and cut it to what is needed."
            )
    return bytes(body)


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"Byte {error.start + 1} of {name} is not UTF-8; save it as UTF-8.") from None


def _parse_yaml(name: str, text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, _yaml_loader())
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is no YAML: {' '.join(str(error).split())}.") from None


@functools.cache
def _yaml_loader() -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """YAML with the scalars and the keys of JSON."""

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            self.flatten_mapping(node)
            for key, _ in node.value:
                key.tag = f"{_YAML_TAG}str" if isinstance(key, yaml.ScalarNode) else key.tag
            return super().construct_mapping(node, deep)

    for tag, (pattern, first) in _SCALARS.items():
        Loader.add_implicit_resolver(_YAML_TAG + tag, re.compile(f"^(?:{pattern})$"), first)
    return Loader
