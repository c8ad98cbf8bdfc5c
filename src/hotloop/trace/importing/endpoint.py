"""The OTLP/HTTP endpoint for spans, without the HTTP: what is answered to a body, whichever server took it."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import NamedTuple

import msgspec

from hotloop.errors import ConfigError
from hotloop.trace.importing.gathering import Gathering
from hotloop.trace.importing.otlp import spans_of
from hotloop.trace.importing.protobuf import ProtobufMissing, spans_of_protobuf
from hotloop.trace.importing.span import Span

PATH = "/v1/traces"
"""Where exporters send spans."""

DISCARDED = ("/v1/metrics", "/v1/logs")
"""Where exporters that are given the base URL send what is no span."""

LARGEST = 32 << 20
"""Bytes that a body may have, and what is in a compressed one."""

JSON, PROTOBUF = "application/json", "application/x-protobuf"
_GZIP = 16 + zlib.MAX_WBITS
_INVALID = 3  # of the codes of gRPC
_TOO_LARGE = f"The body has more than {LARGEST >> 20} MiB; have fewer spans sent at a time."


class Answer(NamedTuple):
    """A response: its status, its content type, its body."""

    status: int
    content_type: str
    body: bytes


class _TooLarge(ConfigError):
    pass


def receive(gathering: Gathering, body: bytes, content_type: str, encoding: str = "") -> Answer:
    """Take the spans of a request with this body and these headers into a gathering."""
    kind = _kind(content_type)
    if kind not in (JSON, PROTOBUF):
        return _refusal(415, JSON, f"Spans come as {PROTOBUF} or {JSON}, not as {kind or 'nothing said'}.")
    if encoding.strip().lower() not in ("", "identity", "gzip"):
        return _refusal(415, kind, f"A body may be compressed with gzip, not with {encoding}.")
    try:
        gathering.add(_spans(_plain(body, encoding), kind))
    except _TooLarge as error:
        return _refusal(413, kind, str(error))
    except ProtobufMissing as error:
        return _refusal(415, kind, str(error))
    except ConfigError as error:
        return _refusal(400, kind, str(error))
    return _success(kind)


def discard(content_type: str) -> Answer:
    """What is answered to metrics and logs, which are read by nobody: that they were taken."""
    return _success(_kind(content_type))


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _success(kind: str) -> Answer:
    """An export response without anything in it."""
    return Answer(200, PROTOBUF, b"") if kind == PROTOBUF else Answer(200, JSON, b"{}")


def _spans(body: bytes, kind: str) -> list[Span]:
    return spans_of(body, "The body") if kind == JSON else spans_of_protobuf(body)


def _plain(body: bytes, encoding: str) -> bytes:
    if encoding.strip().lower() != "gzip":
        return body
    stream = zlib.decompressobj(_GZIP)
    try:
        plain = stream.decompress(body, LARGEST)
    except zlib.error as error:
        raise ConfigError(f"The body is not compressed with gzip: {error}.") from None
    if stream.unconsumed_tail:
        raise _TooLarge(_TOO_LARGE)
    return plain


def _refusal(status: int, kind: str, message: str) -> Answer:
    """An error as OTLP has it: gRPC's status, in the form that the request had, as far as we can write that."""
    if kind == PROTOBUF:
        with suppress(ModuleNotFoundError):
            from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

            return Answer(status, kind, Status(code=_INVALID, message=message).SerializeToString())
    return Answer(status, JSON, msgspec.json.encode({"code": _INVALID, "message": message}))
