"""`hotloop sim` as its user meets it: lists, what cannot be simulated, and a service in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

HOTLOOP = (sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())")
ENOUGH = 20  # seconds, for anything on a busy machine


def test_the_list_has_every_profile_with_source_and_confidence(hotloop):
    ended = hotloop("sim", "--list")
    assert ended.code == 0
    lines = ended.out.splitlines()
    (place,) = [place for place, line in enumerate(lines) if line.startswith("gpu-h100x2-llama70b-fp8")]
    assert lines[place].split()[1:] == ["gpu", "88", "ms", "18.5", "ms", "59.7", "ms"]
    assert "NVIDIA" in lines[place + 1]
    assert ended.out.count("Confidence: ") == 9
    assert "retries" not in ended.out
    assert max(map(len, lines)) <= 80


def test_the_list_as_json(hotloop):
    listed = json.loads(hotloop("sim", "--list", "--json").out)
    by_name = {profile["name"]: profile for profile in listed["profiles"]}
    assert by_name["gpu-h100x2-llama70b-fp8"]["tpot_ms"] == {"a": 17.7, "b": 0.84, "cap": 93.0}
    assert listed["faults"]["cut"] == "The connection breaks in the middle of the reply."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nope"], "There is no profile 'nope' and no such file; there are gpu-h100x2-llama70b-fp8,"),
        (
            ["gpu-h100-llama8b", "--ttft", "5ms"],
            "A profile has its own times: leave ttft and tpot out, or the profile.",
        ),
        (["--faults", "cu:1%"], "There is no fault 'cu'; there are 429,"),
        (["--faults", "slow*0:5%"], "slow*0 is not slower; write 1 or more, like slow*20."),
        (["--faults", ""], "--faults names none; fill it in, like cut:1%, or leave it out."),
        (["--rpm", "0"], 'Invalid value "0" for --rpm.'),
        (["--context-limit", "0"], 'Invalid value "0" for --context-limit.'),
    ],
)
def test_what_cannot_be_simulated_is_a_sentence(hotloop, arguments, sentence):
    ended = hotloop("sim", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err


def test_a_wrong_profile_is_told_by_line(hotloop, tmp_path):
    path = tmp_path / "ours.yaml"
    path.write_text("name: ours\nkind: tpu\nbase_ms: 1\nper_prompt_token_ms: 0\ntpot_ms: {a: fast}\n")
    ended = hotloop("sim", path)
    assert ended.code == 2
    assert f"{path}:2: kind: is 'tpu'; there are gpu, lpu\n" in ended.err
    assert f"{path}:5: tpot_ms.a: expected a number, got text\n" in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_again_and_again_ends_it_as_once():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*HOTLOOP, "sim"], **pipes) as process:
        process.stdout.readline()
        while "Try, in another terminal" not in process.stderr.readline():
            pass
        for _ in range(3):
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=ENOUGH)
    assert process.returncode == 0
    assert err.endswith("requests served: 0 · tokens: 0\n")


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_a_profile_is_served_with_its_faults_and_limits(tmp_path):
    path = tmp_path / "ours.yaml"
    path.write_text(
        "name: ours\nkind: lpu\nbase_ms: 1\nper_prompt_token_ms: 0\ntpot_ms: {a: 0.1}\n"
        "dialect: groq\nsource: a test\nconfidence: none\n"
    )
    options = "--rpm 3 --context-limit 90 --seed 3 --faults zero-index:100%"
    command = [*HOTLOOP, "sim", str(path), *options.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            assert "queue_time" in _ask(url)["usage"]
            _ask(url)
            with pytest.raises(urllib.error.HTTPError, match="400"):
                _ask(url, "Hi " * 100)
            with pytest.raises(urllib.error.HTTPError, match="429"):
                _ask(url)
        finally:
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=ENOUGH)
    assert process.returncode == 0
    assert "ours: a test. Confidence: none." in err
    *_, kept, served = err.splitlines()
    assert served == "requests served: 4 · tokens: 2"
    assert kept.startswith("writes behind time: p99 ")


def _ask(url, prompt="Hi"):
    body = {"model": "any", "messages": [{"role": "user", "content": prompt}]}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=ENOUGH) as reply:
        return json.load(reply)
