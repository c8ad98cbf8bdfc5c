"""What recorded requests show of a service, and what they cannot show."""

import random

import pytest

from hotloop.insight.graph import Graph
from hotloop.insight.learned import learn, shown
from hotloop.insight.pieces import Ask, Turn
from hotloop.units import NS_PER_MS

BASE, TOKEN_IN, TOKEN_OUT = 40.0, 0.05, 8.0


def asks(count: int = 60, *, seed: int = 0, same: bool = False, reports: bool = True, paced: bool = True) -> list[Ask]:
    """Requests of prompts between 200 and 3,000 tokens, of which some are cached; jitter of 10 % before the prompt."""
    draw, made = random.Random(seed), []
    for _ in range(count):
        prompt, out = (1000, 50) if same else (draw.randint(200, 3000), draw.randint(5, 80))
        known = 0 if same else draw.choice([0, prompt // 2])
        wait = BASE * draw.lognormvariate(0, 0.1) + TOKEN_IN * (prompt - known)
        writing = (out - 1) * TOKEN_OUT
        prefill, decode = (wait, writing) if paced else (wait + writing, 0.0)
        made.append(
            Ask(
                "svc",
                "m",
                "ok",
                prefill=round(prefill * NS_PER_MS),
                decode=round(decode * NS_PER_MS),
                span=round(decode * NS_PER_MS),
                prompt=prompt,
                cached=known if reports else None,
                known=known,
                out=out,
            )
        )
    return made


def learned(made: list[Ask], *, apart: float = 10.0):
    graphs = [
        Graph(f"r{number}", "", "", "", "hotloop", number * apart, 0, None, 0, (Turn(0, (ask,)),))
        for number, ask in enumerate(made)
    ]
    return learn(graphs)["svc", "m"]


def test_the_cost_of_a_token_in_and_out_is_told_from_requests_of_different_size():
    found = learned(asks())
    assert found.token_in / NS_PER_MS == pytest.approx(TOKEN_IN, rel=0.05)
    assert found.token_out / NS_PER_MS == pytest.approx(TOKEN_OUT)
    assert (found.asks, found.caches, found.crowded) == (60, True, 0)


def test_a_cache_that_is_not_told_of_shows_in_the_times():
    found = learned(asks(reports=False))
    assert (found.caches, found.token_in / NS_PER_MS) == (True, pytest.approx(TOKEN_IN, rel=0.05))


def test_where_nobody_saw_first_tokens_both_costs_are_told_from_whole_replies():
    found = learned(asks(200, paced=False))
    assert found.token_in / NS_PER_MS == pytest.approx(TOKEN_IN, rel=0.1)
    assert found.token_out / NS_PER_MS == pytest.approx(TOKEN_OUT, rel=0.1)


def test_prompts_that_are_all_alike_tell_nothing_nor_do_a_few():
    assert learned(asks(same=True)).token_in is None
    assert learned(asks(4)).token_in is None


def test_stragglers_do_not_move_the_cost_of_a_token():
    made = asks(100)
    slow = [ask if number % 20 else Ask(*_but(ask, prefill=ask.prefill * 20)) for number, ask in enumerate(made)]
    assert learned(slow).token_in / NS_PER_MS == pytest.approx(TOKEN_IN, rel=0.08)


def test_requests_that_met_others_are_left_out_if_there_are_enough_without():
    alone, crowded = asks(60), [Ask(*_but(ask, prefill=ask.prefill * 3)) for ask in asks(60, seed=1)]
    graphs = [
        Graph(f"r{number}", "", "", "", "hotloop", number * 10.0, 0, None, 0, (Turn(0, (ask,)),))
        for number, ask in enumerate(alone)
    ]
    graphs += [
        Graph(f"c{number}", "", "", "", "hotloop", 10_000 + number * 0.05, 0, None, 0, (Turn(0, (ask,)),))
        for number, ask in enumerate(crowded)
    ]
    found = learn(graphs)["svc", "m"]
    assert found.token_in / NS_PER_MS == pytest.approx(TOKEN_IN, rel=0.05)
    assert found.crowded == pytest.approx(0.5, abs=0.05)


def test_a_reply_whose_calls_came_whole_shows_its_writing_where_it_was():
    held = Ask("svc", "m", "ok", prefill=100, decode=40, span=40_000, out=11)
    assert (shown(held, True, 10).prefill, shown(held, True, 10).decode) == (40, 100)
    assert shown(held, False, 10) is held  # a text is not held back
    unseen = Ask("svc", "m", "ok", prefill=0, decode=140, out=11)
    assert (shown(unseen, False, 10).prefill, shown(unseen, False, 10).decode) == (40, 100)
    assert shown(unseen, False, None) is unseen


def _but(ask: Ask, **changes):
    return [changes.get(name, getattr(ask, name)) for name in Ask.__struct_fields__]
