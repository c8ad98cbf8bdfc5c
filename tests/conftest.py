"""What tests of several folders share."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from hotloop.models.local.weights import fetch_weights

_numbers = count()


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test keeps its sessions, memories and paused runs in a folder of its own, made if it is used."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state{next(_numbers)}"))


@pytest.fixture(scope="session")
def weights() -> Path:
    """The embedded model's weights, fetched as a user's would be."""
    return fetch_weights()
