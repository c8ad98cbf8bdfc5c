"""Predictions: what they say, how sure they are, and whether they come true."""

import logging
import random
from pathlib import Path

import msgspec
import pytest
from lab_runs import calls_of, made_tool, runs_of

from hotloop.errors import ConfigError
from hotloop.insight.arrivals import following
from hotloop.insight.bootstrap import compare
from hotloop.insight.candidates import Proposal, candidates, proposals
from hotloop.insight.edits import Cache, Hedge, Parallel, Prefetch, PrefixReuse, Service, ToolTime, Without
from hotloop.insight.whatif import whatif
from hotloop.insight.workload import SAMPLE, Workload
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.profiletable import PROFILES
from hotloop.trace.ledger import Stage, Usage
from made_runs import run_of, varied

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GROQ, GPU = PROFILES["groqcloud-llama8b"], PROFILES["gpu-h100-llama8b"]

# What a prediction says


def test_a_prediction_has_before_and_after_what_is_saved_and_what_is_left_at_best():
    found = whatif(varied(100), [ToolTime("lookup", factor=0.5)])
    before, after, saved = found.times.before, found.times.after, found.times.saved
    for name in ("p50", "p95", "mean"):
        was, now, less = (getattr(each, name) for each in (before, after, saved))
        assert now.value < was.value
        assert less.value == pytest.approx(was.value - now.value, abs=0.01)
        assert all(each.low <= each.value <= each.high for each in (was, now, less))
        assert getattr(found.bound, name) < now.value
    assert (found.edits, found.runs, found.of, found.draws) == (["lookup takes 0.5 times as long"], 100, 100, 1)
    assert 0 < found.saved_share < 1


def test_the_interval_is_narrower_of_more_runs():
    few, many = (whatif(varied(count), [ToolTime("lookup", factor=0.5)]).times.saved.mean for count in (20, 400))
    assert many.high - many.low < (few.high - few.low) / 2


def test_the_interval_holds_the_true_value_about_as_often_as_it_says():
    """Of 60 samples of 80 runs, nine in ten have the true mean in their interval: here at least 48."""
    draw = random.Random(1)
    held = 0
    for _ in range(60):
        times = [draw.lognormvariate(5, 0.4) for _ in range(80)]
        mean = compare(times, [[time / 2] for time in times]).saved.mean
        held += mean.low <= 2.718281828 ** (5 + 0.08) / 2 <= mean.high
    assert 48 <= held <= 60


def test_what_is_left_to_chance_is_drawn_several_times_if_there_are_few_runs():
    found = whatif([run_of({"lookup": 0.1})] * 5, [Cache("lookup", 0.5)])
    assert (found.runs, found.draws) == (5, 20)
    assert found.times.after.mean.value == pytest.approx(250, abs=15)  # half of 200 and half of 300


def test_of_many_runs_some_are_scheduled_anew_and_all_are_said():
    runs = varied(SAMPLE + 200)
    found = whatif(runs, [ToolTime("lookup", factor=0.5)])
    assert (found.runs, found.of) == (SAMPLE, SAMPLE + 200)
    crowded = whatif(runs, [Service(GPU)])
    assert (crowded.runs, crowded.of) == (SAMPLE, SAMPLE + 200)


def test_the_same_question_has_the_same_answer():
    runs = varied(50)
    assert whatif(runs, [Service(GROQ)]) == whatif(runs, [Service(GROQ)])


def test_runs_that_did_not_end_well_are_left_out_and_said():
    found = whatif([*varied(20), run_of(outcome="failed"), run_of(outcome="paused")], [Parallel(1)])
    assert (found.of, found.left_out) == (20, 2)


def test_the_confidence_of_a_profile_comes_with_the_prediction():
    ours = Profile(
        name="ours", kind="lpu", base_ms=20, per_prompt_token_ms=0, tpot_ms=Curve(2), source="a probe",
        confidence="good up to 8", fit_error={"ttft": 0.04},
    )  # fmt: skip
    (told,) = whatif(varied(20), [Service(ours)]).confidence
    assert (told.profile, told.source, told.words, told.fit_error) == (
        "ours",
        "a probe",
        "good up to 8",
        {"ttft": 0.04},
    )


def test_edits_are_made_in_their_order():
    runs = varied(30)
    doubled = whatif(runs, [ToolTime("lookup", seconds=0.1), ToolTime("lookup", factor=2)])
    assert doubled.times.after == whatif(runs, [ToolTime("lookup", seconds=0.2)]).times.after


@pytest.mark.parametrize(
    ("runs", "edits"), [([], [Parallel(1)]), ([run_of(outcome="failed")], [Parallel(1)]), ([run_of()], [])]
)
def test_a_question_without_runs_or_changes_is_refused(runs, edits):
    with pytest.raises(ConfigError):
        whatif(runs, edits)


# Many runs at one service


def test_runs_meet_each_other_at_a_service_that_they_share():
    """Twenty runs at once on a GPU take longer than twenty that are far apart."""
    gpu = Profile(name="gpu", kind="gpu", base_ms=10, per_prompt_token_ms=0.1, tpot_ms=Curve(5, 1))
    apart = [run_of(at=1000.0 + 100 * number) for number in range(20)]
    together = [run_of(at=1000.0 + number / 100) for number in range(20)]
    alone, crowded = (whatif(runs, [Service(gpu)]).times.after.p50.value for runs in (apart, together))
    assert crowded > 1.5 * alone
    assert whatif(apart, [Service(gpu, others=19)]).times.after.p50.value > 1.5 * alone


def test_the_runs_of_a_session_follow_each_other_as_they_did():
    """Each begins 100 ms after the answer to the one before: on a slow service they do not meet."""
    slow = Profile(name="slow", kind="gpu", base_ms=2000, per_prompt_token_ms=0, tpot_ms=Curve(5, 50))
    runs = [run_of(at=1000.0 + 0.4 * number, session="s") for number in range(10)]
    strangers = [run_of(at=1000.0 + 0.4 * number) for number in range(10)]
    one_by_one, at_once = (whatif(each, [Service(slow)]).times.after.p50.value for each in (runs, strangers))
    assert one_by_one == pytest.approx(2 * (2000 + 49 * 55) + 100)
    assert at_once > 1.5 * one_by_one


# What is worth asking


def test_changes_that_would_save_something_are_ranked_with_their_cost_and_setting():
    tools = [made_tool("fast", 50, read_only=False), made_tool("slow", 180, read_only=False)]
    runs = runs_of(tools, [calls_of("slow", "fast"), "word word word"], runs=4, max_parallel=1)
    found = candidates(runs, [GROQ], [Proposal(Prefetch(0.5, frozenset({"slow"})), "wasted calls")])
    saved = [each.prediction.times.saved.p50.value for each in found]
    assert saved == sorted(saved, reverse=True)
    labels = {each.proposal.edit.label: each.proposal for each in found}
    assert labels["2 calls at once"].python == "Agent(max_parallel=2)"
    assert labels["2 calls at once"].yaml == "tools: {max_parallel: 2}"
    assert "fast, slow" in labels["calls start while the reply is written (fast, slow)"].cost
    assert {"service groqcloud-llama8b", "slow takes 0.5 times as long"} <= labels.keys()
    assert any("guessed" in label for label in labels)


def test_results_that_come_again_are_worth_keeping():
    runs = runs_of({"a": 80}, [calls_of("a"), "Done."], runs=6)
    labels = [each.proposal.edit.label for each in candidates(runs)]
    assert "results kept for 60 s" in labels
    assert candidates([]) == []


def _prefetching(runs):
    return [each for each in candidates(runs) if isinstance(each.proposal.edit, Prefetch)]


def test_tools_that_tend_to_come_next_are_worth_guessing():
    tools = [made_tool("find", 80), made_tool("order", 250), made_tool("pay", 300, read_only=False)]
    runs = runs_of(tools, [calls_of("find"), calls_of("order"), calls_of("pay"), "Done."], runs=4)
    (found,) = _prefetching(runs)
    assert found.proposal.edit.label == "50% of the calls of order guessed while the model thinks, as is assumed"
    assert found.proposal.yaml == "tools: {prefetch: {}}"
    assert found.prediction.assumptions[0].startswith("50% of these calls are guessed right, which is assumed")
    assert _prefetching(runs[:2]) == []  # too few to be a habit


def test_what_is_to_be_done_is_said_in_words_and_with_settings_that_there_are():
    runs = runs_of({"a": 80}, [calls_of("a", "a"), "Done."], runs=6, max_parallel=1)
    for record in runs:
        record.started = 0.0  # all at once
    proposed = {each.edit.label: each for each in proposals(Workload.of(runs), [PROFILES["groqcloud-gpt-oss-20b"]])}
    assert len(proposed) > 3
    assert all(each.do and each.cost for each in proposed.values())
    assert [each.edit.label for each in proposed.values() if not each.python] == ["prefix cache on"]
    assert {each.yaml.partition(":")[0] for each in proposed.values()} <= {"", "inference", "tools", "cache"}
    assert 'model="gpt-oss-20b"' in proposed["service groqcloud-gpt-oss-20b"].python
    sharing = proposed["equal calls at the same time share one"]
    assert sharing.yaml == "tools: {mcp: [{name: ..., rules: {TOOL: {scope: global}}}]}"


@pytest.mark.parametrize(
    ("note", "setting"),
    [
        ("retry after RateLimited", "Agent(fallback=[Model(...)])"),
        ("a place at the service", "Policy(max_concurrent=...)"),
        ("a place at the service: held back", "Policy(max_concurrent=...)"),
    ],
)
def test_what_is_advised_against_a_queue_is_what_it_was_for(note, setting):
    runs = varied(20)
    for record in runs:
        first = record.stages[0]
        waited = Stage("queue", first.start - 50_000_000, first.start, 0, note=note)
        record.start, record.stages = waited.start, [waited, *record.stages]
    advised = [each.python for each in proposals(Workload.of(runs)) if isinstance(each.edit, Without)]
    assert advised == [setting]
    found = whatif(runs, [Without("queue")])
    assert found.times.saved.p50.value == pytest.approx(50, abs=0.1)


def test_a_prefix_cache_is_the_service_s_and_stragglers_are_hedged_where_enough_is_known():
    cold = [run_of(at=1000.0 + number, usage=Usage(1000, 50, 0), session="s") for number in range(30)]
    for record in cold:
        sent = {"prompt_bytes": 4000, "known_bytes": 3600}
        record.attempts = [msgspec.structs.replace(attempt, **sent) for attempt in record.attempts]
    (cache,) = [each for each in proposals(Workload.of(cold)) if isinstance(each.edit, PrefixReuse)]
    assert "service that caches prefixes" in cache.do
    assert (cache.python, cache.yaml) == ("", "")
    slow = [run_of(thinks=0.1 if number else 5.0, at=1000.0 + 10 * number) for number in range(40)]
    assert [each for each in proposals(Workload.of(slow)) if isinstance(each.edit, Hedge)]
    assert not [each for each in proposals(Workload.of(slow[:9])) if isinstance(each.edit, Hedge)]


# Whether predictions come true: a handful of benchmarks/whatif.py

HANDFUL = (
    "single tool: service groqcloud-llama70b",
    "parallel tools: service gpu-h100-llama8b",
    "words before calls: service gpu-oci-llama70b",
    "six searches, two at once: 6 calls at once",
    "tools that wait for the reply: calls start while the reply is written",
    "dependent turns: dependent calls in one reply (plan)",
    "repeated calls: results kept for 3 s",
    "long prompts: prefix cache on",
    "a busy GPU: service gpu-oci-llama70b",
    "tools one after the other, as imported: 8 calls at once + service gpu-h100-llama8b",
)


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import whatif as module
        from whatifcases import cases

        logging.disable(logging.WARNING)
        yield module, {case.name: case for case in reversed(cases())}
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", HANDFUL)
def test_a_prediction_comes_true(benchmark, name):
    module, known = benchmark
    (outcome,) = module.measure([known[name]], 3, lambda _: None)
    assert abs(outcome.error("p50")) < 0.05
    assert abs(outcome.error("mean")) < 0.05
    assert abs(outcome.error("p95")) < 0.08


def test_there_are_enough_combinations_and_each_is_another_one(benchmark):
    assert len(benchmark[1]) >= 60


def test_a_workload_knows_what_its_services_show():
    work = Workload.of(varied(60))
    (known,) = work.services.values()
    assert known.asks == 120
    assert work.service_of(work.graphs[0].asks[0]) is known


def test_who_asked_again_as_soon_as_he_was_answered_does_so_again():
    """One loop: each run begins within a millisecond of the end of the one before, and so never meets it."""
    slow = Profile(name="slow", kind="gpu", base_ms=2000, per_prompt_token_ms=0, tpot_ms=Curve(5, 50))
    loop = [run_of(at=1000.0 + 0.3005 * number) for number in range(10)]
    assert whatif(loop, [Service(slow)]).times.after.p95.value == pytest.approx(2 * (2000 + 49 * 55) + 100)
    assert following(Workload.of(loop).graphs) == {place: (place + 1, pytest.approx(0.0005)) for place in range(9)}
    by_chance = [run_of(at=1000.0 + at) for at in (0, 0.1, 0.3005, 0.7, 0.8, 1.5)]
    assert following(Workload.of(by_chance).graphs) == {}
