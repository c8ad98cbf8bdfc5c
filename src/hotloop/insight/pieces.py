"""What the graph of a run is made of: steps, requests to models, calls, and the turns that they belong to.

Times are nanoseconds. What a piece waits for is said by its place: steps of a turn follow each other, a call may begin
when its reply is far enough or those it `needs` have ended, a turn begins when the calls of the one before have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hotloop.insight.serving import Place

GRAIN = 1_000_000
"""Points that a token is long on the axis of a reply, where its calls are placed by tokens and not by time."""

_INSTANT = 1000  # nanoseconds a token: no service writes faster than that


class Step(msgspec.Struct, frozen=True, gc=False):
    """Work that took so long. `kind` is that of a stage, or "unattributed" where no stage owns the time."""

    kind: str
    took: int
    name: str = ""


class Ask(msgspec.Struct, frozen=True, gc=False):
    """One request to a model: a connection, the wait for the first token, and the rest of the reply.

    Of its `prompt` tokens the service had `cached` ones (None: it did not say), and had seen the first `known` ones
    before, in this run or in one before it. `out` tokens were written. It was made `begun` after the start of its run,
    as that was recorded. Calls are sealed at points on an axis that is
    `span` long and goes from the first token to the last, however long `decode` is; it is 0 where nobody saw the first
    token, and all of the reply is `prefill` or `decode`. `silence` is the longest pause while it was written, 0 if
    that is not known or its calls came all at once. `by` is who answers instead, in its own time.
    """

    service: str
    model: str
    outcome: str
    connect: int = 0
    prefill: int = 0
    decode: int = 0
    span: int = 0
    silence: int = 0
    prompt: int = 0
    cached: int | None = None
    known: int = 0
    out: int = 0
    begun: int = 0
    by: Place | None = None

    @property
    def paced(self) -> bool:
        """Whether it was seen while it was written, and did not come all at once."""
        return self.span > _INSTANT * self.out

    @property
    def first_known(self) -> bool:
        """Whether it was answered, and when its first token came is known."""
        return self.outcome in ("ok", "rejected") and (self.span > 0 or not self.decode)

    @property
    def new(self) -> int:
        """The tokens that had to be read."""
        return self.prompt - (self.cached or 0)


class Call(msgspec.Struct, frozen=True, gc=False):
    """One call of a reply, in a `lane` of its own.

    It may begin once it is `sealed` (that long after the first token, on the axis of its reply) if it is `early`, else
    when the reply has ended; and when those it `needs`, by their place among the turn's calls, have ended. What it does
    then is `before` it asks for one of the places, `until` it needs that, its `work` with it (`takes_place`), and what
    comes `after`.
    `able` tells that it might start early, `ahead` that its work starts with the request of its turn. Needs that are
    only `in_line` come from running calls one after the other. The run goes on when it has ended, if it `joins`. The
    model read `size` bytes of its result; equal digests are equal calls. Its tool began so long after the start of the
    run as that was recorded (`begun`). A tool with `effects` is declared
    to change something; of one that is not declared nothing is known.
    """

    call_id: str
    name: str
    lane: int
    before: tuple[Step, ...] = ()
    until: tuple[Step, ...] = ()
    work: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    takes_place: bool = False
    sealed: int = 0
    early: bool = False
    able: bool = False
    ahead: bool = False
    needs: tuple[int, ...] = ()
    in_line: bool = False
    joins: bool = True
    read_only: bool = False
    effects: bool = False
    outcome: str = ""
    digest: str = ""
    size: int = 0
    begun: int = 0


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A reply with its calls: what comes up to the reply's end, `beside` its calls, and `after` all have ended."""

    number: int
    before: tuple[Step | Ask, ...] = ()
    calls: tuple[Call, ...] = ()
    beside: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()

    @property
    def ask(self) -> Ask | None:
        """The request whose reply counts: the last."""
        return next((each for each in reversed(self.before) if type(each) is Ask), None)
