"""What a declaration says of what the model sees and of what lasts, and each mistake in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop.config.contextspec import ContextSpec, FunctionSpec, MemorySpec, SessionsSpec, TaskSpec
from hotloop.config.modelspec import ModelSpec
from hotloop.config.spec import AgentSpec, load_spec
from hotloop.context.settings import Window
from hotloop.errors import ConfigError

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
    assert (spec.context, spec.memory, spec.sessions) == (None, None, SessionsSpec())
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
