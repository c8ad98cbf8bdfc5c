"""What a rule for alerts says."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from hotloop.fields import Count, Seconds, Text, check_fields, require
from hotloop.trace.rows import ALL_ROWS
from hotloop.units import parse_duration
from hotloop.words import listed

When = Literal[
    "tool_p95", "end_to_end_p95", "context", "cached_share_falls", "tpot_jitter", "over_budget", "error_rate"
]

_TIMES = ("tool_p95", "end_to_end_p95")  # which may be held against the budget instead of a limit
_SHARES = ("cached_share_falls", "over_budget", "error_rate")
_BELONGS = {"tool": ("tool_p95",), "row": ("over_budget",), "model": ("context", "cached_share_falls", "tpot_jitter")}


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """When to alert: once a figure of the last `window` seconds is over `over`, out of `at_least` so many values.

    | when | the figure | over |
    |---|---|---|
    | tool_p95 | the p95 of the calls of a `tool`, None: of each | a time; None: the budget of the tools |
    | end_to_end_p95 | the p95 of runs | a time; None: the budget's total |
    | context | the p95 of the longest prompt of a run | tokens, or a share ("80%") of the context's limit |
    | cached_share_falls | by how much the cached share of the prompt fell since the window before | a share |
    | tpot_jitter | the p95 over the p50 of the time per output token | a number, 1 for none |
    | over_budget | the share of the runs in which a `row` of the budget, None: any, was over | a share |
    | error_rate | the share of the runs that failed | a share |

    A time is seconds or a text ("400ms"), a share a number or a text (0.05, "5%"), of the context always a text.
    `model` is the one that it is about, None: each. `name` tells it from others of the same `when`. `to` are the names
    of the places it is told at, none: all that there are. Raises ConfigError.
    """

    when: When
    over: float | Text | None = None
    tool: Text | None = None
    model: Text | None = None
    row: Text | None = None
    window: Seconds = 300.0
    at_least: Count = 20
    name: Text | None = None
    to: tuple[Text, ...] = ()

    def __post_init__(self) -> None:
        check_fields(AlertRule, msgspec.structs.asdict(self), "AlertRule")
        for field, whens in _BELONGS.items():
            fits = getattr(self, field) is None or self.when in whens
            require(fits, f"AlertRule({field}=...): {self.when} is not about a {field}; leave it out.")
        rows = [f"{of}{row}" for of in ("", "turn.") for row in ALL_ROWS]
        known = self.row is None or self.row in rows
        require(known, f"AlertRule(row={self.row!r}): there are {listed(str(self.row), rows)}.")
        needs_no_limit = self.over is not None or self.when in _TIMES
        require(needs_no_limit, f"AlertRule(over=...) is missing: say what {self.when} may not be over.")
        self._read()

    @property
    def limit(self) -> float | None:
        """What the figure may not be over, in seconds, tokens or as a number; None for what the budget says."""
        return self._read()

    @property
    def of_context(self) -> bool:
        """Whether the limit is a share of what the context may hold, and not tokens."""
        return self.when == "context" and isinstance(self.over, str) and self.over.strip().endswith("%")

    @property
    def about(self) -> str | None:
        """The tool, model or row that it is about; None for each."""
        return self.tool or self.model or self.row

    def _read(self) -> float | None:
        """The limit. Raises ConfigError for what is none."""
        if self.over is None:
            return None
        try:
            value = self._number(self.over)
        except ValueError:
            value = math.nan
        least, most = (0, 1) if self._is_share else (1 if self.when == "context" else 0, math.inf)
        fits = least <= value <= most and math.isfinite(value)
        require(fits, f"AlertRule(over={self.over!r}): {self._expected()}.")
        return value

    @property
    def _is_share(self) -> bool:
        return self.when in _SHARES or self.of_context

    def _number(self, over: float | str) -> float:
        if self.when in _TIMES:
            return parse_duration(over)
        if self._is_share and isinstance(over, str) and over.strip().endswith("%"):
            return float(over.strip().removesuffix("%")) / 100
        return float(over)

    def _expected(self) -> str:
        if self.when in _TIMES:
            return "give a time, like 0.4 or 400ms"
        if self.when in _SHARES:
            return "give a share, like 0.05 or 5%"
        return "give tokens, or a share like 80%" if self.when == "context" else "give a number, like 2"
