"""The command that opens a trace in the browser: view."""

from __future__ import annotations

from typing import Annotated

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import temporary_folder
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import GpuFile, GpuName, ModelFile, Traces, open_traces

PORT = 9001
"""The one port of this machine that the viewer's content security policy lets it fetch from."""


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
    import webbrowser

    from hotline_analysis.cli.serving import served

    with temporary_folder() as folder:
        with open_traces(traces, model, gpu, gpus) as trace:
            file = ha.export_perfetto(trace, folder / "hotline.json.gz", rank=rank, span=span)
        with served(file, port) as server:
            typer.echo(server.url)
            if browser and not webbrowser.open(server.url):
                typer.echo("No browser was found: open this address in one on this machine.", err=True)
            while not server.fetched.wait(0.5):  # in pieces, so that Ctrl-C is heard
                pass
