"""What texts mean, as directions in space; imported only where there is an embedding, for it needs numpy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotloop.embedding import Embed, directions, embed_locally
from hotloop.errors import ConfigError
from hotloop.limit import Limit

_log = logging.getLogger("hotloop.memory")


class Meaning:
    """What texts mean by the function `embed`; `maker` tells its vectors from those of others."""

    def __init__(self, embed: Embed) -> None:
        self.maker = "local" if embed is embed_locally else _name(embed)
        self._embed = embed
        self._length: int | None = None  # of all vectors, as the first one has it

    def of(self, texts: Sequence[str]) -> NDArray[Any]:
        """The directions of texts, a row for each. Raises what the function raises, and ValueError."""
        found = directions(self._embed, texts, self._length)
        self._length = found.shape[1]
        return found

    async def of_request(self, request: str, seconds: float | None) -> NDArray[Any] | None:
        """The direction of a request; None if it cannot be had in this time, so that its words alone count."""
        limit = Limit(seconds, asyncio.get_running_loop())
        try:
            with limit:
                found: NDArray[Any] = (await asyncio.to_thread(self.of, [request]))[0]
                return found
        except ConfigError:
            raise
        except Exception as error:
            why = "it took too long" if limit.expired else repr(error)
            _log.warning("A request could not be embedded, so that its words alone count: %s", why)
            return None


def nearest(vectors: Sequence[bytes], direction: NDArray[Any], limit: int) -> list[int]:
    """The places of the `limit` kept vectors that are nearest to this direction, the nearest first."""
    form = _form(len(direction))
    places = [place for place, vector in enumerate(vectors) if len(vector) == form.itemsize]  # others it made before
    kept = np.frombuffer(b"".join(vectors[place] for place in places), form)
    cosines = kept["values"].astype(np.float32) @ direction * kept["scale"]
    return [places[place] for place in np.argsort(-cosines, kind="stable")[:limit]]


def packed(directions: NDArray[Any]) -> list[bytes]:
    """The rows, each as it is kept: a byte for each number, which changes a cosine by a thousandth or two."""
    scales = np.abs(directions).max(axis=1, keepdims=True) / 127
    scales[scales == 0] = 1
    kept = np.empty(len(directions), _form(directions.shape[1]))
    kept["scale"], kept["values"] = scales[:, 0], np.rint(directions / scales)
    return [row.tobytes() for row in kept]


def _form(length: int) -> np.dtype[Any]:
    return np.dtype([("scale", "<f4"), ("values", "i1", length)])


def _name(embed: Any) -> str:
    kind = embed if hasattr(embed, "__qualname__") else type(embed)
    return f"{kind.__module__}.{kind.__qualname__}"
