"""What tests of several folders share."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest

from hotloop.models.local.engine import LocalTransport
from hotloop.models.local.weights import fetch_weights

_ONCE = {"weights", "npm"}  # fixtures that fetch much, and load it: whoever asks for one runs in one process
_numbers = count()


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test keeps its sessions, memories and paused runs in a folder of its own, made if it is used.

    Runs are recorded where a test asks for it.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state{next(_numbers)}"))
    monkeypatch.setenv("HOTLOOP_TRACES", "off")


@pytest.fixture(scope="session")
def weights() -> Path:
    """The embedded model's weights, fetched as a user's would be."""
    return fetch_weights()


@pytest.fixture(scope="session")
def local(weights: Path) -> Iterator[LocalTransport]:
    """SmolLM2, loaded for all tests; an engine belongs to no event loop.

    One thread, because two that must wait for each other are slow where other tests run at the same time.
    """
    transport = LocalTransport(threads=1)
    asyncio.run(transport.warm())
    yield transport
    asyncio.run(transport.aclose())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests together that share what is costly, when several processes run tests."""
    for item in items:
        for fixture in _ONCE.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(fixture))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged, as text that one process can send another: some log what is no Unicode."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report
