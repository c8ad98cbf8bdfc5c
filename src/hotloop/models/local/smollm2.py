"""How SmolLM2-135M is asked: a model that writes well from an example, and cannot choose.

Its chat template knows no tools, and whether it would call one is noise. So the tools that a request clearly names
(`context.shortlist.strong_matches`) are called, each once, in the tools' order; the model writes their arguments,
held to the tools' schemas; and when the results are there it answers in text. Everything it says is its own: no
argument is copied and no answer put together by code.

The text only grows: worked examples, the instructions, then turn after turn, so that llama.cpp evaluates each turn
once. The examples come first because they are the same for every agent. The one with a single result is there because
without it this model goes on after a single result, inventing keys until the cap; llama.cpp's DRY penalty against
repetition does not cure that, and spoils what is copied from the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from hotloop.context.shortlist import strong_matches
from hotloop.models.local import grammar
from hotloop.models.local.prepared import Prepared
from hotloop.models.local.reply import LineReader
from hotloop.models.local.request import ChatRequest, Function, Message

_ENDS = (2,)  # <|im_end|>
_MOST_TOKENS = 256
_MOST_SAID = 400
_LONGEST_SAID = 6  # words
_WORD = re.compile(r"[^\W\u3400-\u9fff][^\s\u3400-\u9fff,;!?，。；！？、（）()\"“”]*|[\u3400-\u9fff]")

EXAMPLES = (
    "<|im_start|>user\nIs room 7 clean?<|im_end|>\n"
    '<|im_start|>assistant\nroom_state {"room": 7}<|im_end|>\n'
    "<|im_start|>tool\nroom: 7, state: dirty<|im_end|>\n"
    "<|im_start|>assistant\nRoom: 7, state: dirty.<|im_end|>\n"
    "<|im_start|>user\nHow is room 12, and who is in it?<|im_end|>\n"
    '<|im_start|>assistant\nroom_state {"room": 12}\nroom_guest {"room": 12}<|im_end|>\n'
    "<|im_start|>tool\nstate: clean, beds: 2\nguest: Ann Lee, city: Oslo<|im_end|>\n"
    "<|im_start|>assistant\nState: clean, beds: 2, guest: Ann Lee, city: Oslo.<|im_end|>\n"
)


def prepare(request: ChatRequest) -> Prepared:
    """The prompt, the constraint and the way to read what comes."""
    functions = called_for(request)
    if functions:
        constraint = grammar.calls(functions, _sayable(request, results=request.chosen is not None))
    elif request.form is not None:
        constraint = grammar.formed(request.form, _sayable(request, results=True))
    elif request.tools:
        constraint = grammar.answer([offer.function for offer in request.tools], _ENDS)
    else:
        constraint = ""
    sampling = request.sampling(temperature=0.0, max_tokens=_MOST_TOKENS)
    return Prepared(
        chat=False,
        body={"prompt": prompt(request), "grammar": constraint, **sampling},
        checked=request.held,
        read=LineReader([function.name for function in functions], only_calls=bool(functions)),
    )


def called_for(request: ChatRequest) -> list[Function]:
    """The tools to call now: those that the newest message of the user clearly asks for, until it has results."""
    if request.chosen is not None:
        return [request.chosen]
    functions = request.functions
    newest = request.messages[-1]
    if newest.role != "user" or not functions:
        return []
    texts = [(function.name, function.description) for function in functions]
    return [functions[place] for place in strong_matches(newest.text, texts)]


def prompt(request: ChatRequest) -> str:
    """The conversation as text, up to where the assistant writes."""
    examples = EXAMPLES if request.tools else ""
    turns = groupby(request.messages, lambda message: message.role)
    return examples + "".join(_turn(role, list(group)) for role, group in turns) + "<|im_start|>assistant\n"


def said(messages: Sequence[Message], *, results: bool = False) -> list[str]:
    """What a free string may be: up to six words in a row from the user's messages, the newest first.

    With `results` also from those of tools.
    """
    found: dict[str, None] = {}
    for message in reversed(messages):
        if message.role == "user":
            found |= dict.fromkeys(_spans(message.text))
        elif message.role == "tool" and results:
            found |= dict.fromkeys(_spans(_plain(message.text)))
    return list(found)[:_MOST_SAID]


def _sayable(request: ChatRequest, *, results: bool) -> list[str]:
    return said(request.messages, results=results) or [""]  # something, so that no text goes on for ever


def _spans(text: str) -> Iterator[str]:
    words = [(each.start(), each.start() + len(each[0].rstrip(".:'’"))) for each in _WORD.finditer(text)]
    for first, (start, _) in enumerate(words):
        for _, end in words[first : first + _LONGEST_SAID]:
            yield text[start:end]


def _turn(role: str, messages: list[Message]) -> str:
    """One turn; the results of several calls are one turn, a line each."""
    lines = [line for message in messages for line in _lines(message)]
    return f"<|im_start|>{role}\n" + "\n".join(lines) + "<|im_end|>\n"


def _lines(message: Message) -> Iterator[str]:
    text = message.text.replace("<|", "< |")  # no message may end its turn or begin another
    if message.role == "tool":
        yield _plain(text)
    elif text or not message.tool_calls:
        yield text
    for call in message.tool_calls or ():
        yield f"{call.function.name} {call.function.arguments}"


def _plain(result: str) -> str:
    """A JSON object as "key: value, key: value", which this model reads best; anything else as it is."""
    try:
        value = msgspec.json.decode(result)
    except msgspec.DecodeError:
        return result
    if not isinstance(value, dict):
        return value if isinstance(value, str) else result
    return ", ".join(f"{key}: {_scalar(each)}" for key, each in value.items())


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
