import sys

import msgspec
import pytest

from hotloop.errors import ConfigError
from hotloop.lab.profilefile import load_profile, save_profile
from hotloop.lab.profiles import Curve, Profile
from hotloop.lab.profiletable import PROFILES

YAML = """\
name: ours
kind: gpu
base_ms: 8
per_prompt_token_ms: 0.08
tpot_ms: {a: 17.7, b: 0.84, cap: 93}
slots: 90
source: measured on a Tuesday
"""


def given(**fields):
    return {"name": "x", "kind": "gpu", "base_ms": 1.0, "per_prompt_token_ms": 0.1, "tpot_ms": Curve(2.0)} | fields


def test_the_formula():
    profile = Profile(**given(rtt_ms=3.0, wait_ms=Curve(0.0, 2.0), tpot_ms=Curve(4.0, 0.5, 0.1, cap=20.0)))
    assert profile.ttft_ms(100) == 3 + 1 + 10
    assert profile.ttft_ms(100, cached=80, others=4) == pytest.approx(3 + 1 + 8 + 2)
    assert profile.reply_ms(100, 11) == pytest.approx(14 + 10 * (4 + 0.5 + 0.1))
    assert profile.reply_ms(100, 11, replies=5) == pytest.approx(14 + 8 + 10 * (4 + 2.5 + 2.5))
    assert profile.tpot_ms.at(100) == 20


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_every_profile_says_where_it_is_from_and_survives_a_file(profile, tmp_path):
    assert profile.source and profile.confidence
    assert load_profile(profile.name) is load_profile(profile) is profile
    save_profile(profile, tmp_path / "copy.yaml")
    assert load_profile(tmp_path / "copy.yaml") == profile
    assert [path.name for path in tmp_path.iterdir()] == ["copy.yaml"]


def test_a_file(tmp_path):
    path = tmp_path / "ours.yaml"
    path.write_text(YAML)
    profile = load_profile(str(path))
    assert (profile.name, profile.base_ms, profile.tpot_ms, profile.slots) == (
        "ours",
        8.0,
        Curve(17.7, 0.84, cap=93.0),
        90,
    )
    (tmp_path / "ours.json").write_bytes(msgspec.json.encode(profile))
    assert load_profile(tmp_path / "ours.json") == profile


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("kind: gpu", "kind: tpu", [":2: kind: is 'tpu'; there are gpu, lpu"]),
        ("base_ms: 8", "base_ms: -1", [":3: base_ms: expected a number >= 0"]),
        ("base_ms: 8", "base_ms: soon", [":3: base_ms: expected a number, got text"]),
        ("base_ms: 8", "base_ms: 8ms", [":3: base_ms: expected a number, got text; write milliseconds without"]),
        ("b: 0.84", "b: 1s", [":5: tpot_ms.b: expected a number, got text; write milliseconds without the unit"]),
        ("slots: 90", "cache_expiry: 10m", [":6: cache_expiry: expected a number, got text; write seconds without"]),
        ("base_ms: 8", "base_ms: .inf", [":3: base_ms: is inf; give a number that is finite"]),
        ("base_ms: 8", "base: 8", [":1: base_ms: is missing", ":3: base: unknown key; did you mean base_ms?"]),
        ("b: 0.84", "b: x", [":5: tpot_ms.b: expected a number, got text"]),
        ("b: 0.84", "e: 1", [":5: tpot_ms: unknown key e"]),
        ("slots: 90", "slots: 0\ndialect: groc", [":6: slots: expected a whole number >= 1", ":7: dialect: is 'groc'"]),
        ("slots: 90", "slots: 90\nslots: 80", [":7: slots: is given twice, first on line 6"]),
        ("kind: gpu", "kind: lpu", [":5: tpot_ms.b: an LPU decodes at a fixed rate"]),
        ("name: ours", "name: ''", [":1: name: is empty"]),
        ("kind: gpu", "kind: [", [":4: not valid YAML"]),
        (YAML, "- one\n", [":1: expected keys with values, got a list"]),
        (YAML, " \n", [" is empty; `hotloop sim --list --json` shows what is in one."]),
    ],
)
def test_everything_that_is_wrong_in_a_file_is_told_with_its_line(tmp_path, old, new, told):
    path = tmp_path / "ours.yaml"
    path.write_text(YAML.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        load_profile(path)
    for sentence in told:
        assert f"{path}{sentence}" in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"base_ms": -1.0}, "base_ms: expected a number >= 0"),
        ({"interference": 1.5}, "interference: expected a number <= 1"),
        ({"queue_sigma": float("nan")}, "queue_sigma"),
        ({"granularity": "letter"}, "granularity: is 'letter'; there are token, call, burst"),
        ({"kind": "lpu", "interference": 0.5}, "interference: prefills of an LPU disturb nobody"),
    ],
)
def test_what_no_service_is_like_is_refused(fields, told):
    with pytest.raises(ConfigError, match=told):
        Profile(**given(**fields))


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("gpu-h100-llama8", r"There is no profile 'gpu-h100-llama8' .* \(did you mean gpu-h100-llama8b\?\)"),
        ("none.yaml", r"There is no file none\.yaml"),
    ],
)
def test_a_profile_that_is_not_there_is_refused(which, told):
    with pytest.raises(ConfigError, match=told):
        load_profile(which)


def test_a_profile_that_cannot_be_written_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(ConfigError, match="taken cannot be written: Is a directory"):
        save_profile(PROFILES["gpu-h100-llama8b"], tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_without_pyyaml_a_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in ("hotloop.lab.profileyaml", "hotloop.config.nodes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigError, match=r'pip install "hotloop\[yaml\]"'):
        load_profile(tmp_path / "ours.yaml")
    with pytest.raises(ConfigError, match=r'pip install "hotloop\[yaml\]"'):
        save_profile(PROFILES["gpu-h100-llama8b"], tmp_path / "ours.yaml")
