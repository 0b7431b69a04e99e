"""Parts of a run in a store, for a cluster whose workers share no folder with the machine that asks for the run.

A worker makes a part in its temporary folder and puts it into the store, its record last; the other machine copies it.
What lies there is of use as long as its record is there, so two imports at once make the same parts and harm none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotline_analysis.atomic import remove
from hotline_analysis.errors import HotlineError, MachineError, TraceFormatError
from hotline_analysis.importer.parts import RECORD, record_of
from hotline_analysis.importer.remote import Remote, copy_of, errors_of, file_of, shown
from hotline_analysis.importer.store_folder import StoreFolder, folder_of, for_each, writable_folder
from hotline_analysis.importer.tasks import Task

_FILE = re.compile(r"[a-z_]+\.parquet")
_OURS = re.compile(rf"[0-9a-f]{{32}}/({_FILE.pattern}|{re.escape(RECORD)})")


@dataclass(frozen=True)
class PartsInStore:
    """The parts of a run below a URL of a store, each in a folder with the name that `parts.key_of` gives."""

    url: str

    def check(self) -> None:
        """Raise `MachineError` or `HotlineError` now if no part could be put there."""
        writable_folder(self.url).check_writable()

    def complete(self) -> set[str]:
        """The names of the parts that are there with all that belongs to them."""
        names = (name.split("/") for name in folder_of(self.url).files())
        return {name[0] for name in names if len(name) == 2 and name[1] == RECORD}

    def count(self, tasks: Sequence[Task]) -> int:
        """How many tasks have a complete part; none, if the store does not answer."""
        with suppress(HotlineError):
            return len(self.complete() & {task.folder.name for task in tasks})
        return 0

    def put(self, folder: Path, name: str, known: dict[str, Any]) -> None:
        """Put the files of a folder there, as the part of that name, and what is known of it."""
        place = self._folder(name)
        files = {file.name: file for file in folder.iterdir()}
        for_each(lambda file: place.put(file, files[file]), sorted(files))
        place.put(RECORD, record_of(folder, known).encode())

    def known(self, name: str) -> dict[str, Any] | None:
        """What is known of the file of a part, if all of the part is there."""
        with suppress(_Incomplete):
            known: dict[str, Any] = self._record(name)[0]["known"]
            return known
        return None

    def copy(self, task: Task) -> dict[str, Any]:
        """Copy the part of a task to its folder on this machine, and return what is known of the file.

        Raises `MachineError` if it is not there as its record says, or cannot be copied.
        """
        remove(task.folder)
        task.folder.mkdir()
        place = self._folder(task.folder.name)
        try:
            record, found = self._record(task.folder.name)
        except _Incomplete as error:
            raise MachineError(
                f"what a worker has made of {task.file} is not in {shown(self.url)}, or not all of it",
                hint="Another import to the same place may have removed it. Import again.",
            ) from error

        def copy(file: str) -> None:
            copy_of(place.store, f"{place.folder}{file}", found[file], task.folder / file)

        for_each(copy, list(found))
        return {**record["known"], "folder": str(task.folder)}

    def delete(self) -> None:
        """Delete all parts, records first, and nothing else. Where that is not allowed they stay; they do no harm."""
        with suppress(HotlineError):
            place = folder_of(self.url)
            ours = [name for name in place.files() if _OURS.fullmatch(name)]
            place.delete(sorted(ours, key=lambda name: (not name.endswith(RECORD), name)))

    def _folder(self, name: str) -> StoreFolder:
        return folder_of(f"{self.url.rstrip('/')}/{name}")

    def _record(self, name: str) -> tuple[Any, dict[str, Remote]]:
        """The record of a part, and the files that it names; `_Incomplete` if it, or one of them, is not there."""
        place = self._folder(name)
        try:
            with errors_of(place.url):
                record = json.loads(bytes(place.store.get(f"{place.folder}{RECORD}").bytes()))
            there = place.files()
            sizes = record["files"]
            found = {file: file_of(f"{place.url}/{file}", there[file]) for file in sizes if _FILE.fullmatch(file)}
            if {file: found[file].size for file in found} == sizes and isinstance(record["known"], dict):
                return record, found
        except (TraceFormatError, LookupError, TypeError, ValueError):
            pass
        raise _Incomplete(name)


class _Incomplete(Exception):
    """A part is not there, or not all of it."""
