"""The command that serves agents: mcp."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from hotline_analysis.cli.app import app
from hotline_analysis.errors import HotlineError


@app.command("mcp")
def mcp(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN", help="Runs, traces or folders of them that may be opened; the working directory by default."
        ),
    ] = None,
    exports: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the tool `export` may write; without it there is no such tool."),
    ] = None,
    skill: Annotated[bool, typer.Option("--skill", help="Print the guide for agents, and end.")] = False,
    llms: Annotated[bool, typer.Option("--llms", help="Print the llms.txt of the package, and end.")] = False,
) -> None:
    """Serve runs to agents, by the Model Context Protocol.

    It speaks on standard input and output, opens nothing outside the given folders, and writes nothing but exports.
    Needs `pip install hotline-analysis[mcp]`.

    \b
    Example:
      hotline mcp --skill
      hotline mcp runs/ --exports exports/
    """
    if skill or llms:
        text = files("hotline_analysis.agents") / "text" / ("SKILL.md" if skill else "llms.txt")
        typer.echo(text.read_text(encoding="utf-8"), nl=False)
        return
    try:
        from hotline_analysis.agents.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise HotlineError("the package `mcp` is not installed", hint="pip install 'hotline-analysis[mcp]'") from None
    given = runs or [Path.cwd()]
    for path in given:
        if not path.exists():
            raise HotlineError(f"{path} does not exist", hint="Name runs, traces, or folders of them.")
    if exports is not None:
        exports.mkdir(parents=True, exist_ok=True)
    serve(given, exports).run("stdio")
