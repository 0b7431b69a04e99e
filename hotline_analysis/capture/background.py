"""Annotate and report a trace in a separate process, so that training continues meanwhile.

The process has a low priority and its own session, so Ctrl-C for the training does not reach it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import IO, Any, Literal

from hotline_analysis.atomic import replace_file
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer import import_traces
from hotline_analysis.reports import Report, report
from hotline_analysis.run.trace import Trace

Format = Literal["text", "markdown", "json"]

_NICENESS = 10  # halfway to the lowest priority
_BEFORE_OTHERS = 100  # runs at exit before multiprocessing ends its pools and queues
_START = "import json, sys; order = json.load(sys.stdin); sys.path[:] = order.pop('path')"
_PROGRAM = f"{_START}; from hotline_analysis.capture.background import main; main(order)"


def annotate_and_report(
    trace: Path, run: Path, *, page: Path | None, report_format: Format | None, keep_trace: bool
) -> str:
    """Annotate a trace and write the report page. Return the text for the log; empty if `report_format` is None."""
    import_traces(trace, run, overwrite=True)
    if not keep_trace:
        trace.unlink()
    if report_format is None:
        return ""
    with Trace(run) as run_trace:
        result = report(run_trace)
        if page is not None:
            from hotline_analysis.charts.multi_scale import timeline  # imports altair, which is slow to import

            html = result.to_html(timeline(run_trace))
            replace_file(page, lambda file: file.write_text(html, encoding="utf-8"))
    if report_format == "markdown":
        return result.to_markdown()
    if report_format == "json":
        return result.to_json()
    return _short(result, run, page)


def _short(made: Report, run: Path, page: Path | None) -> str:
    """The answer in a few lines."""
    lines = [f"{made.title}: {' · '.join(made.head)}", made.lead]
    changes = made.screen.changes if made.screen is not None else ()
    for number, each in enumerate(changes, start=1):
        place = f", {each.where}" if each.where else ""
        lines.append(f"{number}. {each.action.title}: {each.action.change}{place}")
    lines += [f"warning: {warning}" for warning in made.warnings[:2]]
    lines.append(f"page: {page}, annotated run: {run} (hotline report {run})")
    return "\n".join(" ".join(line.split()) if not line.startswith("  ") else line for line in lines) + "\n"


def main(order: Mapping[str, Any]) -> None:
    """Carry out an order from `Work` and print the result as JSON: the text for the log, or an error."""
    with suppress(OSError, AttributeError):  # not available on this system
        os.nice(_NICENESS)
    result: dict[str, str | None]
    try:
        text = annotate_and_report(
            Path(order["trace"]),
            Path(order["run"]),
            page=Path(order["page"]),
            report_format=order["report_format"],
            keep_trace=order["keep_trace"],
        )
        result = {"text": text}
    except (HotlineError, OSError) as error:
        result = {"error": str(error)}
    json.dump(result, sys.stdout)


class Work:
    """A process that annotates a trace. Raises `HotlineError` or `OSError` if the process cannot be started."""

    def __init__(self, trace: Path, run: Path, *, page: Path, report_format: Format | None, keep_trace: bool) -> None:
        self.trace, self.run = trace, run
        self._text: str | None = None
        if not sys.executable:
            raise HotlineError("cannot find a Python executable to start a process")
        self._out: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=self._out,
                stderr=self._errors,
                text=True,
                start_new_session=True,
            )
        except BaseException:
            self._close()
            raise
        order = {
            "path": [os.path.abspath(entry) for entry in sys.path],
            "trace": os.path.abspath(trace),
            "run": os.path.abspath(run),
            "page": os.path.abspath(page),
            "report_format": report_format,
            "keep_trace": keep_trace,
        }
        self._owner = os.getpid()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            json.dump(order, stdin)

    @property
    def is_done(self) -> bool:
        """Whether `wait` returns at once."""
        return os.getpid() != self._owner or self._process.poll() is not None

    def stop(self) -> None:
        """Terminate the process."""
        self._process.terminate()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        self._out.close()
        self._errors.close()

    def wait(self) -> str:
        """Wait for the process to end and return the text for the log. Raises `HotlineError` if the annotation failed.

        An interrupt ends the process; the trace file is kept. In a fork, which does not own the process, return at
        once.
        """
        if os.getpid() != self._owner:
            return ""
        try:
            self._process.wait()
        except BaseException:
            self.stop()
            raise
        self._out.seek(0)
        output = self._out.read()
        self._errors.seek(0)
        errors = self._errors.read().strip().splitlines()
        self._close()
        try:
            result = json.loads(output)
        except ValueError:
            reason = errors[-1] if errors else f"it ended with {self._process.returncode}"
            raise HotlineError(f"the process that annotates {self.trace} failed: {reason}") from None
        if "error" in result:
            raise HotlineError(result["error"])
        return str(result["text"])


def at_exit(call: Any) -> Any:
    """Call a function at exit, also in processes started by multiprocessing. Return a handle with `cancel`."""
    return Finalize(None, call, exitpriority=_BEFORE_OTHERS)
