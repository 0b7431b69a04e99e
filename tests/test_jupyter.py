"""A notebook in a real Jupyter kernel without ipywidgets, as in VS Code: load, report, a chart and the timeline."""

from __future__ import annotations

from typing import Any

import pytest

nbclient: Any = pytest.importorskip("nbclient")
nbformat: Any = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

WITHOUT_IPYWIDGETS = "import sys\nsys.modules['ipywidgets'] = None"  # importing it then fails
CELLS = (
    "import hotline_analysis as ha\ntrace = ha.load(ha.demo_trace())\ntrace",
    "ha.report(trace)",
    "ha.charts.draw('phases', trace)",
    "ha.charts.timeline(trace)",
)


def outputs(*cells: str) -> list[list[dict[str, Any]]]:
    """Run cells in a new kernel, and return the outputs of each. Raises if a cell raises."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell["outputs"] for cell in notebook.cells]


def html_of(cell: list[dict[str, Any]]) -> str:
    """The HTML of the only output of a cell; a progress bar, for one, would be another output."""
    (output,) = cell
    assert output["output_type"] == "execute_result"
    return str(output["data"]["text/html"])


@pytest.mark.slow
def test_everything_is_shown_without_ipywidgets() -> None:
    nothing, *cells = outputs(WITHOUT_IPYWIDGETS, *CELLS)
    assert nothing == []
    trace, report, chart, timeline = map(html_of, cells)
    assert "rank" in trace
    assert "H100 80GB" in report
    assert "Is the GPU or the CPU the bottleneck?" in report
    # The picture of the step is a static drawing.
    assert report.count("<svg") == 1
    assert "typical of 3 steps" in report
    assert "<script" not in report
    assert "<svg" in chart
    assert "hl-slice" in timeline
