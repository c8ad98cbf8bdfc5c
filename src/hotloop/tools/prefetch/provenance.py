"""Where an argument of a call was copied from: the prompt, the result or an argument of an earlier call, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from hotloop.errors import ToolError
from hotloop.tools.paths import Path, places, write_path
from hotloop.tools.prefetch.past import Past, Seen
from hotloop.tools.prefetch.shapes import shape_of, words, words_like

Scalar: TypeAlias = str | int | float

_MOST = 4  # sources of one argument
_TOOLS = 6  # latest tools whose results and arguments are looked into
_NODES = 4_000  # values of a result that are looked at
_DEPTH = 8
_NEW = "the next new one"
_SMALL = 1_000
_SETTING = re.compile(r"[a-z][a-z_ -]{0,31}|[A-Z]{2,3}|")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z_-]{0,38}[0-9]{0,2}")


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a value is found: in the `prompt`, in the latest `result` of a tool, in the arguments of its latest `call`.

    `path` leads to it there; of text with a `shape` only words of that shape count. Of several values `pick` takes the
    one at that position, the first that is "new" to the argument, or "all". `form` turns a number into text, or text
    into a number. A `constant` was found nowhere: it is the same `value` each time.
    """

    of: Literal["prompt", "result", "call", "constant"]
    tool: str = ""
    path: Path = ()
    shape: str = ""
    pick: int | Literal["new", "all"] = 0
    form: Literal["", "text", "number"] = ""
    value: Any = None

    def __str__(self) -> str:
        if self.of == "constant":
            return msgspec.json.encode(self.value).decode()
        place = {"prompt": "the prompt", "result": self.tool, "call": f"{self.tool}(...)"}[self.of]
        like = f" like {self.shape}" if self.shape else ""
        which = f" ({_NEW if self.pick == 'new' else self.pick})" if self.pick or like else ""
        return f"{place}{write_path(self.path)}{like}{which}"

    @property
    def tells(self) -> bool:
        """Whether it holds a value that may be of one person, and not only where one is found."""
        return self.of == "constant" and not (self.value is None or isinstance(self.value, bool))

    def find(self, past: Past, tool: str, argument: str) -> Any:
        """The value for this argument of a call of this tool. Raises LookupError if there is none."""
        if self.of == "constant":
            return self.value
        values = self._values(past)
        if self.pick == "all":
            return [_formed(each, self.form) for each in values]
        if self.pick == "new":
            known = set(map(_text, past.given(tool, argument)))
            values, pick = [each for each in values if _text(each) not in known], 0
        else:
            pick = self.pick
        return _formed(values[pick], self.form)

    def _values(self, past: Past) -> list[Any]:
        whole = _whole(self.of, self.tool, past)
        try:
            found = [value for _, value in places(whole, self.path, "")]
        except ToolError as error:
            raise LookupError(str(error)) from None
        if not self.shape:
            return found
        return [word for text in found if isinstance(text, str) for word in words_like(text, self.shape)]


def sources(value: Any, past: Past, tool: str, argument: str) -> list[Source]:
    """Where the value of this argument can have come from, the likeliest first; if from nowhere, its being constant.

    None of both is so of values that may be of one person, and of objects.
    """
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, str | int | float) or isinstance(first, bool) or first == "":
        return [Source("constant", value=value)] if _is_plain(value) else []
    found = dict.fromkeys(_candidates(first, past))
    if isinstance(value, list):
        found = dict.fromkeys(_of_list(found))
    fitting = [each for each in found if _gives(each, value, past, tool, argument)]
    return fitting[:_MOST] or ([Source("constant", value=value)] if _is_plain(value) else [])


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Scalar]]:
    """The texts and numbers in a decoded value, each with its path; not those under keys that are data themselves."""
    if isinstance(value, bool) or value is None or len(path) > _DEPTH:
        return
    if isinstance(value, list):
        for place, each in enumerate(value):
            yield from leaves(each, (*path, place))
    elif isinstance(value, dict):
        if _is_record(value):
            for key, each in value.items():
                yield from leaves(each, (*path, key))
    else:
        yield path, value


def _is_plain(value: Any) -> bool:
    """Whether it is a word, a short code or a small number, as settings are, and hardly anything of a person."""
    if isinstance(value, list):
        return len(value) <= _MOST and all(map(_is_plain, value))
    if isinstance(value, str):
        return _SETTING.fullmatch(value) is not None
    return value is None or value == {} or (isinstance(value, int | float) and abs(value) <= _SMALL)


def _is_record(value: dict[str, Any]) -> bool:
    """Whether the keys of an object name its fields, and are not ids or names of what is in it."""
    if not all(_FIELD.fullmatch(key) for key in value):
        return False
    kinds = {frozenset(each) if isinstance(each, dict) else None for each in value.values()}
    return len(value) < 2 or len(kinds) > 1 or None in kinds


def _candidates(value: Scalar, past: Past) -> Iterator[Source]:
    yield from _in_text(value, past.prompt, Source("prompt"))
    tools = list(dict.fromkeys(each.tool for each in past.calls_back()))[:_TOOLS]
    for tool in tools:
        if (seen := past.latest(tool, answered=True)) is not None:
            yield from _in_value(value, seen, Source("result", tool))
    for tool in tools:
        if (seen := past.latest(tool, answered=False)) is not None:
            yield from _in_arguments(value, seen.arguments, Source("call", tool))


def _in_value(value: Scalar, seen: Seen, source: Source) -> Iterator[Source]:
    if isinstance(seen.value, str):
        yield from _in_text(value, seen.value, source)
    for path in _index(seen).get(_text(value), ())[:_MOST]:
        form = _form(value, _at(seen.value, path))
        yield from _along(path, seen.value, msgspec.structs.replace(source, form=form))


def _in_arguments(value: Scalar, arguments: dict[str, Any], source: Source) -> Iterator[Source]:
    for name, given in arguments.items():
        if isinstance(given, str | int | float) and not isinstance(given, bool) and _text(given) == _text(value):
            yield msgspec.structs.replace(source, path=(name,), form=_form(value, given))


def _in_text(value: Scalar, text: str, source: Source) -> Iterator[Source]:
    """The whole of a text, or a word of it by its shape and its place among words of that shape."""
    form: Literal["", "number"] = "" if isinstance(value, str) else "number"
    if _text(value) == text.strip():
        yield msgspec.structs.replace(source, form=form)
        return
    word = _text(value)
    if word in words(text):
        shape = shape_of(word)
        place = words_like(text, shape).index(word)
        for pick in ("new", place):
            yield msgspec.structs.replace(source, shape=shape, pick=pick, form=form)


def _along(path: Path, whole: Any, source: Source) -> Iterator[Source]:
    """The same place in words that hold for other results: an item of a list as any, as this one, and as the last."""
    lists = [at for at, part in enumerate(path) if isinstance(part, int)]
    if lists:
        every = tuple(None if isinstance(part, int) else part for part in path)
        yield msgspec.structs.replace(source, path=every, pick="new")
    yield msgspec.structs.replace(source, path=path)
    if lists:
        at = lists[-1]
        if path[at] == len(_at(whole, path[:at])) - 1 > 0:
            yield msgspec.structs.replace(source, path=(*path[:at], -1, *path[at + 1 :]))


def _of_list(found: Iterable[Source]) -> Iterator[Source]:
    """Sources of a list, from those of its first item: all that there is of the kind."""
    for each in found:
        if each.pick == "new":
            yield msgspec.structs.replace(each, pick="all")


def _gives(source: Source, value: Any, past: Past, tool: str, argument: str) -> bool:
    try:
        return bool(source.find(past, tool, argument) == value)
    except LookupError:
        return False


def _whole(of: str, tool: str, past: Past) -> Any:
    if of == "prompt":
        return past.prompt.strip()
    seen = past.latest(tool, answered=of == "result")
    if seen is None:
        raise LookupError(tool)
    return seen.value if of == "result" else seen.arguments


def _index(seen: Seen) -> dict[str, list[Path]]:
    """The paths of all values in a result, by their text; worked out once."""
    known: dict[str, list[Path]] | None = seen.__dict__.get("index")
    if known is None:
        known = seen.__dict__["index"] = {}
        for (path, leaf), _ in zip(leaves(seen.value), range(_NODES), strict=False):
            known.setdefault(_text(leaf), []).append(path)
    return known


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _form(value: Scalar, there: Any) -> Literal["", "text", "number"]:
    if isinstance(value, str) == isinstance(there, str):
        return ""
    return "text" if isinstance(value, str) else "number"


def _formed(value: Any, form: str) -> Any:
    if not form:
        return value
    if form == "text":
        return _text(value)
    try:
        return msgspec.json.decode(value, type=int | float)
    except (msgspec.DecodeError, TypeError) as error:
        raise LookupError(str(error)) from None
