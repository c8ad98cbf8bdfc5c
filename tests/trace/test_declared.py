"""What of an agent's declaration goes with the records of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hotloop import Agent, Context, Model
from hotloop.config.arguments import agent_arguments
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError
from hotloop.testing import ScriptedModel, run_virtual
from hotloop.trace.declared import Declared, Owners, Price
from hotloop.trace.record import TraceRecord
from hotloop.trace.recording.recorder import recorder
from hotloop.trace.store import TraceStore
from made_runs import run_of

OWNERS = Owners(tools={"lookup": "team-orders", "get_token": "auth"}, stages={"memory": "platform"}, models={"m": "ml"})


class Kept:
    """An exporter that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[TraceRecord] = []

    def export(self, records: Sequence[TraceRecord]) -> None:
        self.records += records

    def close(self) -> None: ...


def model(name: str, price: float | None) -> Model:
    return Model(name=name, endpoint=ScriptedModel(["Yes."]), price_in=price, price_out=price)


def test_owners_prices_and_the_contexts_limit_are_with_each_record():
    kept = Kept()
    agent = Agent(
        model=model("m", 0.5),
        fallback=[model("other", None)],
        context=Context(limit=8000, summarizer=model("small", 0.1)),
        owners=OWNERS,
        exporters=[kept],
    )
    run_virtual(agent.run("Is it?"))
    assert recorder.flush(10)
    prices = (Price("ScriptedModel", "m", 0.5, 0.5), Price("ScriptedModel", "small", 0.1, 0.1))
    (record,) = kept.records
    assert record.declared == Declared(owners=OWNERS, prices=prices, context_limit=8000)
    assert "declared" not in record.facts


def test_they_come_back_from_the_store(tmp_path):
    store = TraceStore(tmp_path / "traces.db")
    declared = Declared(owners=OWNERS, prices=(Price("svc", "m", 1.0, 2.0),), context_limit=8000)
    store.export([run_of(declared=declared, trace_id="a"), run_of(trace_id="b")])
    assert (store.get("a").declared, store.get("b").declared) == (declared, Declared())
    store.close()


def test_a_file_says_who_owns_what(tmp_path: Path):
    least = "inference: {endpoint: 'http://localhost:1/v1', model: m}\n"
    path = tmp_path / "agent.yaml"
    tools = "tools: {lookup: team-orders, get_token: auth}"
    path.write_text(least + f"owners: {{{tools}, stages: {{memory: platform}}, models: {{m: ml}}}}")
    assert agent_arguments(load_spec(path))["owners"] == OWNERS
    path.write_text(least + "owners:\n  stages: {memori: platform}\n")
    with pytest.raises(ConfigError, match=r"agent\.yaml:2: owners: .*did you mean memory"):
        load_spec(path)


def test_owners_are_made_with_their_class():
    with pytest.raises(ConfigError, match=r"Agent\(owners=\.\.\.\): make it with Owners"):
        Agent(model="m", endpoint="local", owners={"tools": {}})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exporters", "told"),
    [
        ([object()], r"exporters has <object .*> in it; give objects with export\(records\) and close\(\)"),
        ([Kept], r"exporters has <class .*Kept'> in it; give objects"),
        (Kept(), "give a list of exporters"),
        ("metrics", "exporters is 'metrics'; give a list"),
    ],
)
def test_what_is_no_list_of_exporters_is_told_when_the_agent_is_made(exporters, told):
    with pytest.raises(ConfigError, match=told):
        Agent(model="m", endpoint="local", exporters=exporters)
