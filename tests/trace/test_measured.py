"""What is measured of a run, and what of its agent's declaration is with it."""

import msgspec
import pytest

from hotloop import ConfigError, Usage
from hotloop.trace.declared import Declared, Owners, Price
from hotloop.trace.ledger import AttemptFacts, Stage
from hotloop.trace.measured import Measured
from hotloop.trace.record import TraceRecord
from hotloop.trace.window import Window
from hotloop.units import ns
from made_runs import run_of

DECLARED = Declared(
    owners=Owners(
        tools={"lookup": "team-orders"}, models={"gpt": "ml"}, stages={"memory": "platform", "tools": "back"}
    ),
    prices=(Price("svc", "gpt", 0.5, 2.0),),
    context_limit=8000,
)


def test_a_run_is_what_its_stages_models_and_tools_took_on_the_critical_path():
    run = Measured(run_of({"lookup": 0.3, "weather": 0.2}))
    assert run.took == sum(run.stages.values()) == ns(0.5)
    assert run.stages == {"prefill": ns(0.04), "decode": ns(0.16), "tool": ns(0.3)}
    assert run.models == {"gpt": ns(0.2)}
    assert run.tools == {"lookup": ns(0.3)}
    nothing = {"memory": 0, "network": 0, "other": 0}
    whole = {"model": ns(0.2), "tools": ns(0.3), "total": ns(0.5)} | nothing
    worst = {"model": ns(0.1), "tools": ns(0.3), "total": ns(0.4)} | nothing
    assert run.rows == whole | {f"turn.{row}": took for row, took in worst.items()}
    assert sorted(run.calls) == [("lookup", ns(0.3)), ("weather", ns(0.2))]
    assert run.ended == run.record.started + 0.5


def test_the_tries_of_a_call_are_one_call():
    record = run_of({"lookup": 0.3})
    record.stages.append(Stage("tool", ns(0.4), ns(0.45), 0, 1, "lookup"))
    record.stages.append(Stage("tool", ns(0.4), ns(0.45), 1, 1, "lookup"))
    assert Measured(record).calls == [("lookup", ns(0.35)), ("lookup", ns(0.05))]


def test_of_requests_those_count_whose_service_told_their_tokens():
    record = run_of()
    record.attempts += [
        AttemptFacts(0, "svc", "gpt", "retry", 0, 1, "failed"),
        AttemptFacts(0, "svc", "gpt", "retry", 0, 1, "cancelled", usage=Usage(1000)),
        AttemptFacts(0, "svc", "gpt", "retry", 0, 1, "rejected"),
    ]
    run = Measured(record)
    assert [each.outcome for each in run.replies] == ["ok", "ok", "rejected"]
    assert [each.outcome for each in run.counted] == ["ok", "ok", "cancelled", "rejected"]


def test_what_was_declared_goes_with_the_record_and_comes_back_from_where_it_is_kept():
    record = run_of(declared=DECLARED)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=TraceRecord)
    assert record.declared == kept.declared == DECLARED


def test_whoever_owns_a_stage_owns_what_nobody_else_does():
    owners = DECLARED.owners
    assert [owners.of_tool("lookup"), owners.of_tool("weather"), owners.of_stage("wait")] == [
        "team-orders",
        "back",
        "back",
    ]
    assert [owners.of_model("gpt"), owners.of_model("llama"), owners.of_stage("total")] == ["ml", "", ""]


@pytest.mark.parametrize(
    ("owners", "told"),
    [({"stages": {"memmory": "x"}}, "did you mean memory"), ({"tools": {"lookup": ""}}, r"Owners\(tools")],
)
def test_an_owner_of_nothing_or_without_a_name_is_told(owners, told):
    with pytest.raises(ConfigError, match=told):
        Owners(**owners)


def test_unknown_tokens_have_no_price():
    price = Price("svc", "gpt", 0.5, 2.0)
    assert price.of(Usage(1_000_000, 500_000)) == 1.5
    assert price.of(Usage(1_000_000)) is None
    assert DECLARED.price("svc", "llama") is None


def test_a_window_forgets_what_is_too_old_and_what_is_too_much():
    window = Window(10, 3)
    for at, value in enumerate([5, 1, 4, 2]):
        window.add(at, value, 10)
    assert (len(window), window.total, window.weight, window.percentile(50)) == (3, 7, 30, 2)
    window.forget(11.5)
    assert (len(window), window.total, window.percentile(95)) == (2, 6, 4)
    window.forget(99)
    assert (len(window), window.total, window.weight) == (0, 0, 0)
