"""llama.cpp with one model, in one thread of its own."""

from __future__ import annotations

import atexit
import os
import queue
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hotloop.errors import ConfigError, WeightsError
from hotloop.models.local.request import JsonObject
from hotloop.models.local.weights import Progress

Chunk = JsonObject

_CONTEXT = 8192  # tokens
_CPU_BATCH = 16  # tokens evaluated at once: no slower on a CPU than more, and what a cancellation waits for
_GPU_BATCH = 512
_CACHE_MIB = 512  # of main memory, for the evaluated prompts of conversations that are not the newest
_AS_IT_COMES = {"stream": True, "return_progress": True, "stream_options": {"include_usage": True}}
_MOST_HELD = 1024
_SILENT = -1
_SPINS = "500"  # short waits between llama.cpp's threads: as fast alone, four times faster on a busy machine


class Closed(Exception):
    """The engine was closed before or while it worked."""


class Unreadable(Exception):
    """llama.cpp cannot read a request; `str()` says why."""


class Model:
    """A loaded model, for use in the engine's thread."""

    def __init__(self, server: Any, stop: Callable[[], bool]) -> None:
        self._server = server
        self._stop = stop
        self._held: dict[str, bool] = {}

    def ask(self, body: JsonObject, each: Callable[[Chunk], bool | None], *, chat: bool = False) -> None:
        """Put one request; `each` gets every chunk of the reply as it comes, and stops the model by returning True.

        `chat` tells that the body has messages instead of a prompt. Raises Unreadable, Closed, and what `each` raises.
        """
        failed: list[BaseException] = []

        def guarded(chunk: Chunk) -> bool | None:
            try:
                return self._stop() or each(chunk)
            except BaseException as error:  # llama.cpp would drop it
                failed.append(error)
                return True

        handle = self._server.handle_chat_completions if chat else self._server.handle_completions
        try:
            handle(body | _AS_IT_COMES, guarded)
        except (ValueError, RuntimeError) as error:
            raise Unreadable(f"llama.cpp cannot read the request: {error}") from error
        if failed:
            raise failed[0]
        if self._stop():
            raise Closed

    def holds(self, grammar: str, first: str) -> bool:
        """Whether llguidance can read this grammar, under which the model must write `first` first."""
        if grammar not in self._held:
            texts: list[str] = []
            asked = {"prompt": "x", "n_predict": 1, "temperature": 0.0, "grammar": grammar}
            self.ask(asked, lambda chunk: texts.extend(choice["text"] for choice in chunk.get("choices", ())))
            if len(self._held) >= _MOST_HELD:
                self._held.clear()
            self._held[grammar] = "".join(texts).startswith(first)
        return self._held[grammar]


Work = Callable[[Model], None]


class Engine:
    """Works with one model, on one thing after the other, in a thread that begins with the first.

    `locate` gives the model's file; it may take long, calls its argument often, and ends with what that raises.
    `users` counts who shares the engine.
    """

    def __init__(self, locate: Callable[[Progress], Path], threads: int | None) -> None:
        self.users = 0
        self._locate = locate
        self._threads = threads
        self._tasks: queue.SimpleQueue[tuple[Work, Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="hotloop-llama", daemon=True)
        self._begun = threading.Lock()
        self._closing = False
        self._ended: Future[None] = Future()
        self._ended.set_running_or_notify_cancel()  # who waits for it may be cancelled, but not the end

    def submit(self, work: Work) -> Future[None]:
        """Have this done in the engine's thread, after everything before it; fails with Closed if that cannot be."""
        if self._begun.acquire(blocking=False):
            self._thread.start()
        done: Future[None] = Future()
        self._tasks.put((work, done))
        return done

    def close(self) -> Future[None]:
        """Stop what is being done, refuse what waits, free the model; done when the thread is about to end."""
        self._closing = True
        if self._begun.acquire(blocking=False):
            self._ended.set_result(None)
        self._tasks.put(None)
        return self._ended

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _work(self) -> None:
        model: Model | None = None
        while (task := self._tasks.get()) is not None:
            work, done = task
            if not done.set_running_or_notify_cancel():
                continue
            try:
                self._require_open()
                model = model or Model(_load(self._locate(self._require_open), self._threads), lambda: self._closing)
                work(model)
            except BaseException as error:  # whatever it is, it belongs to whoever waits
                done.set_exception(error)
            else:
                done.set_result(None)
        del model
        self._ended.set_result(None)

    def _require_open(self, *_: int) -> None:
        if self._closing:
            raise Closed


def _load(path: Path, threads: int | None) -> Any:
    llama = _import_llama()
    on_cpu = all(device["type"].name.endswith("_CPU") for device in llama.get_device_info())
    params = llama.CommonParams()
    params.model.path = str(path)
    params.verbosity = _SILENT
    params.n_ctx, params.n_parallel = _CONTEXT, 1
    params.n_batch = params.n_ubatch = _CPU_BATCH if on_cpu else _GPU_BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads or _usable_cores()
    params.cache_ram_mib = _CACHE_MIB
    params.warmup = False
    params.enable_reasoning = 0  # a constrained reply has no room for it
    params.fit_params = not on_cpu  # finds out what fits into a GPU, by loading twice
    with _unreachable(params):
        try:
            return llama.Server(params)
        except RuntimeError as error:
            raise WeightsError(
                f"llama.cpp cannot load {path}: the file is damaged, or of a kind that this version does not know."
            ) from error


@contextmanager
def _unreachable(params: Any) -> Iterator[None]:
    """llama.cpp's server always listens: let it do so on a socket that nobody can open, and with a secret key."""
    params.api_keys = [secrets.token_hex(32)]
    params.ui = params.endpoint_slots = False
    params.n_threads_http = 1
    if sys.platform == "win32":  # stays on a port of the loopback interface
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hotloop-") as folder:  # gone, with its socket, once the model is loaded
        params.hostnames = [str(Path(folder) / "llama.sock")]
        yield


def _import_llama() -> Any:
    """The module `xllamacpp`, which is installed. Raises ConfigError."""
    before = os.environ.get("GOMP_SPINCOUNT")
    os.environ["GOMP_SPINCOUNT"] = before or _SPINS  # read once, when the library is loaded
    try:
        import xllamacpp
    except ImportError as error:
        raise ConfigError(f"llama.cpp is installed but does not load here: {error}") from error
    finally:
        if before is None:
            del os.environ["GOMP_SPINCOUNT"]
    return xllamacpp


def _usable_cores() -> int:
    """Half of what this process may run on, which is all that cores with two threads each really have."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, max(2, cores // 2), 8)


_engines: dict[str, Engine] = {}
_lock = threading.Lock()


def acquire(key: str, make: Callable[[], Engine]) -> Engine:
    """The engine that this process has under `key`, made if there is none; `release` it after use."""
    with _lock:
        if key not in _engines:
            _engines[key] = make()
        _engines[key].users += 1
        return _engines[key]


def release(key: str) -> Engine | None:
    """Give an engine back; the last one to do so gets it, to close it."""
    with _lock:
        _engines[key].users -= 1
        return None if _engines[key].users else _engines.pop(key)


@atexit.register
def _close_all() -> None:
    """llama.cpp's threads must not outlive the interpreter."""
    for engine in list(_engines.values()):
        engine.close()
        engine.join(5)
