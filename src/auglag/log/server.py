"""The page of a run on a port of this machine: the page itself, and the rows it asks for as they come."""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import final
from urllib.parse import parse_qs, urlsplit

from auglag.errors import InputError
from auglag.log.page import page, snapshot
from auglag.log.reader import LogReader
from auglag.log.schema import LogError

HOST = "127.0.0.1"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"


@final
class PageServer(ThreadingHTTPServer):
    """Serves one log to browsers of this machine, and to nobody else."""

    daemon_threads = True

    def __init__(self, reader: LogReader, port: int = 0) -> None:
        self.reader, self.lock = reader, threading.Lock()
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise InputError(f"--port must be free, got {port} ({error.strerror})") from None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def rows(self, query: dict[str, list[str]]) -> bytes:
        """What is new to the page that asks, as JSON."""
        names = ("generation", "iterations", "tests", "course")
        numbers = {name: int(query[name][0]) for name in names if name in query}
        if any(value < -1 for value in numbers.values()):
            raise ValueError
        with self.lock:
            try:
                self.reader.poll()
                found = snapshot(self.reader, **numbers)
            except LogError as error:
                found = snapshot(self.reader) | {"state": "waiting", "words": str(error)}
            return json.dumps(found, allow_nan=False).encode()


@final
class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "auglag"
    # HTTP/1.0, the default: no connection outlives its answer, so that none holds on to a server that has ended.

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            # A page from elsewhere that had its own name point here would otherwise be let in.
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"this page is for this machine only\n")
            return
        asked = urlsplit(self.path)
        try:
            if asked.path == "/":
                self._answer(HTTPStatus.OK, "text/html", page(None).encode())
            elif asked.path == "/rows":
                self._answer(HTTPStatus.OK, "application/json", self.server.rows(parse_qs(asked.query)))
            else:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"there is only one page: /\n")
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, "text/plain", b"numbers must be whole numbers\n")

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing for every request."""
