"""A place in a store for one writer at a time: two that put files of the same names there would mix two runs."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from hotline_analysis.atomic import begin, finish
from hotline_analysis.errors import HotlineError
from hotline_analysis.importer.remote import errors_of, shown
from hotline_analysis.importer.store_folder import StoreFolder

_RENEW_S = 60
_LEFT_S = 900  # more than a file of several GB takes to arrive, at 10 MB a second


@contextmanager
def locked(place: StoreFolder) -> Iterator[Callable[[], None]]:
    """Write to a folder of a store as the only one of all that ask for it.

    The lock is a file beside the folder. The block is given a function that renews it, to be called now and then: a
    lock that was not renewed for 15 minutes counts as left by a process that was killed. Raises `HotlineError` if
    another process writes there. Stores that cannot write a file only if it is not there have no lock.
    """
    lock = f"{place.folder.rstrip('/')}.lock"
    owner = f"{socket.gethostname()} {os.getpid()}".encode()
    is_locked = _take(place, lock, owner)
    renewed = time.monotonic()

    def renew() -> None:
        nonlocal renewed
        if is_locked and time.monotonic() - renewed > _RENEW_S:
            renewed = time.monotonic()
            with errors_of(place.url):
                place.store.put(lock, owner)

    def release() -> None:
        with suppress(HotlineError), errors_of(place.url):  # it counts no more after some time
            place.store.delete(lock)

    undo = begin(release if is_locked else bool)
    try:
        yield renew
    finally:
        finish(undo)


def _take(place: StoreFolder, lock: str, owner: bytes) -> bool:
    """Write the lock, and return whether the store has locks."""
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    with errors_of(place.url):
        try:
            place.store.put(lock, owner, mode="create")
        except (NotImplementedError, NotSupportedError):
            return False
        except AlreadyExistsError:
            with suppress(FileNotFoundError, PreconditionError):  # it has just been released, or taken by another
                found = place.store.head(lock)
                if (datetime.now(UTC) - found["last_modified"]).total_seconds() > _LEFT_S:
                    place.store.put(lock, owner, mode={"e_tag": found["e_tag"]})
                    return True
            raise HotlineError(
                f"another process writes {shown(place.url)} at this moment",
                hint=f"Try again when it has ended, or choose another name. One that was killed is in the way for"
                f" {_LEFT_S // 60} minutes.",
            ) from None
    return True
