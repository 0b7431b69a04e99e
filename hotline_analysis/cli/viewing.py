"""The command that opens a trace in the browser: view."""

from __future__ import annotations

from typing import Annotated

import typer

import hotline_analysis as ha
from hotline_analysis.atomic import temporary_folder
from hotline_analysis.cli.app import app
from hotline_analysis.cli.common import GpuFile, GpuName, ModelFile, Traces, open_traces


@app.command("view")
def view(
    traces: Traces,
    rank: Annotated[int | None, typer.Option(help="The rank to show, required for several ranks.")] = None,
    span: Annotated[
        int | None,
        typer.Option(metavar="EVENT_ID", help="Only this event, nested events, and the launched work."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the browser, or only print the address.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="The port to serve from. Without it: 9001, from which the viewer fetches the trace by itself, or a"
            " free port, with a page whose button hands the trace over.",
        ),
    ] = None,
    model: ModelFile = None,
    gpu: GpuName = None,
    gpus: GpuFile = None,
) -> None:
    """Open an annotated run in the Perfetto viewer.

    The viewer (ui.perfetto.dev) runs in the browser and fetches the trace from this machine; nothing is uploaded. A
    server on 127.0.0.1 provides only this file, and stops once the file is fetched, or with Ctrl-C. The browser may ask
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
                typer.echo("No browser was found: open this address in a browser on this machine.", err=True)
            while not server.fetched.wait(0.5):  # short waits, to handle Ctrl-C
                pass
