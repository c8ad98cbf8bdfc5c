"""The command line as a whole: which commands there are. Their modules are imported when they are used."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError, MissingArgumentError, UnusedCliTokensError

from hotloop.errors import ConfigError
from hotloop.visible import indented

_HELP = """The millisecond agent runtime: run agents, measure services, see where the time goes.

Example: hotloop demo"""

_EPILOGUE = """Exit codes: 0 held, 1 not held (over budget, failed requests), 2 not possible,
3 paused until a person decides, 130 stopped by Ctrl-C.
With --debug an unexpected error shows its traceback."""

_COMMANDS = (
    "demo",
    "run",
    "resume",
    "eval",
    "route",
    "sim",
    "probe",
    "check",
    "trace",
    "explain",
    "whatif",
    "bill",
    "prefetch",
    "session",
    "memory",
    "audit",
)

app = App(
    name="hotloop",
    help=_HELP,
    help_epilogue=_EPILOGUE,
    help_format="plaintext",
    version=version("hotloop"),
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
    result_action="return_value",
)
for _place, _name in enumerate(_COMMANDS):
    app.command(f"hotloop.commands.{_name}:{_name}", name=_name, sort_key=_place)


class _VisibleLines(logging.Formatter):
    """Log lines that may quote what a model wrote."""

    def format(self, record: logging.LogRecord) -> str:
        return indented(super().format(record))


def execute(tokens: Sequence[str], *, quiet: bool = False) -> int:
    """Run the command that these words ask for; its exit code. Raises ConfigError when they ask for none.

    A `quiet` one logs errors only.
    """
    _require_utf8(tokens)
    if logging.lastResort:  # what is logged without a handler goes to stderr through it
        logging.lastResort.setFormatter(_VisibleLines())
        logging.lastResort.setLevel(logging.ERROR if quiet else logging.WARNING)
    if not tokens or tokens[0] in app.help_flags:
        app.resolved_commands()  # imports them all: the list shows what each one's docstring says
    try:
        return app(tokens) or 0
    except CycloptsError as error:
        raise ConfigError(f"{_what_is_wrong(error)} See --help.") from None


def _what_is_wrong(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"{' '.join(error.unused_tokens or ())!r} is too much; put text with spaces in quotes."
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        if error.keyword is None:
            return f"{error.argument.name} is missing."
        return f"{error.keyword} takes a value; one that begins with a dash is written {error.keyword}=-..."
    sentence = str(error)
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def _require_utf8(tokens: Sequence[str]) -> None:
    for token in tokens:
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{token!r} is not valid UTF-8, and nothing else can be sent or kept.") from None
