"""`hotloop bill`: bills of recorded runs, kept in files and held against each other."""

import json

import pytest

from hotloop.trace.declared import Declared, Owners
from hotloop.trace.ledger import CallFacts
from hotloop.trace.store import TraceStore
from made_runs import varied

OWNED = Declared(owners=Owners(tools={"lookup": "team|orders"}))


@pytest.fixture
def bill(hotloop, tmp_path, monkeypatch):
    """Run `hotloop bill` in a folder, on recorded runs of 1.3 and a slower 1.4."""
    monkeypatch.chdir(tmp_path)
    store = TraceStore(tmp_path / "traces.db")
    store.export(varied(150, 1, declared=OWNED, version="1.3", limits={"total": 0.1}))
    store.export(varied(150, 2, declared=OWNED, version="1.4", slower=1.6))
    store.export(varied(150, 3, declared=OWNED, version="", name="other"))
    store.close()
    return lambda *arguments: hotloop("bill", *arguments, "--store", tmp_path / "traces.db")


def test_a_bill_is_recorded_under_its_version_and_shown(bill, tmp_path):
    ended = bill("record", "--version", "1.3")
    assert ended.code == 0
    lines = [line.split() for line in ended.out.splitlines()]
    assert next(line[:3] for line in lines if line[:2] == ["tool", "lookup"]) == ["tool", "lookup", "team|orders"]
    assert next(line[:3] for line in lines if line[:1] == ["total"]) == ["total", "-", "over"]
    assert "written to bills/1.3.json" in ended.err
    assert json.loads((tmp_path / "bills" / "1.3.json").read_bytes())["runs"] == 150


def test_between_which_two_a_p95_lies_is_shown(bill):
    def shown(*arguments) -> tuple[str, str]:
        out = bill("record", *arguments, "--markdown").out
        heading, _, whole = [line.split(" | ") for line in out.splitlines() if line.startswith("|")][:3]
        place = heading.index("surely (95%)")
        assert heading[place - 1] == "p95"
        return whole[place - 1], whole[place]

    p95, interval = shown("--version", "1.3")
    low, high = (float(each.removesuffix(" ms")) for each in interval.split(" .. "))
    assert low < float(p95.removesuffix(" ms")) < high
    p95, interval = shown("few", "--agent", "other", "--last", "20")
    assert p95.startswith("≥ ")
    assert interval.endswith(" ms or more")


def test_a_version_that_became_worse_is_not_held(bill):
    ended = bill("diff", "1.3", "1.4")
    assert ended.code == 1
    assert ended.out.startswith("1.4 against 1.3 · orders · 150 runs against 150 runs\n")
    told = next(line.split() for line in ended.out.splitlines() if line.startswith("tool lookup p50"))
    assert told[3:5] == ["team|orders", "worse"]
    assert ended.out.rstrip().splitlines()[-1].startswith("Not held: ")
    assert bill("diff", "1.4", "1.3", "--tolerance", "5%").code == 0


def test_a_recorded_bill_outlives_its_runs_and_is_found_by_its_name_or_file(bill, hotloop, tmp_path):
    bill("record", "--version", "1.3")
    bill("record", "after", "--version", "1.4", "--file", tmp_path / "elsewhere" / "after.json")
    (tmp_path / "traces.db").unlink()
    missing = bill("diff", "1.3", "1.4")
    assert (missing.code, missing.out) == (2, "")
    assert "There is no bill bills/1.4.json. There is no file " in missing.err
    ended = hotloop("bill", "diff", "1.3", tmp_path / "elsewhere" / "after.json", "--json")
    told = json.loads(ended.out)
    assert (ended.code, told["held"], told["after"]["version"]) == (1, False, "after")


def test_for_a_pull_request_it_is_written_as_markdown(bill):
    out = bill("diff", "1.3", "1.4", "--markdown").out
    assert "| tool lookup p50 | team\\|orders | worse |" in out
    tables = [line for line in out.splitlines() if line.startswith("|")]
    assert len(tables) > 10
    assert "\x1b" not in out


def test_runs_without_a_version_get_a_name(bill, tmp_path):
    assert bill("record", "before", "--agent", "other", "--last", "20", "--json").code == 0
    assert json.loads((tmp_path / "bills" / "before.json").read_bytes())["runs"] == 20


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["record"], "The bill has no name"),
        (["record", "--version", "2"], "There is no bill of 2: no run was found."),
        (["record", "../x", "--version", "1.3"], "cannot be the name of a file"),
        (["diff", "1.3", "1.5"], "there are 1.3, 1.4"),
        (["diff", "1.3", "1.4", "--version", "1"], "leave out --version"),
        (["diff", "1.3", "1.4", "--tolerance", "much"], "is no share"),
        (["diff", "1.3", "1.4", "--tolerance", "5"], "'5' is no share; write it like 5% or 0.05"),
        (["diff", "1.3", "1.4", "--tolerance=-5%"], "'-5%' is no share"),
        (["record", "--version", "1.3", "--folder", "traces.db"], "The folder traces.db cannot be made: File exists."),
        (
            ["record", "--version", "1.3", "--file", "traces.db/x/1.json"],
            "The folder traces.db/x cannot be made: Not a",
        ),
        (["diff", "1.3", "1.5", "--folder", "traces.db"], "there are 1.3, 1.4"),
        (["diff", "traces.json", "1.4"], "There is no file traces.json."),
    ],
)
def test_what_cannot_be_done_is_told(bill, arguments, told):
    ended = bill(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in " ".join(ended.err.split())


def test_the_bill_of_another_agent_is_not_overwritten(bill, tmp_path):
    bill("record", "x", "--version", "1.3")
    ended = bill("record", "x", "--agent", "other")
    assert ended.code == 2
    assert "is the bill of orders" in ended.err
    (tmp_path / "bills" / "x.json").write_text("{}")
    assert "is no bill" in bill("diff", "x", "1.3").err


def test_calls_that_fail_are_told(bill, tmp_path):
    runs = varied(100, 4, version="2")
    for run in runs[:60]:
        run.turns[0].calls[0] = CallFacts("1", "lookup", "error", lane=1)
    store = TraceStore(tmp_path / "traces.db")
    store.export(runs)
    store.close()
    assert "| tool lookup | - | 100 | 60.0% | 50.2% .. 69.1% |" in bill("record", "--version", "2", "--markdown").out
    ended = bill("diff", "1.3", "2", "--markdown")
    assert ended.code == 1
    assert "| tool lookup failed | - | worse | 0.0% | 60.0% | +60.0% |" in ended.out
    assert "| 150 → 100 | 0.0% → 60.0% |" in ended.out


def test_a_bill_that_is_replaced_is_told(bill, tmp_path):
    assert "replaced" not in bill("record", "x", "--version", "1.3", "--file", "a/x.json").err
    ended = bill("record", "y", "--version", "1.4", "--file", "a/x.json", "--json")
    assert (ended.code, json.loads(ended.out)["version"]) == (0, "y")
    assert "replaced x · orders · 150 runs · " in " ".join(ended.err.split())
    assert "replaced y · " in bill("record", "x", "--version", "1.3", "--file", "a/x.json").err
