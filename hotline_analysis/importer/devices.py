"""Remove implausible device numbers from a file."""

from __future__ import annotations

from pathlib import Path

import duckdb

from hotline_analysis import catalog
from hotline_analysis.importer.tables import reading, save
from hotline_analysis.schema import TABLES


def settle_devices(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[str]:
    """Remove device numbers beyond the possible count of a process. Return a note with the counts.

    The work of removed devices counts as one device without a number; `event_args` keeps the original numbers. Few
    traces are affected.
    """
    gpu_op = reading(folder / "gpu_op.parquet")
    ((count, limit),) = connection.execute(
        f"select count(distinct device), most_devices() from {gpu_op}"  # noqa: S608
    ).fetchall()
    if count <= limit:
        return []
    connection.execute(f"create temp view gpu_op as from {gpu_op}")
    connection.execute(f"create temp view event as from {reading(folder / 'event.parquet')}")
    connection.execute(f"create temp table surplus as {catalog.get('surplus_device').sql}")
    ((work,),) = connection.execute(
        "select count(*) from gpu_op where device in (select device from surplus)"
    ).fetchall()
    args_table = reading(folder / "event_args.parquet")
    with_numbers = (
        "select coalesce(kept.event_id, gpu_op.event_id) as event_id, kept.args, case when gpu_op.event_id is null"  # noqa: S608
        " then kept.fields else json_merge_patch(coalesce(kept.fields, '{}'), json_object('device', gpu_op.device)) end"
        f" as fields from {args_table} as kept full join (from gpu_op where device in (select device from surplus))"
        " as gpu_op on kept.event_id = gpu_op.event_id order by event_id"
    )
    save(connection, "event_args", with_numbers, folder, replace=True)
    device_column = "case when surplus.device is null then gpu_op.device end as device"
    columns = ", ".join(
        device_column if name == "device" else f"gpu_op.{name}" for name in TABLES["gpu_op"].arrow.names
    )
    without_numbers = f"select {columns} from gpu_op left join surplus on gpu_op.device = surplus.device"  # noqa: S608
    save(connection, "gpu_op", f"{without_numbers} order by gpu_op.event_id", folder, replace=True)
    connection.execute("drop table surplus; drop view event; drop view gpu_op")
    return [
        f"GPU work names {count:,} devices, more than a process has: work of the {count - limit:,} with the least"
        f" ({work:,} event{'s' if work > 1 else ''}) counts as of one device without a number"
    ]
