"""Whether the embedded model's calls meet their schemas, over functions of the Berkeley Function Calling Leaderboard.

    python benchmarks/constrained.py --n 1000

For functions of bfcl-eval (Apache-2.0, fetched once by pip into hotloop's cache, never installed) the model is asked
the function's own question and made to call it, at temperatures from 0 to 1.5, until there are `--n` calls. Every call
is held against the function's schema by jsonschema-rs, which knows nothing of the grammar that decoding is constrained
by. A schema that the engine refuses, with a sentence, is counted apart and named. Whether a call is right is not looked
at. `--model` takes the path of any GGUF. Takes 10 to 20 minutes. Exit code 0: no call was invalid. 1: some were. 2: no
figures, and why.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs

from hotloop.errors import HotloopError
from hotloop.models.local.engine import SMOLLM2, LocalTransport
from hotloop.models.local.weights import weights_folder
from hotloop.models.transport import Throttle
from hotloop.models.wire.chatstream import ChatStream
from hotloop.tools.defining.foreign import plain_name

REQUIREMENT = "bfcl-eval==2026.3.23"
FILES = [
    *("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple", "irrelevance"),
    *("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_relevance", "live_irrelevance"),
]
TYPES = {  # what its authors call the types of JSON Schema; anything else that is none says nothing
    "dict": "object",
    "HashMap": "object",
    "tuple": "array",
    "Array": "array",
    "ArrayList": "array",
    "float": "number",
    "double": "number",
    "long": "integer",
    "String": "string",
    "char": "string",
    "Boolean": "boolean",
}
JSON_TYPES = {"object", "array", "number", "integer", "string", "boolean", "null"}
TEMPERATURES = (0.0, 0.5, 1.0, 1.5)
MOST_TOKENS = 2048


@dataclass
class Case:
    """A function, the question that it comes with, and where both are from."""

    file: str
    question: str
    name: str
    parameters: dict[str, Any]

    def body(self, temperature: float) -> bytes:
        """The request for a call of it."""
        function = {"name": self.name, "parameters": self.parameters}
        request = {
            "messages": [{"role": "user", "content": self.question}],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": self.name}},
            "temperature": temperature,
            "max_tokens": MOST_TOKENS,
        }
        return json.dumps(request).encode()


@dataclass
class Figures:
    """What came of the cases; `invalid`, `cut` and `refused` say each of which function, and what was wrong."""

    valid: int = 0
    invalid: list[str] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    files: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def calls(self) -> int:
        """How many were made."""
        return self.valid + len(self.invalid) + len(self.cut)


class Reply:
    """Receives one reply and reads it as an agent does."""

    def __init__(self) -> None:
        self.status = 0
        self.refusal = b""
        self.stream = ChatStream()

    def sent(self, connected: bool, throttle: Throttle | None) -> None:
        """See `Receiver`."""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """See `Receiver`."""
        self.status = status

    def data(self, chunk: bytes) -> bool:
        """See `Receiver`."""
        if self.status != 200:
            self.refusal += chunk
        else:
            self.stream.feed(chunk)
        return self.stream.done


def fetched() -> zipfile.ZipFile:
    """The wheel, from hotloop's cache or by pip. Raises subprocess.CalledProcessError."""
    folder = weights_folder().parent / "bfcl"
    if not list(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={folder}", REQUIREMENT]
        subprocess.run(command, check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def cases() -> list[Case]:
    """Every function once, in the order of the files, with the first question that comes with it."""
    found: dict[str, Case] = {}
    with fetched() as wheel:
        for file in FILES:
            with wheel.open(f"bfcl_eval/data/BFCL_v4_{file}.json") as lines:
                for case in (case for line in lines for case in read(file, json.loads(line))):
                    found.setdefault(json.dumps([case.name, case.parameters]), case)
    return list(found.values())


def read(file: str, entry: dict[str, Any]) -> Iterator[Case]:
    """The cases of one line: a question and the functions that may answer it."""
    question = " ".join(message["content"] for message in entry["question"][0] if message["role"] == "user")
    for function in entry["function"]:
        yield Case(file, question, plain_name(function["name"]), as_json_schema(function["parameters"]))


def as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the names of its types as JSON Schema has them, all else as it is."""
    made = dict(schema)
    kind = TYPES.get(schema.get("type", ""), schema.get("type"))
    if kind in JSON_TYPES:
        made["type"] = kind
    else:
        made.pop("type", None)
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {name: as_json_schema(each) for name, each in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        made["items"] = as_json_schema(schema["items"])
    return made


def spread(every: list[Case], count: int) -> list[Case]:
    """All cases, so many from all over them first."""
    step = max(1, len(every) // count)
    return [case for start in range(step) for case in every[start::step]]


async def asked(model: str, every: list[Case], count: int) -> Figures:
    """What comes of so many of these cases, one after the other, and of those that are refused among them."""
    transport, figures, began = LocalTransport(model), Figures(), time.monotonic()
    try:
        await transport.warm()
        for number, case in enumerate(spread(every, count)):
            reply = Reply()
            await transport.send(case.body(TEMPERATURES[number % len(TEMPERATURES)]), reply)
            note(case, reply, figures)
            show_progress(figures, count)
            if figures.calls == count:
                break
    finally:
        await transport.aclose()
    figures.seconds = time.monotonic() - began
    return figures


def note(case: Case, reply: Reply, figures: Figures) -> None:
    """Count what came of a case."""
    figures.files[case.file] += 1
    if reply.status != 200:
        figures.refused.append(f"{case.file} {case.name}: {json.loads(reply.refusal)['error']['message']}")
        return
    fault = fault_of(case, reply)
    if not fault:
        figures.valid += 1
    elif fault.startswith("cut"):
        figures.cut.append(f"{case.file} {case.name}: {fault}")
    else:
        figures.invalid.append(f"{case.file} {case.name}: {fault}")


def fault_of(case: Case, reply: Reply) -> str:
    """What is wrong with the call in a reply, "" if nothing is."""
    reply.stream.close()
    if reply.stream.error is not None:
        return f"cut: {reply.stream.error}"
    calls = reply.stream.reply().calls
    if [call.name for call in calls] != [case.name]:
        return f"it called {[call.name for call in calls]}"
    validator = jsonschema_rs.validator_for(case.parameters, offline=True)
    for fault in validator.iter_errors(json.loads(calls[0].arguments)):
        return f"{fault.message} in {calls[0].arguments}"
    return ""


def show_progress(figures: Figures, count: int) -> None:
    """One line that is overwritten on a terminal, else one for every hundred."""
    done = figures.calls
    text = f"{done:,} of {count:,} calls: {len(figures.invalid)} invalid, {len(figures.refused)} schemas refused"
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if done < count else "\n", file=sys.stderr, flush=True)
    elif done % 100 == 0:
        print(text, file=sys.stderr, flush=True)


def show(model: str, functions: int, figures: Figures) -> None:
    """Print the table for a person."""
    rows = {
        "functions in bfcl-eval": functions,
        "asked for": sum(figures.files.values()),
        "refused, cannot be held": len(figures.refused),
        "calls": figures.calls,
        "valid": figures.valid,
        "cut by the token cap": len(figures.cut),
        "invalid": len(figures.invalid),
    }
    print(f"{model}, {figures.seconds:,.0f} s\nfrom {', '.join(f'{file} {n}' for file, n in figures.files.items())}\n")
    print("\n".join(f"{name:<28}{count:>7,}" for name, count in rows.items()))
    for title, named in (("Refused", figures.refused), ("Cut", figures.cut), ("Invalid", figures.invalid)):
        if named:
            print("\n".join(["", title, *(f"  {each}" for each in named)]))


def main() -> int:
    """Ask, print, and say by the exit code whether every call was valid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="how many calls, of functions from all over the data")
    parser.add_argument("--model", default=SMOLLM2, help='"smollm2", or the path of a GGUF file')
    parser.add_argument("--json", type=Path, help="a file to write the figures to")
    options = parser.parse_args()
    try:
        every = cases()
        figures = asyncio.run(asked(options.model, every, options.n))
    except (HotloopError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2
    show(options.model, len(every), figures)
    if options.json:
        options.json.write_text(json.dumps(figures.__dict__, indent=2))
    return 1 if figures.invalid else 0


if __name__ == "__main__":
    sys.exit(main())
