"""Tables of predictions that are no single scenario: `hotline whatif TRACE share_gpu`, `scaling` and others."""

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
    """A table by name: what asks for it, with the types of its parameters, its headings, and the words of a row."""

    function: str
    parameters: Mapping[str, type | str]
    headers: tuple[str, ...]
    words: Callable[[Row], tuple[str, ...]]
    note: str

    def arguments(self, name: str, given: Mapping[str, str]) -> dict[str, object]:
        """The parameters as the function takes them. Raises `QueryParameterError` for what does not fit."""
        found: dict[str, object] = {}
        for key, text in given.items():
            if key not in self.parameters:
                raise QueryParameterError(
                    f"{name} has no parameter {key!r}", hint=f"It has {', '.join(self.parameters)}."
                )
            kind = self.parameters[key]
            try:
                if kind == _NUMBERS:
                    found[key] = [_number(part) for part in text.split(",")]
                else:
                    found[key] = int(text) if kind is int else float(text)
            except ValueError:
                what = "numbers with commas between" if kind == _NUMBERS else "a number"
                raise QueryParameterError(f"{key} of {name} must be {what}, not {text!r}") from None
        return found

    def ask(self, trace: ha.Trace, rank: int | None, given: Mapping[str, object]) -> pl.DataFrame:
        """The answer as a frame."""
        found: pl.DataFrame = getattr(ha, self.function)(trace, rank=rank, **given)
        return found

    def text(self, table: pl.DataFrame) -> str:
        """The answer in words."""
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
        ("copies", "way", "a step of all takes", "as much done", "limit", "it fits"),
        _share,
        "Bounds, no expected values: nothing in a trace says how kernels of several processes slow each other down.\n",
    ),
    "scaling": Table(
        "data_parallel_scaling",
        {"ranks": _NUMBERS, "gb_per_s": _NUMBERS},
        ("ranks", "network", "a step takes", "between", "efficiency", "hides all", "pays from"),
        _scaling,
        "`hotline whatif TRACE ddp -p ranks=8 -p gb_per_s=12.5` says what is assumed.\n",
    ),
    "bucket_sizes": Table(
        "bucket_sizes",
        {"ranks": int, "gb_per_s": float, "latency_us": float, "mb": _NUMBERS},
        ("bucket_cap_mb", "buckets", "a step takes", "between"),
        _buckets,
        "By default, the first bucket has 1 MiB and the others 25.\n",
    ),
    "backward_chain": Table(
        "backward_chain",
        {"workers": int, "step": int},
        ("step", "chain of nodes", "weighty", "backward", "workers", "scan", "step by Amdahl", "replayed"),
        _chain,
        "At most: BPPSA (MLSys 2020), a parallel scan over Jacobians.\n",
    ),
}
"""What `hotline whatif TRACE NAME` knows beside scenarios."""
