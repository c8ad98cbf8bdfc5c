"""Bubblewrap around a process: no network, no other processes, and of the disk only what its Python needs to run."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

FOLDER = "/tmp"
"""The only folder that the process can write to: its own, in memory, and gone with it."""

_ISOLATED = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--proc", "/proc")
_SYSTEM = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sbin", "/usr")
_SETTINGS = ("alternatives", "group", "ld.so.cache", "localtime", "mime.types", "nsswitch.conf", "passwd", "timezone")
_PYTHON = ("bin", "lib", "lib64", "pyvenv.cfg", "share")
_LIBRARIES = ("dist-packages", "site-packages")
_SHARED = ("/", FOLDER)  # a script may lie there, but what lies beside it is not the script's
_MOST = 20_000  # files and folders in one that is looked through for what to hide
_TRIAL = 10.0  # seconds

_one_trial = threading.Lock()
_log = logging.getLogger("hotloop.tools")


def bubblewrap(script: str, memory: int) -> list[str]:
    """What to put before a command that it runs in bubblewrap; nothing, and one warning, where that does not work.

    `script` is a file to be read besides the import path, `memory` the bytes that files in FOLDER may take.
    """
    program = shutil.which("bwrap") or ""
    with _one_trial:
        fault = _fault(program) if program else "it is not installed"
        if fault:
            _warn(fault)
            return []
    return _command(program, script, memory)


def kill_bubblewrap(pid: int) -> None:
    """Kill a bubblewrap, not yet waited for, and all that is in it.

    To kill only itself leaves its child alive if that has just begun; to kill its child ends it too, after all others.
    """
    os.kill(pid, signal.SIGSTOP)  # it can have no further child now
    children = _children(pid)
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    os.kill(pid, signal.SIGCONT if children else signal.SIGKILL)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # the kernel was built without it
        return []


@cache
def _fault(program: str) -> str:
    """Why bubblewrap does not work here, tried once; "" if it does."""
    try:
        ended = _try([*_command(program, "", 1 << 20), sys.executable, "-I", "-S", "-c", ""])
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it does not work here ({error})"
    words = ended.stderr.decode(errors="replace").strip() or f"exit code {ended.returncode}"
    return f"it does not work here ({words.splitlines()[-1]})" if ended.returncode else ""


@cache
def _warn(fault: str) -> None:
    _log.warning(
        "Sandboxed tools have their limits, but code that means harm is not held: it can use the network, read what "
        "this user can read (files, and through /proc the environment of this process with its keys), and get away. "
        "bubblewrap would hold it, but %s: install the package bubblewrap, and allow user namespaces.",
        fault,
    )


@cache
def _knows_size(program: str) -> bool:
    return b"--size" in _try([program, "--help"]).stdout  # since 0.7


def _try(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL, env={})


def _command(program: str, script: str, memory: int) -> list[str]:
    tmpfs = ["--size", str(memory), "--tmpfs"] if _knows_size(program) else ["--tmpfs"]
    own = [*_ISOLATED, "--dev", "/dev", *tmpfs, "/dev/shm", *tmpfs, FOLDER, "--chdir", FOLDER]
    return [program, *own, *_view(script), "--remount-ro", "/dev", "--remount-ro", "/", "--"]


def _view(script: str) -> list[str]:
    """Options that show, read-only, the system's programs and the places of code, without what is hidden there."""
    python = {f"{prefix}/{name}" for prefix in (sys.prefix, sys.base_prefix) for name in _PYTHON}
    libraries = {place for place in _import_path() if Path(place).name in _LIBRARIES}
    installed = {*_SYSTEM, *(f"/etc/{name}" for name in _SETTINGS), *python, *libraries}
    projects = _not_below(installed, _import_path())
    projects |= _not_below(installed | projects, [script, *_imported()])
    shown = installed | projects
    hidden = {place for project in projects for place in _hidden_in(project)} - shown
    mounts = {place: ["--ro-bind-try", place, place] for place in shown} | {place: _cover(place) for place in hidden}
    sealed = (place for place in hidden if Path(place).is_dir())
    return [
        *(option for place in sorted(mounts) for option in mounts[place]),  # a folder comes before what lies in it
        *(option for place in sealed for option in ("--remount-ro", place)),
    ]


def _import_path() -> Iterator[str]:
    places = (str(Path(entry).absolute()) for entry in sys.path)
    return (place for place in places if place not in _SHARED)


def _imported() -> Iterator[str]:
    """Where the modules of this process came from, which need not be the import path: editable installations."""
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.has_location and "." not in name:
            yield from map(str, spec.submodule_search_locations or [spec.origin])


def _not_below(folders: set[str], places: Iterable[str]) -> set[str]:
    return {place for place in places if place and not any(f"{place}/".startswith(f"{folder}/") for folder in folders)}


def _hidden_in(project: str) -> Iterator[str]:
    """Where people keep, at any depth, what is nobody's business: .env, .git, .ssh, .aws, .netrc."""
    with suppress(OSError), os.scandir(project) as entries:  # it may be a file, or not there
        for entry in entries:
            if entry.is_symlink():  # it leads nowhere, or to what has a name of its own here
                continue
            yield from [entry.path] if _is_private(entry.name) else _hidden_below(entry.path)


def _hidden_below(folder: str) -> list[str]:
    """What to hide in this folder: all of it if there is too much in it to look through."""
    seen, hidden = 0, list[str]()
    for place, folders, files in os.walk(folder):
        seen += len(folders) + len(files)
        if seen > _MOST:
            return [folder]
        private = [f"{place}/{name}" for name in (*folders, *files) if _is_private(name)]
        hidden += [each for each in private if not Path(each).is_symlink()]
        folders[:] = [name for name in folders if not _is_private(name)]
    return hidden


def _is_private(name: str) -> bool:
    return name.startswith(".") or name == "node_modules"


def _cover(place: str) -> list[str]:
    return ["--tmpfs", place] if Path(place).is_dir() else ["--dev-bind", "/dev/null", place]
