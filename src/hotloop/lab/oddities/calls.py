"""Tool calls whose pieces are hard to put together."""

from __future__ import annotations

import msgspec

from hotloop.lab.oddities.talk import Oddity, Talk, after, arguments_of, calls, choices, chunks, like, silence


def missing_index(talk: Talk) -> None:
    """No item of a call has an index."""
    for parts in calls(talk):
        for _, item in parts:
            del item["index"]


def zero_index(talk: Talk) -> None:
    """Every call has index 0."""
    for parts in calls(talk):
        for _, item in parts:
            item["index"] = 0


def shifted_index(talk: Talk) -> None:
    """The arguments of a call have another index than its name."""
    for parts in calls(talk):
        for _, item in parts[1:]:
            item["index"] += 1


def null_ids(talk: Talk) -> None:
    """Every id is null."""
    _set_ids(talk, None)


def empty_ids(talk: Talk) -> None:
    """Every id is empty."""
    _set_ids(talk, "")


def equal_ids(talk: Talk) -> None:
    """All calls of a reply have one id."""
    for (_, head), *_ in calls(talk):
        head["id"] = "call_x"


def reused_ids(talk: Talk) -> None:
    """The same ids come again in every turn."""
    for slot, ((_, head), *_) in enumerate(calls(talk)):
        head["id"] = f"call_{slot}"


def repeated_ids(talk: Talk) -> None:
    """Every item of a call repeats its id."""
    for (_, head), *tails in calls(talk):
        for _, item in tails:
            item["id"] = head["id"]


def repeated_names(talk: Talk) -> None:
    """Every item of a call repeats its name."""
    for (_, head), *tails in calls(talk):
        for _, item in tails:
            item["function"]["name"] = head["function"]["name"]


def late_names(talk: Talk) -> None:
    """A call's name is empty at first and comes with its arguments."""
    for (_, head), *tails in calls(talk):
        if tails:
            tails[0][1]["function"]["name"] = head["function"]["name"]
            head["function"]["name"] = ""


def object_arguments(talk: Talk) -> None:
    """Arguments are an object, not its JSON text."""
    for parts in calls(talk):
        if whole := _is_json(arguments_of(parts)):
            parts[0][1]["function"]["arguments"] = msgspec.Raw(whole)
            silence(parts[1:])


def quoted_arguments(talk: Talk) -> None:
    """Arguments are a JSON text of a JSON text."""
    for parts in calls(talk):
        parts[0][1]["function"]["arguments"] = msgspec.json.encode(arguments_of(parts)).decode()
        silence(parts[1:])


def absent_arguments(talk: Talk) -> None:
    """A call without parameters has no arguments at all."""
    for parts in calls(talk):
        if arguments_of(parts) in ("", "{}"):
            del parts[0][1]["function"]["arguments"]
            silence(parts[1:])


def repeated_arguments(talk: Talk) -> None:
    """The last item of a call repeats all its arguments."""
    for parts in calls(talk):
        chunk, item = parts[-1]
        whole = {"index": item["index"], "function": {"arguments": arguments_of(parts)}}
        after(talk, chunk, like(chunk, {"tool_calls": [whole]}))


def empty_items(talk: Talk) -> None:
    """Items with empty arguments come between the others."""
    for parts in calls(talk):
        for chunk, item in parts:
            empty = {"index": item["index"], "function": {"arguments": ""}}
            after(talk, chunk, like(chunk, {"tool_calls": [empty]}))


def whole_calls(talk: Talk) -> None:
    """Each call comes in one chunk, with its last token."""
    for parts in calls(talk):
        (_, head), (last, _) = parts[0], parts[-1]
        if len(parts) > 1:
            head["function"]["arguments"] = arguments_of(parts)
            silence(parts)
            last["choices"][0]["delta"] = {"tool_calls": [head]}


def burst(talk: Talk) -> None:
    """All calls come in one chunk, with the last token."""
    whole_calls(talk)
    found = [parts[0] for parts in calls(talk)]
    silence(found)
    for last, _ in found[-1:]:
        last["choices"][0]["delta"] = {"tool_calls": [item for _, item in found]}


def function_call(talk: Talk) -> None:
    """A lone call comes in the form of old servers."""
    found = calls(talk)
    if len(found) != 1:
        return
    for chunk, item in found[0]:
        chunk["choices"][0]["delta"] = {"function_call": item["function"]}
    for choice in choices(talk):
        if choice["finish_reason"] == "tool_calls":
            choice["finish_reason"] = "function_call"


def signed_calls(talk: Talk) -> None:
    """A call has a field that the service wants back."""
    for (_, head), *_ in calls(talk):
        head["extra_content"] = {"google": {"thought_signature": "c2lnbmVk"}}


def blank_first(talk: Talk) -> None:
    """Blank text comes before the calls."""
    if calls(talk):
        first = next(chunks(talk))
        after(talk, first, like(first, {"content": "\n\n"}))


def _set_ids(talk: Talk, value: str | None) -> None:
    for parts in calls(talk):
        for _, item in parts:
            item["id"] = value


def _is_json(text: str) -> bytes:
    """The text, if it is whole JSON; a call that the token cap cut is not."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return b""
    return text.encode()


ODDITIES: tuple[Oddity, ...] = (
    missing_index,
    zero_index,
    shifted_index,
    null_ids,
    empty_ids,
    equal_ids,
    reused_ids,
    repeated_ids,
    repeated_names,
    late_names,
    object_arguments,
    quoted_arguments,
    absent_arguments,
    repeated_arguments,
    empty_items,
    whole_calls,
    burst,
    function_call,
    signed_calls,
    blank_first,
)
