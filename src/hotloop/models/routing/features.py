"""What a classifier sees of a prompt: which runs of words and of characters it has, each as a number."""

from __future__ import annotations

import re
from itertools import pairwise
from zlib import crc32

BUCKETS = 1 << 18
_LONGEST = 2000  # characters that are looked at
_UNIT = re.compile(r"[^\W\d_\u2e80-\u9fff\u3040-\u30ff]+|\d+|\S")


def features(prompt: str) -> set[int]:
    """The buckets of a prompt's words, pairs of words and word parts; characters where words are not kept apart.

    Digits count as such, not as which they are. Hashed, so that no vocabulary is to be kept, with a hash that is the
    same in every process.
    """
    units = [unit if unit.isalpha() else _shape(unit) for unit in _UNIT.findall(prompt[:_LONGEST].lower())]
    terms = [*units, *(f"{one} {other}" for one, other in pairwise(units))]
    for unit in units:
        if len(unit) > 3:
            edged = f"^{unit}$"
            terms += [edged[place : place + 4] for place in range(len(edged) - 3)]
    terms.append(f"length {len(units).bit_length()}")
    return {crc32(term.encode("utf-8", "replace")) % BUCKETS for term in terms}


def _shape(unit: str) -> str:
    return f"{min(len(unit), 9)} digits" if unit.isdecimal() else unit
