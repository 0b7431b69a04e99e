"""Reports and measures in the trackers of experiments, by their own functions, as docs/frameworks.md says; offline.

They are tested where they are installed (`pip install '.[trackers]'`).
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

import hotline_analysis as ha
from tests.runs import opened

ROOT = Path(__file__).parents[1]
FIGURES = ("step", "phase:backward")


@pytest.fixture(scope="module")
def logged() -> tuple[ha.Report, dict[str, float]]:
    """The report of a run, and the medians of two measures of its steps."""
    with opened(ROOT / "tests/data/lstm.json.gz") as trace:
        values = ha.measure(trace).values
        return ha.report(trace), {f"hotline/{metric}": statistics.median(values[metric]) for metric in FIGURES}


def test_mlflow(logged: tuple[ha.Report, dict[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    report, figures = logged
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as run:
        mlflow.log_text(report.to_html(), "hotline.html")
        mlflow.log_metrics(figures, step=3)
    page = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="hotline.html")
    assert Path(page).read_text(encoding="utf-8") == report.to_html()
    assert mlflow.get_run(run.info.run_id).data.metrics == figures


def test_weights_and_biases(logged: tuple[ha.Report, dict[str, float]], tmp_path: Path) -> None:
    wandb: Any = pytest.importorskip("wandb")
    report, figures = logged
    run = wandb.init(mode="offline", project="hotline", dir=tmp_path)
    run.log({"hotline": wandb.Html(report.to_html(), inject=False), **figures}, step=3)
    run.finish()
    (page,) = (tmp_path / "wandb" / "latest-run").glob("files/media/html/*.html")
    assert page.read_text(encoding="utf-8") == report.to_html()


def test_tensorboard(logged: tuple[ha.Report, dict[str, float]], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    writing: Any = pytest.importorskip("torch.utils.tensorboard")
    reading: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    report, figures = logged
    with writing.SummaryWriter(str(tmp_path)) as writer:
        writer.add_text("hotline", report.to_markdown(), 3)
        for metric, value in figures.items():
            writer.add_scalar(metric, value, 3)
    found = reading.EventAccumulator(str(tmp_path))
    found.Reload()
    (text,) = found.Tensors("hotline/text_summary")
    assert text.tensor_proto.string_val[0].decode() == report.to_markdown()
    # TensorBoard keeps single precision.
    assert {name: found.Scalars(name)[0].value for name in figures} == pytest.approx(figures, rel=1e-6)
