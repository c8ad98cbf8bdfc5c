from __future__ import annotations

import pytest

from hotloop.commands.screen import Screen
from hotloop.events import (
    ApprovalNeeded,
    ReplyFinished,
    Reset,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolStarted,
    ToolStatus,
)

CALLED = ToolStarted("1", "look_up", "{}", "Looking up [order] 20250101")


@pytest.fixture
def shown(capsys, monkeypatch):
    """What a screen writes for these events: (stdout, stderr)."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def show(*events, answer=True, status=True):
        with Screen(answer=answer, status=status) as screen:
            for event in events:
                screen.show(event)
        captured = capsys.readouterr()
        return captured.out, captured.err

    return show


def test_text_is_written_as_it_comes_and_its_line_ended(shown):
    assert shown(TextDelta("订单 "), TextDelta("已发货")) == ("订单 已发货\n", "")
    assert shown(TextDelta("done\n")) == ("done\n", "")


def test_markup_in_what_tools_and_models_say_is_text(shown):
    out, err = shown(TextDelta("[bold]"), CALLED, ToolStatus("1", "look_up", "[red]"))
    assert out == "[bold]\n"
    assert err == "→ Looking up [order] 20250101\n· [red]\n"


def test_tool_without_status_is_named(shown):
    assert shown(ToolStarted("1", "look_up", "{}", ""))[1] == "→ look_up\n"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        ("ok", "✓ look_up 12.0 ms"),
        ("cached", "✓ look_up 12.0 ms, from the cache"),
        ("joined", "✓ look_up 12.0 ms, shared with the same call"),
        ("fallback", "✓ look_up 12.0 ms, stood in: time was over"),
        ("error", "✗ look_up 12.0 ms: no such order"),
        ("refused", "✗ look_up 12.0 ms: no such order"),
        ("discarded", "✗ look_up 12.0 ms, for a reply that came to nothing"),
    ],
)
def test_end_of_a_tool(shown, outcome, line):
    assert shown(ToolFinished("1", "look_up", "no such order", outcome, 12.04))[1].splitlines() == [line]


def test_call_that_waits_for_a_person(shown):
    assert shown(ApprovalNeeded("1", "[red]", "{}", "d"))[1] == "? [red] waits for a person\n"


def test_failure_of_a_tool_is_its_sentence(shown):
    failed = ToolFinished("9", "[red]", '{"error":"look_up did not finish within 1 s."}', "error", 1001.0)
    assert shown(failed)[1] == "✗ [red] 1,001 ms: look_up did not finish within 1 s.\n"


def test_reset_and_retry_are_told_on_a_line_of_their_own(shown):
    out, err = shown(TextDelta("Half an"), Reset("cut"), Retrying(2, 0.25, "cut"), TextDelta("The answer"))
    assert out == "Half an\nThe answer\n"
    assert err == "↻ the reply starts anew: cut\n↻ attempt 2 in 250 ms: cut\n"


def test_text_before_calls_ends_its_line(shown):
    assert shown(TextDelta("Let me see."), ReplyFinished("tool_calls", 1), TextDelta("Shipped."))[0] == (
        "Let me see.\nShipped.\n"
    )


def test_silent_screen(shown):
    events = (TextDelta("no"), CALLED, ToolFinished("1", "look_up", "{}", "ok", 1.0), Retrying(2, 0.1, "x"))
    assert shown(*events, answer=False, status=False) == ("", "")


def test_what_tools_print_stays_out_of_the_answer(capsys):
    with Screen(answer=True, status=True) as screen:
        print("noise")
        screen.show(TextDelta("answer"))
    print("after")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("answer\nafter\n", "noise\n")
