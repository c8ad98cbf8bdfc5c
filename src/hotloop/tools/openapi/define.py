"""How a document becomes tools: what is left out and why, and each operation with its schema, rules and credentials."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hotloop.errors import ConfigError, ToolDefinitionError
from hotloop.tools.defining.foreign import ForeignRules, foreign_tool
from hotloop.tools.defining.minimal import Schema
from hotloop.tools.defining.tool import Approval, Tool
from hotloop.tools.openapi.auth import check_auth, missing, places, read_security
from hotloop.tools.openapi.bodies import read_body
from hotloop.tools.openapi.call import call
from hotloop.tools.openapi.clients import Clients
from hotloop.tools.openapi.document import read_document
from hotloop.tools.openapi.operations import READING, Operation, choose, list_operations, named, server_of
from hotloop.tools.openapi.request import RequestPlan, check_path
from hotloop.tools.openapi.schemas import Schemas
from hotloop.tools.openapi.slots import LeftOut, Slot, named_apart, read_parameters

_log = logging.getLogger("hotloop.tools")


def tools_from_openapi(
    source: str | Path,
    *,
    base_url: str | None = None,
    prefix: str = "",
    include: Collection[str] | None = None,
    auth: Mapping[str, str] | None = None,
    timeout: float | None = None,
    approval: Approval = "never",
    rules: Mapping[str, ForeignRules] | None = None,
) -> list[Tool]:
    """Tools for the operations of an OpenAPI 3.0 or 3.1 document, read once from a file or an http(s) URL.

    base_url
        The server's URL, instead of those in the document.
    prefix
        Put before each tool's name: up to 32 of a-z, A-Z, 0-9, _ and -.
    include
        The operations wanted, by their own names or the tools'; without it all that are not deprecated. What cannot be
        a tool is left out with a log line, but is an error if it was asked for.
    auth
        For a security scheme the environment variable that has the token, key or `user:password`, read at each call.
        Without it that is OPENAPI_, the document's title and the scheme's name: OPENAPI_ORDERS_APIKEY.
    timeout
        Seconds for one call; without it the agent's `tool_timeout`.
    approval
        Whether a person must agree to a call of an operation that changes something; see `ToolOptions`.
    rules
        Options of `tool` for some operations, `name` and `description` among them, by the names that `include` takes.

    GET and HEAD make read-only tools, PUT and DELETE idempotent ones. It blocks while it reads; declare tools outside
    of a running event loop.

    Raises ConfigError for what cannot be read or used, ToolDefinitionError with the place for what is not well-formed.
    """
    _check_packages()
    document, auth = read_document(source), auth or {}
    check_auth(document, auth)
    schemas, clients = Schemas(), Clients()
    operations, tools, unset = list_operations(document, prefix), list[Tool](), list[str]()
    own = _own_rules(operations, rules or {})
    for operation in choose(operations, include):
        try:
            plan = _plan(operation, schemas, server_of(operation, base_url), auth)
            options = _options(plan, schemas, timeout, approval, own.get(operation.name, {}))
            tools.append(_tool(operation, plan, _schema(plan.slots, schemas), clients, options))
        except LeftOut as reason:
            if include is not None:
                raise operation.node.fault(f"it cannot be a tool: {reason}") from None
            _log.warning("%s: %s is left out: %s", document.source, operation.node.place, reason)
        except RecursionError:
            raise operation.node.fault("its schemas are nested too deeply") from None
        else:
            unset.append(missing(plan.security))
    if not tools:
        raise ConfigError(f"{document.source} has no operation that can be a tool.")
    if names := list(filter(None, dict.fromkeys(unset))):
        _log.warning("%s: credentials are missing until the environment has %s", document.source, ", ".join(names))
    return tools


def _check_packages() -> None:
    for package in ("httpx2", "jsonschema_rs", "yaml"):
        if find_spec(package) is None:
            raise ConfigError(
                f'Tools from an OpenAPI document need the package {package}: pip install "hotloop[openapi]".'
            )


def _own_rules(operations: list[Operation], rules: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The rules that were given, by the tools' names. Raises ConfigError for unknown operations."""
    if not isinstance(rules, Mapping) or not all(isinstance(each, Mapping) for each in rules.values()):
        raise ConfigError(f"rules={rules!r}; give a dict from operations to dicts of options of `tool`.")
    return {operation.name: rules[name] for name, operation in named(operations, rules, "rules").items()}


def _plan(operation: Operation, schemas: Schemas, server: str, auth: Mapping[str, str]) -> RequestPlan:
    """How the operation is requested; raises LeftOut if that cannot be done."""
    security = read_security(operation.node, auth)
    slots = [
        slot
        for slot in read_parameters(operation.item, operation.node, schemas, places(security))
        if slot.place != "path" or f"{{{slot.name}}}" in operation.path
    ]
    body, fields = None, list[Slot]()
    if operation.method not in READING:
        body, fields = read_body(operation.node.find("requestBody"), schemas, {slot.argument for slot in slots})
    slots = named_apart([*slots, *fields])
    plan = RequestPlan(operation.method, server, operation.path, security, slots, body)
    check_path(plan)
    return plan


def _tool(
    operation: Operation, plan: RequestPlan, schema: Schema, clients: Clients, options: Mapping[str, Any]
) -> Tool:
    async def request(**arguments: Any) -> Any:
        return await call(plan, clients, arguments)

    try:
        told = {"name": operation.name, "description": operation.description}
        return foreign_tool(schema=schema, call=request, **told | dict(options))
    except ToolDefinitionError as error:
        raise operation.node.fault(str(error)) from error.__cause__


def _schema(slots: list[Slot], schemas: Schemas) -> Schema:
    return schemas.complete(
        {
            "type": "object",
            "properties": {slot.argument: slot.schema for slot in slots},
            "required": [slot.argument for slot in slots if slot.required],
            "additionalProperties": False,
        }
    )


def _options(
    plan: RequestPlan, schemas: Schemas, timeout: float | None, approval: Approval, own: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The rules that follow from HTTP, what a method may do and which arguments are passwords, and those of its own."""
    secrets = [slot.argument for slot in plan.slots if schemas.resolved(slot.schema).get("format") == "password"]
    reads = plan.method in READING
    return {
        "read_only": reads,
        "idempotent": plan.method in ("PUT", "DELETE"),
        "timeout": timeout,
        "approval": "never" if reads else approval,
        **own,
        "secrets": [*secrets, *own.get("secrets", ())],
    }
