"""Which runs a server may open: those in the folders it was given, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hotline_analysis.errors import HotlineError
from hotline_analysis.importer import load
from hotline_analysis.run.trace import Trace

_ENDINGS = (".json", ".json.gz", ".pt.trace.json", ".json.zst")
_MOST_OPEN = 8
_MOST_LISTED = 500
_DEPTH = 4  # folders in folders


class Folders:
    """Runs by their name below the given folders; the last few stay open."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.roots = [path.resolve(strict=True) for path in given]
        self._open: dict[Path, Trace] = {}

    def names(self) -> list[str]:
        """The runs and trace files that are there, by the names that `open` takes."""
        found = (name for root in self.roots for name in self._below(root))
        return sorted({name for name, _ in zip(found, range(_MOST_LISTED), strict=False)})

    def _below(self, root: Path, depth: int = 0) -> Iterator[str]:
        if (root / "manifest.json").exists() or root.is_file():
            yield str(root)
        elif depth < _DEPTH and root.is_dir():
            for path in sorted(root.iterdir()):
                if path.is_dir() or path.name.endswith(_ENDINGS):
                    yield from self._below(path, depth + 1)

    def open(self, name: str) -> Trace:
        """The run of this name: a path, or the end of one. Raises `HotlineError` outside the folders."""
        path = self._allowed(name)
        trace = self._open.pop(path, None) or load(path)
        self._open[path] = trace
        if len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        return trace

    def _allowed(self, name: str) -> Path:
        asked = Path(name)
        candidates = [asked] if asked.is_absolute() else [root / asked for root in self.roots]
        candidates += [root for root in self.roots if root.name == name]
        for candidate in candidates:
            path = candidate.resolve()
            if any(path == root or root in path.parents for root in self.roots) and path.exists():
                return path
        ending = [Path(each) for each in self.names() if each.endswith(f"/{name}")]
        if len(ending) == 1:
            return ending[0]
        some = ", ".join(self.names()[:10]) or "none"
        raise HotlineError(f"there is no run {name!r} in the folders that this server was given", hint=f"Runs: {some}.")

    def close(self) -> None:
        """Close all of them."""
        for trace in self._open.values():
            trace.close()
