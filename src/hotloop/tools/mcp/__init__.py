"""Tools of MCP servers: how a server is reached, what it offers, and how its tools are called."""

from hotloop.tools.mcp.server import MCPServer

__all__ = ["MCPServer"]
