"""Make an environment for each library that hotloop is compared with, and one for the tokenisers of `estimate.py`.

    python benchmarks/environments.py              all of them, about 1 GB in benchmarks/venvs/
    python benchmarks/environments.py agno aiohttp only these

Needs nothing but Python with pip. An environment is named after its file in benchmarks/requirements/, is made
again when that file changes or when an earlier attempt was interrupted, and is left alone otherwise. A file that begins
with "# --no-deps" lists all that is to be installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in (HERE / "requirements").glob("*.txt"))


def python_of(name: str) -> Path:
    """The interpreter of the environment called `name`, whether or not it has been made."""
    place = "Scripts/python.exe" if sys.platform == "win32" else "bin/python"
    return HERE / "venvs" / name / place


def ready(name: str) -> bool:
    """Whether the environment holds what its requirements file asks for now."""
    installed = _stamp(name)
    return installed.exists() and installed.read_text() == _requirements(name).read_text()


def make(name: str) -> None:
    """Make the environment called `name`; raises subprocess.CalledProcessError when pip fails."""
    _stamp(name).unlink(missing_ok=True)
    venv.create(HERE / "venvs" / name, with_pip=True, clear=True)
    pip = [str(python_of(name)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    alone = ["--no-deps"] if _requirements(name).read_text().startswith("# --no-deps") else []
    subprocess.run([*pip, *alone, "-r", str(_requirements(name))], check=True)
    _stamp(name).write_text(_requirements(name).read_text())


def _requirements(name: str) -> Path:
    return HERE / "requirements" / f"{name}.txt"


def _stamp(name: str) -> Path:
    return HERE / "venvs" / name / "installed.txt"


def main() -> int:
    """Make what is missing; exit code 0 when every environment asked for is there, 1 when pip failed for one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="%(prog)s [NAME ...]"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(NAMES))
    names = parser.parse_args().names or NAMES
    if unknown := set(names) - set(NAMES):
        parser.error(f"no requirements for {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    return max([_make_and_say(name) for name in names])


def _make_and_say(name: str) -> int:
    if ready(name):
        print(f"{name}: already there", flush=True)
        return 0
    lines = _requirements(name).read_text().splitlines()
    wanted = ", ".join(line for line in lines if not line.startswith("#"))
    print(f"{name}: installing {wanted} ...", flush=True)
    started = time.monotonic()
    try:
        make(name)
    except subprocess.CalledProcessError:
        print(f"{name}: FAILED; what pip said is above", flush=True)
        return 1
    print(f"{name}: done in {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
