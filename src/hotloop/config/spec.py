"""An agent, declared: what a YAML or JSON file may say, with what it means where it says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from hotloop.budget import Budget
from hotloop.config.contextspec import ContextSpec, MemorySpec, SessionsSpec, TextOrFile
from hotloop.config.modelspec import InferenceSpec, ModelSpec, RouterSpec
from hotloop.config.telemetryspec import TelemetrySpec
from hotloop.config.toolspec import ToolsSpec
from hotloop.errors import ConfigError
from hotloop.fields import Count, Seconds, SecondsOrZero, SomeShare, Text
from hotloop.trace.declared import Owners
from hotloop.trace.recording.recording import Traces


class AnswersSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Answers that are given again; see `hotloop.AnswerCache`. `ttl` is seconds."""

    ttl: Seconds
    size: Count = 1000
    scope: Literal["user", "global"] = "user"
    embed: Literal["local"] | None = None
    similarity: SomeShare = 0.9


class CacheSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: results of read-only tools, for seconds (None or 0: not), the service's prefix cache, answers.

    With `speculate` the service reads early results of tools while later ones run.
    """

    tool_result_ttl: SecondsOrZero | None = None
    prefix_cache: bool = True
    speculate: bool = False
    answers: AnswersSpec | None = None


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as a file declares it; `folder` is where its own relative paths and modules start from.

    Either `inference` or `router` says who thinks; `output` is the "module:Type" of its answers. Without `memory` there
    is none. `traces` says how runs are recorded, None as everywhere.
    """

    inference: InferenceSpec | None = None
    router: RouterSpec | None = None
    name: str = ""
    version: str = ""
    instructions: TextOrFile = ""
    tools: ToolsSpec = ToolsSpec()
    cache: CacheSpec = CacheSpec()
    context: ContextSpec = ContextSpec()
    memory: MemorySpec | None = None
    sessions: SessionsSpec = SessionsSpec()
    traces: Traces | bool | None = None
    telemetry: TelemetrySpec = TelemetrySpec()
    owners: Owners = Owners()
    budget: Budget | None = None
    max_turns: Count = 10
    output: Text | None = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        if (self.inference is None) == (self.router is None):
            raise ConfigError("it needs either inference, with endpoint and model, or router, and not both")

    def beside(self, name: str | None) -> Path | None:
        """The file with this name, which is relative to the declaration, absolute, or in a home (~); None for none."""
        return self.folder / Path(name).expanduser() if name else None

    @property
    def models(self) -> list[ModelSpec]:
        """Every model that may be asked."""
        models: list[ModelSpec] = []
        if self.router is not None:
            models += [*self.router.models.values(), *self.router.fallback]
        if self.inference is not None:
            models += [self.inference, *self.inference.fallback]
        if self.context.summarizer is not None:
            models.append(self.context.summarizer)
        return models


def load_spec(path: str | Path) -> AgentSpec:
    """Read the declaration in a YAML or JSON file.

    Raises ConfigError; its message has one line, with file, line number and key, for each thing that is wrong.
    """
    try:
        from hotloop.config.declaration import read_declaration
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ConfigError('A declaration in YAML or JSON needs PyYAML: pip install "hotloop[yaml]".') from None
    return read_declaration(Path(path))
