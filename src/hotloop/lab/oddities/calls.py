"""Tool calls whose pieces are hard to put together."""

from __future__ import annotations

import msgspec

from hotloop.lab.oddities.talk import Oddity, Talk, after, arguments_of, calls, choices, chunks, like, silence


def _missing_index(talk: Talk) -> None:
    for parts in calls(talk):
        for _, item in parts:
            del item["index"]


def _zero_index(talk: Talk) -> None:
    for parts in calls(talk):
        for _, item in parts:
            item["index"] = 0


def _shifted_index(talk: Talk) -> None:
    for parts in calls(talk):
        for _, item in parts[1:]:
            item["index"] += 1


def _null_ids(talk: Talk) -> None:
    _set_ids(talk, None)


def _empty_ids(talk: Talk) -> None:
    _set_ids(talk, "")


def _equal_ids(talk: Talk) -> None:
    for (_, head), *_ in calls(talk):
        head["id"] = "call_x"


def _reused_ids(talk: Talk) -> None:
    for slot, ((_, head), *_) in enumerate(calls(talk)):
        head["id"] = f"call_{slot}"


def _repeated_ids(talk: Talk) -> None:
    for (_, head), *tails in calls(talk):
        for _, item in tails:
            item["id"] = head["id"]


def _repeated_names(talk: Talk) -> None:
    for (_, head), *tails in calls(talk):
        for _, item in tails:
            item["function"]["name"] = head["function"]["name"]


def _late_names(talk: Talk) -> None:
    for (_, head), *tails in calls(talk):
        if tails:
            tails[0][1]["function"]["name"] = head["function"]["name"]
            head["function"]["name"] = ""


def _object_arguments(talk: Talk) -> None:
    for parts in calls(talk):
        if whole := _is_json(arguments_of(parts)):
            parts[0][1]["function"]["arguments"] = msgspec.Raw(whole)
            silence(parts[1:])


def _quoted_arguments(talk: Talk) -> None:
    for parts in calls(talk):
        parts[0][1]["function"]["arguments"] = msgspec.json.encode(arguments_of(parts)).decode()
        silence(parts[1:])


def _absent_arguments(talk: Talk) -> None:
    for parts in calls(talk):
        if arguments_of(parts) in ("", "{}"):
            del parts[0][1]["function"]["arguments"]
            silence(parts[1:])


def _repeated_arguments(talk: Talk) -> None:
    for parts in calls(talk):
        chunk, item = parts[-1]
        whole = {"index": item["index"], "function": {"arguments": arguments_of(parts)}}
        after(talk, chunk, like(chunk, {"tool_calls": [whole]}))


def _empty_items(talk: Talk) -> None:
    for parts in calls(talk):
        for chunk, item in parts:
            empty = {"index": item["index"], "function": {"arguments": ""}}
            after(talk, chunk, like(chunk, {"tool_calls": [empty]}))


def _whole_calls(talk: Talk) -> None:
    for parts in calls(talk):
        (_, head), (last, _) = parts[0], parts[-1]
        if len(parts) > 1:
            head["function"]["arguments"] = arguments_of(parts)
            silence(parts)
            last["choices"][0]["delta"] = {"tool_calls": [head]}


def _burst(talk: Talk) -> None:
    _whole_calls(talk)
    found = [parts[0] for parts in calls(talk)]
    silence(found)
    for last, _ in found[-1:]:
        last["choices"][0]["delta"] = {"tool_calls": [item for _, item in found]}


def _function_call(talk: Talk) -> None:
    found = calls(talk)
    if len(found) != 1:
        return
    for chunk, item in found[0]:
        chunk["choices"][0]["delta"] = {"function_call": item["function"]}
    for choice in choices(talk):
        if choice["finish_reason"] == "tool_calls":
            choice["finish_reason"] = "function_call"


def _signed_calls(talk: Talk) -> None:
    for (_, head), *_ in calls(talk):
        head["extra_content"] = {"google": {"thought_signature": "c2lnbmVk"}}


def _blank_first(talk: Talk) -> None:
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


ODDITIES: dict[str, tuple[str, Oddity]] = {
    "missing-index": ("No item of a call has an index.", _missing_index),
    "zero-index": ("Every call has index 0.", _zero_index),
    "shifted-index": ("The arguments of a call have another index than its name.", _shifted_index),
    "null-ids": ("Every id is null.", _null_ids),
    "empty-ids": ("Every id is empty.", _empty_ids),
    "equal-ids": ("All calls of a reply have one id.", _equal_ids),
    "reused-ids": ("The same ids come again in every turn.", _reused_ids),
    "repeated-ids": ("Every item of a call repeats its id.", _repeated_ids),
    "repeated-names": ("Every item of a call repeats its name.", _repeated_names),
    "late-names": ("A call's name is empty at first and comes with its arguments.", _late_names),
    "object-arguments": ("Arguments are an object, not its JSON text.", _object_arguments),
    "quoted-arguments": ("Arguments are a JSON text of a JSON text.", _quoted_arguments),
    "absent-arguments": ("A call without parameters has no arguments at all.", _absent_arguments),
    "repeated-arguments": ("The last item of a call repeats all its arguments.", _repeated_arguments),
    "empty-items": ("Items with empty arguments come between the others.", _empty_items),
    "whole-calls": ("Each call comes in one chunk, with its last token.", _whole_calls),
    "burst": ("All calls come in one chunk, with the last token.", _burst),
    "function-call": ("A lone call comes in the form of old servers.", _function_call),
    "signed-calls": ("A call has a field that the service wants back.", _signed_calls),
    "blank-first": ("Blank text comes before the calls.", _blank_first),
}
