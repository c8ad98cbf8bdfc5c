"""What hotloop shows to the world, and what it does not load."""

import inspect
import subprocess
import sys

import pytest

import hotloop
import hotloop.errors
import hotloop.events

HEAVY = (
    "pydantic",
    "openai",
    "opentelemetry",
    "prometheus_client",
    "yaml",
    "rich",
    "cyclopts",
    "xllamacpp",
    "numpy",
    "httpx",
    "uvloop",
)


def loaded(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter after `statement`."""
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    return set(done.stdout.split())


def test_public_names_are_listed_once_and_in_order():
    assert hotloop.__all__ == sorted(set(hotloop.__all__))
    assert all(hasattr(hotloop, name) for name in hotloop.__all__)


def test_nothing_else_is_public():
    shown = {name for name, value in vars(hotloop).items() if not name.startswith("_") and not inspect.ismodule(value)}
    late = {
        "AlertRule",
        "Alerts",
        "AnswerCache",
        "ApprovalStore",
        "Exporter",
        "Fact",
        "MCPServer",
        "Memory",
        "OTelExporter",
        "PrometheusExporter",
        "SandboxLimits",
        "TraceStore",
        "Webhook",
        "Which",
        "memory_tools",
        "tools_from_openapi",
    }  # imported when they are asked for
    assert shown | late == set(hotloop.__all__)


@pytest.mark.parametrize("name", hotloop.__all__)
def test_every_public_name_says_what_it_is(name):
    assert inspect.getdoc(getattr(hotloop, name))


def public_members() -> list[tuple[str, object]]:
    classes = [getattr(hotloop, name) for name in hotloop.__all__ if inspect.isclass(getattr(hotloop, name))]
    return [
        (f"{cls.__name__}.{name}", member)
        for cls in classes
        if cls.__module__.startswith("hotloop")
        for name, member in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property | classmethod))
    ]


@pytest.mark.parametrize(("name", "member"), public_members())
def test_every_public_method_says_what_it_does(name, member):
    assert inspect.getdoc(member), name


@pytest.mark.parametrize("module", [hotloop.errors, hotloop.events])
def test_every_error_and_event_says_what_it_means(module):
    made_here = [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]
    assert made_here
    assert all(each.__doc__ for each in made_here)


def test_every_error_is_in_the_tree():
    drawn = hotloop.errors.__doc__ or ""
    for name, error in inspect.getmembers(hotloop.errors, inspect.isclass):
        if error.__module__ == "hotloop.errors":
            assert name in drawn
            assert issubclass(error, hotloop.HotloopError)


@pytest.mark.parametrize(
    "statement",
    [
        "import hotloop",
        "from hotloop import *",
        "import hotloop.testing",
        "import hotloop, asyncio\n"
        "from hotloop.testing import ScriptedModel\n"
        "agent = hotloop.Agent(model='m', endpoint=ScriptedModel(['Yes.']))\n"
        "assert str(agent.run_sync('go').trace)",
    ],
)
def test_nothing_heavy_is_loaded(statement):
    assert loaded(statement).isdisjoint(HEAVY)


def test_the_package_is_typed():
    assert inspect.signature(hotloop.Agent.run).return_annotation == "Result"
    import importlib.resources

    assert importlib.resources.files("hotloop").joinpath("py.typed").is_file()
