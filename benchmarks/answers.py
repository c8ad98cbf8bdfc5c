"""Which repeated questions the answer cache finds in other words, and which it must not: with its local embedding.

    python benchmarks/answers.py        needs hotloop[semantic]

The questions are those of tests/answers/questions.py. "found" is the share of other ways to ask that are taken for the
question, "false" the number of near misses that are. The embedding alone is what it would do without `content.py`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

from hotloop.answers.content import content_key
from hotloop.embedding import embed_locally

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "answers"))
from questions import DEVELOPMENT, LATER, TEST, Group

SIMILARITIES = (0.80, 0.85, 0.90, 0.95)
Taken = Callable[[str, str], bool]


def shares(groups: tuple[Group, ...], taken: Taken) -> tuple[float, int, int]:
    """The share of other ways to ask that are taken, of how many near misses how many are."""
    same = [taken(group.question, other) for group in groups for other in group.same]
    near = [taken(one, other) for group in groups for one, other in product((group.question, *group.same), group.other)]
    return sum(same) / len(same), sum(near), len(near)


def main() -> None:
    for name, groups in (("development", DEVELOPMENT), ("test", TEST), ("later", LATER)):
        texts = [text for group in groups for text in (group.question, *group.same, *group.other)]
        vectors = dict(zip(texts, embed_locally(texts), strict=True))
        print(f"\n{name}: {len(groups)} questions\n")
        print("similarity   found   false   found and false by the embedding alone")
        for least in SIMILARITIES:

            def alike(one: str, other: str, vectors: dict = vectors, least: float = least) -> bool:
                return bool(np.dot(vectors[one], vectors[other]) >= least)

            both = shares(
                groups, lambda one, other, alike=alike: content_key(one) == content_key(other) and alike(one, other)
            )
            alone = shares(groups, alike)
            print(f"{least:10.2f}  {both[0]:6.1%}  {both[1]:6}   {alone[0]:6.1%}  {alone[1]} of {alone[2]}")
        times = [_seconds(text) for text in texts[:50]]
        print(f"\nembedding a question: {1e3 * sorted(times)[len(times) // 2]:.2f} ms")


def _seconds(text: str) -> float:
    begun = time.perf_counter()
    embed_locally([text])
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
