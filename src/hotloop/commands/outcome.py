"""What becomes of one command line: it is run, and how it ends is told in a sentence, in JSON and as an exit code."""

from __future__ import annotations

import sys
import tempfile
import traceback
from importlib.metadata import version

from hotloop.commands.streams import complain, discard, is_unwritable, prepare_streams
from hotloop.errors import HotloopError
from hotloop.visible import indented

_UNUSABLE = 2
_READER_GONE = 1  # as rich has it


def outcome(tokens: list[str]) -> int:
    """Run the command that these words ask for; see `hotloop.cli.main` for the exit code it returns."""
    prepare_streams()
    try:
        code = _version() if tokens == ["--version"] else _executed(tokens)
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        if not is_unwritable(error):
            raise
        return _output_lost(error)
    return code


def _version() -> int:
    """Answered at once, without the packages that the commands need."""
    print(version("hotloop"))
    return 0


def _executed(tokens: list[str]) -> int:
    try:
        from hotloop.commands.app import execute
    except ModuleNotFoundError as error:
        if error.name not in ("cyclopts", "rich"):
            raise
        return _fail('The command line needs more packages: pip install "hotloop[cli]"')
    given = _options(tokens)
    if "--debug" in given:  # among those of whichever command
        tokens.remove("--debug")
    try:
        return execute(tokens, quiet="--quiet" in given or "--json" in given)
    except Exception as error:
        if is_unwritable(error):
            raise
        if "--json" in given:
            _tell_as_json(error)
        if not isinstance(error, HotloopError) and "--debug" in given:
            raise
        return _fail(_sentence(error))


def _options(tokens: list[str]) -> list[str]:
    """The words among which options are: what comes behind a -- is text."""
    return tokens[: tokens.index("--")] if "--" in tokens else tokens[:]


def _tell_as_json(error: Exception) -> None:
    """Write it as one object, with the trace as far as the run came (null before it began)."""
    from hotloop.commands.console import write_json

    ours = error if isinstance(error, HotloopError) else HotloopError(str(error))
    told = {
        "kind": type(error).__name__,
        "message": str(error),
        "stage": ours.stage,
        "retryable": ours.retryable,
    }
    write_json({"error": told, "trace": ours.trace.to_dict() if ours.trace else None})


def _sentence(error: Exception) -> str:
    if isinstance(error, HotloopError):
        return str(error)
    return f"{type(error).__name__}: {error}\nThis is a bug. Its traceback is in {_write_traceback()}"


def _fail(sentence: str) -> int:
    complain(f"error: {indented(sentence)}")
    return _UNUSABLE


def _output_lost(error: OSError) -> int:
    """Be silent when whoever read our output wants no more, as `head` does; else say why it cannot be written."""
    discard(sys.stdout)
    if isinstance(error, BrokenPipeError):
        discard(sys.stderr)  # it may be the one that nobody reads
        return _READER_GONE
    return _fail(f"The output cannot be written: {error.strerror}.")


def _write_traceback() -> str:
    told = traceback.format_exc().encode(errors="backslashreplace")
    with tempfile.NamedTemporaryFile(prefix="hotloop-", suffix=".log", delete=False) as file:
        file.write(told)
    return file.name
