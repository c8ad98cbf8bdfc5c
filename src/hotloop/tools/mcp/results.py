"""What a model reads of an MCP server's result: text and JSON, and of anything else only what it is."""

from __future__ import annotations

from typing import Any

import msgspec
from mcp import types

from hotloop.errors import ToolError


def read_result(server: str, result: types.CallToolResult) -> str:
    """Structured content as JSON, else the text; images, sound and files as notes about them.

    Raises ToolError, with the same, for a result that the server calls an error.
    """
    if result.is_error:
        raise ToolError(_joined(result.content) or f"The MCP server {server} did not say what went wrong.")
    if result.structured_content is None:
        return _joined(result.content)
    others = [block for block in result.content if block.type != "text"]
    return "\n".join([_json(result.structured_content), *map(_shown, others)])


def _joined(content: list[types.ContentBlock]) -> str:
    return "\n".join(map(_shown, content))


def _shown(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"{_note('resource', resource.mime_type, uri=resource.uri)}\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _note("resource", resource.mime_type, _bytes(resource.blob), uri=resource.uri)
        case types.ResourceLink():
            return _note(block.type, block.mime_type, block.size, uri=block.uri, description=block.description)
        case types.ImageContent() | types.AudioContent():
            return _note(block.type, block.mime_type, _bytes(block.data))
    return _note(block.type, None)


def _note(kind: str, mime_type: str | None, size: int | None = None, **more: str | None) -> str:
    note = {"type": kind, "mimeType": mime_type, "bytes": size, **more}
    return _json({key: value for key, value in note.items() if value is not None})


def _bytes(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
