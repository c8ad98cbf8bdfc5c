from __future__ import annotations

import pytest
from endings import full_record, record

from hotloop.errors import ConfigError
from hotloop.trace.lines import are_lines, read_lines, to_lines


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.jsonl"


def test_what_was_written_is_read(path):
    given = [full_record(), record("req-2")]
    path.write_bytes(b"\n".join(to_lines(given)))
    done: list[int] = []
    assert list(read_lines(path, done.append)) == given
    assert sum(done) == path.stat().st_size
    assert are_lines(path)


@pytest.mark.parametrize("text", ["", "\n\n", '{"resourceSpans": []}', "{\n}", "[]", '{"trace_id"', "\x1f\x8b\xff"])
def test_other_files_are_no_lines_of_records(path, text):
    path.write_text(text, "latin-1")
    assert not are_lines(path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"trace_id": 3}', "trace_id: expected text, got a whole number."),
        (b'{"trace_id": "a", "start": 0}', "missing key end."),
        (
            b'{"trace_id": "a", "start": 0, "end": 1, "outcome": "odd"}',
            'outcome: expected "ok" or "failed" or "paused" or "cancelled".',
        ),
        (b"{", "not valid JSON: Input data was truncated."),
        (b'{"trace_id": "\xff"}', "not valid JSON: Invalid UTF-8 encoded string."),
    ],
)
def test_the_line_at_fault_is_named(path, line, sentence):
    path.write_bytes(b"".join(to_lines([record()])) + b"\n" + line + b"\n")
    with pytest.raises(ConfigError) as fault:
        list(read_lines(path))
    assert str(fault.value).startswith(f"{path}:3: {sentence}")


@pytest.mark.parametrize("read", [are_lines, lambda path: list(read_lines(path))])
def test_a_file_that_cannot_be_read(tmp_path, read):
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=f"cannot be read: {why}"):
            read(path)
