"""What becomes of an OpenAPI document: which tools, with which schemas and rules, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import msgspec
import pytest
from openapi_service import Cut, document, reply, serve, tools

from hotloop.errors import ArgumentsError, ConfigError, ToolDefinitionError
from hotloop.tools.openapi import tools_from_openapi

DATA = Path(__file__).parent.parent / "data" / "openapi"


@pytest.fixture
def shop():
    return {tool.name: tool for tool in tools_from_openapi(DATA / "shop.yaml")}


@pytest.fixture
def notes():
    return {tool.name: tool for tool in tools_from_openapi(DATA / "notes.json", base_url="http://localhost")}


def in_query(said):
    """An operation with one parameter."""
    return {"parameters": [{"name": "value", "in": "query", **said}]}


def schema_of(folder, schema, **components):
    """What becomes of a schema as that of a parameter."""
    [tool] = tools(folder, document(in_query({"schema": schema}), components={"schemas": components}))
    return tool.parameters["properties"]["value"] | {
        key: part for key, part in tool.parameters.items() if key == "$defs"
    }


def test_each_operation_is_a_tool_named_as_services_want_it(shop):
    assert list(shop) == ["listOrders", "createOrder", "get_orders_order_id", "orders_replace", "cancelOrder"]


@pytest.mark.parametrize(
    ("name", "rules"),
    {
        "listOrders": (True, False),
        "createOrder": (False, False),
        "orders_replace": (False, True),
        "cancelOrder": (False, True),
    }.items(),
)
def test_a_method_says_what_it_may_do(shop, name, rules):
    assert (shop[name].read_only, shop[name].idempotent) == rules


def test_rules_for_some_operations_hold_above_what_their_methods_say():
    rules = {
        "listOrders": {"keep": ["orders[].id"], "ttl": 60, "name": "orders", "description": "All of them."},
        "GET /orders/{order_id}": {"timeout": 1.5},
        "createOrder": {"approval": "never", "read_only": True},
    }
    listed, create, one, *others = tools_from_openapi(DATA / "shop.yaml", rules=rules, approval="always", timeout=9)
    assert (listed.name, listed.description, listed.ttl, listed.timeout) == ("orders", "All of them.", 60, 9)
    assert listed.keep.of('{"orders":[{"id":1,"x":2}]}') == '{"orders":[{"id":1}]}'
    assert (create.approval, create.read_only, one.timeout) == ("never", True, 1.5)
    assert {(each.approval, each.timeout, each.keep) for each in others} == {("always", 9, None)}


def test_a_password_stays_a_secret_whatever_the_rules_add(tmp_path):
    content = document(in_query({"schema": {"type": "string", "format": "password"}}))
    [tool] = tools(tmp_path, content, rules={"it": {"secrets": ["value"]}})
    [plain] = tools(tmp_path, content, rules={"it": {"secrets": []}})
    assert tool.secrets == plain.secrets == {"value"}


def test_the_model_is_told_what_it_needs_and_no_more(shop):
    assert json.loads(shop["listOrders"].definition)["function"] == {
        "name": "listOrders",
        "description": "List orders. Newest first, as described for the order page.",
        "parameters": {
            "type": "object",
            "properties": {
                "status": {"type": "string", "enum": ["open", "shipped", "no"], "description": "Only these."},
                "placed_after": {"type": "string", "format": "date", "default": "2025-01-01"},
                "page": {"type": ["integer", "null"]},
                "api-version": {"type": "string", "enum": ["2025-01-01"]},
            },
            "required": ["api-version"],
            "additionalProperties": False,
        },
    }


def test_the_fields_of_a_body_are_arguments_and_recursive_ones_stay_references(shop):
    item = {
        "type": "object",
        "required": ["sku"],
        "properties": {
            "sku": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "count": {"type": "integer", "exclusiveMinimum": 0, "default": 1},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        },
    }
    assert shop["createOrder"].parameters == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["order"]},
            "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Item"}},
            "note": {"type": ["string", "null"]},
            "courier": {"type": ["string", "null"], "enum": ["DHL", "UPS", None]},
        },
        "required": ["kind", "items"],
        "additionalProperties": False,
        "$defs": {"Item": item},
    }


def test_an_optional_body_that_needs_fields_is_one_argument(shop):
    assert shop["orders_replace"].parameters["required"] == ["order_id"]
    assert shop["orders_replace"].parameters["properties"]["body"]["required"] == ["items", "kind"]


def test_other_bodies(notes):
    arguments = {name: list(tool.parameters["properties"]) for name, tool in notes.items()}
    assert arguments == {
        "read": ["id"],
        "change": ["id", "text", "pin", "lock"],  # parts of allOf put together, what the service sets left out
        "write": ["body"],
        "search": ["words", "body"],  # both have `words`
    }
    assert notes["change"].secrets == {"lock"}
    assert notes["write"].parameters["properties"]["body"] == {"type": "string", "description": "The note."}


def test_arguments_are_checked_before_anything_is_sent(shop):
    with pytest.raises(ArgumentsError, match=re.escape('does not match "^[A-Z]{3}$" - at `$.items[0].parts[0].sku`')):
        shop["createOrder"].bind('{"kind": "order", "items": [{"sku": "ABC", "parts": [{"sku": "abc"}]}]}')


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"type": "integer", "nullable": True}, {"type": ["integer", "null"]}),
        ({"type": "string", "enum": ["a", "b"], "nullable": True}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"minimum": 1, "exclusiveMinimum": False, "maximum": 2, "exclusiveMaximum": True},
            {"minimum": 1, "exclusiveMaximum": 2},
        ),
        ({"type": "string", "format": "byte"}, {"type": "string", "contentEncoding": "base64"}),
        (
            {"type": "string", "format": "date-time", "xml": {}, "example": "x"},
            {"type": "string", "format": "date-time"},
        ),
        ({"type": "string", "pattern": "[\\w-.]", "required": True}, {"type": "string"}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["string", "integer"]}),
        (
            {"$ref": "#/components/schemas/A", "description": "Said here."},
            {"type": "string", "description": "Said here."},
        ),
        (
            {"$ref": "#/components/schemas/A", "minLength": 2},
            {"allOf": [{"type": "string", "description": "Said there."}], "minLength": 2},
        ),
        ({"$ref": "#/components/schemas/B/properties/~1a%20b"}, {"type": "number"}),
        (
            {"properties": {"a": True, "b": False}, "additionalProperties": False},
            {"properties": {"a": {}, "b": {"not": {}}}, "additionalProperties": False},
        ),
        ({"description": "One\nline.\n\nMore."}, {"description": "One line."}),
        ({"description": "x" * 300}, {"description": "x" * 200 + "…"}),
    ],
)
def test_schemas_become_short_json_schema(tmp_path, written, read):
    components = {
        "A": {"type": "string", "description": "Said there."},
        "B": {"properties": {"/a b": {"type": "number"}}},
    }
    assert schema_of(tmp_path, written, **components) == read


def test_components_that_contain_each_other_are_kept_once(tmp_path):
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#/components/schemas/Tree"}, "x": {"$ref": "#/components/schemas/Alias"}},
    }
    schema = schema_of(
        tmp_path, {"$ref": "#/components/schemas/Tree"}, Tree=tree, Alias={"$ref": "#/components/schemas/Tree"}
    )
    reference = {"$ref": "#/$defs/Tree"}
    assert schema == reference | {
        "$defs": {"Tree": {"type": "object", "properties": {"left": reference, "x": reference}}}
    }


@pytest.mark.parametrize(
    ("parameters", "fields", "arguments"),
    [
        ([("id", "path"), ("id", "query")], [], ["id", "id_query"]),
        ([("id", "path")], ["name"], ["id", "name"]),
        ([("id", "path"), ("body", "query")], ["id"], ["id", "body", "body_body"]),
        (
            [("filter[state]", "query"), ("$top", "query"), ("名", "query"), ("id", "path")],
            [],
            ["filter_state", "top", "value", "id"],
        ),
        ([("Accept", "header"), ("Cookie", "header"), ("id", "path"), ("X-Id", "header")], [], ["id", "X-Id"]),
        ([("id", "path"), ("unused", "path")], [], ["id"]),
    ],
)
def test_arguments_have_names_that_services_take_and_none_twice(tmp_path, parameters, fields, arguments):
    body = {"content": {"application/json": {"schema": {"properties": {name: {} for name in fields}}}}}
    operation = {
        "parameters": [{"name": name, "in": place, "required": True} for name, place in parameters],
        **({"requestBody": body} if fields else {}),
    }
    [tool] = tools(tmp_path, document(operation, "/it/{id}", "post"))
    assert list(tool.parameters["properties"]) == arguments


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["new", "get_plain"]),
        ({"prefix": "s_"}, ["s_new", "s_get_plain"]),
        ({"include": ["old", "new"]}, ["old", "new"]),  # asked for, though deprecated
        ({"include": {"s_get_plain"}, "prefix": "s_"}, ["s_get_plain"]),
    ],
)
def test_which_operations(tmp_path, options, names):
    content = document({})
    content["paths"] = {
        "/old": {"get": {"operationId": "old", "deprecated": True}},
        "/new": {"get": {"operationId": "new"}, "options": {}},
        "/plain": {"get": {}},
    }
    assert [tool.name for tool in tools(tmp_path, content, **options)] == names


def test_names_are_different_and_not_too_long(tmp_path):
    content = document({})
    content["paths"] = {f"/{number}": {"get": {"operationId": "x" * 70}} for number in range(2)}
    assert [tool.name for tool in tools(tmp_path, content)] == ["x" * 64, "x" * 60 + "_2"]


@pytest.mark.parametrize(
    ("path", "operation", "name", "description"),
    [
        ("/orders", {"operationId": "创建订单", "summary": "New."}, "post_orders", "创建订单: New."),
        ("/orders", {"operationId": "创建_x", "summary": "创建_x 一个"}, "post_orders", "创建_x 一个"),
        ("/orders", {"operationId": "read__orders.list"}, "read__orders_list", "POST /orders"),
        ("/orders/{id}", {"operationId": "..."}, "post_orders_id", "...: POST /orders/{id}"),
        ("/订单", {"operationId": "创建订单"}, "post_fddfca08", "创建订单: POST /订单"),
        ("/订单", {"summary": "New."}, "post_fddfca08", "POST /订单: New."),
        ("/退款/{id}/all", {}, "post_id_all_ccaacc51", "POST /退款/{id}/all"),
    ],
)
def test_names_that_services_do_not_take(tmp_path, path, operation, name, description):
    operation = {"parameters": [{"name": "id", "in": "path"}] if "{id}" in path else []} | operation
    content = document({}) | {"paths": {path: {"post": operation}}}
    original = operation.get("operationId", f"POST {path}")
    for options in ({}, {"include": [original]}, {"include": [name]}):
        [tool] = tools(tmp_path, content, **options)
        assert (tool.name, json.loads(tool.definition)["function"]["description"]) == (name, description)


def test_arguments_tell_the_name_that_services_do_not_take(tmp_path):
    fields = {"订单号": {}, "数量": {"description": "How many."}, "page.size": {}}
    operation = {"requestBody": {"content": {"application/json": {"schema": {"properties": fields}}}}}
    [tool] = tools(tmp_path, document(operation, method="post"))
    assert tool.parameters["properties"] == {
        "value": {"description": "订单号"},
        "value_body": {"description": "数量: How many."},
        "page.size": {},
    }


def test_a_call_has_the_time_that_the_agent_gives_it(tmp_path):
    assert [tools(tmp_path, document({}), **options)[0].timeout for options in ({}, {"timeout": 5})] == [None, 5]


def test_a_person_is_asked_only_for_what_changes_something(tmp_path):
    content = document({})
    content["paths"]["/it"]["post"] = {"operationId": "change"}
    assert [tool.approval for tool in tools(tmp_path, content, approval="always")] == ["never", "always"]


FORM, TAGS = "application/x-www-form-urlencoded", {"properties": {"tags": {"type": "array"}}}
LEFT_OUT = {
    "its body is multipart/form-data": {"requestBody": {"content": {"multipart/form-data": {}}}},
    "its body is of no type": {"requestBody": {"content": {}}},
    "its parameter id has the style label": {"parameters": [{"name": "id", "in": "path", "style": "label"}]},
    "its parameter tags has the style pipeDelimited": {
        "requestBody": {"content": {FORM: {"schema": TAGS, "encoding": {"tags": {"style": "pipeDelimited"}}}}}
    },
    "it wants the cookie sid": {"parameters": [{"name": "sid", "in": "cookie", "required": True}]},
    "no parameter is described for {id} in its path": {"parameters": []},
    "its parameter value is written as text/xml": in_query({"content": {"text/xml": {}}}),
    "it wants tls, which hotloop cannot give": {"security": [{"tls": []}]},
}


@pytest.mark.parametrize(("reason", "operation"), LEFT_OUT.items())
def test_an_operation_that_cannot_be_a_tool_is_left_out_but_not_if_it_was_asked_for(
    tmp_path, caplog, reason, operation
):
    content = document(operation, "/it/{id}", "post", components={"securitySchemes": {"tls": {"type": "mutualTLS"}}})
    content["paths"]["/other"] = {"get": {"operationId": "other"}}
    assert [tool.name for tool in tools(tmp_path, content)] == ["other"]
    assert caplog.messages == [f"{tmp_path / 'api.json'}: paths./it/{{id}}.post is left out: {reason}"]
    with pytest.raises(ToolDefinitionError, match=re.escape(f"paths./it/{{id}}.post: it cannot be a tool: {reason}")):
        tools(tmp_path, content, include=["it"])


FAULTS = {
    "paths./it.get.parameters[0]: a parameter needs a name": {"parameters": [{"in": "query"}]},
    "paths./it.get.parameters[0]: 'a b' cannot be the name of a header": {
        "parameters": [{"name": "a b", "in": "header"}]
    },
    "paths./it.get.parameters: expected a list": {"parameters": {}},
    "paths./it.get.summary: expected text": {"summary": 3},
    "paths./it.get.parameters[0].schema: expected keys with values": in_query({"schema": 3}),
    "paths./it.get.parameters[0]: the reference '#/components/x' leads nowhere": {
        "parameters": [{"$ref": "#/components/x"}]
    },
    "paths./it.get.parameters[0]: the reference 'x.yaml#/x' leads out of the document": {
        "parameters": [{"$ref": "x.yaml#/x"}]
    },
    "paths./it.get.parameters[0]: the reference '#/components/loop' leads to itself": {
        "parameters": [{"$ref": "#/components/loop"}]
    },
    "components.securitySchemes.odd: 'a b' cannot be the name of a cookie": {"security": [{"odd": []}]},
    "paths./it.get.security[0]: there is no security scheme 'x'": {"security": [{"x": []}]},
    "paths./it.get: tool it: its schema is no JSON Schema": in_query({"schema": {"type": "any"}}),
}


ODD = {
    "loop": {"$ref": "#/components/loop"},
    "securitySchemes": {"odd": {"type": "apiKey", "in": "cookie", "name": "a b"}},
}


@pytest.mark.parametrize(("message", "operation"), FAULTS.items())
def test_a_fault_is_told_with_its_place(tmp_path, message, operation):
    content = document(operation, components=ODD)
    with pytest.raises(ToolDefinitionError, match=re.escape(f"{tmp_path / 'api.json'}: {message}")):
        tools(tmp_path, content)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no OpenAPI document"),
        ("[]", "is no OpenAPI document"),
        ('{"swagger": "2.0"}', "is Swagger 2.0; convert it to OpenAPI 3 first"),
        ("openapi: 3.2.0", "expected 3.0 or 3.1, got '3.2.0'"),
        ("openapi: 3.1.0", "has no operation that can be a tool"),
        ('{"openapi": ', "is no JSON: "),
        ("a: [", "is no YAML: "),
        ("{" + '"a":{' * 200_000, "is nested too deeply"),
        (b"\xff", "Byte 1 of"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path, text, message):
    file = tmp_path / "api"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=re.escape(message)):
        tools_from_openapi(file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include": ["itt"]}, "there is no operation 'itt'; did you mean it?"),
        ({"include": "it"}, "give a list"),
        ({"rules": {"itt": {}}}, "rules: there is no operation 'itt'; did you mean it?"),
        ({"rules": {"it": {"keep": "status"}}}, "keep='status'; give a tuple of texts"),
        ({"rules": {"it": {"name": 5}}}, "name=5; give text"),
        ({"rules": ["it"]}, "give a dict from operations to dicts of options"),
        ({"auth": {"key": "KEY"}}, "has no security scheme 'key'; it has none"),
        ({"base_url": "/v1"}, "does not say where its server is (it has '/v1')"),
        ({"base_url": "http://user:secret@localhost"}, "a query, a fragment or a password"),
        ({"timeout": 0}, "timeout=0"),
        ({"prefix": "店_"}, "prefix='店_'; give up to 32 letters of a-z"),
        ({"prefix": "x" * 33}, "give up to 32 letters"),
    ],
)
def test_options_that_cannot_be_used(tmp_path, options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        tools(tmp_path, document({}), **options)


def test_a_server_that_is_not_said_in_full(tmp_path):
    content = document({}, servers=[{"url": "http://{host}", "variables": {}}])
    with pytest.raises(ConfigError, match=r"servers\[0\]: the variable 'host' has no default; give base_url="):
        tools(tmp_path, content, base_url=None)


def test_a_file_that_is_not_there():
    with pytest.raises(ConfigError, match=r"nowhere\.yaml cannot be read: No such file"):
        tools_from_openapi("nowhere.yaml")


def test_yaml_is_read_as_json_would_be(tmp_path):
    values = {
        "a": 12,
        "b": 1.5,
        "c": "12:30",
        "d": "yes",
        "e": None,
        "f": "2025-01-01",
        "g": True,
        "h": "010",
        "200": "on",
        "i": 1e3,
    }
    text = "\n".join(f"  {key}: {'null' if value is None else str(value).lower()}" for key, value in values.items())
    file = tmp_path / "api.yaml"
    file.write_text(
        f"base: &base\n{text}\nopenapi: 3.1.0\ninfo: {{title: T}}\npaths: {{/it: {{post: {{requestBody: {{content: "
        "{application/json: {schema: {const: {<<: *base}}}}}}}}\n"
    )
    [tool] = tools_from_openapi(file, base_url="http://localhost")
    assert tool.parameters["properties"]["body"]["const"] == values


# Where a document and its server are.


@pytest.mark.parametrize(
    ("servers", "target"),
    [
        ([], "/it"),
        ([{"url": "/v1/"}], "/v1/it"),
        ([{"url": "beta{n}", "variables": {"n": {"default": 2}}}], "/docs/beta2/it"),
    ],
)
async def test_a_document_that_is_fetched_knows_its_server(servers, target):
    content = document({}, servers=servers)
    async with serve(
        lambda got: reply(json.dumps(content).encode()) if got.target.startswith("/docs") else reply()
    ) as service:
        [tool] = await asyncio.to_thread(tools_from_openapi, f"{service.url}/docs/api.json?key=secret")
        await tool()
    assert [got.target for got in service.requests] == ["/docs/api.json?key=secret", target]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda got: reply(status=404), "answered 404; an OpenAPI document was expected"),
        (lambda got: Cut(b"nonsense\r\n\r\n"), "cannot be fetched"),
        (lambda got: Cut(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(65 << 20)), "is larger than 64 MiB"),
    ],
)
async def test_a_document_that_cannot_be_fetched(answer, message):
    async with serve(answer) as service:
        with pytest.raises(ConfigError, match=message) as raised:
            await asyncio.to_thread(tools_from_openapi, f"{service.url}/api.json?key=secret")
    assert "secret" not in str(raised.value)


async def test_a_document_behind_a_password():
    with pytest.raises(ConfigError, match="has a password in it"):
        tools_from_openapi("http://user:secret@localhost/api.json")


async def test_an_operation_and_a_path_may_have_servers_of_their_own():
    async with serve() as one, serve() as two:
        content = document({"servers": [{"url": f"{one.url}/a"}]}, servers=[{"url": "http://localhost:1"}])
        content["paths"]["/that"] = {"servers": [{"url": two.url}], "get": {"operationId": "that"}}
        file = msgspec.json.encode(content)
        async with serve(lambda got: reply(file)) as three:
            for tool in await asyncio.to_thread(tools_from_openapi, three.url):
                await tool()
    assert [got.target for got in one.requests + two.requests] == ["/a/it", "/that"]
