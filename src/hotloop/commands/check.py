"""`hotloop check`: is an agent ready to be launched, and do prompts use the service's cache?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

import msgspec

from hotloop.agent import Agent
from hotloop.commands.console import messages, results, show_marked, write_json
from hotloop.commands.launch import run_async
from hotloop.commands.options import Json
from hotloop.config.arguments import agent_arguments
from hotloop.config.spec import load_spec
from hotloop.errors import ConfigError
from hotloop.lab.candidate import Candidate, Finding
from hotloop.lab.checklist import findings
from hotloop.lab.prompting import first_prompt, fresh_prompts
from hotloop.lab.recorded import Comparison, Fault, compare, read_prompts
from hotloop.models.prefix.divergence import Divergence
from hotloop.words import counted

_MARKS = {"ok": "[green]✓[/]", "hint": "[cyan]·[/]", "warning": "[yellow]![/]", "fault": "[red]✗[/]"}
_WORTH = 128  # tokens that are read anew: what costs less is told, but not held against anybody

_Group = tuple[bool, str, str, str, str]


def check(config: Path | None = None, /, *, prompts: Path | None = None, as_json: Json = False) -> int:
    """Check an agent before it is launched, or prompts that were recorded.

    Example: hotloop check agent.yaml

    Parameters
    ----------
    config
        The agent's file. Its tools are imported and its servers asked what they have; the model is not asked.
    prompts
        A .jsonl file of request bodies, of any agent, or of a log's entries with bodies in them: says which prompts
        read anew what the service had in its cache.
    as_json
        Print one object with all findings instead.
    """
    if config is not None and prompts is not None:
        raise ConfigError("Give the file of an agent or --prompts, not both: the prompts may be of any agent.")
    if prompts is not None:
        return _tell_prompts(prompts, _compared(prompts), as_json=as_json)
    if config is not None:
        return _tell_agent(config, _checked(config), as_json=as_json)
    raise ConfigError("Give the file of an agent, or --prompts with recorded prompts.")


def _compared(prompts: Path) -> Comparison:
    with messages().status("Comparing the prompts"):
        return compare(read_prompts(prompts))


def _checked(config: Path) -> list[Finding]:
    with redirect_stdout(sys.stderr), messages().status("Loading the agent, here and in fresh processes"):
        spec = load_spec(config)
        arguments = agent_arguments(spec)
        Agent(**arguments)  # says what is wrong with it in its own words
        first = run_async(first_prompt(arguments))
        fresh = fresh_prompts(config)
    return findings(Candidate(spec, arguments, first.tools, first.body, fresh))


def _tell_agent(config: Path, found: list[Finding], *, as_json: bool) -> int:
    held = all(each.grade != "fault" for each in found)
    if as_json:
        write_json({"file": str(config), "held": held, "findings": found})
        return 0 if held else 1
    console = results()
    for each in found:
        show_marked(console, _MARKS[each.grade], each.told)
        if each.advice:
            show_marked(console, " ", each.advice, "dim")
    return 0 if held else 1


def _tell_prompts(path: Path, compared: Comparison, *, as_json: bool) -> int:
    groups = _grouped(compared.faults)
    held = not any(_counts(faults) for faults in groups)
    if as_json:
        write_json(msgspec.to_builtins(compared) | {"file": str(path), "held": held})
        return 0 if held else 1
    console = results()
    for faults in groups:
        mark = _MARKS["fault" if _counts(faults) else "hint"]
        show_marked(console, mark, _described(faults))
    console.print(_summary(compared), markup=False)
    return 0 if held else 1


def _summary(compared: Comparison) -> str:
    prompts, talks = counted(compared.prompts, "prompt"), counted(compared.conversations, "conversation")
    anew = f"{_part(compared.again, compared)} of them were read anew although they had been sent before."
    told = f"{prompts} in {talks}, about {compared.tokens:,} tokens; {anew}"
    meant = sum(each.found.again for each in compared.faults if each.meant)
    return f"{told} So were {_part(meant, compared)} where that may be meant." if meant else told


def _part(tokens: int, compared: Comparison) -> str:
    return f"{tokens:,} ({tokens / compared.tokens:.0%})" if compared.tokens else f"{tokens:,}"


def _grouped(faults: list[Fault]) -> list[list[Fault]]:
    """Faults of one kind at one place, the costliest kind first."""
    groups: dict[_Group, list[Fault]] = {}
    for fault in faults:
        found = fault.found
        groups.setdefault((fault.within, found.cause, found.kind, _place(found), found.field), []).append(fault)
    return sorted(groups.values(), key=lambda group: -sum(each.found.again for each in group))


def _place(found: Divergence) -> str:
    return found.name if found.kind != "message" else "history" if found.number else "front"


def _counts(faults: list[Fault]) -> bool:
    return not faults[0].meant and any(each.found.again >= _WORTH for each in faults)


def _described(faults: list[Fault]) -> str:
    first = faults[0]
    times = "once" if len(faults) == 1 else f"{len(faults):,} times"
    where = "in one conversation" if first.within else "from one conversation to another"
    return f"{times}, {where}; line {first.line} after line {first.after}: {first.found}"
