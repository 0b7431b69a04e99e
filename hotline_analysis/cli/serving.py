"""A local server that provides one file to the Perfetto viewer."""

from __future__ import annotations

import http.server
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from hotline_analysis.errors import HotlineError
from hotline_analysis.text.html import render

VIEWER = "https://ui.perfetto.dev"
PORT = 9001
"""The only local port allowed by the viewer's content security policy."""
_ANY_PORT = 0
_HOST = "127.0.0.1"


class _OneFile(http.server.ThreadingHTTPServer):
    """A server of one file under an unguessable name, accessible only to pages of the viewer."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, file: Path, port: int, *, hands_over: bool = False) -> None:
        super().__init__((_HOST, port), _Handler)
        self.file = file
        self.place = f"/{secrets.token_urlsafe(16)}/{quote(file.name)}"
        self.fetched = threading.Event()
        self.hands_over = hands_over
        """Whether a page of this server passes the file on, because the viewer cannot fetch from this port."""

    @property
    def url(self) -> str:
        """The address to open: the viewer fetching the file, or a page of this server passing the file on."""
        here = f"http://{_HOST}:{self.server_port}"
        return f"{VIEWER}/#!/?url={here}{self.place}" if not self.hands_over else f"{here}{self.page_place}"

    @property
    def page_place(self) -> str:
        """The path of the page passing the file to the viewer."""
        return self.place.rpartition("/")[0] + "/"

    @property
    def page(self) -> bytes:
        """The HTML of the page passing the file to the viewer."""
        return str(render("perfetto.html", viewer=VIEWER, place=self.place, name=self.file.name)).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _OneFile

    def do_GET(self) -> None:
        """Send the file or the page. Any other path is not found."""
        if self.server.hands_over and self.path == self.server.page_place:
            self._send_page()
            return
        if self.path != self.server.place:
            self.send_error(404)
            return
        with self.server.file.open("rb") as content:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(self.server.file.stat().st_size))
            self.send_header("Access-Control-Allow-Origin", VIEWER)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            shutil.copyfileobj(content, self.wfile, 1 << 20)
        self.server.fetched.set()

    def _send_page(self) -> None:
        page = self.server.page
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        """Log no requests."""


def _server(file: Path, port: int | None) -> _OneFile:
    if port is not None:
        return _OneFile(file, port)
    try:
        return _OneFile(file, PORT)
    except OSError:
        return _OneFile(file, _ANY_PORT, hands_over=True)


@contextmanager
def served(file: Path, port: int | None) -> Iterator[_OneFile]:
    """Serve the file during the block. The default port is the port allowed by the viewer, or else a free port."""
    try:
        server = _server(file, port)
    except OSError as error:
        raise HotlineError(
            f"cannot use port {port} of this machine: {error.strerror}",
            hint="Leave out --port for one that is free.",
        ) from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
