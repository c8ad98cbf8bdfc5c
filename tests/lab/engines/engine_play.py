"""Playing requests on an engine without any clock: what comes in when, and at which milliseconds tokens come out."""

from __future__ import annotations

from hotloop.lab.engines.work import Engine, Work, WorkPrompt
from hotloop.lab.profiles import Curve, Profile

MS = 1_000_000
START = 1000 * MS


def profile(kind: str = "gpu", **fields) -> Profile:
    """A profile in which nothing takes any time but the decoding: 10 ms a step."""
    given = {"base_ms": 0.0, "per_prompt_token_ms": 0.0, "tpot_ms": Curve(10.0)} | fields
    return Profile(name="test", kind=kind, **given)


class Play:
    """Runs an engine; `times` has the milliseconds of the tokens of each work by name."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.times: dict[str, list[float]] = {}
        self.works: dict[str, Work] = {}

    def ask(self, name: str, at: float = 0.0, tokens: int = 3, prompt: int = 0, blocks=(), **fields) -> Work:
        """Send a request at this millisecond; what happens until then, happens first."""
        self.until(at)
        times = self.times[name] = []

        def deliver(work: Work) -> None:
            if not work.refused:
                times.extend([(work.last - START) / MS] * (work.made - len(times)))

        self.works[name] = work = Work(tokens, deliver, WorkPrompt(prompt, tuple(blocks)), **fields)
        self.engine.arrive(work, round(START + at * MS))
        return work

    def leave(self, name: str, at: float) -> None:
        """The client of this request leaves."""
        self.until(at)
        self.engine.leave(self.works[name], round(START + at * MS))

    def until(self, at: float) -> None:
        """Let everything happen that is due before this millisecond."""
        while (due := self.engine.next()) is not None and due < START + at * MS:
            self._advance(due)

    def end(self) -> dict[str, list[float]]:
        """Let everything happen; when each token was made."""
        while (due := self.engine.next()) is not None:
            self._advance(due)
        return self.times

    def _advance(self, now: int) -> None:
        for work in self.engine.advance(now):
            work.deliver(work)
