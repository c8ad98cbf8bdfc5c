"""What a tool may say of itself, and the sentence for everything that it may not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hotloop.errors import ToolDefinitionError
from hotloop.tools.defining.define import tool
from hotloop.tools.defining.tool import TELL_MODEL, Tool


def made(**options: Any) -> Tool:
    async def send(to: str, copies: int = 0) -> None: ...

    return tool(send, **options)


def other(**options: Any) -> Tool:
    async def post(to: str, copies: int = 0) -> None: ...

    return tool(post, **options)


@tool
async def letter(text: str) -> None: ...


@tool
async def parcel(to: str, copies: int, weight: int) -> None: ...


@tool
async def nothing() -> None: ...


LATER = "give seconds as a number, more than 0"
READS = "keeps results, which is right only for a tool declared read_only=True"
CHANGES = "is for a tool that changes something, but it is declared read_only"
ATTEMPTS = "give the number of attempts after the first, 0 or more"
TOKENS = "give a number of tokens, 1 or more"
ALLOW = "give a tuple of values, a compiled pattern or a function"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"readonly": True}, "readonly is no option; did you mean read_only?"),
        ({"colour": "red"}, "colour is no option"),
        # times and numbers
        ({"read_only": True, "ttl": 0}, f"ttl=0; {LATER}"),
        ({"read_only": True, "ttl": float("nan")}, f"ttl=nan; {LATER}"),
        ({"timeout": -1}, f"timeout=-1; {LATER}"),
        ({"timeout": "3s"}, f"timeout='3s'; {LATER}"),
        ({"timeout": True}, f"timeout=True; {LATER}"),
        ({"timeout": float("inf")}, f"timeout=inf; {LATER}"),
        ({"idempotent": True, "retry": -1}, f"retry=-1; {ATTEMPTS}"),
        ({"idempotent": True, "retry": 1.0}, f"retry=1.0; {ATTEMPTS}"),
        ({"idempotent": True, "retry": True}, f"retry=True; {ATTEMPTS}"),
        ({"max_result": 0}, f"max_result=0; {TOKENS}"),
        ({"max_result": "1k"}, f"max_result='1k'; {TOKENS}"),
        # what the model reads
        ({"keep": "status"}, "keep='status'; give a tuple of texts, ('status',)"),
        ({"keep": ("items[0]",)}, "keep: 'items[0]' names one item, [0]; of a list keep all items, []"),
        # what only a reader may
        ({"ttl": 60}, f"ttl {READS}"),
        ({"idempotent": True, "ttl": 60}, f"ttl {READS}"),
        ({"scope": "user"}, f"scope {READS}"),
        ({"read_only": True, "scope": "team"}, "scope='team'; give one of run, session, user, global"),
        ({"retry": 1}, "retry may run it twice; declare read_only=True or idempotent=True if that is harmless"),
        # what only a writer may
        ({"read_only": True, "writes": ("x",)}, f"writes {CHANGES}"),
        ({"read_only": True, "invalidates": ("x",)}, f"invalidates {CHANGES}"),
        # names
        ({"after": "letter"}, "after='letter'; give a tuple of texts, ('letter',)"),
        ({"after": 7}, "after=7; give a tuple of texts, (7,)"),
        ({"after": ("",)}, "after: '' is no name"),
        ({"after": ("letter", None)}, "after: None is no name"),
        ({"after": ("send",)}, "after names the tool itself, so that it could never start"),
        ({"requires": "mail"}, "requires='mail'; give a tuple of texts, ('mail',)"),
        ({"secrets": ("to", "password")}, "secrets: 'password' is no parameter; there is to, copies"),
        # resources
        ({"reads": "x"}, "reads='x'; give a tuple of texts, ('x',)"),
        ({"reads": ("",)}, "reads: '' is no name"),
        ({"writes": ("x:{id}",)}, "writes 'x:{id}': {id} is no parameter; there is to, copies"),
        ({"writes": ("x:{to.name}",)}, "writes 'x:{to.name}': {to.name} is no parameter; there is to, copies"),
        ({"writes": ("x:{}",)}, "writes 'x:{}': {} is no parameter; there is to, copies"),
        ({"reads": ("x:{to!r}",)}, "reads 'x:{to!r}': write {to} without a format, which may not fit a value"),
        ({"reads": ("x:{to:>9}",)}, "reads 'x:{to:>9}': write {to} without a format, which may not fit a value"),
        (
            {"invalidates": ("x:{to",)},
            "invalidates 'x:{to': expected '}' before end of string; write a brace that is text twice",
        ),
        ({"status": "To {whom}"}, "status 'To {whom}': {whom} is no parameter; there is to, copies"),
        ({"status": 7}, "status 7 is no text"),
        # the guard
        ({"allow": {"whom": ("ann",)}}, "allow: 'whom' is no parameter; there is to, copies"),
        ({"allow": {"to": "ann"}}, f"allow: 'to' is given 'ann'; {ALLOW}"),
        ({"allow": {"to": ()}}, "allow: 'to' is allowed no value at all; leave the tool out instead"),
        ({"allow": {"to": 7}}, f"allow: 'to' is given 7; {ALLOW}"),
        ({"approval": "sometimes"}, 'approval=\'sometimes\'; give "never", "always" or a function of the arguments'),
        ({"approval": True}, 'approval=True; give "never", "always" or a function of the arguments'),
        ({"sandbox": "docker"}, "sandbox='docker'; give \"process\" or SandboxLimits(...), or leave it out"),
        # what stands in
        ({"on_timeout": letter}, "on_timeout: letter takes other arguments (text) than it would be given"),
        (
            {"on_timeout": parcel},
            "on_timeout: parcel takes other arguments (to, copies, weight) than it would be given",
        ),
        ({"on_timeout": nothing}, "on_timeout: nothing takes other arguments (none) than it would be given"),
        ({"read_only": True, "on_timeout": other()}, "on_timeout: post is not read-only, as this tool is"),
        (
            {"on_timeout": other(approval="always")},
            "on_timeout: post has an approval, an allow-list or a grant of its own",
        ),
        (
            {"requires": ["mail"], "on_timeout": other(requires=["mail", "money"])},
            "on_timeout: post has an approval, an allow-list or a grant of its own",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(options, said):
    with pytest.raises(ToolDefinitionError) as caught:
        made(**options)
    assert str(caught.value) == f"tool send: {said}"


BAD_VALUES: list[dict[str, Any]] = [
    {"allow": ["to"]},
    {"read_only": "no"},
    {"sequential": "yes"},
    {"summarize": 1},
    {"on_timeout": object()},
    {"on_timeout": lambda to, copies: ""},
    {"on_timeout": other(writes=("x",))},
    {"on_timeout": other(sequential=True)},
    {"on_timeout": other(allow={"to": ("ann",)})},
]


@pytest.mark.parametrize("options", BAD_VALUES)
def test_what_would_go_wrong_when_it_runs_is_refused(options):
    with pytest.raises(ToolDefinitionError, match=f"tool send: {next(iter(options))}"):
        made(**options)


@pytest.mark.parametrize("option", ["allow", "approval"])
def test_a_test_that_would_have_to_be_awaited_is_refused(option):
    async def test(value: Any) -> bool:
        return False

    with pytest.raises(ToolDefinitionError, match="await"):
        made(**{option: {"to": test} if option == "allow" else test})


def test_what_is_left_out_is_left_to_the_agent():
    plain = made()
    assert (plain.read_only, plain.idempotent, plain.sequential, plain.approval) == (False, False, False, "never")
    assert (plain.ttl, plain.scope, plain.timeout, plain.retry, plain.max_result) == (None,) * 5
    assert plain.on_timeout is TELL_MODEL


@pytest.mark.parametrize(
    "options",
    [
        {"read_only": True, "ttl": 0.5, "scope": "session", "retry": 2, "reads": ["x:{to}", "{{y}}"]},
        {"read_only": True, "scope": "global"},
        {"idempotent": True, "retry": 1, "writes": {"x:{to}:{copies}"}, "invalidates": ("y",)},
        {"retry": 0, "ttl": None, "scope": None, "timeout": None, "max_result": None, "status": None, "sandbox": None},
        {"after": ["letter"], "sequential": True, "requires": {"mail"}, "secrets": ("to",)},
        {"keep": ["status", "items[].sku"], "summarize": True},
        {"keep": ()},
        {"on_timeout": None},
        {"on_timeout": {"queued": True}},
        {"on_timeout": other(), "approval": "always"},
        {"on_timeout": other(requires=["mail"]), "requires": ["mail", "money"]},
        {"read_only": True, "on_timeout": other(read_only=True)},
        {"approval": lambda arguments: True},
    ],
)
def test_what_goes_together_is_taken(options):
    made(**options)


def test_allow_lists_become_tests():
    allow = made(allow={"to": re.compile("a+"), "copies": range(3)}).allow
    assert [allow["to"].test(text) for text in ("aa", "ab", 7)] == [True, False, False]
    assert [allow["copies"].test(number) for number in (0, 3)] == [True, False]
