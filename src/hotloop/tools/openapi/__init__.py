"""Tools from an OpenAPI document: each of its operations is a tool, and a call of the tool is an HTTP request."""

from hotloop.tools.openapi.define import tools_from_openapi

__all__ = ["tools_from_openapi"]
