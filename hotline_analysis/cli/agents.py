"""The command for agents: mcp."""

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
            metavar="RUN", help="Runs, traces or folders that the server may open; the working directory by default."
        ),
    ] = None,
    exports: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Output folder of the tool `export`; without this option, there is no export tool."
        ),
    ] = None,
    skill: Annotated[bool, typer.Option("--skill", help="Print the guide for agents and exit.")] = False,
    llms: Annotated[bool, typer.Option("--llms", help="Print the llms.txt of the package and exit.")] = False,
) -> None:
    """Serve runs to agents, by the Model Context Protocol.

    The server uses standard input and output. It opens only the given folders and writes only exports. Needs `pip
    install hotline-analysis[mcp]`.

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
            raise HotlineError(f"{path} does not exist", hint="Name runs, traces or folders.")
    if exports is not None:
        exports.mkdir(parents=True, exist_ok=True)
    serve(given, exports).run("stdio")
