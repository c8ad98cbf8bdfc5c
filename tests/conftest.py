"""What tests of several folders share."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotloop.models.local.weights import fetch_weights


@pytest.fixture(scope="session")
def weights() -> Path:
    """The embedded model's weights, fetched as a user's would be."""
    return fetch_weights()
