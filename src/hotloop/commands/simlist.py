"""What `hotloop sim --list` shows: the profiles and the faults that there are."""

from __future__ import annotations

import textwrap

import msgspec

from hotloop.commands.console import plain_table, results, write_json
from hotloop.lab.profiles import Profile
from hotloop.lab.profiletable import PROFILES
from hotloop.lab.service.misbehaving import faults
from hotloop.units import show_ms

_PROMPT = 1000  # tokens
_MANY = 50  # replies
_WIDEST = 100  # columns
_HEADINGS = ("first token", "tpot", f"tpot of {_MANY}")


def show_list(json: bool) -> None:
    """Print both lists: as tables, or as one JSON object."""
    if json:
        write_json({"profiles": msgspec.to_builtins(list(PROFILES.values())), "faults": faults()})
        return
    console = results()
    width = max(map(len, PROFILES))
    console.print(f"{'profile':{width}}  kind{''.join(f'{heading:>14}' for heading in _HEADINGS)}", style="bold")
    for profile in PROFILES.values():
        console.print(_line(profile, width))
        about = textwrap.fill(_origin(profile), min(console.width, _WIDEST) - 2)
        console.print(textwrap.indent(about, "  "), style="dim", markup=False)
    console.print(
        f"\nfirst token: after a prompt of {_PROMPT:,} tokens; tpot of {_MANY}: with {_MANY} replies at once\n"
    )
    table = plain_table("fault", "what it does")
    for name, sentence in faults().items():
        table.add_row(name, sentence)
    console.print(table)


def _line(profile: Profile, width: int) -> str:
    times = (profile.ttft_ms(_PROMPT), profile.tpot_ms.at(1), profile.tpot_ms.at(_MANY))
    return f"{profile.name:{width}}  {profile.kind:4}{''.join(f'{show_ms(each):>14}' for each in times)}"


def _origin(profile: Profile) -> str:
    return f"{profile.source}. Confidence: {profile.confidence}."
