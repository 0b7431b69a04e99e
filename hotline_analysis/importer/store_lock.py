"""A lock for a folder in a store: two concurrent writers would mix the files of two runs."""

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
_LEFT_S = 900  # longer than the upload of a file of several GB at 10 MB a second


@contextmanager
def locked(place: StoreFolder) -> Iterator[Callable[[], None]]:
    """Hold a lock on a folder of a store during the block.

    The lock is a file next to the folder. The block receives a function that renews the lock and must be called
    regularly: a lock not renewed for 15 minutes is considered left by a killed process. Raises `HotlineError` if
    another process holds the lock. There is no lock in stores without conditional writes.
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
        with suppress(HotlineError), errors_of(place.url):  # the lock expires anyway
            place.store.delete(lock)

    undo = begin(release if is_locked else bool)
    try:
        yield renew
    finally:
        finish(undo)


def _take(place: StoreFolder, lock: str, owner: bytes) -> bool:
    """Write the lock file. Return False if the store does not support locks."""
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    with errors_of(place.url):
        try:
            place.store.put(lock, owner, mode="create")
        except (NotImplementedError, NotSupportedError):
            return False
        except AlreadyExistsError:
            with suppress(FileNotFoundError, PreconditionError):  # just released, or taken by another process
                head = place.store.head(lock)
                if (datetime.now(UTC) - head["last_modified"]).total_seconds() > _LEFT_S:
                    place.store.put(lock, owner, mode={"e_tag": head["e_tag"]})
                    return True
            raise HotlineError(
                f"another process is writing {shown(place.url)}",
                hint=f"Wait for the other process, or choose another name. The lock of a killed process expires after"
                f" {_LEFT_S // 60} minutes.",
            ) from None
    return True
