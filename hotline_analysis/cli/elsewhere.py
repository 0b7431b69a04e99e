"""Prediction tables other than single scenarios: `hotline whatif TRACE share_gpu`, `scaling` and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hotline_analysis as ha
from hotline_analysis.cli.common import listing
from hotline_analysis.errors import QueryParameterError
from hotline_analysis.text.formats import duration, percent

if TYPE_CHECKING:
    import polars as pl

Row = Mapping[str, Any]
_NUMBERS = "numbers"


@dataclass(frozen=True)
class Table:
    """A prediction table: the function that computes it, parameter types, headers, and the text of a row."""

    function: str
    parameters: Mapping[str, type | str]
    headers: tuple[str, ...]
    words: Callable[[Row], tuple[str, ...]]
    note: str

    def arguments(self, name: str, given: Mapping[str, str]) -> dict[str, object]:
        """Convert parameters to the function's types. Raises `QueryParameterError` for invalid parameters."""
        found: dict[str, object] = {}
        for key, text in given.items():
            if key not in self.parameters:
                raise QueryParameterError(
                    f"{name} has no parameter {key!r}", hint=f"Parameters: {', '.join(self.parameters)}."
                )
            kind = self.parameters[key]
            try:
                if kind == _NUMBERS:
                    found[key] = [_number(part) for part in text.split(",")]
                else:
                    found[key] = int(text) if kind is int else float(text)
            except ValueError:
                what = "numbers separated by commas" if kind == _NUMBERS else "a number"
                raise QueryParameterError(f"{key} of {name} must be {what}, not {text!r}") from None
        return found

    def ask(self, trace: ha.Trace, rank: int | None, given: Mapping[str, object]) -> pl.DataFrame:
        """Compute the table as a frame."""
        found: pl.DataFrame = getattr(ha, self.function)(trace, rank=rank, **given)
        return found

    def text(self, table: pl.DataFrame) -> str:
        """Return the table as text."""
        said = table["reason"].drop_nulls().unique(maintain_order=True).to_list() if "reason" in table.columns else []
        rows = [self.words(row) for row in table.iter_rows(named=True)]
        return "\n".join([listing(self.headers, rows), *(f"{each}\n" for each in said), self.note])


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value == int(value) else value


def _between(row: Row) -> str:
    return "–" if row["low_ns"] is None else f"{duration(row['low_ns'])} to {duration(row['high_ns'])}"


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _speed(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f} GB/s"


def _share(row: Row) -> tuple[str, ...]:
    gain = "–" if row["gain_low"] is None else f"{_times(row['gain_low'])} to {_times(row['gain_high'])}"
    fits = {True: "yes", False: "no", None: "–"}[row["fits"]]
    return str(row["copies"]), row["way"].replace("_", " "), _between(row), gain, row["limit"], fits


def _scaling(row: Row) -> tuple[str, ...]:
    return (
        str(row["ranks"]),
        f"{row['gb_per_s']:g} GB/s",
        duration(row["predicted_ns"]),
        _between(row),
        percent(row["efficiency_pct"]),
        _speed(row["hidden_gb_per_s"]),
        _speed(row["paying_gb_per_s"]),
    )


def _buckets(row: Row) -> tuple[str, ...]:
    size = "default" if row["is_default"] else f"{row['bucket_mb']:g} MiB"
    return size, str(row["bucket_count"]), duration(row["predicted_ns"]), _between(row)


def _chain(row: Row) -> tuple[str, ...]:
    return (
        str(row["step"]),
        f"{row['length']:,} of {row['node_count']:,}",
        f"{row['weighty_count']:,}",
        percent(row["share_pct"]),
        str(row["workers"]),
        _times(row["chain_gain"]),
        _times(row["step_gain"]),
        _times(row["replayed_gain"]),
    )


TABLES: Mapping[str, Table] = {
    "share_gpu": Table(
        "share_gpu",
        {"copies": _NUMBERS},
        ("copies", "way", "time for a step of each copy", "throughput gain", "limit", "fits"),
        _share,
        "Bounds, not expected values: a trace does not show how kernels of several processes slow each other down.\n",
    ),
    "scaling": Table(
        "data_parallel_scaling",
        {"ranks": _NUMBERS, "gb_per_s": _NUMBERS},
        ("ranks", "network", "step time", "range", "efficiency", "hidden from", "pays off from"),
        _scaling,
        "`hotline whatif TRACE ddp -p ranks=8 -p gb_per_s=12.5` lists the assumptions.\n",
    ),
    "bucket_sizes": Table(
        "bucket_sizes",
        {"ranks": int, "gb_per_s": float, "latency_us": float, "mb": _NUMBERS},
        ("bucket_cap_mb", "buckets", "step time", "range"),
        _buckets,
        "By default, the first bucket has 1 MiB and the others 25.\n",
    ),
    "backward_chain": Table(
        "backward_chain",
        {"workers": int, "step": int},
        ("step", "chain length", "long nodes", "backward", "workers", "scan", "step by Amdahl", "step replayed"),
        _chain,
        "At most: BPPSA (MLSys 2020), a parallel scan over Jacobians.\n",
    ),
}
"""Tables that `hotline whatif TRACE NAME` accepts in addition to scenarios."""
