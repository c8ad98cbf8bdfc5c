from __future__ import annotations

import io

import pytest
from rich.console import Console

from hotloop.commands.console import messages, show_trace
from hotloop.commands.weights import have_weights
from hotloop.errors import ConfigError
from hotloop.trace.ledger import Ledger, TurnFacts
from hotloop.trace.trace import Trace
from hotloop.units import NS_PER_MS


@pytest.fixture
def trace():
    """A run of 100 ms: 60 to the first token, 30 of text, over its budget for the model."""
    times = iter((0, 60 * NS_PER_MS, 90 * NS_PER_MS, 100 * NS_PER_MS))
    ledger = Ledger(lambda: next(times), "req-1")
    ledger.mark("prefill")
    ledger.mark("decode")
    ledger.turns.append(TurnFacts(0))
    ledger.close()
    return Trace(ledger, {"model": 50 * NS_PER_MS, "total": 200 * NS_PER_MS})


def _shown(trace, **options):
    file = io.StringIO()
    show_trace(Console(file=file, width=80, highlight=False, **options), trace)
    return file.getvalue()


def test_no_colours_where_there_is_no_terminal(trace, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    shown = _shown(trace)
    assert "\x1b" not in shown
    assert "over" in shown


def test_colours_tell_bars_and_verdicts_apart(trace):
    shown = _shown(trace, force_terminal=True, color_system="standard", no_color=False)
    assert "\x1b[31mover\x1b[0m" in shown
    assert "\x1b[33m█" in shown  # waiting for the first token
    assert "\x1b[32m▐" in shown  # text


def test_no_color_is_respected(trace, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in _shown(trace, force_terminal=True, color_system="standard")
    assert messages().no_color


@pytest.mark.parametrize(("endpoint", "model"), [("http://x/v1", "smollm2"), ("local", "other.gguf")])
def test_weights_are_only_for_the_embedded_model(monkeypatch, tmp_path, capsys, endpoint, model):
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))
    monkeypatch.setattr("hotloop.commands.weights.fetch_weights", lambda _: pytest.fail("fetched"))
    have_weights(endpoint, model)
    assert capsys.readouterr().err == ""


def test_nothing_is_fetched_for_an_engine_that_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("hotloop.commands.weights.fetch_weights", lambda _: pytest.fail("fetched"))
    with pytest.raises(ConfigError, match=r"pip install \"hotloop\[local\]\""):
        have_weights("local", "smollm2")
