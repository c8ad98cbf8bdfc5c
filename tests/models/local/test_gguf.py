"""What a GGUF file says about itself."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hotloop.errors import WeightsError
from hotloop.models.local.gguf import read_gguf


def test_the_real_file(weights: Path) -> None:
    file = read_gguf(weights)
    assert file.path == weights.resolve()
    assert file.ends == (0, 2)  # <|endoftext|> and <|im_end|>


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not in GGUF"),
        (b"PK\x03\x04 a wheel", "is not in GGUF"),
        (b"GGUF", "is damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 1 << 40), "a text of 1099511627776 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<I", 99), "is damaged"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=reason):
        read_gguf(path)


def test_a_file_cut_anywhere_in_its_header_is_refused(weights: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with weights.open("rb") as whole:
        head = whole.read(200_000)
    for length in range(4, 200_000, 9973):
        path.write_bytes(head[:length])
        with pytest.raises(WeightsError, match="is damaged"):
            read_gguf(path)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be read"):
        read_gguf(tmp_path)
