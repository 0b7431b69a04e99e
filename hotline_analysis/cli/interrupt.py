"""Ctrl-C ends a command at once.

Python sees it when the library that is at work next looks: the database, which usually does, goes on for seconds in
some statements, and the drawing of pictures never looks. So a thread of its own waits for the command to end by itself,
and else undoes what is not complete and ends it.
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

INTERRUPTED = 130  # the exit status of shells for what Ctrl-C has ended
_PATIENCE_S = 0.8
_TRIES = 3
_came = threading.Event()


def watch() -> None:
    """Begin to listen for Ctrl-C. Where the process was told to ignore it, nothing changes."""
    if os.name != "posix" or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _raise)
    heard, told = os.pipe()
    os.set_blocking(told, False)
    # Written to when the signal comes, whatever python is doing.
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_end_after, args=[heard], daemon=True).start()


def came() -> bool:
    """Whether Ctrl-C has come. A library may have made an error of its own of it, which says nothing then."""
    return _came.is_set()


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    _came.set()
    raise KeyboardInterrupt


def done() -> None:
    """Say that the command is complete: what is left is to end the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def leave() -> NoReturn:
    """Undo what is not complete and end the process, not as Python would.

    Where Ctrl-C came while Python ran a string, as `dataclasses` and `namedtuple` let it, Python ends with the signal
    even if the exception was caught.
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
    for _ in range(_TRIES):  # the library is still at work, and may make again what was just removed
        undo_all()
    os._exit(INTERRUPTED)
