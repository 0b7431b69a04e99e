"""The typer application, and the handling of errors and warnings."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

import hotline_analysis as ha
from hotline_analysis.cli.interrupt import INTERRUPTED, came
from hotline_analysis.errors import HotlineError, HotlineWarning


class _Commands(TyperGroup):
    """Turns an error in any command into one line and an exit status."""

    def invoke(self, ctx: Any) -> Any:
        """Run the given command."""
        from hotline_analysis.cli import console

        with _warnings_in_one_line():
            try:
                result = _invoked(super().invoke, ctx)
                sys.stdout.flush()
                return result
            except typer.BadParameter as error:
                # Hide details of option parsing from users. All numeric options are integers.
                error.message = error.message.removeprefix("Value error, ")
                cause: Any = error.__cause__
                parsing = cause.errors()[0] if hasattr(cause, "errors") else {"type": ""}
                if parsing["type"].startswith("int_"):
                    error.message = f"{parsing['input']!r} is not a whole number."
                raise
            except HotlineError as error:
                console.error(error.message, error.hint)
                raise typer.Exit(1) from None
            except BrokenPipeError:
                # The reader closed the pipe early, as `head` does. Discard the buffered output.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(141) from None
            except OSError as error:
                if error.filename is not None:
                    raise
                # Discard the buffered output, or Python would try to write it again at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                console.error(f"cannot write the output: {error.strerror}", "Is the disk full?")
                raise typer.Exit(1) from None


def _invoked(invoke: Callable[[Any], Any], context: Any) -> Any:
    """Run a command and return the result. After Ctrl-C, treat any exception as an interruption.

    Libraries wrap the interrupt in errors of their own.
    """
    try:
        return invoke(context)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Exception:
        if came():
            raise typer.Exit(INTERRUPTED) from None
        raise


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    from hotline_analysis.cli import console

    console.WARNINGS.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("always", HotlineWarning)
        show_as_python_does = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, HotlineWarning):
                console.warning(str(message))
            else:
                show_as_python_does(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


app = typer.Typer(
    cls=_Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hotline_analysis {ha.__version__}")
        raise typer.Exit


@app.callback()
def _hotline(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Annotate PyTorch profiler traces and find what makes training slow.

    \b
    Example:
      hotline report traces/
    """
