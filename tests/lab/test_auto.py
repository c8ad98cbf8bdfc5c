import msgspec
import pytest

from hotloop.errors import ConfigError
from hotloop.lab.auto import auto

STRING = {"type": "string"}


def offer(name: str, **properties) -> dict:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def ask(text, *tools, **fields) -> dict:
    return {"messages": [{"role": "user", "content": text}], "tools": list(tools), **fields}


def answered(request: dict, *results: str) -> dict:
    """The request after the tools it calls have answered."""
    calls = [
        {"id": f"c{slot}", "type": "function", "function": {"name": tool["function"]["name"], "arguments": "{}"}}
        for slot, tool in enumerate(request["tools"])
    ]
    answers = [{"role": "tool", "tool_call_id": f"c{slot}", "content": text} for slot, text in enumerate(results)]
    return request | {"messages": [*request["messages"], {"role": "assistant", "tool_calls": calls}, *answers]}


def test_offered_tools_are_called_with_the_users_words():
    eight = {"type": "string", "pattern": "^[0-9]{8}$"}
    reply = auto(ask("查询订单 20250101 的状态", offer("status", order_id=eight), offer("logistics", order_id=eight)))
    assert [(each.name, each.arguments) for each in reply.calls] == [
        ("status", '{"order_id":"20250101"}'),
        ("logistics", '{"order_id":"20250101"}'),
    ]


def test_at_most_four_tools_are_called():
    assert len(auto(ask("hello", *(offer(f"t{number}") for number in range(9)))).calls) == 4


def test_a_tool_without_parameters_is_called():
    reply = auto(ask("hello", {"type": "function", "function": {"name": "now"}}))
    assert [(each.name, each.arguments) for each in reply.calls] == [("now", "{}")]


def test_results_are_restated():
    request = ask("order 1024", offer("status", order_id=STRING), offer("weather", city=STRING))
    reply = auto(answered(request, '{"order_id":"1024","status":"shipped"}', "sunny."))
    assert not reply.calls
    assert reply.text == "status answered: order_id 1024, status shipped. weather answered: sunny."


def test_only_the_last_results_are_restated():
    first = answered(ask("order 1024", offer("status", order_id=STRING)), "first")
    again = answered(first, "second")
    assert auto(again).text == "status answered: second."


def test_a_long_result_is_cut():
    assert len(auto(answered(ask("hello", offer("dump")), "x" * 100_000)).text) < 1000


def test_a_user_who_goes_on_gets_calls_again():
    request = answered(ask("order 1024", offer("status", order_id=STRING)), "shipped")
    request["messages"] += [{"role": "assistant", "content": "Shipped."}, {"role": "user", "content": "And order 7?"}]
    assert auto(request).calls[0].arguments == '{"order_id":"7"}'


def test_without_tools_it_greets():
    reply = auto({"messages": [{"role": "user", "content": [{"type": "text", "text": "hello there"}]}]})
    assert not reply.calls
    assert "hello there" in reply.text


def test_tool_choice_is_followed():
    tools = (offer("a"), offer("b"))
    assert not auto(ask("hello", *tools, tool_choice="none")).calls
    named = {"type": "function", "function": {"name": "b"}}
    assert [each.name for each in auto(ask("hello", *tools, tool_choice=named)).calls] == ["b"]


def test_a_response_format_is_followed():
    schema = {"type": "object", "properties": {"level": {"enum": ["gold"]}}, "required": ["level"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert msgspec.json.decode(auto(ask("hello", response_format=wanted)).text) == {"level": "gold"}


def test_a_schema_that_takes_more_than_plain_values_names_its_tool():
    with pytest.raises(
        ConfigError, match=r"^The tool 'odd' cannot be called\. No value .*; give a script of replies\.$"
    ):
        auto(ask("hello", offer("odd", x={"type": "string", "pattern": "^(?!.)x$"})))
