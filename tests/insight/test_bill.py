"""A bill of recorded runs, and one held against another."""

import random
import time

import msgspec
import pytest

from hotloop import ConfigError, Usage
from hotloop.insight.bill.asdict import bill_dict, diff_dict
from hotloop.insight.bill.bill import Bill, Row
from hotloop.insight.bill.billing import bill_of
from hotloop.insight.bill.comparing import compare
from hotloop.trace.declared import Declared, Owners, Price
from hotloop.trace.ledger import AttemptFacts, CallFacts, Stage
from hotloop.trace.record import TraceRecord
from hotloop.units import ns
from made_runs import AT, run_of, varied

OWNED = Declared(
    owners=Owners(tools={"lookup": "orders"}, stages={"model": "ml", "total": "lead"}),
    prices=(Price("svc", "gpt", 1.0, 4.0),),
)


def row_of(bill: Bill, kind: str, name: str) -> Row:
    return next(row for row in bill.rows if (row.kind, row.name) == (kind, name))


def test_a_bill_has_the_whole_its_stages_models_and_tools_with_their_owners_the_costliest_first():
    runs = [run_of({"lookup": took, "weather": 0.05}, declared=OWNED) for took in (0.1, 0.2, 0.6)]
    bill = bill_of(runs, "1.3")
    assert (bill.version, bill.agents, bill.runs, bill.answered, bill.failed) == ("1.3", ["orders"], 3, 3, 0)
    assert [(row.kind, row.name, row.owner, round(row.critical)) for row in bill.rows] == [
        ("total", "end to end", "lead", 500),
        ("stage", "tool", "", 300),
        ("stage", "decode", "ml", 160),
        ("stage", "prefill", "ml", 40),
        ("model", "gpt", "ml", 200),
        ("tool", "lookup", "orders", 300),
        ("tool", "weather", "", 0),
    ]
    assert sum(row.share for row in bill.rows if row.kind == "stage") == pytest.approx(1)
    lookup, gpt = row_of(bill, "tool", "lookup"), row_of(bill, "model", "gpt")
    assert (lookup.per_run, lookup.times.mean, lookup.times.at(0.5), lookup.times.at(0.95)) == (1, 300, 200, 600)
    assert (gpt.per_run, gpt.times.values, gpt.times.runs, gpt.times.mean) == (2, 6, 3, 100)
    assert row_of(bill, "stage", "tool").per_run == 2


def test_a_stage_that_some_runs_do_not_have_took_nothing_of_them():
    bill = bill_of([run_of({"lookup": 0.3}), run_of({}), run_of({})], "1")
    tool = row_of(bill, "stage", "tool")
    assert (tool.times.mean, tool.times.at(0.5), tool.times.at(0.99)) == (100, 0, 300)
    assert row_of(bill, "tool", "lookup").per_run == pytest.approx(1 / 3)


def test_what_no_stage_owns_has_a_row():
    run = run_of({})
    run.stages = run.stages[1:]  # the first prefill: 20 ms of 200
    assert row_of(bill_of([run], "1"), "stage", "unattributed").times.mean == 20


def test_tokens_and_cost_are_those_of_a_run_and_unknown_is_not_zero():
    priced, unpriced = run_of(declared=OWNED), run_of(declared=OWNED)
    unpriced.attempts.append(AttemptFacts(1, "svc", "llama", "fallback", 0, 5, "ok", usage=Usage(100, 10)))
    bill = bill_of([priced, unpriced], "1")
    whole, llama = bill.total, row_of(bill, "model", "llama")
    assert (whole.tokens_in.mean, whole.tokens_out.mean) == (2050, 105)
    assert (whole.cached.runs, whole.cached.mean) == (1, 1000)  # llama's service did not tell
    assert (whole.cost.runs, whole.cost.mean) == (1, pytest.approx((2000 * 1 + 100 * 4) / 1e6))
    assert (llama.tokens_in.mean, llama.cost.runs, llama.cost.mean) == (50, 1, 0)
    assert bill_of([run_of(usage=Usage())], "1").total.tokens_in is None


def test_a_run_without_an_answer_has_no_times_but_what_it_asked_for_was_paid():
    failed = run_of({"lookup": 0.5}, outcome="failed", error="Overloaded", thinks=3.0)
    bill = bill_of([run_of(), failed, run_of(outcome="cancelled")], "1")
    assert (bill.runs, bill.answered, bill.failed) == (3, 1, 1)
    assert bill.total.times.values == 1
    assert bill.total.tokens_in.mean == 2000
    assert row_of(bill, "tool", "lookup").times.at(0.99) == 500


@pytest.mark.parametrize(
    ("runs", "told"), [([], "no run was found"), ([run_of(outcome="failed")], "none of the 1 runs has an answer")]
)
def test_without_an_answer_there_is_no_bill(runs, told):
    with pytest.raises(ConfigError, match=told):
        bill_of(runs, "1.3")


def test_the_budget_is_the_last_one_and_only_what_is_surely_over_it_is_over():
    earlier = [run_of(at=AT + number, limits={"total": 9}) for number in range(40)]
    later = [run_of({"lookup": 0.4}, at=AT + 40 + number, limits={"total": 0.5, "model": 0.3}) for number in range(60)]
    bill = bill_of([*later, *earlier], "1")
    total, model = compare(bill, bill).limits
    assert (total.name, total.verdict, total.limit, total.p95, total.over_share) == ("total", "over", 500, 600, 0.6)
    assert (model.name, model.verdict, model.p95) == ("model", "ok", 200)
    few = bill_of(later[:10], "few")
    assert [limit.verdict for limit in compare(few, few).limits] == ["over", "unclear"]


def test_what_changed_is_told_with_its_owner_the_costliest_first_and_noise_is_not():
    before = bill_of(varied(400, 1, declared=OWNED), "1.3")
    diff = compare(before, bill_of(varied(400, 2, slower=1.3, declared=OWNED), "1.4"))
    changed = [change for change in diff.changes if change.verdict != "same"]
    assert not diff.held
    assert {change.verdict for change in changed} == {"worse"}
    assert (changed[0].name, changed[0].measure, changed[0].owner, changed[0].beyond) == (
        "lookup",
        "p50",
        "orders",
        True,
    )
    assert {change.name for change in changed} == {"lookup", "tool", "end to end"}
    assert [change.costs for change in changed] == sorted((change.costs for change in changed), reverse=True)
    for change in changed:
        assert 0 < change.low < change.after - change.before < change.high
    back = compare(diff.after, before)
    assert back.held
    assert {change.verdict for change in back.changes} == {"better", "same"}


def test_what_is_tolerated_is_told_but_holds():
    before, after = bill_of(varied(400, 1), "1"), bill_of(varied(400, 2, slower=1.3), "2")
    diff = compare(before, after, tolerance=0.6)
    assert diff.held
    assert any(change.verdict == "worse" for change in diff.changes)


def test_a_version_against_itself_hardly_ever_changes():
    """Of 60 comparisons of runs that only chance tells apart 3 might be called a change."""
    bills = [bill_of(varied(60, seed), str(seed)) for seed in range(120)]
    diffs = [compare(before, after) for before, after in zip(bills[::2], bills[1::2], strict=True)]
    assert sum(any(change.verdict in ("worse", "better") for change in diff.changes) for diff in diffs) <= 3


def test_of_few_runs_nothing_is_pretended():
    few = bill_of(varied(8, 1), "few")
    diff = compare(few, bill_of(varied(8, 2, slower=1.5), "slower"))
    assert diff.held
    p95 = next(change for change in diff.changes if (change.name, change.measure) == ("lookup", "p95"))
    assert (p95.verdict, p95.high) == ("too few runs", float("inf"))


def test_a_version_that_fails_more_often_is_worse_though_it_is_as_fast():
    runs = varied(400, 1)
    failing = [
        msgspec.structs.replace(run, outcome="failed") if place % 10 == 0 else run for place, run in enumerate(runs)
    ]
    diff = compare(bill_of(runs, "1"), bill_of(failing, "2"))
    (failed,) = [change for change in diff.changes if (change.kind, change.measure) == ("total", "failed")]
    assert (failed.verdict, failed.before, failed.after, diff.held) == ("worse", 0, 0.1, False)


def test_more_tokens_are_worse_and_so_is_what_newly_goes_over_its_budget():
    before = bill_of([run_of(limits={"tools": 0.2}) for _ in range(60)], "1")
    wordy = bill_of([run_of(usage=Usage(1500, 50, 500), limits={"tools": 0.2}) for _ in range(60)], "2")
    assert [(c.measure, c.verdict) for c in compare(before, wordy).changes if c.beyond] == [("tokens_in", "worse")]
    strict = bill_of([run_of(limits={"tools": 0.09}) for _ in range(60)], "3")
    assert [limit.newly for limit in compare(before, strict).limits] == [False]  # it was over that before
    slow = bill_of([run_of({"lookup": 0.21}, limits={"tools": 0.2}) for _ in range(60)], "4")
    diff = compare(before, slow, tolerance=5.0)
    assert ([limit.newly for limit in diff.limits], diff.held) == ([True], False)


def test_rows_that_came_or_went_are_told_apart():
    before, after = bill_of([run_of({"lookup": 0.1})], "1"), bill_of([run_of({"search": 0.1})], "2")
    diff = compare(before, after)
    assert ([row.name for row in diff.new], [row.name for row in diff.gone]) == (["search"], ["lookup"])


def test_a_bill_is_kept_as_json_and_told_as_json_without_its_points():
    bill = bill_of(varied(30, declared=OWNED, limits={"total": 1}), "1")
    assert msgspec.json.decode(msgspec.json.encode(bill), type=Bill) == bill
    told = msgspec.json.decode(msgspec.json.encode(diff_dict(compare(bill, bill))))
    assert told["held"] is True
    assert told["before"] == told["after"] == msgspec.json.decode(msgspec.json.encode(bill_dict(bill)))
    assert told["before"]["rows"][0]["times"]["p99"]["high"] is None
    assert "points" not in str(told)


def test_ten_thousand_runs_are_billed_and_compared_in_a_few_seconds():
    made = varied(100, 1, declared=OWNED, limits={"total": 1.0})
    for run in made:
        run.stages += [Stage("overhead", ns(place), ns(place) + 1, 0) for place in range(10)]
    kept = [msgspec.msgpack.encode(run) for run in made] * 100
    begun = time.process_time()
    bill = bill_of(map(msgspec.msgpack.Decoder(TraceRecord).decode, kept), "1")
    assert compare(bill, bill).held
    assert bill.runs == 10_000
    assert time.process_time() - begun < 6  # 2 s on a quiet machine


def failing(share: float, seed: int) -> list[TraceRecord]:
    """Runs of which the call of "lookup" fails in this share."""
    runs, chance = varied(200, seed), random.Random(seed)
    for run in runs:
        lookup = "error" if chance.random() < share else "ok"
        ended = {"lookup": lookup, "weather": "cancelled"}.items()
        run.turns[0].calls[:] = [
            CallFacts(name, name, outcome, lane=lane) for lane, (name, outcome) in enumerate(ended, 1)
        ]
    return runs


def test_a_tool_that_fails_more_often_is_worse_though_all_runs_have_an_answer_and_are_as_fast():
    before, after = bill_of(failing(0.08, 1), "1"), bill_of(failing(0.6, 2), "2")
    found = row_of(after, "tool", "lookup").failures
    assert (found.runs, found.calls, found.share) == (200, 200, pytest.approx(0.6, abs=0.1))
    assert row_of(after, "tool", "weather").failures is None  # no call of it came to an end
    diff = compare(before, after)
    [change] = [change for change in diff.changes if change.measure == "failed" and change.kind == "tool"]
    assert (change.name, change.verdict, change.beyond, diff.held) == ("lookup", "worse", True, False)
    assert compare(before, bill_of(failing(0.08, 3), "3")).held
    assert bill_dict(after)["rows"][-2]["failures"]["share"]["low"] > 0.5


def test_calls_of_one_run_are_as_sure_as_one():
    run = run_of()
    run.turns[0].calls[:] = [CallFacts(str(number), "lookup", "error", lane=number) for number in range(1, 101)]
    share = row_of(bill_of([run], "1"), "tool", "lookup").failures.estimate(0.95)
    assert (share.value, share.high) == (1, 1)
    assert share.low < 0.3
