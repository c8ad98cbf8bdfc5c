"""Declarations: what loads, and what a person is told about one that does not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop import Agent
from hotloop.budget import Budget
from hotloop.config.arguments import agent_arguments, load_tools
from hotloop.config.modelspec import InferenceSpec
from hotloop.config.spec import AgentSpec, CacheSpec, load_spec
from hotloop.config.toolspec import RulesSpec, ToolsSpec
from hotloop.context.settings import Window
from hotloop.errors import ConfigError, ModelError, ToolDefinitionError
from hotloop.tools.defining.tool import Tool

ROOT = Path(__file__).parents[2]
AS_WRITTEN = """\
inference:
  endpoint: "http://your-gateway/v1/chat/completions"
  model: "groq-3-lpx"
  temperature: 0.0
  max_tokens: 2048
  stream: true
tools:
  parallel: true
  max_parallel: 4
  timeout_ms: 3000
  retry: 1
cache:
  tool_result_ttl_seconds: 60
  prefix_cache: true
"""
LEAST = "inference: {endpoint: local, model: smollm2}\n"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str) -> AgentSpec:
    """What a file with this text declares."""
    Path("agent.yaml").write_text(text, encoding="utf-8")
    return load_spec("agent.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value).split("\n")


def test_the_declaration_of_the_readme_loads_unchanged() -> None:
    assert load(AS_WRITTEN) == AgentSpec(
        inference=InferenceSpec(
            endpoint="http://your-gateway/v1/chat/completions",
            model="groq-3-lpx",
            temperature=0.0,
            max_tokens=2048,
            stream=True,
        ),
        tools=ToolsSpec(parallel=True, max_parallel=4, timeout=3.0, retry=1),
        cache=CacheSpec(tool_result_ttl=60.0, prefix_cache=True),
    )


def test_everything_else_can_be_declared_too(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("You are an order assistant.\n", encoding="utf-8")
    file = tmp_path / "agent.yaml"
    file.write_text(
        "name: orders\n"
        "instructions: {file: prompt.md}\n"
        "inference: {endpoint: 'unix:/run/model.sock', model: m, dialect: vllm, timeout_ms: 500, retries: 0}\n"
        "tools: {use: ['orders:look_up'], shortlist: 3, timeout: 2m}\n"
        "budget: {total: 1.5s, model_ms: 600, tools: 0.4, answer_reserve: 300ms}\n"
        "max_turns: 3\n",
        encoding="utf-8",
    )
    assert load_spec(file) == AgentSpec(
        name="orders",
        instructions="You are an order assistant.",
        inference=InferenceSpec(endpoint="unix:/run/model.sock", model="m", dialect="vllm", timeout=0.5, retries=0),
        tools=ToolsSpec(use=("orders:look_up",), shortlist=3, timeout=120.0),
        budget=Budget(total=1.5, model=0.6, tools=0.4, answer_reserve=0.3),
        max_turns=3,
        folder=tmp_path,
    )


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("agent", ["query_order_status", "query_logistics"]),
        ("refunds", ["query_order", "refund_order"]),
        ("lasting", ["remember"]),
    ],
)
def test_the_examples_load_with_all_that_they_name(
    name: str, tools: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, name, raising=False)  # another test's copy
    given = agent_arguments(load_spec(ROOT / "examples" / f"{name}.yaml"))
    assert [each.name for each in given["tools"]] == tools


def test_the_declarations_in_the_documentation_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "key")
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    first, *more = [part.partition("```")[0] for part in page.split("```yaml\n")[1:]]
    assert load(first).budget == Budget(total=1.5, model=0.6, answer_reserve=0.3)
    whole = ("inference:", "router:")
    service, models, kept, lasting = [load(text if text.startswith(whole) else LEAST + text) for text in more]
    assert lasting.context and lasting.context.window == Window(turns=40, age=43200, relevant=3)
    assert service.inference and service.router is None and len(service.models) == 2
    assert models.router and [each.model for each in models.models][2] == "smollm2"
    assert kept.cache.answers and kept.output == "tickets:Ticket"


def test_an_empty_section_means_its_defaults() -> None:
    spec = load(LEAST + "tools:\n  use:\ncache:\nbudget:\n")
    assert (spec.tools, spec.cache, spec.budget) == (ToolsSpec(), CacheSpec(), None)


def test_json_loads_with_its_tabs_escapes_and_numbers(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text(
        '{\n\t"inference": {\n\t\t"endpoint": "local", "model": "\\ud83d\\ude00\\/", "temperature": 1e-1\n\t}\n}',
        encoding="utf-8",
    )
    assert load_spec(str(file)).inference == InferenceSpec(endpoint="local", model="😀/", temperature=0.1)
    file.write_text(json.dumps({"inference": {"endpoint": "local", "modle": "x"}}, indent="\t"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"agent.json:4: inference.modle: unknown key; did you mean model\?"):
        load_spec(file)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(LEAST, encoding="utf-8-sig")
    assert load_spec(file).inference.model == "smollm2"


def test_every_problem_is_told_at_once_by_line_and_key() -> None:
    told = problems(
        "inference:\n"  # 1
        "  endpoint: localhost\n"
        "  model: 5\n"
        "  stream: 'yes'\n"
        "  timeout_ms: 3s\n"
        "  max_tokens: 0\n"
        "  dialect: grok\n"
        "tols: 3\n"
        "tools:\n"
        "  max_paralel: 4\n"  # 10
        "  use:\n"
        "    - a:b\n"
        "    - 3\n"
        "  timeout: soon\n"
        "  timeout_ms: 3\n"
        "temperature: 0\n"
        "cache: 7\n"
        "max_turns:\n"
    )
    expected = [
        "agent.yaml:2: inference.endpoint: The endpoint 'localhost",
        "agent.yaml:3: inference.model: expected text, got a whole number; put it in quotes",
        "agent.yaml:4: inference.stream: expected true or false, got text",
        "agent.yaml:5: inference.timeout_ms: expected a number of milliseconds",
        "agent.yaml:6: inference.max_tokens: expected a whole number >= 1",
        "agent.yaml:7: inference.dialect: There is no dialect 'grok'",
        "agent.yaml:8: tols: unknown key; did you mean tools?",
        "agent.yaml:10: tools.max_paralel: unknown key; did you mean max_parallel?",
        "agent.yaml:13: tools.use[1]: expected text, got a whole number; put it in quotes",
        "agent.yaml:14: tools.timeout: 'soon' is no duration; write it like 600ms, 1.5s or 2m",
        "agent.yaml:15: tools.timeout_ms: timeout is given twice, in different units",
        "agent.yaml:16: temperature: unknown key here; did you mean inference.temperature?",
        "agent.yaml:17: cache: expected keys with values, got one value",
        "agent.yaml:18: max_turns: expected a whole number, got nothing",
    ]
    assert [line[: len(start)] for line, start in zip(told, expected, strict=True)] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("inference:\n  model: m\n", "agent.yaml:1: inference.endpoint: is missing"),
        ("name: x\n", "agent.yaml:1: it needs either inference, with endpoint and model"),
        (LEAST + "name: a\nname: b\n", "agent.yaml:3: name: is given twice, first on line 2"),
        (
            LEAST + "tools: {max_turns: 3}\n",
            "agent.yaml:2: tools.max_turns: unknown key here; did you mean max_turns at the",
        ),
        (
            LEAST + "zzz: 3\n",
            "agent.yaml:2: zzz: unknown key; there are inference, router, name, version, instructions, tools, cache",
        ),
        (LEAST + "budget: {total: 1, model: 2}\n", "agent.yaml:2: budget: the parts of the budget add up to 2 s"),
        (LEAST + "budget: {answer_reserve: 1}\n", "agent.yaml:2: budget: budget.answer_reserve"),
        (LEAST + "instructions: [a]\n", "agent.yaml:2: instructions: expected text, got a list"),
        (LEAST + "instructions: {text: a}\n", "agent.yaml:2: instructions: expected text, or the one key file"),
        (LEAST + "instructions: {file: nope.md}\n", "agent.yaml:2: instructions.file: There is no file nope.md."),
        (LEAST + "name: 2025-99-99\n", "agent.yaml:2: name: month must be in 1..12"),
        (LEAST + "name: !secret x\n", "agent.yaml:2: name: could not determine a constructor for the tag '!secret'"),
        (LEAST + "name: ${NAME\n", "agent.yaml:2: name: a ${ is neither ${NAME} nor ${NAME:-default}"),
        (LEAST + "tools: {use: &a [*a]}\n", "An alias in agent.yaml refers to itself."),
        ("- a\n", "agent.yaml:1: expected keys with values, got a list"),
        ("just text\n", "agent.yaml:1: expected keys with values, got one value"),
        ("", "The file agent.yaml is empty; it needs at least inference.endpoint and inference.model."),
        ("# nothing\n", "The file agent.yaml is empty"),
        ("inference:\n\tmodel: m\n", "agent.yaml:2: a tab stands where YAML wants spaces"),
        ("name: \0\n", "The file agent.yaml is not YAML: unacceptable character #x0000"),
        ("a: [\n", "agent.yaml:2: not valid YAML"),
        (LEAST + "---\n" + LEAST, "agent.yaml:2: not valid YAML: expected a single document"),
    ],
)
def test_each_mistake_has_its_sentence(text: str, says: str) -> None:
    assert [line[: len(says)] for line in problems(text)] == [says]


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^There is no file .*nope\.yaml\.$"):
        load_spec(tmp_path / "nope.yaml")
    with pytest.raises(ConfigError, match=r"^The path .* is a folder; give a file in it\.$"):
        load_spec(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"^Byte 10 of .* is not UTF-8; save the file as UTF-8\.$"):
        load_spec(tmp_path / "latin.yaml")


def test_environment_variables_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "12345")
    monkeypatch.setenv("HOST", "example.org")
    monkeypatch.setenv("TOKENS", "77")
    monkeypatch.delenv("UNSET", raising=False)
    spec = load(
        "inference:\n"
        "  endpoint: https://${HOST}/v1\n"
        "  model: ${UNSET:-groq-3}\n"
        "  api_key: ${KEY}\n"
        "  max_tokens: ${TOKENS}\n"
        "  stream: ${UNSET:-false}\n"
        "  timeout: ${UNSET:-600ms}\n"
        "instructions: Write $${HOST}, not ${HOST}.\n"
    )
    assert spec.inference == InferenceSpec(
        endpoint="https://example.org/v1", model="groq-3", api_key="12345", max_tokens=77, stream=False, timeout=0.6
    )
    assert spec.instructions == "Write ${HOST}, not example.org."


def test_a_missing_variable_is_named_with_its_key_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    assert problems(AS_WRITTEN.replace("tools:", "  api_key: ${GROQ_API_KEY}\ntools:")) == [
        "agent.yaml:7: inference.api_key: environment variable GROQ_API_KEY is not set; set it, or write a default: "
        "${GROQ_API_KEY:-...}"
    ]


@pytest.mark.parametrize(
    "key",
    ["inference: {endpoint: '${IT}', model: m}", "inference: {endpoint: local, model: m, dialect: '${IT}'}"]
    + [
        f"{LEAST}{rest}"
        for rest in ("tools: {timeout: '${IT}'}", "tools: {retry: '${IT}'}", "budget: {total: '${IT}'}")
    ]
    + [f"{LEAST}{rest}" for rest in ("instructions: {file: '${IT}'}", "tools: {use: '${IT}'}", "cache: '${IT}'")],
)
def test_what_comes_from_the_environment_is_never_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IT", "hunter2")
    monkeypatch.setenv("SHORT", "1.2345s")
    told = "\n".join(problems(key + "\n"))
    assert "agent.yaml:" in told
    assert "hunter2" not in told and "1.2345" not in told


def test_secrets_are_masked_where_a_spec_is_printed() -> None:
    spec = load("inference: {endpoint: 'http://host/v1', model: m, api_key: hunter2}\n")
    assert "hunter2" not in repr(spec) + str(spec)
    with pytest.raises(ConfigError) as refused:
        load("inference: {endpoint: 'http://me:hunter2@host/v1', model: m}\n")
    assert "hunter2" not in str(refused.value)
    assert "api_key='***'" in repr(spec)


def test_headers_reach_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file, with a secret from the environment, to the request; never to what is printed."""
    monkeypatch.setenv("TENANT_KEY", "hunter2")
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            headers = '{x-tenant: shop, x-key: "${TENANT_KEY}"}'
            spec = load(f"inference: {{endpoint: 'http://127.0.0.1:{port}/v1', model: m, headers: {headers}}}\n")
            assert "hunter2" not in repr(spec)
            async with Agent.from_spec(spec) as agent:
                with pytest.raises(ModelError):
                    await agent.run("hello")

    asyncio.run(main())
    assert "x-tenant: shop\r\n" in seen[0]
    assert "x-key: hunter2\r\n" in seen[0]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for modules of tools; what is imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "spec_orders.py").write_text(
        "from hotloop.tools.defining.define import tool\n"
        "LIMIT = 3\n"
        "def look_up(order_id: str) -> str:\n    'Look up an order.'\n    return order_id\n"
        "ready = tool(look_up, name='ready')\n"
        "def untyped(order_id): ...\n",
        encoding="utf-8",
    )
    (tmp_path / "spec_broken.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    (tmp_path / "spec_script.py").write_text("import sys\nsys.exit('usage: spec_script FILE')\n", encoding="utf-8")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_tools_are_imported_from_the_folder_of_the_declaration(modules: Path) -> None:
    tools = load_tools(["spec_orders:look_up", "spec_orders:ready"], modules)
    assert all(isinstance(each, Tool) for each in tools)
    assert [each.name for each in tools] == ["look_up", "ready"]
    assert tools[0]("7") == "7"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("spec_orders", "'spec_orders' of tools.use cannot be had: it is not of the form module:function."),
        ("spec_orders:lookup", "spec_orders has no lookup; did you mean look_up?"),
        ("spec_orders:LIMIT", "it is a value of type int, which cannot be called."),
        ("spec_orders:untyped", "tool untyped: parameter 'order_id' has no type"),
        ("spec_nowhere:x", "there is no module spec_nowhere, neither in"),
        ("spec_orders.deeper:x", "there is no module spec_orders.deeper"),
        (
            "spec_broken:x",
            "importing spec_broken failed: ModuleNotFoundError: No module named 'not_installed_anywhere'",
        ),
        ("spec_script:x", "importing spec_script failed: SystemExit: usage: spec_script FILE."),
    ],
)
def test_a_tool_that_cannot_be_imported_says_why(modules: Path, name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_tools(["spec_orders:look_up", name], modules)
    told = str(caught.value)
    assert told.startswith(f"The tool {name!r} of tools.use cannot be had: ") and told.endswith((".", "?"))
    assert says in told
    assert isinstance(caught.value, ToolDefinitionError) == name.endswith("untyped")


def test_a_module_of_the_same_name_from_elsewhere_is_not_taken_for_it(modules: Path) -> None:
    load_tools(["spec_orders:look_up"], modules)
    other = modules / "other"
    other.mkdir()
    (other / "spec_orders.py").write_text("def look_up() -> None: ...\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="another module spec_orders is imported already"):
        load_tools(["spec_orders:look_up"], other)


def test_without_pyyaml_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    for name in ("hotloop.config.declaration", "hotloop.config.nodes"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigError, match=r'pip install "hotloop\[yaml\]"'):
        load(LEAST)


SERVERS = """\
inference: {endpoint: "http://localhost/v1", model: m}
tools:
  mcp:
    - name: shop
      command: [python, shop.py]
      timeout_ms: 1500
      rules:
        refund: {approval: always, requires: [money], timeout: 3s}
  openapi:
    - source: shop.yaml
      timeout: 2s
"""


def test_servers_are_declared_like_anything_else(tmp_path):
    (tmp_path / "agent.yaml").write_text(SERVERS)
    tools = load_spec(tmp_path / "agent.yaml").tools
    (server,), (document,) = tools.mcp, tools.openapi
    assert (server.timeout, document.timeout) == (1.5, 2.0)
    assert server.rules == {"refund": RulesSpec(approval="always", requires=("money",), timeout=3.0)}


OPENAPI = """\
openapi: 3.1.0
info: {title: Shop, version: "1"}
servers: [{url: "http://localhost"}]
paths:
  /orders:
    get: {operationId: listOrders, responses: {"200": {description: Orders.}}}
"""


def test_rules_of_an_operation_are_those_of_its_tool(tmp_path):
    (tmp_path / "shop.yaml").write_text(OPENAPI)
    rules = "      rules: {listOrders: {keep: ['items[].sku'], max_result: 50}}\n"
    (tmp_path / "agent.yaml").write_text(
        SERVERS[: SERVERS.index("  mcp")] + "  openapi:\n    - source: shop.yaml\n" + rules
    )
    (tool,) = agent_arguments(load_spec(tmp_path / "agent.yaml"))["tools"]
    assert (tool.name, tool.max_result) == ("listOrders", 50)
    assert tool.keep is not None


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("command:", "comand:", "agent.yaml:5: tools.mcp[0].comand: unknown key; did you mean command?"),
        ("approval: always", "approval: allways", "agent.yaml:8: tools.mcp[0].rules.refund.approval: "),
        ("- source: shop.yaml\n      timeout", "timeout", "agent.yaml:9: tools.openapi: expected a list"),
    ],
)
def test_what_is_wrong_with_a_server_has_its_line(tmp_path, before, after, says):
    (tmp_path / "agent.yaml").write_text(SERVERS.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_spec(tmp_path / "agent.yaml")
    assert says in str(caught.value)
