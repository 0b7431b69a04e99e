"""Names of modules that are found without frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hotline_analysis as ha
from hotline_analysis import Trace
from tests.trace_builder import TraceBuilder

# Two blocks of two layers, and a head.
MODEL: list[dict[str, Any]] = [
    {
        "name": "block",
        "type": "Block",
        "ops": [{"name": "linear", "type": "Linear"}, {"name": "relu", "type": "ReLU"}],
    },
    {
        "name": "block",
        "type": "Block",
        "ops": [{"name": "linear", "type": "Linear"}, {"name": "dropout", "type": "Dropout"}],
    },
    {"name": "head", "type": "Linear"},
]
WHOLE = ["aten::linear", "aten::relu", "aten::linear", "aten::dropout", "aten::linear"]


def placed(trace: TraceBuilder, folder: Path, model: object = MODEL, name: str = "trace.json") -> Trace:
    """The trace, annotated with the model."""
    description = folder / "model.json"
    description.write_text(json.dumps(model))
    return ha.load(trace.write(folder / name), model=description)
