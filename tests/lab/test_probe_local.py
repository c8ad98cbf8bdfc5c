"""The embedded model, probed: a real llama.cpp that works on one request at a time."""

from __future__ import annotations

import re

import pytest

from hotloop.lab.probing import abilities
from hotloop.lab.probing.plan import Cell
from hotloop.lab.probing.probe import Probe
from hotloop.models.model import Model

CELLS = (
    Cell("steady", 50, 4, max_tokens=16),
    Cell("cold", 150, 2, max_tokens=4),
    Cell("cached", 150, 2, max_tokens=4),
    Cell("at once", 50, 3, at_once=3, max_tokens=16),
)


@pytest.mark.usefixtures("local")
async def test_the_embedded_model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(abilities, "_LONG", 300)  # tokens: others need more to be cached at all
    async with Probe(Model(name="smollm2", endpoint="local"), timeout=100) as probe:
        await probe.run(CELLS)
    report = probe.report()
    found = {ability.name: ability for ability in report.abilities}
    for name in ("streamed text", "usage in the stream", "tools", "parallel calls", "streamed arguments"):
        assert found[name].found == "yes", found[name]
    assert found["server timings"].kind == "llamacpp"
    cached, prompt = map(int, re.findall(r"\d+", found["cached tokens"].why))
    assert prompt - 3 <= cached < prompt
    steady, *_, at_once = report.cells
    assert [sample.output_tokens for sample in steady.samples] == [16] * 4
    assert len(at_once.complete) == 3
    profile = report.fit.profile
    assert (profile.slots, profile.dialect, profile.kind) == (1, "llamacpp", "lpu")
    assert profile.cache_block > 0
    told = [sample.own.prefill_ms / sample.prompt_tokens for sample in steady.samples]
    assert min(told) / 3 < profile.per_prompt_token_ms < max(told) * 3
    paced = [each.tpot_ms for each in steady.samples]
    assert min(paced) / 3 < profile.tpot_ms.a < max(paced) * 3
