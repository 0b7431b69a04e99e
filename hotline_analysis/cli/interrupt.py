"""End a command promptly on Ctrl-C.

Python handles the signal only when the running library returns or checks for signals. DuckDB usually checks, but some
statements run on for seconds; rendering pictures never checks. A separate thread therefore gives the command a short
time to stop, then undoes incomplete work and ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from hotline_analysis.atomic import undo_all

INTERRUPTED = 130  # the shells' exit status after Ctrl-C
_PATIENCE_S = 0.8
_TRIES = 3
_came = threading.Event()


def watch() -> None:
    """Start to listen for Ctrl-C. Nothing changes if the process ignores the signal."""
    if os.name != "posix" or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _raise)
    heard, told = os.pipe()
    os.set_blocking(told, False)
    # The signal writes to this pipe immediately, whatever Python is doing.
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_end_after, args=[heard], daemon=True).start()


def came() -> bool:
    """Return whether Ctrl-C was pressed. A later library error may then be caused by the interrupt."""
    return _came.is_set()


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    _came.set()
    raise KeyboardInterrupt


def done() -> None:
    """Ignore Ctrl-C from now on: the command is complete and only the process has to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def leave() -> NoReturn:
    """Undo incomplete work and end the process directly.

    A normal Python exit would end with the signal, even though the exception was caught, if Ctrl-C arrived while Python
    executed a string, as in `dataclasses` and `namedtuple`.
    """
    done()
    undo_all()
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(INTERRUPTED)


def _end_after(heard: int) -> None:
    while signal.SIGINT not in os.read(heard, 100):
        pass
    time.sleep(_PATIENCE_S)
    for _ in range(_TRIES):  # the library is still running and may recreate removed files
        undo_all()
    os._exit(INTERRUPTED)
