"""Checks the core without extras: its dependencies, the modules it imports, and its import time next to aiohttp's.

Makes two throwaway environments. The time is a ratio of medians, taken in turns, because machines are noisy.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = {"hotloop", "httptools", "msgspec"}
TOOLING = {"pip", "setuptools", "wheel"}
UNWANTED = [
    "pydantic",
    "openai",
    "opentelemetry",
    "yaml",
    "rich",
    "cyclopts",
    "uvloop",
    "xllamacpp",
    "requests",
    "httpx",
    "httpx2",
    "mcp",
    "anyio",
    "jsonschema_rs",
    "sqlite3",
]
ROUNDS = 15
MOST = 100 / 160  # of the time that `import aiohttp` takes


def environment(folder: Path, *packages: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def output(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout


def import_seconds(python: Path, module: str) -> float:
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return float(output(python, code))


def check_dependencies(python: Path) -> None:
    code = "import importlib.metadata as m, json; print(json.dumps([d.name for d in m.distributions()]))"
    installed = {name.lower() for name in json.loads(output(python, code))} - TOOLING
    if installed != CORE:
        sys.exit(f"the core installs {sorted(installed)}, it should install {sorted(CORE)}")
    loaded = json.loads(output(python, "import hotloop, json, sys; print(json.dumps(list(sys.modules)))"))
    if found := [name for name in UNWANTED if name in loaded]:
        sys.exit(f"import hotloop loads {found}")


def check_import_time(ours: Path, theirs: Path) -> None:
    pairs = [(import_seconds(ours, "hotloop"), import_seconds(theirs, "aiohttp")) for _ in range(ROUNDS)]
    hotloop, aiohttp = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"import hotloop {hotloop:.0f} ms, import aiohttp {aiohttp:.0f} ms, ratio {ratio:.2f} (at most {MOST:.3f})")
    if ratio > MOST:
        sys.exit("import hotloop is too slow")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        ours = environment(Path(name) / "core", str(ROOT))
        theirs = environment(Path(name) / "aiohttp", "aiohttp")
        check_dependencies(ours)
        check_import_time(ours, theirs)
    print("the core is clean")


if __name__ == "__main__":
    main()
