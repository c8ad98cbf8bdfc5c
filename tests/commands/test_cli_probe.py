from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from itertools import count
from urllib.parse import urlsplit

import msgspec
import pytest

from hotloop.lab.profilefile import load_profile
from hotloop.lab.profiles import Curve, Profile
from hotloop.testing import raw, say

FAULT = raw(b'{"error":{"message":"out of capacity"}}', status=503)


def _place(url):
    """What is told of a URL."""
    return urlsplit(url).netloc


def _every_second_fails():
    asked = count()
    return lambda request: FAULT if next(asked) % 2 else "one two three four five six"


def test_table_of_percentiles(hotloop, serve):
    url = serve(["one two three four five six"], ttft=0.01, tpot=0.002)
    ended = hotloop("probe", url, "--model", "simulated", "-n", 3)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == f"{_place(url)} · simulated · 3 requests, 1 at a time"
    assert lines[1].split() == ["p50", "p95", "p99"]
    for line, name in zip(lines[2:5], ("ttft", "tpot", "end to end"), strict=True):
        assert re.fullmatch(rf"{name}( +[\d.,]+ ms){{3}}", line)
    assert re.fullmatch(r"output tokens +6 +6 +6", lines[5])
    assert lines[6].startswith("3 of 3 complete · 18 tokens")
    assert max(map(len, lines[1:])) <= 80


def test_json_has_every_sample(hotloop, serve):
    url = serve(["one two three"], ttft=0.005, tpot=0.001)
    shown = json.loads(hotloop("probe", url, "--model", "m", "-n", 4, "--concurrency", 2, "--json").out)
    assert (shown["service"], shown["model"], shown["concurrency"], len(shown["samples"])) == (_place(url), "m", 2, 4)
    assert 5 <= shown["ttft"]["p50"] < 1000
    assert shown["output_tokens"] == 12


def test_a_key_in_the_url_is_not_told(hotloop, serve):
    url = serve(["one two three"])
    for way in ((), ("--json",)):
        ended = hotloop("probe", f"{url}?key=hunter2", "--model", "m", "-n", 1, *way)
        assert (ended.code, "hunter2" in ended.out + ended.err) == (0, False)


def test_the_question_and_its_cap_reach_the_service(hotloop, serve):
    requests = []

    def answer(request):
        requests.append(request)
        return "yes"

    hotloop("probe", serve(answer), "--model", "m", "-n", 1, "--prompt", "你好", "--max-tokens", 7)
    (request,) = requests
    assert request["messages"][-1]["content"] == "你好"
    assert (request["model"], request["max_tokens"]) == ("m", 7)


def test_some_failures_are_named_and_exit_1(hotloop, serve):
    ended = hotloop("probe", serve(_every_second_fails()), "--model", "m", "-n", 4)
    assert ended.code == 1
    assert "2 of 4 complete" in ended.out
    assert re.search(r"2 failed: Overloaded: .*out of capacity", ended.out)
    assert re.search(r"end to end, with failures +\S+ ms +never +never", ended.out)


def test_only_failures_exit_2(hotloop, serve):
    ended = hotloop("probe", serve(lambda _: FAULT), "--model", "m", "-n", 2)
    assert ended.code == 2
    assert re.search(r"ttft +- +- +-", ended.out)


def test_reply_that_takes_too_long_is_a_failure(hotloop, serve):
    ended = hotloop("probe", serve(["yes"], ttft=30.0), "--model", "m", "-n", 1, "--timeout", "20ms")
    assert ended.code == 2
    assert "1 failed: ReplyTimeout: The reply was not complete within 0.02 s." in ended.out


def test_no_time_for_a_reply_is_refused(hotloop):
    ended = hotloop("probe", "http://127.0.0.1:9/v1", "--model", "m", "--timeout", "0s")
    assert (ended.code, ended.out) == (2, "")
    assert "No reply comes in no time" in ended.err


def test_buffered_streams_are_called_so(hotloop, serve):
    ended = hotloop("probe", serve(["one two three four five six seven"], ttft=0.01), "--model", "m", "-n", 2)
    assert "2 buffered:" in ended.out
    assert re.search(r"tpot +- +- +-", ended.out)


def test_uncounted_tokens_are_unknown(hotloop, serve):
    ended = hotloop("probe", serve([say("one", usage={})]), "--model", "m", "-n", 1)
    assert re.search(r"output tokens +unknown +unknown +unknown", ended.out)


def test_key_is_sent_from_the_environment(hotloop, serve, monkeypatch):
    monkeypatch.setenv("HOTLOOP_API_KEY", "secret\nkey")  # which no header may have
    ended = hotloop("probe", serve(["yes"]), "--model", "m", "-n", 1)
    assert ended.code == 2
    assert "'authorization'" in ended.err
    assert "secret" not in ended.err


def test_service_without_a_model_is_refused(hotloop):
    ended = hotloop("probe", "http://127.0.0.1:9/v1")
    assert (ended.code, ended.err) == (2, "error: A service needs the name of a model: --model NAME.\n")


@pytest.mark.parametrize("options", [[], ["-n", 1]])
def test_nobody_there_exits_2(hotloop, options):
    ended = hotloop("probe", "http://127.0.0.1:9/v1", "--model", "m", *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1].startswith("error: Nothing listens at 127.0.0.1:9.")


FAST = Profile(
    name="fast",
    kind="lpu",
    base_ms=5.0,
    per_prompt_token_ms=0.02,
    tpot_ms=Curve(2.0),
    slots=5,
    cache_block=16,
    dialect="groq",
    granularity="call",
)


def test_a_quick_probe_shows_what_it_found_and_keeps_the_profile(hotloop, serve, tmp_path):
    url, file = serve(profile=FAST), tmp_path / "fast.yaml"
    ended = hotloop("probe", url, "--model", "m", "--quick", "--out", file)
    assert ended.code == 0
    assert re.match(r"About \d+ requests, [\d,]+ tokens to read and at most [\d,]+ to write\.", ended.err)
    lines = ended.out.splitlines()
    assert lines[0] == f"{url.split('/')[2]} · m · dialect generic"
    for shown in (
        r"server timings +yes +queue, prompt, completion \(as Groq\)",
        r"streamed arguments +no +each call came whole",
        r"milliseconds +ttft p50 +p95 +tpot p50 +p95 +p99",
        r"10 in a row( +[\d,.]+){5}",
        r"2,000 tokens, cached( +[\d,.]+){5}",
        r"10 in a row: \d+ took more than three times",
        r"kind +lpu: ",
        r"replies at once +5",
        r"prefix cache +in blocks of \d+ tokens",
        r"jitter +\d+% before the first token, \d+% from reply to reply",
        r"confidence +(medium|low), seen up to 8 at once; ",
        r"All of this simulated with the profile: medians differ by ttft \d+%",
        r"Written to .*fast.yaml; simulate it with: hotloop sim .*fast.yaml",
    ):
        assert any(re.match(shown, line) for line in lines), shown
    profile = load_profile(file)
    assert (profile.kind, profile.slots, profile.dialect, profile.granularity) == ("lpu", 5, "groq", "call")
    assert profile.base_ms + profile.rtt_ms == pytest.approx(5, abs=4)
    assert profile.tpot_ms.a == pytest.approx(2, rel=0.2)
    assert re.match(r"hotloop probe of 127\.0\.0\.1:\d+ on \d{4}-\d\d-\d\d, \d+ requests", profile.source)


def test_no_limit_is_claimed_beyond_what_was_seen(hotloop, serve):
    url = serve(profile=msgspec.structs.replace(FAST, slots=None))
    out = hotloop("probe", url, "--model", "m", "--quick").out
    assert re.search(r"replies at once +no limit seen up to 8 at once *\n", out)


def test_everything_as_json(hotloop, serve):
    shown = json.loads(hotloop("probe", serve(profile=FAST), "--model", "m", "--quick", "--json").out)
    assert {ability["found"] for ability in shown["abilities"]} == {"yes", "no"}
    cell = shown["cells"][0]
    assert (cell["cell"]["kind"], len(cell["samples"]), cell["summary"]["complete"]) == ("steady", 10, 10)
    assert shown["fit"]["profile"]["slots"] == 5
    assert set(shown["fit"]["deviations"]) == {"ttft", "tpot", "reply"}
    assert shown["replayed"][0]["title"] == "10 in a row"


def test_a_service_that_fails_most_of_the_time_has_no_profile(hotloop, serve, tmp_path):
    asked = count()
    file = tmp_path / "none.yaml"
    url = serve(lambda _: "one two three four five six" if next(asked) < 9 else FAULT, ttft=0.001, tpot=0.001)
    ended = hotloop("probe", url, "--model", "m", "--quick", "--out", file)
    assert (ended.code, file.exists()) == (2, False)
    assert "10 in a row: 3 of 4 failed: Overloaded: " in ended.out.replace("\n", " ")
    assert "not asked, because the service no longer answered" in ended.out
    assert "No profile: " in ended.out


def test_a_key_that_is_not_taken_is_an_error(hotloop, serve):
    denied = raw(b'{"error":{"message":"no such key"}}', status=401)
    ended = hotloop("probe", serve(lambda _: denied), "--model", "m")
    assert (ended.code, ended.out) == (2, "")
    assert "no such key" in ended.err


@pytest.mark.parametrize(("url", "options"), [("nowhere", []), ("http://127.0.0.1:9", ["--dialect", "none"])])
def test_what_cannot_be_asked_is_told_before_any_estimate(hotloop, url, options):
    ended = hotloop("probe", url, "--model", "m", *options)
    assert ended.code == 2
    assert ended.err.startswith("error: ")


@pytest.mark.parametrize("options", [["--quick", "-n", 3], ["--out", "p.yaml", "--prompt", "Hi"]])
def test_one_question_gives_no_profile(hotloop, options):
    ended = hotloop("probe", "http://127.0.0.1:9/v1", "--model", "m", *options)
    assert ended.code == 2
    assert ended.err.startswith("error: A profile takes more than one question")


@pytest.mark.parametrize("file", ["missing/p.yaml", "."])
def test_a_place_where_no_profile_can_be_written_is_told_before_anything_is_asked(hotloop, serve, tmp_path, file):
    requests = []
    url = serve(lambda request: requests.append(request) or "one")
    ended = hotloop("probe", url, "--model", "m", "--quick", "--out", tmp_path / file)
    assert (ended.code, requests) == (2, [])
    assert "cannot be written" in ended.err


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_ctrl_c_shows_what_was_found(serve):
    measuring = threading.Event()

    def answer(request):
        if request.get("max_tokens") == 64:  # the first cell
            measuring.set()
        return "one two three four five six seven eight nine ten"

    url = serve(answer, ttft=0.001, tpot=0.01)
    command = [sys.executable, "-c", "import sys; from hotloop.cli import main; sys.exit(main())", "probe", url]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--model", "m", "--json"], **pipes) as process:
        assert measuring.wait(20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err.splitlines()[-1]) == (130, "stopped")
    shown = json.loads(out)
    assert len(shown["abilities"]) == 11
    assert len(shown["cells"][0]["samples"]) < 100
    assert shown["replayed"] == []
