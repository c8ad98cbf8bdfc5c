"""The sections of a declaration that say who thinks and what is kept: each mistake has its line, key and sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotloop import Breaker, Policy
from hotloop.config.modelspec import CascadeSpec, ModelSpec, RuleSpec
from hotloop.config.spec import AgentSpec, AnswersSpec, load_spec
from hotloop.errors import ConfigError

LEAST = "inference: {endpoint: local, model: m}\n"
INFERENCE = "inference:\n  endpoint: local\n  model: m\n  "
POLICY = INFERENCE + "policy:\n    "
ROUTER = "router:\n  default: fast\n  models:\n    fast: {endpoint: local, model: m}\n"
RULES = ROUTER + "  rules:\n    - {to: fast, pattern: x}\n    - "


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str) -> AgentSpec:
    """What a file with this text declares."""
    Path("a.yaml").write_text(text, encoding="utf-8")
    return load_spec("a.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (POLICY + "connect: 0", ":5: inference.policy.connect: expected a number > 0"),
        (POLICY + "total: .inf", ":5: inference.policy.total: inf is no duration"),
        (POLICY + "first_token_ms: soon", ":5: inference.policy.first_token_ms: expected a number of milliseconds"),
        (POLICY + "stall: learnt", ":5: inference.policy.stall: 'learnt' is no duration; write it like 600ms, 1.5s or"),
        (
            POLICY + "stall: [1]",
            ":5: inference.policy.stall: expected a time such as 600ms, 1.5s or 2m, or a number of",
        ),
        (POLICY + "retries: -1", ":5: inference.policy.retries: expected a whole number >= 0"),
        (POLICY + "jitter: 2", ":5: inference.policy.jitter: expected a number <= 1"),
        (POLICY + "hedge: maybe", ":5: inference.policy.hedge: expected true or false, got text"),
        (POLICY + "conect: 1", ":5: inference.policy.conect: unknown key; did you mean connect?"),
        (POLICY + "breaker: 5", ":5: inference.policy.breaker: expected keys with values, got one value"),
        (POLICY + "breaker:\n      cool: 0s", ":6: inference.policy.breaker.cool: expected a number > 0"),
        (POLICY + "breaker:\n      window: 5", ":5: inference.policy.breaker: The breaker's at_least is 10; give at"),
        (INFERENCE + "headers:\n    x: a\n    y: 1", ":6: inference.headers.y: expected text, got a whole number; "),
        (INFERENCE + "price_in: -1", ":4: inference.price_in: expected a number >= 0"),
        (INFERENCE + "fallback:\n    - {model: m}", ":5: inference.fallback[0].endpoint: is missing"),
        (INFERENCE + "fallback:\n    - 5", ":5: inference.fallback[0]: expected keys with values, got one value"),
        (INFERENCE + "fallback: {model: m}", ":4: inference.fallback: expected a list, got keys with values"),
        (RULES + "{to: fast}", ":7: router.rules[1]: The rule for fast fits everything"),
        (RULES + "{to: fast, pattern: '('}", ":7: router.rules[1]: The rule's pattern '(' is no regular expression"),
        (RULES + "{to: fast, max_left: soon}", ":7: router.rules[1].max_left: 'soon' is no duration"),
        (
            RULES + "{to: slow, when: 'm:f'}",
            ":1: router: rules[1].to is 'slow', which is no model of the router; there",
        ),
        (ROUTER.replace("fast\n", "fats\n"), ":1: router: default is 'fats', which is no model of the router; there"),
        (ROUTER + "  per: day", ':5: router.per: expected "request" or "turn"'),
        (ROUTER + "  cascade: {confidence: 2}", ":5: router.cascade.confidence: expected a number <= 1"),
        ("router: {default: a, models: }", ":1: router: The router has no models"),
        (ROUTER + LEAST, ":1: it needs either inference, with endpoint and model, or router, and not both"),
        (LEAST + "cache: {answers: {ttl: 0}}", ":2: cache.answers.ttl: expected a number > 0"),
        (LEAST + "cache: {answers: {}}", ":2: cache.answers.ttl: is missing"),
        (LEAST + "cache: {answers: {ttl: 5, embed: x}}", ':2: cache.answers.embed: expected "local"'),
        (LEAST + "cache: {speculate: 1}", ":2: cache.speculate: expected true or false, got a whole number"),
        (LEAST + "output: 5", ":2: output: expected text, got a whole number; put it in quotes"),
        (
            LEAST + "tools: {mcp: [{name: a}]}",
            ":2: tools.mcp[0]: An MCP server has a command, which starts it, or a url",
        ),
    ],
)
def test_each_mistake_has_its_line_key_and_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert str(caught.value).startswith(f"a.yaml{said}")
    assert "\n" not in str(caught.value)


def test_nothing_and_words_are_taken_where_they_may_be() -> None:
    spec = load(POLICY + "{breaker: , stall: learned, first_token: , total: 90s}\n")
    assert spec.inference is not None
    assert spec.inference.policy == Policy(breaker=None, stall="learned", first_token=None, total=90)
    assert load(POLICY + "{breaker: {}, stall: 600ms}\n").models[0].policy == Policy(breaker=Breaker(), stall=0.6)
    assert load(LEAST + "cache: {answers: }\nbudget:\n").cache.answers is None


def test_a_router_and_what_is_kept_are_declared() -> None:
    spec = load(
        RULES + "{to: fast, max_left: 800ms, background: false}\n"
        "  cascade: {confidence: 0.5}\n  per: turn\ncache: {answers: {ttl: 1h, similarity: 0.8}}\n"
    )
    assert spec.router is not None
    assert spec.router.models == {"fast": ModelSpec(endpoint="local", model="m")}
    assert spec.router.rules == (RuleSpec(to="fast", pattern="x"), RuleSpec(to="fast", max_left=0.8, background=False))
    assert (spec.router.cascade, spec.router.per) == (CascadeSpec(confidence=0.5), "turn")
    assert spec.cache.answers == AnswersSpec(ttl=3600, similarity=0.8)


@pytest.mark.parametrize(
    "text",
    [
        LEAST + "cache: {answers: {ttl: 5, scope: '${IT}'}}\n",
        POLICY + "stall: ${IT}\n",
        INFERENCE + "headers: {a: '${IT}', b: 3}\n",
        ROUTER.replace("default: fast", "default: ${IT}"),
        RULES + "{to: fast, pattern: '${IT}('}\n",
    ],
)
def test_what_comes_from_the_environment_is_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IT", "hunter2")
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert "a.yaml:" in str(caught.value) and "hunter2" not in str(caught.value)


def test_no_secret_is_printed() -> None:
    spec = load(
        "inference: {endpoint: 'http://h/v1?key=hunter2', model: m, api_key: hunter2, headers: {k: hunter2}}\n"
        "tools:\n"
        "  mcp:\n"
        "    - {name: a, url: 'http://me:hunter2@h/?key=hunter2', headers: {k: hunter2}}\n"
        "    - {name: b, command: [serve, --token=hunter2], env: {KEY: hunter2}}\n"
        "  openapi: [{source: 'https://hunter2@h/x?key=hunter2', auth: {bearer: hunter2}}]\n"
    )
    assert "hunter2" not in repr(spec) + str(spec)
    assert "mcp=(MCPSpec(name='a', url='http://***@h/?***', headers={'k': '***'}), " in repr(spec)
