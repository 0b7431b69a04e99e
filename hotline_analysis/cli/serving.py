"""A server that gives one file to the viewer of Perfetto."""

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

VIEWER = "https://ui.perfetto.dev"
_HOST = "127.0.0.1"


class _OneFile(http.server.ThreadingHTTPServer):
    """Serves one file under a name that cannot be guessed, to pages of the viewer alone."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, file: Path, port: int) -> None:
        super().__init__((_HOST, port), _Handler)
        self.file = file
        self.place = f"/{secrets.token_urlsafe(16)}/{quote(file.name)}"
        self.fetched = threading.Event()

    @property
    def url(self) -> str:
        """Where the viewer finds the file."""
        return f"{VIEWER}/#!/?url=http://{_HOST}:{self.server_port}{self.place}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _OneFile

    def do_GET(self) -> None:
        """Send the file, or say that there is no other."""
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

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests."""


@contextmanager
def served(file: Path, port: int) -> Iterator[_OneFile]:
    """A server of the file, which runs during the block."""
    try:
        server = _OneFile(file, port)
    except OSError as error:
        raise HotlineError(
            f"port {port} of this machine cannot be used: {error.strerror}",
            hint="Is another `hotline view` or a trace_processor running? The viewer fetches from this port only.",
        ) from None
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
