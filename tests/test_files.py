"""Files that are read whole: what is in them, and what is said of those that cannot be read."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from hotloop.errors import ConfigError
from hotloop.files import json_lines, read_text, write_whole


class Point(msgspec.Struct):
    x: int
    tags: list[str] = []


def test_each_line_of_json_is_a_value_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"x":1}\r\n\n  \n{"x":2,"tags":["a\xe2\x80\xa8b"]}')  # a line separator ends no line
    assert json_lines(path, Point) == [(f"{path}:1", Point(1)), (f"{path}:4", Point(2, ["a\u2028b"]))]
    assert json_lines(path)[0] == (f"{path}:1", {"x": 1})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"x":"1"}', ":2: x: expected a whole number, got text."),
        (b'{"x":1,"tags":["a",2]}', ":2: tags[1]: expected text, got a whole number."),
        (b"{}", ":2: missing key x."),
        (b"[]", ":2: expected keys with values, got a list."),
        (b'{"x":', ":2: not valid JSON: "),
        (b'{"x":1,"tags":["\xff"]}', ":2: not valid JSON: "),
    ],
)
def test_a_line_that_is_none_is_told_by_its_place(line: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    path.write_bytes(b'{"x":1}\n' + line)
    with pytest.raises(ConfigError) as caught:
        json_lines(path, Point)
    assert str(caught.value).startswith(f"{path}{said}")


@pytest.mark.parametrize("read", [read_text, json_lines])
def test_a_file_that_is_none_says_why(read, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^There is no file .*nope\.$"):
        read(tmp_path / "nope")
    with pytest.raises(ConfigError, match=r"^The path .* is a folder; give a file in it\.$"):
        read(tmp_path)
    with pytest.raises(ConfigError, match=r"^The file .* cannot be read: Not a directory\.$"):
        read(Path(__file__) / "more")


def test_where_nothing_may_be_written_or_removed_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_bytes", read_only)
    monkeypatch.setattr(Path, "unlink", read_only)
    with pytest.raises(ConfigError, match=r"x\.json cannot be written: Read-only file system"):
        write_whole(tmp_path / "x.json", b"{}")
