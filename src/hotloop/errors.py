"""What can go wrong, sorted by what the caller should do about it.

HotloopError
├── ConfigError                 the declaration is wrong: fix the file, the environment or the call
│   └── ToolDefinitionError     a function cannot become a tool as it is written
├── ModelError                  the service or the engine did not give a usable reply
│   ├── ConnectError            no connection: name, port, proxy, certificate
│   ├── TransportError          the connection or the reply was cut
│   ├── ReplyTimeout            no complete reply in the time allowed
│   ├── MalformedReply          bytes arrived that are no chat completion
│   ├── TruncatedReply          the token cap was hit before the reply was complete
│   ├── ContentFiltered         the service withheld the reply
│   ├── CircuitOpen             the service failed too often lately and is left alone for `retry_after` seconds
│   ├── ServiceBusy             no place in front of the service, or none in time: nothing was sent
│   ├── ServiceError            the service answered with an error
│   │   ├── RateLimited         too many requests or tokens: wait `retry_after` seconds
│   │   ├── Overloaded          the service has no capacity just now, or failed inside
│   │   ├── AuthenticationError the key is missing, wrong, or not allowed this model
│   │   ├── ContextOverflow     the prompt is longer than the model's context
│   │   ├── ToolUseFailed       the service could not read the tool call its model wrote
│   │   └── InvalidRequest      any other request the service refuses
│   └── WeightsError            the embedded model's weights are not there and could not be fetched
├── ToolError                   a tool could not do its work: the message goes to the model
│   ├── ArgumentsError          the model's arguments do not fit the tool's schema
│   ├── ToolRefused             the guard or a person does not allow the call
│   ├── ToolUnavailable         where the tool lives (a server, a sandbox) cannot be reached or broke down
│   └── ToolTimeout             the tool did not finish in its time
├── AuditError                  the audit log was changed, has gaps, or cannot be written
└── RunError                    the run as a whole could not end in an answer
    ├── TurnLimit               the turns are used up and the model still wants tools
    ├── RepeatedFailure         the same call failed three times in the same way
    ├── OutputInvalid           the answer does not have the form that was asked for
    ├── BudgetExceeded          a limit of its budget was reached, and the budget says to stop then
    ├── SessionBusy             another run writes to the session, and this one does not wait
    ├── SessionConflict         somebody else has written to the session meanwhile: nothing of this turn was kept
    └── ApprovalRequired        the run is paused until a person has decided about `calls`
"""

from __future__ import annotations

from typing import Any


class HotloopError(Exception):
    """Base of every error that hotloop raises.

    `retryable` tells whether the same request may succeed later. Of a run it carries the `trace` up to the error, the
    ledger `stage` it happened in and how far into the run that was, `elapsed_ms`; all None outside a run. `str(error)`
    is a sentence for a person.
    """

    retryable: bool = False
    stage: str | None = None
    elapsed_ms: float | None = None
    trace: Any = None


class ConfigError(HotloopError):
    """A declaration that cannot be used: a wrong key, value, path or environment variable."""


class ToolDefinitionError(ConfigError):
    """A function whose signature cannot become a tool schema."""


class ModelError(HotloopError):
    """The service or the embedded engine gave no usable reply."""


class ConnectError(ModelError):
    """No connection to the service."""

    retryable = True


class TransportError(ModelError):
    """The connection broke, or the reply ended without saying that it was complete."""

    retryable = True


class ReplyTimeout(ModelError):
    """The reply was not complete in the time allowed for one request."""

    retryable = True


class MalformedReply(ModelError):
    """The service sent something that is not a chat completion."""

    retryable = True


class TruncatedReply(ModelError):
    """The reply hit the token cap in the middle of a tool call; none of its calls was run."""


class ContentFiltered(ModelError):
    """The service's content filter withheld the reply."""


class CircuitOpen(ModelError):
    """The service failed too often lately and is left alone for `retry_after` seconds; nothing was sent."""

    retryable = True

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ServiceBusy(ModelError):
    """The queue in front of the service is full, or its wait would be longer than the time left; nothing was sent."""

    retryable = True


class ServiceError(ModelError):
    """The service answered with an error.

    `status` is the HTTP status (or the one named inside a stream), `code` the service's own word for it, and
    `retry_after` the seconds it asks callers to wait (None when it does not say).
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class RateLimited(ServiceError):
    """Too many requests or tokens for the plan; `retry_after` is a floor."""

    retryable = True


class Overloaded(ServiceError):
    """The service has no capacity just now, or failed inside."""

    retryable = True


class AuthenticationError(ServiceError):
    """The key is missing, wrong, or not allowed to use this model."""


class ContextOverflow(ServiceError):
    """The prompt is longer than the model's context window, of `limit` tokens (None when the service does not say)."""

    limit: int | None = None


class ToolUseFailed(ServiceError):
    """The service could not read its model's tool call; `failed_generation` is what the model wrote."""

    failed_generation: str = ""


class InvalidRequest(ServiceError):
    """The service refuses this request whenever it is sent."""


class WeightsError(ModelError):
    """The embedded model's weights are not in the cache and could not be fetched."""


class ToolError(HotloopError):
    """Raise this in a tool to tell the model, in a sentence, why the tool could not do its work.

    `retryable` tells that the same call may yet succeed, and may be made again if the tool's rules allow it.
    """

    def __init__(self, message: str = "", *, retryable: bool | None = None) -> None:
        super().__init__(message)
        if retryable is not None:
            self.retryable = retryable


class ArgumentsError(ToolError):
    """The model's arguments are not JSON or do not fit the tool's schema."""


class ToolRefused(ToolError):
    """The call is not allowed: a grant is missing, an argument is not on the allow-list, or a person refused it."""


class ToolUnavailable(ToolError):
    """The server or process that the tool lives in cannot be reached, or broke down during the call."""

    retryable = True


class ToolTimeout(ToolError):
    """The tool did not finish within its timeout or the run's deadline."""

    retryable = True


class AuditError(HotloopError):
    """The audit log does not hold together, or a record cannot be written to it."""


class RunError(HotloopError):
    """The run could not end in an answer."""


class TurnLimit(RunError):
    """All turns are used up and the model still asks for tools."""


class RepeatedFailure(RunError):
    """The same call failed three times with the same error."""


class OutputInvalid(RunError):
    """The answer does not have the form that was asked for, also after it was asked for again.

    `text` is the answer as the model wrote it.
    """

    def __init__(self, message: str, *, text: str) -> None:
        super().__init__(message)
        self.text = text


class BudgetExceeded(RunError):
    """The run was stopped because a limit of its budget was reached, or whoever asked for it had no more time.

    `row` is the limit: "total", a part such as "tools", one of each turn as "turn.tools", or "caller" for the time that
    whoever asked had left; `limit` and `actual` are seconds.
    """

    retryable = True

    def __init__(self, message: str, *, row: str, limit: float, actual: float) -> None:
        super().__init__(message)
        self.row = row
        self.limit = limit
        self.actual = actual


class SessionBusy(RunError):
    """Another run is writing to the session; this one was not begun."""

    retryable = True


class SessionConflict(RunError):
    """Somebody else has written to the session since the run began, so that its turn was not kept."""

    retryable = True


class ApprovalRequired(RunError):
    """The run waits for a person; `Agent.resume(run_id)` goes on with it, in this process or another.

    `calls` are the calls to decide about, each with its `call_id`, `name`, `arguments` and `digest`.
    """

    def __init__(self, message: str, *, run_id: str, calls: list[Any]) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.calls = calls
