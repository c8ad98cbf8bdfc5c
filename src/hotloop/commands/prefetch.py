"""`hotloop prefetch`: which calls tend to come next, as recorded runs have taught."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from cyclopts import App
from rich.markup import escape
from rich.table import Table

from hotloop.commands.asking import confirmed
from hotloop.commands.console import messages, plain_table, results, show_rows, write_json
from hotloop.commands.options import Flag, Json, Name
from hotloop.commands.places import Place, find
from hotloop.commands.selection import Selection
from hotloop.config.spec import AgentSpec
from hotloop.errors import ConfigError
from hotloop.tools.prefetch.history import History, history_of
from hotloop.tools.prefetch.kept import Learned, learned_at
from hotloop.tools.prefetch.payoff import pays
from hotloop.tools.prefetch.stored import Known
from hotloop.trace.record import TraceRecord
from hotloop.units import show_ms
from hotloop.visible import one_line
from hotloop.words import counted

_HELP = """Look into what agents have learned of the calls that tend to come next: show it, learn it, forget it.

Example: hotloop prefetch show --agent orders"""

_LISTED = 50  # patterns
_SILENT = (
    "Nothing could be learned from {}, of which it was not recorded what was said: Traces(content=True) does that, and "
    "an Agent(prefetch=...) learns by itself."
)
_COLUMNS = ("agent", "after", "comes", "right", "sure", "begun", "used", "won", "in vain")

prefetch = App(name="prefetch", help=_HELP)
_ANYWHERE = Place()
_ANY = Selection()


@prefetch.command
def show(*, agent: Name | None = None, place: Place = _ANYWHERE, as_json: Json = False) -> int:
    """Show which calls are expected after which, the surest first, and what beginning them ahead won and wasted.

    Of what comes after "^ > find_user", "^" is the beginning of a run. "sure" is the least share that is likely.

    Example: hotloop prefetch show --agent orders

    Parameters
    ----------
    agent
        Only what this agent has learned.
    as_json
        Print one object with all of it instead.
    """
    learned = _learned(place)
    known = sorted(learned.known(agent), key=_order)
    if as_json:
        write_json({"path": str(learned.path), "patterns": [_as_dict(each) for each in known]})
    elif known:
        show_rows(_table(known[:_LISTED]))
    else:
        nothing = f"Nothing is known to come next in {learned.path}."
        results().print(one_line(nothing), style="dim", markup=False, soft_wrap=True)
    if len(known) > _LISTED and not as_json:
        messages().print(f"[dim]Only the {_LISTED} surest are listed; --json has all {len(known):,}.[/]")
    return 0


@prefetch.command
def learn(*, selection: Selection = _ANY, place: Place = _ANYWHERE, as_json: Json = False) -> int:
    """Learn from recorded runs, as far as it was recorded what was said in them; from none of them twice.

    The runs are those in --store; what they teach is kept in --path.

    Example: hotloop prefetch learn --agent orders --since 7d

    Parameters
    ----------
    as_json
        Print one object instead.
    """
    learned, store = _learned(place, new=True), selection.store()
    with messages().status("Learning ...") as status:
        taught = _Taught(store.find(selection.which()), lambda runs: status.update(f"Learning from {runs:,} runs ..."))
        count = learned.learn(taught)
    known = sum(len(learned.known(agent)) for agent in taught.agents)
    if as_json:
        figures = {"learned": count, "known_before": taught.told - count, "without_words": taught.silent}
        write_json({"path": str(learned.path)} | figures | {"patterns": known})
        return 0
    messages().print(f"Learned from {counted(count, 'run')}; {counted(known, 'pattern')} known.", markup=False)
    if taught.silent:
        messages().print(_SILENT.format(counted(taught.silent, "more run")), markup=False, soft_wrap=True)
    return 0


class _Taught:
    """The histories of recorded runs, and how many runs tell one; `on_run` is called with their number so far."""

    def __init__(self, records: Iterator[TraceRecord], on_run: Callable[[int], None]) -> None:
        self.told = self.silent = 0
        self.agents: set[str] = set()
        self._records = records
        self._on_run = on_run

    def __iter__(self) -> Iterator[History]:
        for record in self._records:
            history = history_of(record)
            self.told, self.silent = self.told + (history is not None), self.silent + (history is None)
            self._on_run(self.told + self.silent)
            if history is not None:
                self.agents.add(history.agent)
                yield history


@prefetch.command
def reset(*, agent: Name | None = None, yes: Flag = False, place: Place = _ANYWHERE, as_json: Json = False) -> int:
    """Forget what was learned.

    Example: hotloop prefetch reset --agent orders

    Parameters
    ----------
    agent
        Only what this agent has learned. [default: all of it]
    yes
        Do not ask.
    as_json
        Print one object instead.
    """
    learned = _learned(place)
    whose = "all agents" if agent is None else f"the agent {agent}"
    if not yes and not confirmed(f"Forget what {whose} learned to expect?"):
        messages().print("Nothing was forgotten.")
        return 1
    count = learned.forget(agent)
    if as_json:
        write_json({"path": str(learned.path), "forgotten": count})
    else:
        messages().print(one_line(f"Forgot {counted(count, 'pattern')} of {whose}."), markup=False, soft_wrap=True)
    return 0


def _learned(place: Place, *, new: bool = False) -> Learned:
    path = find(place, "prefetch.db", _declared, new=new).path
    if not new and not path.exists():
        raise ConfigError(f"There is no file {path}: nothing was learned there.")
    return learned_at(Path(path))


def _declared(spec: AgentSpec) -> str | None:
    if spec.tools.prefetch is None:
        raise ConfigError("The agent of this file learns nothing; declare it with prefetch in the section tools.")
    return spec.tools.prefetch.path


def _order(known: Known) -> tuple[float, str, str, str]:
    return -round(known.counts.confidence(time.time()), 3), known.agent, known.context, str(known.pattern)


def _table(known: list[Known]) -> Table:
    table = plain_table(*_COLUMNS, numbers=6)
    for each in known:
        counts = each.counts
        acted = counts.started >= 1
        table.add_row(
            *(escape(one_line(text)) or "-" for text in (each.agent, each.context, str(each.pattern))),
            f"{counts.hits:.0f} of {counts.chances:.0f}",
            f"{counts.confidence(time.time()):.0%}",
            f"{counts.started:.0f}{'' if pays(counts) else ', off'}" if acted else "-",
            f"{counts.used:.0f}" if acted else "-",
            show_ms(counts.won) if acted else "-",
            show_ms(counts.wasted) if acted else "-",
        )
    return table


def _as_dict(known: Known) -> dict[str, Any]:
    counts = known.counts
    figures = {name: round(value, 3) for name, value in msgspec.structs.asdict(counts).items()}
    figures |= {"confidence": counts.confidence(time.time()), "pays": pays(counts)}
    told = {"agent": known.agent, "after": known.context, "comes": str(known.pattern)}
    return told | figures | {"pattern": msgspec.to_builtins(known.pattern)}
