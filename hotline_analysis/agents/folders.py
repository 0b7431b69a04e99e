"""Limit the server to runs inside the folders given to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hotline_analysis.errors import HotlineError
from hotline_analysis.importer import load
from hotline_analysis.run.trace import Trace

_ENDINGS = (".json", ".json.gz", ".pt.trace.json", ".json.zst", ".sqlite")
_MOST_OPEN = 8
_MOST_LISTED = 500
_DEPTH = 4  # levels of nested folders


class Folders:
    """Find and open runs by name below the given folders. The last few runs stay open."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.roots = [path.resolve(strict=True) for path in given]
        self._open: dict[Path, Trace] = {}

    def names(self) -> list[str]:
        """Return the names of the runs and trace files in the folders, at most 500, as accepted by `open`."""
        names = (name for root in self.roots for name in self._below(root))
        return sorted({name for name, _ in zip(names, range(_MOST_LISTED), strict=False)})

    def _below(self, root: Path, depth: int = 0) -> Iterator[str]:
        if (root / "manifest.json").exists() or root.is_file():
            yield str(root)
        elif depth < _DEPTH and root.is_dir():
            for path in sorted(root.iterdir()):
                if path.is_dir() or path.name.endswith(_ENDINGS):
                    yield from self._below(path, depth + 1)

    def open(self, name: str) -> Trace:
        """Open a run by its path or by the end of its path. Raises `HotlineError` for a path outside the folders."""
        path = self._allowed(name)
        trace = self._open.pop(path, None) or load(path)
        self._open[path] = trace
        if len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        return trace

    def _allowed(self, name: str) -> Path:
        requested_path = Path(name)
        candidates = (
            [requested_path] if requested_path.is_absolute() else [root / requested_path for root in self.roots]
        )
        candidates += [root for root in self.roots if root.name == name]
        for candidate in candidates:
            path = candidate.resolve()
            if any(path == root or root in path.parents for root in self.roots) and path.exists():
                return path
        matches = [Path(listed_name) for listed_name in self.names() if listed_name.endswith(f"/{name}")]
        if len(matches) == 1:
            return matches[0]
        examples = ", ".join(self.names()[:10]) or "none"
        raise HotlineError(f"there is no run {name!r} in the folders of this server", hint=f"Runs: {examples}.")

    def close(self) -> None:
        """Close all open runs."""
        for trace in self._open.values():
            trace.close()
