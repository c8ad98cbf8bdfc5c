"""Functions as tools: what they take, what they refuse, and what the model reads."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import functools
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import attrs
import msgspec
import pydantic
import pytest
from msgspec import Meta

from hotloop.errors import ArgumentsError, ToolDefinitionError, ToolError
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import arguments_key, encode_result


class Color(enum.Enum):
    RED = "red"


class Order(pydantic.BaseModel):
    number: str = pydantic.Field(pattern="^[0-9]{8}$")
    placed: datetime.datetime | None = None


class Even(msgspec.Struct):
    value: int

    def __post_init__(self) -> None:
        if self.value % 2:
            raise LookupError("odd")


@attrs.define
class Part:
    size: int


@dataclasses.dataclass
class Status:
    state: str
    at: datetime.date


def look_up(order_id: Annotated[str, Meta(pattern="^[0-9]{8}$")], limit: int = 3) -> str:
    """Current status of an order.

    Args:
        order_id: The order's number.
    """
    return f"{order_id} {limit}"


def test_the_definition_is_what_a_request_carries_in_a_fixed_order() -> None:
    assert tool(look_up).definition == (
        b'{"type":"function","function":{"name":"look_up","description":"Current status of an order.","parameters":'
        b'{"type":"object","properties":{"order_id":{"type":"string","pattern":"^[0-9]{8}$","description":'
        b'"The order\'s number."},"limit":{"type":"integer","default":3}},"required":["order_id"],'
        b'"additionalProperties":false}}}'
    )


def test_a_tool_is_called_like_its_function() -> None:
    assert tool(look_up)("20250101", limit=1) == "20250101 1"


def test_name_and_description_can_be_given() -> None:
    made = tool(look_up, name="find", description="Find it.")
    assert (made.name, made.description) == ("find", "Find it.")
    assert json.loads(made.definition)["function"]["description"] == "Find it."


def test_without_a_docstring_there_is_no_description() -> None:
    @tool
    def bare() -> None: ...

    assert "description" not in json.loads(bare.definition)["function"]


def test_options_are_kept_and_unset_ones_are_left_to_the_agent() -> None:
    @tool(read_only=True, idempotent=True, ttl=60, timeout=3.0, retry=2)
    async def ping() -> None: ...

    assert (ping.read_only, ping.idempotent, ping.ttl, ping.timeout, ping.retry) == (True, True, 60, 3.0, 2)
    assert ping.is_async
    plain = tool(look_up)
    assert (plain.read_only, plain.idempotent, plain.ttl, plain.timeout, plain.retry) == (
        False,
        False,
        None,
        None,
        None,
    )
    assert not plain.is_async


def test_bind_gives_keyword_arguments_with_defaults_filled_in() -> None:
    assert tool(look_up).bind('{"order_id":"20250101"}') == {"order_id": "20250101", "limit": 3}


def test_bind_gives_values_of_the_declared_types() -> None:
    def typed(when: datetime.datetime, price: Decimal, colors: set[Color], order: Order, status: Status) -> None: ...

    bound = tool(typed).bind(
        '{"when":"2025-01-01T00:00:00Z","price":1.10,"colors":["red"],"order":{"number":"20250101","placed":'
        '"2025-01-01T00:00:00Z"},"status":{"state":"sent","at":"2025-01-02"}}'
    )
    moment = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
    assert bound == {
        "when": moment,
        "price": Decimal("1.10"),
        "colors": {Color.RED},
        "order": Order(number="20250101", placed=moment),
        "status": Status("sent", datetime.date(2025, 1, 2)),
    }


def test_the_less_common_types_bind_from_their_iso_forms() -> None:
    def typed(at: datetime.time, during: datetime.timedelta, number: uuid.UUID, raw: bytes, part: Part) -> None: ...

    bound = tool(typed).bind(
        '{"at":"10:30:00","during":"PT90S","number":"12345678-1234-5678-1234-567812345678","raw":"aGk=","part":{"size":1}}'
    )
    assert bound == {
        "at": datetime.time(10, 30),
        "during": datetime.timedelta(seconds=90),
        "number": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "raw": b"hi",
        "part": Part(1),
    }


def test_the_documentation_shows_the_real_definition() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
    namespace: dict[str, Any] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], namespace)
    assert namespace["query_order_status"].definition.decode() in page


@pytest.mark.parametrize("nothing", ["", "{}", " \n"])
def test_no_arguments_are_an_empty_object(nothing: str) -> None:
    @tool
    def now() -> None: ...

    assert now.bind(nothing) == {}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ('{"order_id":"x"}', "order_id"),
        ('{"order_id":"20250101","limit":"3"}', r"Expected `int`, got `str` - at `\$.limit`"),
        ('{"order_id":"20250101","limit":2.5}', "limit"),
        ("", "missing required field `order_id`"),
        ('{"order_id":"20250101","more":1}', "unknown field `more`"),
        ('{"order_id":"2025', "truncated"),
        ("[1]", "Expected `object`"),
        ("order 20250101", "malformed"),
        ('{"order_id":"\ud800"}', "surrogate"),
        ('{"order_id":' + "[" * 5000, "look_up"),
    ],
)
def test_wrong_arguments_come_back_with_the_reason_and_the_schema(arguments: str, says: str) -> None:
    made = tool(look_up)
    with pytest.raises(ArgumentsError, match=says) as caught:
        made.bind(arguments)
    assert str(caught.value).startswith("The arguments of look_up are wrong: ")
    assert json.dumps(made.parameters, separators=(",", ":")) in str(caught.value)


def test_a_whole_number_may_be_written_as_a_decimal() -> None:
    def take(count: int, ratio: float, price: Decimal) -> None: ...

    bound = tool(take).bind('{"count":3.0,"ratio":0.5,"price":1.10000000000000000001}')
    assert bound == {"count": 3, "ratio": 0.5, "price": Decimal("1.10000000000000000001")}


def test_what_a_type_itself_refuses_is_told_to_the_model() -> None:
    def take(even: Even) -> None: ...

    def order(order: Order) -> None: ...

    with pytest.raises(ArgumentsError, match="LookupError: odd"):
        tool(take).bind('{"even":{"value":1}}')
    with pytest.raises(ArgumentsError, match=r"number: String should match pattern .* - at `\$.order`"):
        tool(order).bind('{"order":{"number":"1"}}')


def test_a_default_is_the_very_object_of_the_function() -> None:
    marker = object()

    def take(colors: list[str] = ["red"], extra: Any = marker) -> None: ...  # noqa: B006

    made = tool(take)
    assert made.bind("{}")["extra"] is marker
    assert made.bind("{}")["colors"] is made.bind("{}")["colors"]


def test_a_parameter_that_defaults_to_none_takes_null() -> None:
    def take(count: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert tool(take).bind('{"count":null}') == {"count": None}


@pytest.mark.parametrize("name", ["name", "tag", "self", "rename", "订单号", "_private", "order"])
def test_any_parameter_name_works(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def take(*, {name}: int): return {name}", namespace)
    made = tool(namespace["take"])
    assert made(**made.bind(json.dumps({name: 1}))) == 1


def test_types_that_are_local_to_a_function_are_found() -> None:
    class Local(msgspec.Struct):
        size: int

    @tool
    def decorated(item: Local) -> int:
        return item.size

    assert decorated.bind('{"item":{"size":1}}') == {"item": Local(1)}
    assert tool(decorated.function, name="again").bind('{"item":{"size":1}}') == {"item": Local(1)}


def test_the_type_of_the_result_need_not_be_known() -> None:
    @tool
    def later(order_id: str) -> Unknown: ...  # type: ignore[name-defined]  # noqa: F821

    assert later.bind('{"order_id":"1"}') == {"order_id": "1"}


def test_a_decorated_function_keeps_its_parameters() -> None:
    @functools.wraps(look_up)
    def wrapped(*args: Any, **kwargs: Any) -> str:
        return look_up(*args, **kwargs)

    assert tool(wrapped).definition == tool(look_up).definition


class Shop:
    def __init__(self, city: str) -> None:
        self.city = city

    def find(self, item: str, count: int = 1) -> str:
        """Find an item."""
        return f"{item} in {self.city}"

    async def __call__(self, item: str) -> str:
        """Ask the shop."""
        return self.find(item)


def test_methods_callable_objects_and_partials_are_tools() -> None:
    shop = Shop("Bern")
    find = tool(shop.find)
    assert find(**find.bind('{"item":"hat"}')) == "hat in Bern"
    asked = tool(shop)
    assert (asked.name, asked.description, asked.is_async) == ("Shop", "Ask the shop.", True)
    assert asyncio.run(asked("hat")) == "hat in Bern"
    partial = tool(functools.partial(shop.find, count=5))
    assert (partial.name, partial.description) == ("find", "Find an item.")
    assert partial.parameters["properties"].keys() == {"item"}


def test_what_a_partial_has_set_is_neither_shown_nor_taken() -> None:
    def call(path: str, key: str = "") -> str:
        return key

    made = tool(functools.partial(call, key="secret"))
    assert b"secret" not in made.definition
    with pytest.raises(ArgumentsError):
        made.bind('{"path":"/","key":"mine"}')
    assert made(**made.bind('{"path":"/"}')) == "secret"


def untyped(order_id, limit: int = 1): ...  # type: ignore[no-untyped-def]


def starred(*orders: str) -> None: ...


def double_starred(**orders: str) -> None: ...


def positional(order_id: str, /) -> None: ...


def yields(order_id: str) -> Any:
    yield order_id


async def yields_later(order_id: str) -> Any:
    yield order_id


def unknown_type(order: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def dunder(__order: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (untyped, "tool untyped: parameter 'order_id' has no type"),
        (starred, r"tool starred: \*orders .* take a list"),
        (double_starred, r"\*\*orders .* take one dict"),
        (positional, "parameter 'order_id' is positional-only.*remove the '/'"),
        (yields, "it yields"),
        (yields_later, "it yields"),
        (unknown_type, "name 'Unknown' is not defined"),
        (dunder, "two underscores"),
        (Shop.find, "parameter 'self' has no type.*bound method"),
        (Shop, "is no function"),
        (3, "is no function"),
        (print, "sep|args"),
        (tool(look_up), "is a tool already"),
        (lambda: 1, "no name that services accept; give name="),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_a_sentence(function: Any, says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        tool(function)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ttl": 60}, "read_only=True"),
        ({"ttl": 60, "idempotent": True}, "read_only=True"),
        ({"ttl": 0, "read_only": True}, "ttl=0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": "3s"}, "timeout='3s'; give seconds"),
        ({"timeout": float("inf")}, "timeout=inf"),
        ({"retry": 1}, "idempotent=True"),
        ({"retry": -1}, "retry=-1"),
        ({"retry": 1.5, "read_only": True}, "retry=1.5"),
        ({"name": "查询"}, "no name that services accept"),
        ({"name": "x" * 65}, "up to 64"),
        ({"status": "Looking up {order}"}, "{order} is no parameter; there is order_id, limit"),
        ({"status": "{}"}, "{} is no parameter"),
        ({"status": "{order_id.secret}"}, "is no parameter"),
        ({"status": "{order_id:d}"}, "write {order_id} without a format"),
        ({"status": "{order_id"}, "write a brace that is text twice"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        tool(look_up, **options)


def test_status_is_a_template_of_the_bound_arguments() -> None:
    made = tool(look_up, status="Looking up order {order_id} ({limit}, {{once}})")
    assert made.status_text(made.bind('{"order_id":"20250101"}')) == "Looking up order 20250101 (3, {once})"
    assert tool(look_up).status_text({"order_id": "1"}) == ""


def test_status_shows_the_value_of_an_enum_and_braces_as_they_are() -> None:
    @tool(status="{color}: {text}")
    def paint(color: Color, text: str) -> None: ...

    assert paint.status_text(paint.bind('{"color":"red","text":"{color}"}')) == "red: {color}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("sent", "sent"),
        ("已发货", "已发货"),
        (None, "null"),
        (True, "true"),
        ({"state": "sent", "days": [1, 2]}, '{"state":"sent","days":[1,2]}'),
        (Status("sent", datetime.date(2025, 1, 1)), '{"state":"sent","at":"2025-01-01"}'),
        (Decimal("1.10"), '"1.10"'),
        ([Order(number="20250101")], '[{"number":"20250101","placed":null}]'),
        (Color.RED, '"red"'),
    ],
)
def test_a_result_is_text_as_it_is_or_compact_json(value: Any, text: str) -> None:
    assert encode_result(value) == text


@pytest.mark.parametrize("value", [object(), {(1, 2): 3}, "\ud800", ["\ud800"], 1j])
def test_a_result_without_a_form_in_json_is_an_error_with_a_sentence(value: Any) -> None:
    with pytest.raises(ToolError, match="The tool's result has no JSON form"):
        encode_result(value)


def test_a_result_that_contains_itself_is_an_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ToolError, match="no JSON form"):
        encode_result(loop)


def test_arguments_have_the_same_key_whenever_they_are_the_same() -> None:
    def take(a: set[str], b: Order, c: Any = object()) -> None: ...  # noqa: B008

    made = tool(take)
    first = made.bind('{"a":["x","y"],"b":{"number":"20250101"}}')
    second = made.bind('{"b":{"number":"20250101"},"a":["y","x"]}')
    other = made.bind('{"b":{"number":"20250102"},"a":["y","x"]}')
    assert arguments_key(first) == arguments_key(second) != arguments_key(other)
