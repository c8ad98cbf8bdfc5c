"""Rules: what of a request decides which model gets it."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from hotloop.errors import ConfigError
from hotloop.fields import Amount, Natural, Text, check_fields


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule may look at.

    `prompt` is the user's newest request, `turn` the number of replies before in this run, `tokens` about how many the
    conversation has, `tools` whether calls may be made, `left` the seconds until the run's deadline (None without one),
    `session` the conversation's name ("" for none), and `background` tells that nobody waits for it.
    """

    prompt: str
    turn: int = 0
    tokens: int = 0
    tools: bool = False
    left: float | None = None
    session: str = ""
    background: bool = False


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requests that fit go to the model called `to`; all that is given must fit.

    `pattern` is looked for in the prompt, whatever its case; `min_tokens` and `max_tokens` bound the conversation;
    `max_left` are seconds, for when less time than that is left; `background` is whether nobody waits; `when` is asked.
    Raises ConfigError for a rule that says nothing, or something that cannot be.
    """

    to: str
    when: Callable[[Question], bool] | None = None
    pattern: Text | None = None
    min_tokens: Natural | None = None
    max_tokens: Natural | None = None
    max_left: Amount | None = None
    background: bool | None = None

    def __post_init__(self) -> None:
        check_fields(Rule, msgspec.structs.asdict(self), "Rule")
        if all(getattr(self, name) is None for name in self.__struct_fields__[1:]):
            raise ConfigError(f"The rule for {self.to} fits everything; give it a condition, or make that the default.")
        if self.when is not None and not callable(self.when):
            raise ConfigError(f"The rule's when is {self.when!r}; give a function of a Question.")
        if self.max_tokens is not None and (self.min_tokens or 0) > self.max_tokens:
            raise ConfigError(
                f"No request has {self.min_tokens:,} tokens or more, and no more than {self.max_tokens:,}."
            )
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ConfigError(f"The rule's pattern {self.pattern!r} is no regular expression: {error}.") from None

    def fits(self, question: Question) -> bool:
        """Whether this rule is about that request."""
        return (
            (self.background is None or self.background == question.background)
            and (self.min_tokens is None or question.tokens >= self.min_tokens)
            and (self.max_tokens is None or question.tokens <= self.max_tokens)
            and (self.max_left is None or (question.left is not None and question.left < self.max_left))
            and (self.pattern is None or re.search(self.pattern, question.prompt, re.IGNORECASE) is not None)
            and (self.when is None or bool(self.when(question)))
        )
