"""First prompts as fresh processes make them, at another time."""

from __future__ import annotations

import gc
import json

import pytest

from hotloop.errors import ConfigError
from hotloop.lab.prompting import fresh_prompts

CLOCKS = {
    "utc": "datetime.now(UTC).isoformat()",
    "utcnow": "datetime.utcnow().strftime('%H:%M')",
    "local": "datetime.now().strftime('%H:%M')",
    "today": "str(date.today())",
    "seconds": "str(time.time() // 60)",
    "nanoseconds": "str(time.time_ns() // 60_000_000_000)",
    "broken_down": "str(time.gmtime()[:5])",
    "written": "time.strftime('%H:%M', time.gmtime(None))",
    "written_local": "time.strftime('%H:%M')",
    "as_text": "time.ctime()",
    "parts_as_text": "time.asctime()",
}
UNMOVED = ("epoch", "shift")
TOOLS = """
import time
from datetime import UTC, date, datetime
from hotloop import tool

def clock(name, text):
    def tell() -> str: return ""
    return tool(tell, name=name, description=text)

{clocks}

@tool(description=f"The epoch is {{time.strftime('%Y', time.gmtime(0))}}, a day {{datetime(2026, 1, 2, tzinfo=UTC)}}.")
def epoch() -> str: return ""

@tool(description="Shifts.")
def shift(at: datetime, on: date) -> str: return ""
"""


@pytest.fixture
def prompts(tmp_path):
    """Each tool's definition in each of the fresh processes."""
    clocks = "\n".join(f"{name} = clock({name!r}, {told})" for name, told in CLOCKS.items())
    (tmp_path / "prompting_clocks.py").write_text(TOOLS.format(clocks=clocks), encoding="utf-8")
    used = ", ".join(f'"prompting_clocks:{name}"' for name in (*CLOCKS, *UNMOVED))
    path = tmp_path / "agent.yaml"
    path.write_text(f'inference: {{endpoint: "http://127.0.0.1:9/v1", model: m}}\ntools: {{use: [{used}]}}\n')
    made = [json.loads(prompt)["tools"] for prompt in fresh_prompts(path)]
    return [{tool["function"]["name"]: tool for tool in tools} for tools in made]


def test_every_clock_is_another_and_nothing_else(prompts):
    here, other = prompts[0], prompts[1]
    assert [name for name in here if here[name] == other[name]] == [*UNMOVED]
    assert here["shift"]["function"]["parameters"]["properties"]["at"]["format"] == "date-time"
    assert len(here) == len(CLOCKS) + len(UNMOVED)


def test_a_process_that_fails_leaves_nothing_open(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text('inference: {endpoint: "http://127.0.0.1:9/v1", model: m}\ntools: {use: ["prompting_none:x"]}\n')
    with pytest.raises(ConfigError, match=r"A fresh process could not make the agent's first prompt: .*prompting_none"):
        fresh_prompts(path)
    gc.collect()  # an open pipe would warn
