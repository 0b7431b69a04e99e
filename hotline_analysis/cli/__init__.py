"""The `hotline` command. Each subcommand is a few lines over the public API.

Subcommands import their dependencies when called, so `hotline --help` answers at once.
"""

from __future__ import annotations

import gc
import io
import os
import sys

from hotline_analysis.atomic import undo_all
from hotline_analysis.cli import agents, asking, drawing, files, gating, interrupt, predicting, reports, viewing
from hotline_analysis.cli.app import app

# Importing the modules has registered their commands.
__all__ = ["agents", "app", "asking", "drawing", "files", "gating", "main", "predicting", "reports", "viewing"]

_IN_ORDER_OF_NEED = (
    "demo",
    "import",
    "report",
    "whatif",
    "diff",
    "gate",
    "baseline",
    "timeline",
    "view",
    "chart",
    "query",
    "queries",
    "sql",
    "export",
    "dashboard",
    "mcp",
)
app.registered_commands.sort(key=lambda command: (*_IN_ORDER_OF_NEED, command.name).index(command.name))


def main() -> None:
    """Run the command line and end the process."""
    # Python sets a stream to None if the caller closed it (`hotline … >&-`).
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # On other systems than Linux, and in the C locale, the encoding may lack characters used in names and tables.
        # Readers of pipes and files expect UTF-8; a terminal replaces unknown characters.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    gc.set_threshold(50_000, 20, 20)  # loaded libraries create no garbage, and collecting it takes 5 % of a run
    interrupt.watch()
    try:
        app(prog_name="hotline")
    except KeyboardInterrupt:
        interrupt.leave()
    except SystemExit as end:
        if end.code == interrupt.INTERRUPTED:
            interrupt.leave()
        raise
    finally:
        interrupt.done()
        undo_all()
