"""Explore a run in a notebook: choose a step and a phase, and see the slowest ops and charts.

    pip install marimo
    marimo edit docs/examples/explore.py -- --trace run.hotline

Without `--trace`, the notebook shows the demo trace. A cell runs again when its inputs change.
"""

# Cells take values returned by other cells, which only marimo understands.
# mypy: ignore-errors
# ruff: noqa: B018

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Explore a run")


@app.cell
def _():
    import marimo as mo

    import hotline_analysis as ha

    return ha, mo


@app.cell
def _(ha, mo):
    # A trace file is imported first; a run directory (`hotline import`) opens at once.
    trace = ha.load(mo.cli_args().get("trace") or ha.demo_trace())
    trace
    return (trace,)


@app.cell
def _(mo, trace):
    rank = mo.ui.dropdown({str(rank): rank for rank in trace.ranks}, value=str(trace.ranks[0]), label="rank")
    rank
    return (rank,)


@app.cell
def _(ha, rank, trace):
    report = ha.report(trace, rank=rank.value)
    report
    return (report,)


@app.cell
def _(ha, rank, trace):
    ha.charts.steps(ha.steps(trace, rank=rank.value))
    return


@app.cell
def _(ha, mo, rank, trace):
    steps = [str(step) for step in ha.steps(trace, rank=rank.value)["step"].drop_nulls()]
    step = mo.ui.dropdown({"all": None, **{name: int(name) for name in steps}}, value="all", label="step")
    phases = ha.phases(trace, rank=rank.value)["phase"].unique(maintain_order=True).to_list()
    phase = mo.ui.dropdown({"all": None, **{name: name for name in phases}}, value="all", label="phase")
    by = mo.ui.dropdown(["slowest_ops", "slowest_kernels", "slowest_modules"], value="slowest_ops", label="slowest")
    mo.hstack([step, phase, by], justify="start")
    return by, phase, step


@app.cell
def _(ha, rank, step, trace):
    ha.charts.phases(ha.phases(trace, rank=rank.value, step=step.value))
    return


@app.cell
def _(by, ha, phase, rank, step, trace):
    # Modules have passes instead of phases.
    within = {} if by.value == "slowest_modules" else {"phase": phase.value}
    slowest = getattr(ha, by.value)(trace, 20, rank=rank.value, step=step.value, **within)
    getattr(ha.charts, by.value)(slowest)
    return (slowest,)


@app.cell
def _(mo, slowest):
    mo.ui.table(slowest)
    return


@app.cell
def _(ha, rank, step, trace):
    # The critical path of the step: only faster work on this path makes the step shorter.
    ha.charts.draw("critical_path", trace, rank=rank.value, **({} if step.value is None else {"step": step.value}))
    return


@app.cell
def _(ha, rank, step, trace):
    ha.charts.timeline(trace, rank=rank.value, step=step.value)
    return


@app.cell
def _(rank, trace):
    # Write your own SQL: `hotline schema` lists the tables.
    trace.sql(
        "select phase, category, count(*) as events, sum(dur_ns) as time_ns from annotated_event"
        " where rank = $rank group by all order by time_ns desc limit 20",
        rank=rank.value,
    )
    return


if __name__ == "__main__":
    app.run()
