"""The profiles that come with the house against the published figures they stand for."""

import random

import pytest
from msgspec import structs

from hotloop.lab.engines.batching import Batching
from hotloop.lab.engines.work import Work, WorkPrompt
from hotloop.lab.profiletable import PROFILES

MS = 1_000_000


def closed_loop(name, users, prompt, out):
    """Mean TTFT and TPOT in ms of `users` that each ask again as soon as they are answered; they begin one by one."""
    profile = structs.replace(PROFILES[name], queue_sigma=0.0, decode_sigma=0.0)
    engine, chance = Batching(profile), random.Random(1)
    span = profile.reply_ms(prompt, out, replies=users) * MS
    begin = sorted(round((1 + chance.random()) * span) for _ in range(users))
    asked, ttft, tpot = {}, [], []

    def ask(at):
        work = Work(out, lambda _: None, WorkPrompt(prompt))
        asked[work] = at
        engine.arrive(work, at)

    while len(ttft) < 6 * users:
        due = engine.next()
        if begin and (due is None or begin[0] <= due):
            ask(begin.pop(0))
            continue
        for work in engine.advance(due):
            if work.made == out and work in asked:
                ttft.append((work.first - asked.pop(work)) / MS)
                tpot.append((work.last - work.first) / MS / (out - 1))
                ask(due)
    steady = slice(2 * users, None)
    return [sum(each[steady]) / len(each[steady]) for each in (ttft, tpot)]


@pytest.mark.parametrize(
    ("name", "prompt", "out", "published", "near"),
    [
        ("gpu-oci-llama70b", 500, 500, {1: 50, 16: 90, 64: 400, 128: 1290}, 0.1),
        ("gpu-h100-llama8b", 200, 200, {1: 10, 50: 67, 100: 120, 150: 347}, 0.25),
    ],
)
def test_the_first_token_takes_about_as_long_as_published(name, prompt, out, published, near):
    found = {users: closed_loop(name, users, prompt, out)[0] for users in published}
    assert found == pytest.approx(published, rel=near)


@pytest.mark.parametrize(("users", "published"), [(1, 18.5), (10, 26.1), (50, 59.7), (90, 93.0)])
def test_tokens_take_as_long_as_published(users, published):
    assert closed_loop("gpu-h100x2-llama70b-fp8", users, 5000, 500)[1] == pytest.approx(published, rel=0.02)
