from __future__ import annotations

import json
import re
from itertools import count

from hotloop.testing import raw, say

FAULT = raw(b'{"error":{"message":"out of capacity"}}', status=503)


def _every_second_fails():
    asked = count()
    return lambda request: FAULT if next(asked) % 2 else "one two three four five six"


def test_table_of_percentiles(hotloop, serve):
    url = serve(["one two three four five six"], ttft=0.01, tpot=0.002)
    ended = hotloop("probe", url, "--model", "simulated", "-n", 3)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == f"{url} · simulated · 3 requests, 1 at a time"
    assert lines[1].split() == ["p50", "p95", "p99"]
    for line, name in zip(lines[2:5], ("ttft", "tpot", "end to end"), strict=True):
        assert re.fullmatch(rf"{name}( +[\d.,]+ ms){{3}}", line)
    assert re.fullmatch(r"output tokens +6 +6 +6", lines[5])
    assert lines[6].startswith("3 of 3 complete · 18 tokens")
    assert max(map(len, lines[1:])) <= 80


def test_json_has_every_sample(hotloop, serve):
    url = serve(["one two three"], ttft=0.005, tpot=0.001)
    shown = json.loads(hotloop("probe", url, "--model", "m", "-n", 4, "--concurrency", 2, "--json").out)
    assert (shown["endpoint"], shown["model"], shown["concurrency"], len(shown["samples"])) == (url, "m", 2, 4)
    assert 5 <= shown["ttft"]["p50"] < 1000
    assert shown["output_tokens"] == 12


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


def test_nobody_there_exits_2(hotloop):
    ended = hotloop("probe", "http://127.0.0.1:9/v1", "--model", "m")
    assert ended.code == 2
    assert ended.err.startswith("error: Nothing listens at 127.0.0.1:9.")
