"""Make the samples of tests/data/otel/: agents of other frameworks, traced, against the simulated service.

One of them needs Node.js with npm.

    python benchmarks/foreign/samples.py                     all of them; environments are made where they are missing
    python benchmarks/foreign/samples.py agno langgraph      only of these frameworks

A sample is the OTLP JSON that OpenTelemetry's exporter wrote, without what only tells where it was made: stack traces,
and all of the resource but the names of service and SDK. `told.json` has what each framework counted itself.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from itertools import count
from pathlib import Path
from typing import Any

from hotloop.lab.script import Answer, Replies, Request, call, raw, say, turn
from hotloop.testing import SimulatedService

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent / "tests" / "data" / "otel"
VENVS = HERE.parent / "venvs"
SCENARIOS = {
    "pydantic_ai": ["single", "parallel", "turns", "failing", "stream", "subagent", "retried"],
    "openai_agents": ["single", "parallel", "turns", "failing", "stream", "subagent", "handoff", "guarded"],
    "openai_agents_traceloop": ["parallel", "stream"],
    "openai_agents_genai": ["parallel", "failing", "handoff"],
    "langgraph": ["parallel", "turns", "failing", "stream", "subagent", "recalled"],
    "langgraph_genai": ["parallel", "stream"],
    "agno": ["parallel", "turns", "failing", "stream"],
    "strands": ["parallel", "turns", "failing"],
    "haystack": ["parallel", "turns", "stream"],
    "llama_index": ["parallel", "turns"],
    "openai_sdk": ["parallel", "turns", "stream"],
    "openai_sdk_traceloop": ["parallel", "stream"],
    "vercel_ai": ["parallel", "turns", "failing", "stream"],
}
ENVIRONMENTS = {name: name.removesuffix("_traceloop").removesuffix("_genai") for name in SCENARIOS}
IN_NODE = ["vercel_ai"]
SECONDS = 120  # that a run may take, with all that is imported for it
LARGE = 20_000  # bytes
KEPT = ("service.name", "telemetry.sdk.name", "telemetry.sdk.language")

ANSWER = say("Your order 20250101 has shipped with DHL; the parcel is at Shenzhen airport and comes within two days.")
STATUS = call("order_status", order_id="20250101")
LOCATION = call("parcel_location", parcel="p-77")
BUSY = raw(
    b'{"error": {"message": "Rate limit reached. Try again in 0.1s.", "code": "rate_limit_exceeded"}}',
    status=429,
    headers={"retry-after-ms": "100"},
)


def replies(scenario: str) -> Replies:
    """What the simulated model says."""
    script: dict[str, list[Any]] = {
        "single": [STATUS, ANSWER],
        "parallel": [[STATUS, LOCATION], ANSWER],
        "stream": [[STATUS, LOCATION], ANSWER],
        "turns": [call("customer_orders", customer="c-7"), STATUS, LOCATION, ANSWER],
        "failing": [call("refund", order_id="20250101"), say("That order cannot be refunded, it is not paid yet.")],
    }
    script |= {"handoff": [call("transfer_to_parcels"), LOCATION, ANSWER]}
    script |= {"guarded": script["single"], "recalled": script["single"]}
    apart: dict[str, Replies] = {"subagent": _of_both, "retried": _every_other_refused([STATUS, ANSWER])}
    return apart.get(scenario) or script[scenario]


def _every_other_refused(script: list[Any]) -> Answer:
    """Each request has to be made twice."""
    asked = count()

    def answer(request: Request) -> Any:
        return script[turn(request)] if next(asked) % 2 else BUSY

    return answer


def _of_both(request: Request) -> Any:
    """The subagent's replies or those of the agent, by their instructions."""
    if "carrier desk. Find" in json.dumps(request["messages"][0]):
        return LOCATION if turn(request) == 0 else say("The parcel p-77 is at Shenzhen airport.")
    tool = request["tools"][0]["function"]
    argument = next(iter(tool["parameters"]["properties"]))
    return call(tool["name"], **{argument: "p-77"}) if turn(request) == 0 else ANSWER


async def sample(framework: str, scenario: str) -> dict[str, Any]:
    """Write a sample; what the framework says of its run."""
    profile = "gpu-h100-llama8b" if scenario == "stream" else "groqcloud-gpt-oss-20b"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        async with SimulatedService(replies(scenario), profile=profile, seed=7) as service:
            command = [*_program(framework), scenario, service.url, str(path)]
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            printed, _ = await asyncio.wait_for(process.communicate(), SECONDS)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        lines = [json.dumps(scrubbed(json.loads(line)), separators=(",", ":")) for line in path.open()]
    write(f"{framework}-{scenario}.jsonl", "\n".join(lines) + "\n")
    return json.loads(printed.splitlines()[-1])


def write(name: str, text: str) -> None:
    """A sample, compressed if it is large."""
    for path in SAMPLES.glob(f"{name}*"):
        path.unlink()
    if len(text) > LARGE:
        (SAMPLES / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        (SAMPLES / name).write_text(text)


def scrubbed(request: dict[str, Any]) -> dict[str, Any]:
    """An export request without what only tells where it was made."""
    for resource in request["resourceSpans"]:
        described = resource["resource"]
        described["attributes"] = [each for each in described["attributes"] if each["key"] in KEPT]
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            span.get("status", {}).pop("message", None)
            for event in span.get("events", ()):
                attributes = event.get("attributes", [])
                event["attributes"] = [each for each in attributes if each["key"] != "exception.stacktrace"]
    return request


def _program(framework: str) -> list[str]:
    """What runs an agent of a framework once, traced."""
    if framework in IN_NODE:
        return ["node", str(VENVS / "traced_node" / f"{framework}.mjs")]
    return [str(_python(framework)), str(HERE / "one.py"), framework]


def _python(framework: str) -> Path:
    return VENVS / f"traced_{ENVIRONMENTS[framework]}" / "bin" / "python"


def make_environment(framework: str) -> None:
    """The environment of a framework, if it is not there or not as its requirements are now."""
    if framework in IN_NODE:
        shutil.copytree(HERE / "node", VENVS / "traced_node", dirs_exist_ok=True)
        subprocess.run(["npm", "install", "--silent"], cwd=VENVS / "traced_node", check=True)
        return
    name = ENVIRONMENTS[framework]
    wanted = HERE / "requirements" / f"{name}.txt"
    stamp = VENVS / f"traced_{name}" / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return
    print(f"{name}: installing ...", flush=True)
    venv.create(stamp.parent, with_pip=True, clear=True)
    pip = [str(_python(framework)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(wanted)], check=True)
    stamp.write_text(wanted.read_text())


def main() -> int:
    """Make the samples asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK", help=", ".join(SCENARIOS))
    names = parser.parse_args().frameworks or list(SCENARIOS)
    SAMPLES.mkdir(parents=True, exist_ok=True)
    path = SAMPLES / "told.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    for framework in names:
        make_environment(framework)
        for scenario in SCENARIOS[framework]:
            told[f"{framework}-{scenario}"] = asyncio.run(sample(framework, scenario))
            print(f"{framework} {scenario}: {told[f'{framework}-{scenario}']}", flush=True)
    path.write_text(json.dumps(dict(sorted(told.items())), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
