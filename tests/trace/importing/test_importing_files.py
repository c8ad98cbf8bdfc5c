"""Files of traces: in one piece or by the line, compressed or not; what is wrong with one is told with its line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hotloop.errors import ConfigError
from hotloop.trace.importing.files import read_otlp, records_of

SAMPLES = Path(__file__).parent.parent.parent / "data" / "otel"
LINES = (SAMPLES / "pydantic_ai-parallel.jsonl").read_text().splitlines()
OTHER = (SAMPLES / "agno-parallel.jsonl").read_text().splitlines()


def names(path):
    return [record.source for record in read_otlp(path)]


def split(line):
    """A request as several, with a span each, the last one first: a trace may be anywhere in a file."""
    (resource,) = json.loads(line)["resourceSpans"]
    return [
        json.dumps({"resourceSpans": [resource | {"scopeSpans": [scope | {"spans": [span]}]}]})
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ][::-1]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(LINES),
        "\ufeff" + "\n".join(LINES) + "\n\n",
        "\r\n".join(LINES),
        json.dumps(json.loads(LINES[0]), indent=2),
        "\n" + LINES[0],
        "\n".join(each for line in LINES for each in split(line)),
    ],
    ids=["lines", "with a BOM", "from Windows", "one in several lines", "one after an empty line", "a span a line"],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_each_form_of_a_file_is_read(tmp_path, text, compress):
    path = tmp_path / "spans.json"
    path.write_bytes(compress(text.encode()))
    (record,) = read_otlp(path)
    assert (record.source, len(record.turns)) == ("pydantic-ai", 2)


def test_traces_come_when_they_are_complete(tmp_path):
    first, *rest = split(LINES[0])
    (tmp_path / "mixed.jsonl").write_text("\n".join([first, *OTHER, *rest]))
    assert names(tmp_path / "mixed.jsonl") == ["agno", "pydantic-ai"]


def test_an_empty_file_has_no_runs(tmp_path):
    (tmp_path / "empty.json").write_text("\n")
    assert names(tmp_path / "empty.json") == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (LINES[0].encode() + b"\n" + OTHER[0].encode()[:-9] + b"\n", ":2: not valid JSON: Input data was truncated."),
        (LINES[0].encode() + b"\n\n{}\n", ":3: no OTLP: there is no resourceSpans in it."),
        (b'{\n "resourceSpans": [', ": not valid JSON: Input data was truncated."),
        (b"time,name\n1,chat\n", ":1: not valid JSON: JSON is malformed"),
        (gzip.compress(LINES[0].encode())[:-20], " cannot be read: Compressed file ended before"),
        (b"\x1f\x8b never compressed", " cannot be read: "),
        (b"\xff\xfe{\x00}\x00", ":1: not valid JSON: JSON is malformed"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(tmp_path, data, sentence):
    path = tmp_path / "spans.json"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as told:
        list(read_otlp(path))
    assert f"{path}{sentence}" in str(told.value)


def test_no_file_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="There is no file"):
        list(read_otlp(tmp_path / "no.json"))
    with pytest.raises(ConfigError, match="is a folder; give a file in it"):
        list(read_otlp(tmp_path))


@pytest.mark.parametrize("form", [str, str.encode, json.loads], ids=["text", "bytes", "decoded"])
def test_a_document_is_read_in_each_form(form):
    (record,) = records_of(form(LINES[0]))
    assert record.source == "pydantic-ai"


def test_a_trace_without_an_agent_has_no_runs():
    document = json.loads(LINES[0])
    (resource,) = document["resourceSpans"]
    resource["scopeSpans"] = [each for each in resource["scopeSpans"] if "http" in each["scope"]["name"]]
    assert records_of(document) == []
