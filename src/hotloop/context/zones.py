"""Where each kind of instruction stands, so that what changes seldom comes first and the cached prefix stays.

frozen      the agent's instructions, the same bytes for everybody
session     what holds for one conversation, after them in the same message
task        with the first request that needs it; it stays in the conversation
volatile    what holds for one request, and facts from memory: sent last, never kept
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from hotloop.context.settings import Task

_ASIDE = "Background of this request, from the application and not from the user:\n"
_FACTS = "Known from earlier:\n{}"


def system_text(frozen: str, session: str) -> str:
    """The text of the system message: the agent's instructions, then those of the conversation."""
    return "\n\n".join(filter(None, (frozen, session)))


def prompt_text(prompt: str, tasks: Iterable[Task]) -> str:
    """What a turn begins with: the instructions of these tasks, then the user's own words."""
    return "\n\n".join((*(task.instructions for task in tasks), prompt))


def new_tasks(tasks: Sequence[Task], prompt: str, given: Mapping[str, int], seen: Container[int]) -> list[Task]:
    """The tasks that a request needs and that the model does not see yet.

    `given` is the number of the turn in which each was given, `seen` the numbers of those that the model sees.
    """
    return [task for task in tasks if given.get(task.name) not in seen and task.needed(prompt)]


def aside_text(volatile: str, facts: Sequence[str]) -> str:
    """What is sent last in each request of a run, "" for nothing."""
    known = _FACTS.format("\n".join(f"- {fact}" for fact in facts)) if facts else ""
    said = "\n\n".join(filter(None, (volatile, known)))
    return _ASIDE + said if said else ""


def also_aside(aside: str, said: str) -> str:
    """The same, with something that is said after it."""
    return f"{aside}\n\n{said}" if aside else _ASIDE + said


def without_aside(text: str) -> str:
    """What a user message says but for what was said aside; "" if it says nothing else."""
    return text.partition(_ASIDE)[0].rstrip("\n") if _ASIDE in text else text
