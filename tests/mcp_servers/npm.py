"""MCP servers from npm, installed once into the user's cache by the user's own npm."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from hotloop.models.local.weights import weights_folder

HERE = Path(__file__).parent
FILES = [HERE / "package.json", HERE / "package-lock.json"]


def npm_servers() -> Path:
    """The folder in which the packages of package.json are installed, each as its lock file says."""
    if not shutil.which("node") or not shutil.which("npm"):
        say_missing = pytest.fail if os.environ.get("CI") else pytest.skip
        say_missing("NOT RUN: MCP servers from npm, which is not here: apt-get install nodejs npm")
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in FILES)).hexdigest()[:16]
    folder = weights_folder().parent / f"mcp-servers-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".npm-", dir=folder.parent) as scratch:
            new = _install(Path(scratch) / "new")
            if not folder.exists():  # another process may have been faster
                new.rename(folder)
    return folder / "node_modules" / "@modelcontextprotocol"


def _install(folder: Path) -> Path:
    folder.mkdir()
    for file in FILES:
        shutil.copy(file, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    if done.returncode != 0:
        raise RuntimeError(
            f"npm could not install the MCP servers for the tests: {done.stderr.strip() or done.stdout.strip()}"
        )
    return folder
