"""Where prompts diverge, and why: by properties over random bodies with one random edit, and by what users meet."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bodies import assistant, body, offered, system, user
from hotloop.errors import ConfigError
from hotloop.models.prefix.divergence import divergence
from hotloop.models.prefix.telling import excerpt

LONG = "You are a helpful assistant of a shop. " * 20
TOOLS = [offered("alpha"), offered("beta", z=1, y=[2, 3]), offered("gamma")]

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
roles = st.sampled_from(["user", "assistant", "tool"])
later = st.fixed_dictionaries({"role": roles, "content": words})
tools = st.builds(offered, st.sampled_from(["a", "b", "c"]), words, p=words)
bodies = st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "tools": st.lists(tools, max_size=4),
        "messages": st.lists(later, min_size=1, max_size=5).map(lambda those: [system("s"), *those]),
    }
)


def written(request: dict, **form) -> bytes:
    return json.dumps(request, **form).encode()


def first_difference(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


@settings(deadline=None)
@given(bodies, st.data())
def test_a_changed_message_is_named_with_its_byte(request, data):
    number = data.draw(st.integers(0, len(request["messages"]) - 1))
    changed = [dict(message) for message in request["messages"]]
    changed[number]["content"] = data.draw(words.filter(lambda text: text != changed[number]["content"]))
    before, after = (written(request | {"messages": those}) for those in (request["messages"], changed))
    found = divergence(before, after)
    assert (found.kind, found.number, found.field, found.name) == (
        "message",
        number,
        "content",
        request["messages"][number]["role"],
    )
    assert found.at == first_difference(before, after)


@settings(deadline=None)
@given(bodies, st.data())
def test_a_changed_tool_is_named_with_its_byte(request, data):
    assume(request["tools"])
    number = data.draw(st.integers(0, len(request["tools"]) - 1))
    changed = [*request["tools"]]
    name, function = changed[number]["function"]["name"], changed[number]["function"]
    changed[number] = offered(name, data.draw(words.filter(lambda text: text != function["description"])))
    before, after = (written(request | {"tools": those}) for those in (request["tools"], changed))
    found = divergence(before, after)
    assert (found.kind, found.number, found.name, found.field) == ("tool", number, name, "function.description")
    assert found.at == first_difference(before, after)


@settings(deadline=None)
@given(bodies, later)
def test_a_prompt_that_goes_on_diverges_nowhere_and_neither_does_one_that_ends_sooner(request, message):
    longer = request | {"messages": [*request["messages"], message]}
    assert divergence(written(request), written(longer)) is None
    assert divergence(written(longer), written(request)) is None


@settings(deadline=None)
@given(bodies)
def test_how_a_body_is_written_makes_no_difference(request):
    turned = dict(reversed(request.items())) | {"messages": [dict(reversed(m.items())) for m in request["messages"]]}
    assert divergence(written(request), written(turned, indent=2, ensure_ascii=False)) is None


@settings(deadline=None)
@given(bodies, st.integers(0, 2000))
def test_fronts_that_are_cut_off_anywhere_are_compared_as_far_as_they_go(request, length):
    whole = written(request)
    assert divergence(whole[: max(1, length)], whole[: max(1, length)]) is None
    divergence(whole, whole[: max(1, length)])  # whatever it says, it says something


def instructed(text: str) -> bytes:
    return body(system(f"{LONG}{text} {LONG}"), user("Hi"), tools=TOOLS)


@pytest.mark.parametrize(
    ("was", "now", "cause"),
    [
        ("It is 2026-11-29 10:00:04.", "It is 2026-11-29 10:00:05.", "clock"),
        ("Now: 2026-11-29T09:59:59Z", "Now: 2026-11-29T10:00:00Z", "clock"),
        ("Today is Friday.", "Today is Saturday.", "clock"),
        ("Date: March 3, 2026", "Date: April 3, 2026", "clock"),
        ("Date: 31/12/2026", "Date: 01/01/2027", "clock"),
        ("It is 9:59 AM", "It is 10:00 AM", "clock"),
        ("现在是2026年11月29日", "现在是2026年11月30日", "clock"),
        ("今天是星期一", "今天是星期二", "clock"),
        ("now=1764410000.52", "now=1764410003.11", "clock"),
        ("request 3f2b8c1e-1111-4a4a-9d1c-aaaaaaaaaaaa", "request 9c2b8c1e-2222-4a4a-9d1c-bbbbbbbbbbbb", "id"),
        ("trace req-1f00ab23cd", "trace req-77c1d0ee42", "id"),
        ("uses <Shop object at 0x7f12ab30>", "uses <Shop object at 0x7f12cd98>", "address"),
        ("tags: {'red', 'blue', 'green'}", "tags: {'green', 'red', 'blue'}", "order"),
        ("tags: {'red', 'blue'} of 10:01", "tags: {'blue', 'red'} of 10:02", "order"),
        ("sorted by size, name, colour", "sorted by colour, size, name", "order"),
        ("from English to French", "from French to English", "text"),
        ("call number 7", "call number 8", "counter"),
        ("one  space", "one space", "whitespace"),
        ("You serve Ann.", "You serve Bob.", "text"),
        ("It may rain.", "It might rain.", "text"),
    ],
)
def test_what_changed_the_instructions(was, now, cause):
    found = divergence(instructed(was), instructed(now))
    assert (found.kind, found.number, found.name, found.cause) == ("message", 0, "system", cause)
    assert found.costs
    assert found.anew >= found.again >= len(LONG) // 4


def test_it_is_told_in_a_sentence_that_says_what_to_do():
    found = divergence(instructed("It is 10:00:04 now."), instructed("It is 10:00:05 now."))
    assert str(found) == (
        f"The prompts diverge at byte {found.at:,}, in messages[0].content (system): "
        '"…of a shop. It is 10:00:04 now. You are a helpful…" became '
        '"…of a shop. It is 10:00:05 now. You are a helpful…". It looks like a clock or a date. '
        f"About {found.again:,} tokens behind it had been sent before, and are read anew. "
        "Put the time at the end of the newest message, or have a tool tell it."
    )


@pytest.mark.parametrize(
    ("tools", "number", "cause", "told"),
    [
        ([TOOLS[0], TOOLS[2], TOOLS[1]], 1, "tool order", "same in another order"),
        ([TOOLS[0], TOOLS[2]], 1, "tool set", "Other tools are offered: without beta."),
        ([*TOOLS, offered("delta")], 3, "tool set", "with delta."),
        ([TOOLS[0], offered("beta", y=[2, 3], z=1), TOOLS[2]], 1, "key order", "keys of its definition"),
        ([TOOLS[0], offered("beta", z=1, y=[3, 2]), TOOLS[2]], 1, "order", "Sort it"),
        ([TOOLS[0], offered("beta", "Does more.", z=1, y=[2, 3]), TOOLS[2]], 1, "tool", "constants"),
        ([offered("alpha", "Does it."), offered("beta", z=2, y=[2, 3]), TOOLS[2]], 1, "tool", "constants"),
    ],
)
def test_what_changed_the_tools(tools, number, cause, told):
    found = divergence(body(system(LONG), tools=TOOLS), body(system(LONG), tools=tools))
    assert (found.kind, found.number, found.cause) == ("tool", number, cause)
    assert found.again >= len(LONG) // 4
    assert told in str(found)


def test_a_clock_in_a_tool_is_one():
    before, after = (body(system(LONG), tools=[offered("alpha", f"As of 10:0{minute}.")]) for minute in (1, 2))
    assert divergence(before, after).cause == "clock"


TALK = [system(LONG), user("One?"), assistant("One. " * 50), user("Two?"), assistant("Two. " * 50)]


@pytest.mark.parametrize(
    ("messages", "number", "cause"),
    [
        ([*TALK[:2], assistant("1."), *TALK[3:], user("Three?")], 2, "edited"),
        ([TALK[0], *TALK[3:], user("Three?")], 1, "trimmed"),
        ([TALK[0], system("Be brief."), *TALK[1:]], 1, "inserted"),
        ([TALK[0], user("Another matter")], 1, "request"),
        ([*TALK[:3], user("Not two?"), assistant("No.")], 3, "request"),
        ([TALK[0], user("At 10:05?")], 1, "request"),
    ],
)
def test_what_changed_the_history(messages, number, cause):
    found = divergence(body(*TALK), body(*messages))
    assert (found.kind, found.number, found.cause) == ("message", number, cause)
    assert found.costs == (cause != "request")
    assert (found.again > 0) == found.costs


def test_a_clock_in_an_earlier_message_of_the_user():
    timed = [[TALK[0], user(f"It is 10:0{minute}. One?"), *TALK[2:]] for minute in (1, 2)]
    found = divergence(body(*timed[0]), body(*timed[1], user("Three?")))
    assert (found.number, found.cause) == (1, "clock")


@pytest.mark.parametrize(
    ("options", "name", "cause"),
    [
        ({"temperature": 0.5}, "temperature", "sampling"),
        ({"max_tokens": 7}, "max_tokens", "sampling"),
        ({"model": "other"}, "model", "model"),
        ({"tool_choice": "none"}, "tool_choice", "option"),
        ({"prompt_cache_key": "k"}, "prompt_cache_key", "option"),
    ],
)
def test_options(options, name, cause):
    before, after = body(*TALK), json.dumps(json.loads(body(*TALK)) | options).encode()
    found = divergence(before, after)
    assert (found.kind, found.name, found.cause, found.costs) == ("option", name, cause, cause != "sampling")
    assert (found.anew > 0) == found.costs
    assert divergence(before, json.dumps(json.loads(before) | {name: None}).encode()) is None or name == "model"


def test_an_option_that_is_no_part_of_the_prompt_does_not_hide_what_is():
    before = json.dumps({"temperature": 0.1, **json.loads(instructed("at 10:00"))}).encode()
    after = json.dumps({"temperature": 0.25, **json.loads(instructed("at 10:01"))}).encode()
    found = divergence(before, after)
    assert (found.cause, after[found.at : found.at + 1]) == ("clock", b"1")


def test_no_key_is_shown_in_full():
    keys = ["sk-aBcD1234eFgH5678iJkL", "sk-aBcD1234eFgH5678iXyZ"]
    found = divergence(instructed(f"Use {keys[0]} there."), instructed(f"Use {keys[1]} there."))
    for key in keys:
        assert key not in str(found)
        assert key[:12] not in str(found)
    found = divergence(instructed("password: swordfish, a"), instructed("password: swordfish, b"))
    assert "swordfish" not in str(found)


def test_nothing_in_it_acts_on_a_terminal():
    found = divergence(instructed("\x1b[31mred\n1 "), instructed("\x1b[31mred\n2 "))
    assert "\x1b" not in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize("nonsense", [b"", b"[1]", b"data: {}"])
def test_what_is_no_body(nonsense):
    with pytest.raises(ConfigError, match="no request body"):
        divergence(nonsense, b"{}")


def test_a_body_that_is_nested_too_deeply_for_a_stack():
    deep = b'{"model":"m","messages":[{"role":"user","content":' + b"[" * 5000 + b"%d" + b"]" * 5000 + b"}]}"
    assert divergence(deep % 1, deep % 2).number == 0


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Use the password: hunzvq-xkcdwpqz for it.", "nzvq"),
        ("It has api_key=abcd, and more.", "bcd"),
        ("Send Authorization: Bearer abcdefghijklmnopqrstuvwxyzabcdefghij with it.", "efg"),
        ("The key of it is sk-proj-1a2B3c4D5e6F7g8H9i0J, keep it.", "1a2B"),
    ],
)
def test_no_secret_is_quoted_wherever_the_difference_is(text, hidden):
    shown = [excerpt(text, at) for at in range(len(text))]
    secret = text[text.index(hidden) :].split()[0].strip(",")
    pieces = [secret[at : at + 3] for at in range(len(secret) - 2)]
    assert [quote for quote in shown if any(piece in quote for piece in pieces)] == []
    assert any("…" in quote[2:-2] for quote in shown)
    assert all(len(quote) <= 2 * 24 + 4 for quote in shown)


def test_an_excerpt_is_the_text_around_the_difference():
    text = "One two three four five six seven eight nine ten eleven twelve."
    assert excerpt(text, 30) == '"…o three four five six seven eight nine ten eleve…"'
    assert excerpt("short", 2) == '"short"'
