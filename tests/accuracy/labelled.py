"""Score the annotation of traces whose modules are known: `make accuracy`.

For each program that was captured on a GPU (`tests/data/gpu`), its trace with frames is annotated with the model alone,
as the capture has stored it, and the shares of time with the module that the frames say are counted.

For each folder with a `trace.json.gz`, a `model.json` and a `labels.parquet`, the trace is annotated with the model
alone, and the shares of events with the right phase and module are counted as `score_annotation.py` defines them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import hotline_analysis as ha
from hotline_analysis import ModelMismatchError
from tests.accuracy.hide import captured_model, compare

GPU = Path(__file__).parents[1] / "data" / "gpu"
Scores = dict[str, dict[str, Any]]


def labelled_folders(traces: Path) -> list[Path]:
    """The folders of labelled traces."""
    return sorted(path.parent for path in traces.glob("labelled/*/labels.parquet"))


def score(traces: Path, folder: Path, *, peer: bool = False) -> Scores:
    """Annotate one labelled trace and score it; or score the labels of the original profiler."""
    tool = traces.parent / "tools" / "score_annotation.py"
    command = [sys.executable, str(tool), str(folder / "labels.parquet"), "--json"]
    with tempfile.TemporaryDirectory() as scratch:
        if peer:
            command.append("--peer")
        else:
            annotation = Path(scratch) / "annotation.parquet"
            with ha.load(folder / "trace.json.gz", model=folder / "model.json") as trace:
                trace.sql("select event_id, phase, module_id from label").write_parquet(annotation)
            command.insert(3, str(annotation))
        done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    result: Scores = json.loads(done.stdout)
    return result


def print_programs(folder: Path) -> None:
    """Print a table of the programs that were captured on a GPU."""
    print(f"{folder.name:24} {'CPU time':>11} {'right':>9} {'GPU time':>11} {'right':>9}")
    for path in sorted(folder.glob("*_frames.json.gz")):
        program = path.name.removesuffix("_frames.json.gz")
        try:
            with ha.load(path) as trace:
                shares = compare(trace, captured_model(trace))
        except ModelMismatchError:
            print(f"  {program:22} the table of the capture does not fit")
            continue
        for name, share in sorted(shares.items()):
            cpu, gpu = (f"{ns / 1e6:.2f} ms" for ns in (share.cpu_ns, share.gpu_ns))
            right = [f"{pct:.2f} %" for pct in (share.cpu_pct, share.gpu_pct)]
            print(f"  {f'{program} {name}':22} {cpu:>11} {right[0]:>9} {gpu:>11} {right[1]:>9}")


def main() -> None:
    """Print a table of the captured programs, and one for every labelled trace."""
    print_programs(GPU)
    traces = Path(os.environ.get("HOTLINE_TRACES", Path(__file__).parents[3] / "shared" / "traces"))
    folders = labelled_folders(traces)
    if not folders:
        sys.exit(f"no labelled traces in {traces}; set HOTLINE_TRACES to the folder that holds them")
    for folder in folders:
        ours, peers = score(traces, folder), score(traces, folder, peer=True)
        print(f"{folder.name:24} {'events':>7} {'ours':>9} {'Hotline':>9}   GPU time: {'ours':>9} {'Hotline':>9}")
        for part, row in ours.items():
            shares = (row["events_right_pct"], peers[part]["events_right_pct"])
            gpu = (row["gpu_time_right_pct"], peers[part]["gpu_time_right_pct"])
            said = [f"{share:.2f} %" if share is not None else "-" for share in (*shares, *gpu)]
            print(f"  {part:22} {row['events']:>7,} {said[0]:>9} {said[1]:>9}             {said[2]:>9} {said[3]:>9}")


if __name__ == "__main__":
    main()
