import sys

import pytest

from hotloop.errors import ConfigError
from hotloop.lab.script import Reply, call, load_script, say

YAML = """
- text: Let me look.
  calls:
    - name: find
      arguments: {order_id: "20250101"}
- Your order has shipped.
- calls: [{name: ping}]
"""


def test_a_yaml_script(tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text(YAML)
    assert load_script(path) == [
        say("Let me look.", call("find", order_id="20250101")),
        say("Your order has shipped."),
        say("", call("ping")),
    ]


def test_a_json_script(tmp_path):
    path = tmp_path / "script.json"
    path.write_text('["one", {"text": "two", "usage": {"prompt_tokens": 3}}]')
    assert load_script(path) == [Reply("one"), Reply("two", usage=b'{"prompt_tokens":3}')]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "has no replies."),
        ("[]", "has no replies."),
        ("{}", "has to be a list of replies: texts, or keys text, calls and usage."),
        ("- one\n- 3\n", ":2: a reply is a text, or has keys text, calls and usage; this is of type int."),
        ("- {txt: hello}", ":1: unknown key txt."),
        ("- one\n\n- text: 5\n", ":3: text: expected text, got a whole number."),
        ("- calls:\n  - {arguments: {}}", ":1: calls[0]: missing key name."),
        ("- calls: [{name: a, arguments: {b: {~: 1}}}]", ":1: only dicts with str-like or number-like keys"),
        ("- one\n- [open\n", ":3: not valid YAML: while parsing a flow sequence, expected ',' or ']'"),
        ("- &x [*x]", ":1: not valid YAML: found unconstructable recursive node."),
        ("- 'a\x01b'", "is not YAML: unacceptable character #x0001"),
    ],
)
def test_what_is_wrong_in_a_script_is_told_with_its_line(tmp_path, content, told):
    path = tmp_path / "script.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as refused:
        load_script(path)
    sentence = str(refused.value)
    assert str(path) in sentence
    assert told in sentence
    assert "\n" not in sentence and "<" not in sentence.replace("<stream end>", "")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('["one",\n', ":2: not valid JSON: Expecting value."),
        ('["one", 3]', ": reply 2: a reply is a text"),
        ('["one", {"text": 5}]', ": reply 2: text: expected text, got a whole number."),
        ("{}", "has to be a list of replies"),
    ],
)
def test_what_is_wrong_in_a_json_script_is_told(tmp_path, content, told):
    path = tmp_path / "script.json"
    path.write_text(content)
    with pytest.raises(ConfigError) as refused:
        load_script(path)
    assert f"{path}" in str(refused.value)
    assert told in str(refused.value)


def test_a_script_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^There is no file .*none\.yaml\.$"):
        load_script(tmp_path / "none.yaml")


def test_without_pyyaml_a_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in ("hotloop.lab.scriptfile", "hotloop.config.nodes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigError, match=r'pip install "hotloop\[yaml\]"'):
        load_script(tmp_path / "script.yaml")
