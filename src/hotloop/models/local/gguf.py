"""What a GGUF file says about itself, read without loading it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hotloop.errors import WeightsError

_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 24  # bytes of one text: more is a damaged file
_TOKENS = "tokenizer.ggml.tokens"
_END_IDS = ("eos_token_id", "eot_token_id", "eom_token_id")
_END_TEXTS = frozenset(
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>", "</s>", "<EOT>"]
)


class ModelFile(NamedTuple):
    """A model's file, and the tokens that may end the model's turn."""

    path: Path
    ends: tuple[int, ...]


def read_gguf(path: Path) -> ModelFile:
    """What `path` holds; raises WeightsError if it is not there or no model in GGUF."""
    try:
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                raise WeightsError(f"{path} is not in GGUF, the format of llama.cpp's models.")
            facts = _metadata(file)
    except OSError as error:
        raise WeightsError(f"The model {path} cannot be read: {error.strerror or error}.") from error
    except (struct.error, KeyError, ValueError) as error:
        raise WeightsError(
            f"{path} is damaged: its metadata cannot be read ({error}). Fetch the file again."
        ) from error
    return ModelFile(path.resolve(), _ends(facts))


def _ends(facts: dict[str, Any]) -> tuple[int, ...]:
    named = {facts[key] for each in _END_IDS if (key := f"tokenizer.ggml.{each}") in facts}
    return tuple(sorted(named | {place for place, text in enumerate(facts.get(_TOKENS, ())) if text in _END_TEXTS}))


def _metadata(file: BinaryIO) -> dict[str, Any]:
    """The scalars and texts of the file's header; of arrays, only the vocabulary."""
    _version, _tensors, count = _numbers(file, "IQQ")
    facts: dict[str, Any] = {}
    for _ in range(count):
        key = _text(file)
        (kind,) = _numbers(file, "I")
        if key == _TOKENS:
            _kind, size = _numbers(file, "IQ")
            facts[key] = [_text(file) for _ in range(size)]
        elif kind == _ARRAY:
            _skip_array(file)
        else:
            facts[key] = _text(file) if kind == _STRING else _numbers(file, _SCALARS[kind])[0]
    return facts


def _skip_array(file: BinaryIO) -> None:
    kind, count = _numbers(file, "IQ")
    if kind == _STRING:
        for _ in range(count):
            file.seek(_numbers(file, "Q")[0], 1)
    elif kind == _ARRAY:
        for _ in range(count):
            _skip_array(file)
    else:
        file.seek(count * struct.calcsize(_SCALARS[kind]), 1)


def _text(file: BinaryIO) -> str:
    (length,) = _numbers(file, "Q")
    if length > _LONGEST:
        raise ValueError(f"a text of {length} bytes")
    return file.read(length).decode("utf-8")


def _numbers(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))
