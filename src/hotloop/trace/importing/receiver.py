"""An OTLP/HTTP endpoint of its own, on sockets: what exporters send to it is gathered."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import msgspec

from hotloop.errors import ConfigError
from hotloop.trace.importing.body import BadBody, read_body
from hotloop.trace.importing.endpoint import DISCARDED, JSON, LARGEST, PATH, Answer, discard, receive
from hotloop.trace.importing.gathering import Gathering

_AT_ONCE = 64  # requests that are read
_WAIT = 0.5  # seconds for which a further one waits before its client is told to come again
_AGAIN = 2  # seconds after which
_LINGER = 1.0  # seconds for which nothing may come of a body that is not read, until the connection is closed
_PIECE = 1 << 16  # bytes
_SILENT = 30.0  # seconds after which a connection on which nothing comes is closed


class Receiver:
    """Serves while its `with` block runs; `gathering` has what came. Raises ConfigError when the port is taken."""

    def __init__(self, gathering: Gathering, host: str = "127.0.0.1", port: int = 0) -> None:
        self.gathering = gathering
        self._address = host, port

    @property
    def url(self) -> str:
        """The base URL to give to an exporter as its endpoint."""
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}" if ":" in str(host) else f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        host, port = self._address
        try:
            self._server = _Server(self._address, self.gathering)
        except OSError as error:
            raise ConfigError(f"Cannot receive on {host} port {port}: {error.strerror or error}.") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="hotloop receiver")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A thread for each client, and a place for each request that is read; connections that are kept need none."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], gathering: Gathering) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.gathering = gathering
        self.places = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is its own business."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _SILENT
    disable_nagle_algorithm = True
    _unread = False  # whether there may be more of a body that was refused

    def do_POST(self) -> None:
        if not self.server.places.acquire(timeout=_WAIT):
            return self._refuse(503, f"{_AT_ONCE} requests are being read; send this one again.", again=_AGAIN)
        try:
            self._take()
        finally:
            self.server.places.release()

    def _take(self) -> None:
        path = self.path.partition("?")[0]
        if path not in (PATH, *DISCARDED):
            return self._refuse(404, f"There is no {self.path} here; spans go to {PATH}.")
        try:
            body = read_body(self.headers, self.rfile, LARGEST)
        except BadBody as error:
            return self._refuse(error.status, str(error))
        kind, encoding = self.headers.get("content-type", ""), self.headers.get("content-encoding", "")
        if path in DISCARDED:
            return self._answer(discard(kind))
        return self._answer(receive(self.server.gathering, body, kind, encoding))

    def do_GET(self) -> None:
        self._refuse(405, f"Spans are sent to {PATH} with POST.")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Every request would be a line."""

    def _refuse(self, status: int, message: str, again: int = 0) -> None:
        self.close_connection = self._unread = True
        self._answer(Answer(status, JSON, msgspec.json.encode({"message": message})), again)

    def _answer(self, answer: Answer, again: int = 0) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type)
        self.send_header("content-length", str(len(answer.body)))
        if again:
            self.send_header("retry-after", str(again))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)

    def finish(self) -> None:
        if self._unread:
            self._linger()
        super().finish()

    def _linger(self) -> None:
        """A client that is still sending would lose its answer if the connection were closed at once."""
        with suppress(OSError):
            self.connection.settimeout(_LINGER)
            self.connection.shutdown(socket.SHUT_WR)
            for _ in range(LARGEST // _PIECE):
                if not self.rfile.read1(_PIECE):
                    break
