"""How the database is set wherever it runs the queries of this package."""

from __future__ import annotations

SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    # The database joins by time row by row where it expects few rows, and it expects far too few.
    "asof_loop_join_threshold": 0,
    # DuckDB 2.0.0 can take one column's range for another's before it sorts, and then cuts sums to a byte.
    "disabled_optimizers": "compressed_materialization",
}
