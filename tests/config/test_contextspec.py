"""What a declaration says of what the model sees and of what lasts: its mistakes, and the arguments that it means."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop.config.arguments import agent_arguments
from hotloop.config.contextspec import ContextSpec, FunctionSpec, MemorySpec, SessionsSpec, TaskSpec
from hotloop.config.modelspec import ModelSpec
from hotloop.config.spec import AgentSpec, load_spec
from hotloop.context.settings import Context, Task, Window
from hotloop.errors import ConfigError
from hotloop.models.model import Model

LEAST = "inference: {endpoint: local, model: m}\n"
CONTEXT = LEAST + "context:\n  "
TASK = CONTEXT + "tasks:\n    - {name: vat, instructions: Mention VAT., "
EVERYTHING = (
    CONTEXT
    + """limit: 32000
  compact_at: 0.6
  keep: 6
  window: {turns: 40, age: 12h, relevant: 3}
  summarizer: {endpoint: "http://small/v1", model: small}
  tasks:
    - {name: refunds, instructions: {file: refunds.md}, when: refund|money back}
    - {name: vat, instructions: Mention VAT., when: {function: "context_rules:is_vat"}}
  volatile: {function: "context_rules:now"}
memory: {path: facts.db, limit: 5, timeout: 80ms, embed: local}
sessions: {path: chats.db, busy: reject}
"""
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, with a module of rules and a file of instructions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    rules = "def is_vat(prompt): return 'VAT' in prompt\ndef now(): return 'It is noon.'\n"
    Path("context_rules.py").write_text(rules, encoding="utf-8")
    Path("refunds.md").write_text("Refunds need a reason.\n", encoding="utf-8")
    yield tmp_path
    sys.modules.pop("context_rules", None)


def load(text: str) -> AgentSpec:
    """What a file with this text declares."""
    Path("a.yaml").write_text(text, encoding="utf-8")
    return load_spec("a.yaml")


def test_everything_can_be_declared() -> None:
    spec = load(EVERYTHING)
    assert spec.context == ContextSpec(
        limit=32000,
        compact_at=0.6,
        keep=6,
        window=Window(turns=40, age=43200, relevant=3),
        summarizer=ModelSpec(endpoint="http://small/v1", model="small"),
        tasks=(
            TaskSpec(name="refunds", instructions="Refunds need a reason.", when="refund|money back"),
            TaskSpec(name="vat", instructions="Mention VAT.", when=FunctionSpec(function="context_rules:is_vat")),
        ),
        volatile=FunctionSpec(function="context_rules:now"),
    )
    assert spec.memory == MemorySpec(path="facts.db", limit=5, timeout=0.08, embed="local")
    assert spec.sessions == SessionsSpec(path="chats.db", busy="reject")
    assert [each.model for each in spec.models] == ["m", "small"]


def test_what_is_not_declared_is_as_if_it_were_not_there() -> None:
    spec = load(LEAST + "context:\nmemory:\nsessions:\n")
    assert (spec.context, spec.memory, spec.sessions) == (ContextSpec(), None, SessionsSpec())
    assert load(CONTEXT + "{window: , summarizer: , tasks: , volatile: }\n").context == ContextSpec()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONTEXT + "limit: 0", ":3: context.limit: expected a whole number >= 1"),
        (CONTEXT + "limt: 1", ":3: context.limt: unknown key; did you mean limit?"),
        (CONTEXT + "compact_at: 70", ":3: context.compact_at: expected a number <= 1"),
        (CONTEXT + "window: 5", ":3: context.window: expected keys with values, got one value"),
        (CONTEXT + "window: {age: soon}", ":3: context.window.age: 'soon' is no duration; write it like"),
        (CONTEXT + "window: {relevant: 2}", ":3: context.window: "),
        (CONTEXT + "summarizer: {model: m}", ":3: context.summarizer.endpoint: is missing"),
        (CONTEXT + "volatile: 5", ":3: context.volatile: expected text or keys with values, got a whole number"),
        (CONTEXT + "volatile: {fuction: 'm:f'}", ":3: context.volatile.fuction: unknown key; did you mean function?"),
        (TASK + "when: '('}", ":4: context.tasks[0]: "),
        (TASK + "when: {file: x}}", ":4: context.tasks[0].when.file: unknown key; there are function"),
        (TASK + "when: x}\n    - {name: vat, instructions: b, when: c}", ":2: context: "),
        (
            CONTEXT + "tasks: [{name: a, when: b, instructions: {file: no.md}}]",
            ":3: context.tasks[0].instructions.file",
        ),
        (LEAST + "memory: {timeout: 0}", ":2: memory.timeout: expected a number > 0"),
        (LEAST + "memory: {embed: openai}", ':2: memory.embed: expected "local"'),
        (LEAST + "sessions: {busy: wait}", ':2: sessions.busy: expected "queue" or "reject" or "merge"'),
        (LEAST + "sessions: {path: ''}", ":2: sessions.path: expected some text"),
        (LEAST + "busy: queue", ":2: busy: unknown key here; did you mean sessions.busy?"),
    ],
)
def test_each_mistake_has_its_line_key_and_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).partition("\n")[0].startswith(f"a.yaml{said}")


def test_the_arguments_that_it_means() -> None:
    text, _, _ = EVERYTHING.partition("memory:")
    given = agent_arguments(load(text + "sessions: {path: chats.db, busy: merge}\n"))
    rules = sys.modules["context_rules"]
    assert given["context"] == Context(
        limit=32000,
        compact_at=0.6,
        keep=6,
        window=Window(turns=40, age=43200, relevant=3),
        summarizer=Model(name="small", endpoint="http://small/v1", headers={}),
        tasks=(
            Task(name="refunds", instructions="Refunds need a reason.", when="refund|money back"),
            Task(name="vat", instructions="Mention VAT.", when=rules.is_vat),
        ),
        volatile=rules.now,
    )
    assert (given["memory"], given["sessions"], given["busy"]) == (None, Path("chats.db"), "merge")


def test_the_arguments_of_a_declaration_that_says_nothing() -> None:
    given = agent_arguments(load(LEAST))
    assert (given["context"], given["memory"], given["sessions"], given["busy"]) == (Context(), None, None, "queue")
    assert agent_arguments(load(LEAST + "sessions: {path: ':memory:'}\n"))["sessions"] == ":memory:"


def test_files_lie_beside_the_declaration(folder: Path) -> None:
    load(LEAST + "sessions: {path: deep/chats.db}\nmemory: {path: facts.db, limit: 3, timeout: 80ms}\n")
    given = agent_arguments(load_spec(folder / "a.yaml"))
    assert given["sessions"] == folder / "deep" / "chats.db"
    memory = given["memory"]
    assert (memory.limit, memory.timeout) == (3, 0.08)
    memory.remember("Ann speaks French.", user="ann")
    asyncio.run(memory.aclose())
    assert (folder / "facts.db").exists()
    spec = load(LEAST + "sessions: {path: ~/chats.db}\n")
    assert agent_arguments(spec)["sessions"] == Path.home() / "chats.db"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (
            "context_rules:nwo",
            "'context_rules:nwo' of context cannot be had: context_rules has no nwo; did you mean now?",
        ),
        ("now", "'now' of context cannot be had: it is not of the form module:function"),
    ],
)
def test_a_function_that_cannot_be_had(named: str, said: str) -> None:
    spec = load(CONTEXT + f"volatile: {{function: '{named}'}}\n")
    with pytest.raises(ConfigError) as caught:
        agent_arguments(spec)
    assert str(caught.value).startswith(f"The function {said}")
