"""What to know of an agent before it is launched: a list of small checks, each of which says what it finds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from hotloop.config.contextspec import ContextSpec, SessionsSpec
from hotloop.lab.candidate import Candidate, Finding, names_of
from hotloop.lab.limitchecks import alerts, deadline, degrading, measures, tool_times, turn_limits
from hotloop.lab.prompting import usual_model
from hotloop.models.model import Model
from hotloop.models.prefix.divergence import divergences
from hotloop.visible import one_line

_READING = frozenset(["browse", "check", "count", "describe", "fetch", "find", "get", "list", "look", "lookup"])
_READING |= {"query", "read", "search", "show", "view"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


Check = Callable[[Candidate], Iterator[Finding]]


def findings(candidate: Candidate) -> list[Finding]:
    """What all checks have found, in their order."""
    return [found for check in CHECKS for found in check(candidate)]


def stable_prompt(candidate: Candidate) -> Iterator[Finding]:
    """Whether every process, on every day, makes the same prompt."""
    found = (each for fresh in candidate.fresh for each in divergences(candidate.body, fresh) if each.costs)
    changes = {(each.kind, each.cause): each for each in found}
    for change in changes.values():
        yield Finding("stable prompt", "fault", f"Two processes make two prompts. {change}")
    if not changes:
        tried = f"{len(candidate.fresh)} fresh processes with other hash seeds, time zones and dates"
        yield Finding("stable prompt", "ok", f"The prompt is the same in {tried}.")


def dated_prompt(candidate: Candidate) -> Iterator[Finding]:
    """Whether today's date is in the prompt, which is not there by chance."""
    today = datetime.now(UTC)
    year, month, day = today.year, today.month, today.day
    written = (f"{today:%Y-%m-%d}", f"{today:%Y/%m/%d}", f"{today:%B} {day}, {year}", f"{year}年{month}月{day}日")
    text = candidate.body.decode(errors="replace")
    for each in written:
        if each in text:
            yield Finding(
                "dated prompt",
                "warning",
                f"The prompt has today's date in it ({each}), so that the service reads it anew every day.",
                "Give the time as context.volatile, which is sent last, or have a tool tell it.",
            )


def cached_prefix(candidate: Candidate) -> Iterator[Finding]:
    """Whether what every prompt begins with is long enough for the service to keep."""
    model = usual_model(candidate.arguments["model"])
    size = candidate.front
    dialect = model.spoken
    begins = f"Every prompt begins with about {size:,} tokens of tools and instructions"
    if not candidate.arguments.get("prefix_cache", True):
        yield Finding(
            "cached prefix", "hint", "cache.prefix_cache is off.", "Switch it on, unless you measure without."
        )
    elif not dialect.caches:
        advice = "If it is a server that you know, name it with inference.dialect."
        yield Finding("cached prefix", "hint", f"{begins}; whether {model.where} caches them is not known.", advice)
    elif size < dialect.least_cached:
        told = f"{begins}, and {dialect.name} services cache prompts of {dialect.least_cached:,} or more: only "
        told += "long runs gain from it."
        yield Finding("cached prefix", "hint", told)
    else:
        yield Finding("cached prefix", "ok", f"{begins}, which the service can cache.")


def context_limit(candidate: Candidate) -> Iterator[Finding]:
    """Whether conversations are shortened in time, where the file says anything of conversations."""
    spec, front = candidate.spec, candidate.front
    limit, share = spec.context.limit, spec.context.compact_at
    if limit is not None and front >= limit * share:
        told = f"Tools and instructions alone are about {front:,} tokens; conversations are summarized from "
        told += f"{limit * share:,.0f} on."
        yield Finding("context limit", "fault", told, "Give a higher context.limit, fewer tools, or tools.shortlist.")
    elif limit is not None:
        yield Finding("context limit", "ok", f"Conversations are kept within {limit:,} tokens.")
    elif (spec.context, spec.sessions) != (ContextSpec(), SessionsSpec()):
        told = "Conversations have no limit: what was said early is summarized only once the service refuses a prompt, "
        told += "while a user waits."
        advice = "Give context.limit, the tokens that the model takes: it is then summarized in time, beside the runs."
        yield Finding("context limit", "hint", told, advice)


def context_order(candidate: Candidate) -> Iterator[Finding]:
    """Whether what changes from request to request, and nothing else, comes last."""
    context = candidate.spec.context
    if context.window is not None and context.window.relevant:
        told = "context.window.relevant puts other turns into every prompt, so that the service reads all turns anew."
        advice = "Leave it out where a fast first token counts; what must be found again can go into memory."
        yield Finding("context order", "hint", told, advice)
    if isinstance(context.volatile, str):
        told = "context.volatile is a text that never changes, and is read anew with every request."
        advice = "Put it into the instructions, or give {function: ...}, which says what is true now."
        yield Finding("context order", "hint", told, advice)


def keys(candidate: Candidate) -> Iterator[Finding]:
    """Whether every service that wants a key gets one."""
    missing = {place: model for place, model in candidate.models.items() if _lacks_key(model)}
    for place, model in missing.items():
        advice = f"Set {model.spoken.key_variable}, or {place}.api_key."
        yield Finding("keys", "fault", f"There is no key for {model.where}.", advice)
    if not missing:
        yield Finding("keys", "ok", "No service that is known to want a key lacks it.")


def fallback(candidate: Candidate) -> Iterator[Finding]:
    """Whether somebody else is asked when a service is down."""
    alone = [model.name for model, others in candidate.chances if {_asked(model)}.issuperset(map(_asked, others))]
    section = "inference" if candidate.spec.router is None else "router"
    told = "When the service is down, every run fails."
    if section == "router":
        told = f"When {one_line(' or '.join(alone))} fails, no other model is asked."
    if alone:
        yield Finding("fallback", "hint", told, f"Name another model in {section}.fallback.")
    else:
        yield Finding("fallback", "ok", "When a model fails, another one is asked.")


def tool_names(candidate: Candidate) -> Iterator[Finding]:
    """Whether tools that seem only to read are declared so."""
    seem = [tool.name for tool in candidate.tools if not tool.read_only and _first_word(tool.name) in _READING]
    if seem:
        several = len(seem) > 1
        named = "their names these tools only read" if several else "its name this tool only reads"
        told = f"{names_of(seem)}: by {named}"
        told += f", but {'they are' if several else 'it is'} not declared so."
        advice = "With read_only=True a tool begins early, and its results can be kept."
        yield Finding("tool names", "hint", told, advice)


CHECKS: tuple[Check, ...] = (
    stable_prompt,
    dated_prompt,
    cached_prefix,
    context_limit,
    context_order,
    keys,
    deadline,
    measures,
    degrading,
    turn_limits,
    fallback,
    tool_times,
    alerts,
    tool_names,
)


def _asked(model: Model) -> tuple[str, str]:
    return model.where, model.name


def _lacks_key(model: Model) -> bool:
    named = any(name.lower() == "authorization" for name in model.headers or {})
    return bool(model.spoken.key_variable) and not model.key and not named


def _first_word(name: str) -> str:
    found = _WORD.search(name)
    return found[0].lower() if found else ""
