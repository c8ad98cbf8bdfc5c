"""An agent that is looked at before it is launched, and what is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hotloop.config.spec import AgentSpec
from hotloop.models.model import Model
from hotloop.models.prefix.parts import read_body
from hotloop.models.prefix.watch import instructions_of
from hotloop.models.routing.router import Router
from hotloop.models.sizes import estimated_tokens
from hotloop.tools.defining.tool import Tool
from hotloop.visible import one_line

Grade = Literal["ok", "hint", "warning", "fault"]


class Finding(msgspec.Struct, frozen=True):
    """What a check has found, and what to do about it.

    A "fault" costs or breaks something for certain, a "warning" does when things go wrong, a "hint" may be meant.
    """

    check: str
    grade: Grade
    told: str
    advice: str = ""


class Candidate(msgspec.Struct, frozen=True):
    """An agent to be checked: its declaration, the arguments that it means, and its tools.

    `body` is its first prompt, `fresh` are the same as fresh processes made it.
    """

    spec: AgentSpec
    arguments: dict[str, Any]
    tools: Sequence[Tool]
    body: bytes
    fresh: Sequence[bytes] = ()

    @property
    def front(self) -> int:
        """About how many tokens of tools and instructions every prompt begins with."""
        body = read_body(self.body)
        instructions = instructions_of(self.body[body.messages[0].start : body.messages[-1].end])
        return sum(estimated_tokens(body.text(each)) for each in body.tools) + estimated_tokens(instructions)

    @property
    def models(self) -> dict[str, Model]:
        """All models that may be asked, by where the file declares them."""
        first, fallback = self.arguments["model"], self.arguments.get("fallback", ())
        section, models = "inference", {"inference": first}
        if isinstance(first, Router):
            section, models = "router", {f"router.models.{name}": model for name, model in first.models.items()}
        return models | {f"{section}.fallback[{number}]": model for number, model in enumerate(fallback)}

    @property
    def chances(self) -> list[tuple[Model, list[Model]]]:
        """Each model that a turn may begin with, and those that are asked after it, should it fail."""
        first, fallback = self.arguments["model"], self.arguments.get("fallback", ())
        models = list(first.models.values()) if isinstance(first, Router) else [first]
        climbs = isinstance(first, Router) and first.cascade is not None  # and its run stays with whom it comes to
        return [(each, [*(models[place:] if climbs else ()), *fallback]) for place, each in enumerate(models, 1)]


def names_of(names: Sequence[str]) -> str:
    """Names of tools, for a person."""
    return ", ".join(map(one_line, names))
