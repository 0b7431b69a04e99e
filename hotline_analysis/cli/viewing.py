"""The command that opens a trace in the browser: view."""

from __future__ import annotations

import http.server
import secrets
import shutil
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import temporary_folder
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import GpuFile, GpuName, ModelFile, Traces, open_traces
from hotline_analysis.errors import HotlineError

VIEWER = "https://ui.perfetto.dev"
PORT = 9001
"""The one port of this machine that the viewer's content security policy lets it fetch from."""
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


@app.command("view")
def view(
    traces: Traces,
    rank: Annotated[int | None, typer.Option(help="The rank, if there are several.")] = None,
    span: Annotated[
        int | None,
        typer.Option(metavar="EVENT_ID", help="Only this event, what is in it, and the work it launched."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to serve from; the viewer accepts no other than 9001.")
    ] = PORT,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
) -> None:
    """Open a run in the viewer of Perfetto, with what was found in it.

    The viewer (ui.perfetto.dev) runs in the browser and fetches the trace from this machine; nothing is uploaded.
    A server on 127.0.0.1 gives it this one file, and ends when that is fetched, or with Ctrl-C. A browser may ask
    whether the page may reach this machine.

    \b
    Example:
      hotline view run.hotline
    """
    with temporary_folder() as folder:
        with open_traces(traces, model, gpu, gpus) as trace:
            file = ha.export_perfetto(trace, folder / "hotline.json.gz", rank=rank, span=span)
        with served(file, port) as server:
            typer.echo(server.url)
            if browser and not webbrowser.open(server.url):
                typer.echo("No browser was found: open this address in one on this machine.", err=True)
            while not server.fetched.wait(0.5):  # in pieces, so that Ctrl-C is heard
                pass
