"""Alerts: what begins one, what ends it, what does not, and where it is told."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

import pytest

from hotloop import ConfigError, Usage
from hotloop.trace.alerts.alert import Alert
from hotloop.trace.alerts.alerts import Alerts
from hotloop.trace.alerts.rule import AlertRule
from hotloop.trace.alerts.webhook import Webhook
from hotloop.trace.declared import Declared, Owners
from hotloop.trace.record import TraceRecord
from made_runs import AT, run_of

OWNED = Declared(owners=Owners(tools={"lookup": "team-orders"}, models={"gpt": "ml"}), context_limit=2000)


class Heard:
    """A place that keeps what it is told."""

    def __init__(self, name: str = "heard") -> None:
        self.name = name
        self.alerts: list[Alert] = []

    def tell(self, alert: Alert) -> None:
        self.alerts.append(alert)

    def close(self) -> None:
        self.name = "closed"


def told(rule: AlertRule, runs: Iterable[TraceRecord]) -> list[Alert]:
    heard = Heard()
    Alerts([rule], [heard]).export(list(runs))
    return heard.alerts


def runs(*tools: float, at: float = 0, every: float = 1.0, **options: Any) -> list[TraceRecord]:
    """Runs one after the other whose tool "lookup" took so long; they begin `at` seconds after the first ever."""
    return [run_of({"lookup": took}, at=AT + at + place * every, **options) for place, took in enumerate(tools)]


def began(alerts: list[Alert]) -> list[bool]:
    return [alert.began for alert in alerts]


def test_an_alert_is_told_when_it_begins_and_when_it_is_over_and_once_each():
    rule = AlertRule(when="tool_p95", tool="lookup", over="400ms", window=60, at_least=10)
    slow = runs(*[0.1] * 20, *[0.6] * 20, declared=OWNED)
    first, last = told(rule, [*slow, *runs(*[0.1] * 90, at=40, declared=OWNED)])
    assert (first.name, first.agent, first.of, first.owner) == ("tool_p95", "orders", "lookup", "team-orders")
    assert (first.began, first.value, first.limit) == (True, 0.6, 0.4)
    assert first.trace_id == slow[21].trace_id  # of 22 calls two are over the p95
    assert first.text == "orders: the p95 of the tool lookup is 600 ms, over 400 ms (22 values in 60 s)."
    assert (last.began, last.value) == (False, 0.1)
    assert last.lasted == pytest.approx(last.at - first.at)
    assert last.text == "orders: the p95 of the tool lookup is 100 ms now; it was over 400 ms for 75.5 s."


def test_a_figure_about_its_limit_does_not_flap():
    rule = AlertRule(when="end_to_end_p95", over=0.5, window=5, at_least=3)  # thinking takes 0.2 s of it
    about = [0.29, 0.29, 0.29, *[0.31, 0.29, 0.28] * 50]
    assert began(told(rule, runs(*about, every=2))) == [True]
    assert began(told(rule, runs(*about, *[0.24] * 6, every=2))) == [True, False]


def test_nothing_is_told_of_too_few_values_or_of_what_is_too_long_ago():
    rule = AlertRule(when="tool_p95", over=0.4, window=60, at_least=10)
    assert told(rule, runs(*[9.0] * 9)) == []
    assert told(rule, runs(*[9.0] * 40, every=10)) == []
    assert began(told(rule, runs(*[9.0] * 10))) == [True]


def test_an_alert_about_what_is_no_longer_there_is_over():
    rule = AlertRule(when="tool_p95", over=0.4, window=60, at_least=10)
    others = [run_of({"search": 0.1}, at=AT + 100)]
    _, last = told(rule, [*runs(*[9.0] * 10), *others])
    assert (last.began, last.of, last.value) == (False, "lookup", None)
    assert "no longer seen" in last.text


def test_without_a_limit_of_its_own_a_rule_takes_the_budgets():
    rule = AlertRule(when="tool_p95", at_least=5)
    (alert,) = told(rule, runs(*[0.3] * 5, limits={"tools": 0.25}))
    assert alert.limit == 0.25
    (alert,) = told(AlertRule(when="end_to_end_p95", at_least=5), runs(*[0.3] * 5, limits={"total": 0.4}))
    assert (alert.limit, alert.value, alert.of) == (0.4, 0.5, "")
    assert told(rule, runs(*[0.3] * 5)) == []


@pytest.mark.parametrize(("over", "value"), [(900, 1000), (5, 1000), ("45%", 0.5), (1100, None), ("55%", None)])
def test_a_context_is_held_against_tokens_or_a_share_of_its_limit(over, value):
    alerts = told(AlertRule(when="context", over=over, at_least=5), runs(*[0.1] * 5, declared=OWNED))
    assert [(alert.of, alert.value, alert.owner) for alert in alerts] == (
        [] if value is None else [("gpt", value, "ml")]
    )
    for alert in alerts:
        unit = "tokens" if type(over) is int else "of its limit"
        assert re.search(rf"the p95 of the prompts of gpt is [\d,]+%? {unit}, over [\d,]+%? {unit} ", alert.text)


def test_a_share_of_a_limit_that_nobody_knows_is_told_of_nobody():
    assert told(AlertRule(when="context", over="1%", at_least=5), runs(*[0.1] * 5)) == []


def test_a_cached_share_is_held_against_its_own_earlier_window_until_it_is_back():
    rule = AlertRule(when="cached_share_falls", over="20%", window=50, at_least=10)
    cached, uncached = Usage(1000, 50, 800), Usage(1000, 50, 100)
    came = [*runs(*[0.1] * 100, usage=cached), *runs(*[0.1] * 300, at=100, usage=uncached)]
    (alert,) = told(rule, came)
    assert (alert.of, alert.began, alert.limit) == ("gpt", True, 0.2)
    assert 0.2 < alert.value < 0.25
    assert began(told(rule, [*came, *runs(*[0.1] * 60, at=400, usage=cached)])) == [True, False]
    assert told(rule, runs(*[0.1] * 100, usage=Usage(1000, 50))) == []


def test_jitter_is_how_far_the_slow_replies_are_from_the_usual_ones():
    rule = AlertRule(when="tpot_jitter", over=3, at_least=10)
    steady = runs(*[0.1] * 20)
    (alert,) = told(rule, [*steady, *runs(*[0.1] * 3, at=20, tpot=0.02)])
    assert (alert.of, alert.value) == ("gpt", 10)
    assert alert.text.startswith("orders: the p95 of the time per token of gpt is 10.0 times its p50, over 3.0")
    assert told(rule, steady) == []


def test_a_row_that_is_over_its_budget_too_often_is_told_by_its_name():
    often = runs(*[0.1, 0.1, 0.1, 0.4] * 10, limits={"tools": 0.2, "model": 1, "total": 0.5})
    rule = AlertRule(when="over_budget", over=0.2, at_least=10)
    assert [(alert.of, round(alert.value, 2)) for alert in told(rule, often)] == [("tools", 0.25), ("total", 0.25)]
    (alert,) = told(AlertRule(when="over_budget", row="tools", over=0.2, at_least=10), often)
    assert alert.text.startswith("orders: 25.0% of the runs are over the budget of tools, over 20.0%")


def test_failures_are_a_share_of_the_runs_that_came_to_an_end():
    came = [run_of(at=AT + place, outcome="failed" if place % 5 == 4 else "ok") for place in range(20)]
    came[3] = run_of(at=AT + 3, outcome="cancelled")
    (alert,) = told(AlertRule(when="error_rate", over="15%", at_least=15), came)
    assert alert.value == pytest.approx(3 / 15)


def test_each_agent_and_each_tool_has_a_figure_of_its_own_and_of_too_many_the_first_fifty():
    rule = AlertRule(when="tool_p95", over=0.4, at_least=2)
    mixed = [*runs(9.0, name="one"), *runs(9.0, name="two")]
    assert told(rule, mixed) == []
    assert [alert.agent for alert in told(rule, [*mixed, *runs(9.0, name="two", at=1)])] == ["two"]
    many = [run_of({f"tool{number}": 9.0}) for number in range(60) for _ in range(2)]
    assert len(told(rule, many)) == 50


def test_an_alert_goes_to_all_places_or_to_those_that_its_rule_names_and_one_that_fails_harms_no_other(caplog):
    class Broken(Heard):
        def tell(self, alert: Alert) -> None:
            raise OSError("no disk")

    heard, webhook = Heard(), Heard("webhook")
    rules = [
        AlertRule(when="tool_p95", over=0.4, at_least=1),
        AlertRule(when="end_to_end_p95", over=0.4, at_least=1, to=("webhook",)),
    ]
    alerts = Alerts(rules, [Broken("prometheus"), heard, webhook])
    alerts.export(runs(1.0))
    assert [alert.name for alert in heard.alerts] == ["tool_p95"]
    assert [alert.name for alert in webhook.alerts] == ["tool_p95", "end_to_end_p95"]
    assert "could not be told to prometheus: no disk" in caplog.text
    alerts.close()
    assert heard.name == webhook.name == "closed"


def test_an_alert_that_is_over_is_no_warning(caplog):
    caplog.set_level(logging.INFO, "hotloop.alerts")
    alerts = Alerts([AlertRule(when="tool_p95", over=0.4, at_least=1, window=5)])
    alerts.export([run_of({"look": 1.0}), run_of({"look": 0.1}, at=AT + 60)])
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


def test_alerts_are_logged_as_warnings_and_nothing_in_a_name_acts_on_a_terminal(caplog):
    Alerts([AlertRule(when="tool_p95", over=0.4, at_least=1)]).export([run_of({"look\x1b[2Jup": 1.0})])
    (line,) = caplog.records
    assert (line.name, line.levelno) == ("hotloop.alerts", logging.WARNING)
    assert "look\\u001b[2Jup is 1,000 ms, over 400 ms (1 value in 300 s)." in line.getMessage()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"when": "tool_p99", "over": 1}, "when"),
        ({"when": "error_rate"}, "say what error_rate may not be over"),
        ({"when": "error_rate", "over": 5}, "give a share, like 0.05 or 5%"),
        ({"when": "error_rate", "over": "400ms"}, "give a share"),
        ({"when": "tool_p95", "over": "5%"}, "give a time, like 0.4 or 400ms"),
        ({"when": "context", "over": "much"}, "give tokens, or a share like 80%"),
        ({"when": "tpot_jitter", "over": float("nan")}, "give a number"),
        ({"when": "error_rate", "over": 0.1, "tool": "lookup"}, "error_rate is not about a tool"),
        ({"when": "over_budget", "over": 0.1, "row": "tols"}, "did you mean tools"),
        ({"when": "context", "over": 0.8}, "give tokens, or a share like 80%"),
        ({"when": "tpot_jitter", "over": "300%"}, "give a number"),
        ({"when": "error_rate", "over": 0.1, "to": [""]}, "to"),
        ({"when": "error_rate", "over": 0.1, "window": 0}, "window"),
    ],
)
def test_a_rule_that_cannot_be_is_told(options, message):
    with pytest.raises(ConfigError, match=message):
        AlertRule(**options)


def test_rules_that_cannot_be_told_apart_or_told_anywhere_are_refused():
    rule = AlertRule(when="error_rate", over=0.1)
    with pytest.raises(ConfigError, match="several rules error_rate"):
        Alerts([rule, AlertRule(when="error_rate", over=0.5)])
    Alerts([rule, AlertRule(when="error_rate", over=0.5, name="many errors")])
    with pytest.raises(ConfigError, match="error_rate is told to webhook; there are log"):
        Alerts([AlertRule(when="error_rate", over=0.1, to=("webhook",))])
    for places in ([Webhook("http://a"), Webhook("http://b")], [Heard("log")]):
        with pytest.raises(ConfigError, match=rf"several places named {places[0].name} .* give one another name"):
            Alerts([rule], places)


def test_a_place_has_any_name_by_which_rules_call_it():
    pager, team = Heard("pager"), Heard("team-orders")
    rules = [
        AlertRule(when="tool_p95", over=0.4, at_least=1, to=("team-orders",)),
        AlertRule(when="end_to_end_p95", over=0.4, at_least=1, to=("pager",)),
    ]
    Alerts(rules, [pager, team, Webhook("http://a", name="chat")]).export(runs(1.0))
    assert [[alert.name for alert in place.alerts] for place in (pager, team)] == [["end_to_end_p95"], ["tool_p95"]]
