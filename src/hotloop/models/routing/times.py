"""How long a model takes to think, as all agents of the process have seen it lately."""

from __future__ import annotations

from collections import deque
from weakref import WeakKeyDictionary

from hotloop.models.model import Model
from hotloop.models.service import Service, service_of
from hotloop.trace.stats import percentile
from hotloop.units import NS_PER_S

_REMEMBERED = 64  # replies
_LATELY = 300 * NS_PER_S  # so that a model that was slow is asked again some day
_LONGER = 2  # times what it was given: how long a reply would have taken that did not come in that time


class RouteTimes:
    """The times of one model's newest replies, in nanoseconds, each with when it was noted. Threads may share it."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)

    def note(self, took: int, now: int) -> None:
        """A reply took so long."""
        self._seen.append((now, took))

    def note_cut(self, given: int, now: int) -> None:
        """A reply was not there when the run's time was over."""
        self.note(_LONGER * given, now)

    def usual(self, now: int) -> int:
        """The time that half of the replies of the last five minutes did not exceed; 0 if there was none."""
        lately = [took for noted, took in self._seen.copy() if now - noted < _LATELY]
        return int(percentile(lately, 50)) if lately else 0


_known: WeakKeyDictionary[Service, RouteTimes] = WeakKeyDictionary()


def times_of(model: Model) -> RouteTimes:
    """The times of a model: the same for all that have the same service, as `service_of` tells them apart."""
    return _known.setdefault(service_of(model), RouteTimes())
