"""Alerts as JSON, posted to a URL in a thread of their own."""

from __future__ import annotations

import logging
import threading
from http.client import HTTPException
from queue import SimpleQueue
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from hotloop.fields import require
from hotloop.trace.alerts.alert import Alert

_log = logging.getLogger("hotloop.alerts")

_MOST = 100  # alerts that wait
_PAUSES = (0.0, 1.0, 4.0)  # seconds before each try
_AT_END = 2.0  # seconds
_MAY_PASS = frozenset((408, 425, 429, *range(500, 600)))


class _NoRedirect(HTTPRedirectHandler):
    """Takes a redirect for a failure: what is posted to a URL is meant for nobody else."""

    def redirect_request(self, *_: Any) -> None:
        return None


def check_url(url: str) -> None:
    """Raise ConfigError, which does not show it, for what alerts cannot be posted to."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        usable = usable and parts.port != 0  # which raises if it is none
    except ValueError:
        usable = False
    require(
        usable and url.isprintable() and " " not in url, "The webhook is no http or https URL, or has a user in it."
    )


class Webhook:
    """Posts each alert to a URL: an object with `text`, as chats want it, and all else that the alert has.

    `name` is what rules call it. Each of three tries may take `timeout` seconds. Of the URL only the host and its port
    are ever shown, for the rest is often what lets one in. Raises ConfigError for what is no URL of the web.
    """

    def __init__(self, url: str, *, name: str = "webhook", timeout: float = 5.0) -> None:
        check_url(url)
        parts = urlsplit(url)
        self.name = name
        self._url = url
        self._where = f"{parts.scheme}://{parts.netloc}/***"
        self._timeout = timeout
        self._open = build_opener(_NoRedirect).open
        self._waiting: SimpleQueue[Alert | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"Webhook({self._where!r})"

    def tell(self, alert: Alert) -> None:
        """Have it posted soon; it is lost, and that is logged, while a hundred wait."""
        if self._waiting.qsize() >= _MOST:
            _log.warning("An alert is lost, for %s is too slow: %s", self._where, alert.text)
            return
        with self._lock:
            self._waiting.put(alert)
            if self._thread is None or not self._thread.is_alive():  # which it is not in a forked child
                self._ending.clear()
                self._thread = threading.Thread(target=self._run, name="hotloop webhook", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Post what waits, for two seconds at most, and end the thread; it begins again with the next alert."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._ending.set()
            self._waiting.put(None)
            thread.join(_AT_END)

    def _run(self) -> None:
        while (alert := self._waiting.get()) is not None:
            self._post(msgspec.json.encode(alert))

    def _post(self, body: bytes) -> None:
        why = ""
        for pause in _PAUSES:
            self._ending.wait(pause)
            why, may_pass = self._try(body)
            if not may_pass:
                break
        if why:
            _log.warning("An alert could not be told to %s: %s.", self._where, why)

    def _try(self, body: bytes) -> tuple[str, bool]:
        """Why it failed, "" if it did not, and whether that may pass."""
        request = Request(self._url, body, {"content-type": "application/json"}, method="POST")
        try:
            with self._open(request, timeout=self._timeout):
                return "", False
        except HTTPError as error:
            error.close()
            return f"it answered {error.code}", error.code in _MAY_PASS
        except URLError as error:
            return str(error.reason), True
        except (OSError, HTTPException) as error:
            return type(error).__name__, True
