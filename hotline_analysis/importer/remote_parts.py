"""Parts of a run in a store, for a cluster whose workers share no folder with the importing machine.

A worker makes a part in a temporary folder and uploads it, the record last. The importing machine copies it. A part is
valid as long as its record exists, so two concurrent imports make the same parts without conflict.
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
    """The parts of a run below a store URL, each in a folder named by `parts.key_of`."""

    url: str

    def check(self) -> None:
        """Raise `MachineError` or `HotlineError` if no part can be written."""
        writable_folder(self.url).check_writable()

    def complete(self) -> set[str]:
        """Return the names of the complete parts."""
        names = (name.split("/") for name in folder_of(self.url).files())
        return {name[0] for name in names if len(name) == 2 and name[1] == RECORD}

    def count(self, tasks: Sequence[Task]) -> int:
        """Return the number of tasks with a complete part; 0 if the store does not answer."""
        with suppress(HotlineError):
            return len(self.complete() & {task.folder.name for task in tasks})
        return 0

    def put(self, folder: Path, name: str, known: dict[str, Any]) -> None:
        """Upload the files of a folder as the part `name`, then the record with the result."""
        store_folder = self._folder(name)
        files = {file.name: file for file in folder.iterdir()}
        for_each(lambda file: store_folder.put(file, files[file]), sorted(files))
        store_folder.put(RECORD, record_of(folder, known).encode())

    def known(self, name: str) -> dict[str, Any] | None:
        """Return the result recorded in a part; None if the part is missing or incomplete."""
        with suppress(_Incomplete):
            result: dict[str, Any] = self._record(name)[0]["known"]
            return result
        return None

    def copy(self, task: Task) -> dict[str, Any]:
        """Copy the part of a task to the task's folder on this machine, and return the result for the file.

        Raises `MachineError` if the part is incomplete or cannot be copied.
        """
        remove(task.folder)
        task.folder.mkdir()
        store_folder = self._folder(task.folder.name)
        try:
            record, remote_files = self._record(task.folder.name)
        except _Incomplete as error:
            raise MachineError(
                f"the imported data of {task.file} is missing or incomplete in {shown(self.url)}",
                hint="Another import to the same place may have removed the data. Import again.",
            ) from error

        def copy(file: str) -> None:
            copy_of(store_folder.store, f"{store_folder.folder}{file}", remote_files[file], task.folder / file)

        for_each(copy, list(remote_files))
        return {**record["known"], "folder": str(task.folder)}

    def delete(self) -> None:
        """Delete all parts, records first, and nothing else. Parts stay, without harm, if deleting is not allowed."""
        with suppress(HotlineError):
            store_folder = folder_of(self.url)
            part_files = [name for name in store_folder.files() if _OURS.fullmatch(name)]
            store_folder.delete(sorted(part_files, key=lambda name: (not name.endswith(RECORD), name)))

    def _folder(self, name: str) -> StoreFolder:
        return folder_of(f"{self.url.rstrip('/')}/{name}")

    def _record(self, name: str) -> tuple[Any, dict[str, Remote]]:
        """Return the record of a part and its files. Raises `_Incomplete` if the record or a file is missing."""
        store_folder = self._folder(name)
        try:
            with errors_of(store_folder.url):
                record = json.loads(bytes(store_folder.store.get(f"{store_folder.folder}{RECORD}").bytes()))
            listing = store_folder.files()
            sizes = record["files"]
            files = {
                file: file_of(f"{store_folder.url}/{file}", listing[file]) for file in sizes if _FILE.fullmatch(file)
            }
            if {file: files[file].size for file in files} == sizes and isinstance(record["known"], dict):
                return record, files
        except (TraceFormatError, LookupError, TypeError, ValueError):
            pass
        raise _Incomplete(name)


class _Incomplete(Exception):
    """A part is missing or incomplete."""
