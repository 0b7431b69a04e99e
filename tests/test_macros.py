"""The macros that queries share: small tables, and the rows that they give, worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hotline_analysis import Trace, catalog
from hotline_analysis.database import install_macros
from hotline_analysis.text.formats import duration
from tests.trace_builder import TraceBuilder

QUERIES = Path(__file__).parents[1] / "queries"


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        install_macros(connection)
        yield connection


def spans(database: duckdb.DuckDBPyConnection, *rows: tuple[int, int, int, int, int]) -> None:
    """A table `span` of (event_id, track_id, start_ns, end_ns, depth)."""
    database.execute(
        "create table span (event_id bigint, track_id bigint, start_ns bigint, end_ns bigint, depth bigint)"
    )
    if rows:
        database.executemany("insert into span values (?, ?, ?, ?, ?)", rows)


def rows(database: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return database.sql(sql).fetchall()


# Two in one that start with it or touch, one in those, one without duration where two meet, one behind, another thread.
NEST = (
    (1, 7, 0, 10, 0),
    (2, 7, 0, 5, 1),
    (3, 7, 2, 4, 2),
    (4, 7, 5, 5, 1),
    (5, 7, 5, 9, 1),
    (6, 7, 10, 12, 0),
    (7, 8, 0, 3, 0),
)


# --- the catalog -----------------------------------------------------------------------------------------------------


def test_a_macro_has_a_name_and_a_meaning() -> None:
    macros = catalog.macros()
    assert {"is_asked", "in_module", "device_of", "nested", "innermost", "is_outermost", "merged"} <= set(macros)
    assert all(len(macro.description) > 20 for macro in macros.values())
    assert macros["is_asked"].params == ("asked", "value")
    assert (macros["is_asked"].subject, macros["is_asked"].is_table, macros["nested"].is_table) == (
        "scope",
        False,
        True,
    )


def test_every_macro_is_used() -> None:
    shipped = [query.sql for query in catalog.queries()] + [
        step.sql for query in catalog.queries() for step in query.steps
    ]
    used = set(re.findall(r"\w+(?=\()", "\n".join([*shipped, *(macro.sql for macro in catalog.macros().values())])))
    assert set(catalog.macros()) <= used


def test_no_query_has_a_column_of_a_macros_name() -> None:
    """Names of tables that a query reads and of macros differ, so a reader knows which is which."""
    assert not {query.name for query in catalog.queries()} & set(catalog.macros())


def write(root: Path, text: str, subject: str = "some") -> Path:
    (root / "macros").mkdir(exist_ok=True)
    (root / "macros" / f"{subject}.sql").write_text(text)
    return root


ONE = "-- Some.\n\n-- One.\ncreate or replace macro one() as\n1;\n"


def test_macros_come_after_those_that_they_use(tmp_path: Path) -> None:
    two = "\n-- Two, more than one(.\ncreate or replace macro two(x) as\nx + three();\n"
    three = "\n-- Three.\n-- Really.\ncreate or replace macro three() as\none() + 1;\n"
    macros = catalog.macros(root=write(tmp_path, ONE + two + three))
    assert [*macros] == ["one", "three", "two"]
    assert macros["two"].uses == ("one", "three")
    assert (macros["three"].description, macros["two"].params) == ("Three.\nReally.", ("x",))
    with duckdb.connect() as connection:
        for macro in macros.values():
            connection.execute(macro.sql)
        assert rows(connection, "select two(5)") == [(7,)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("create or replace macro one() as\n1;\n", "the file needs a comment on the subject first"),
        ("-- Some.\n", "the file needs a comment on the subject first"),
        ("-- Some.\n\n-- One.\ncreate macro one() as\n1;\n", "expected one `create or replace macro"),
        (f"{ONE}create or replace macro two() as\n2;\n", "expected one `create or replace macro"),
        (f"{ONE}\n-- One.\ncreate or replace macro one() as\n1;\n", "duplicate macro one"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        catalog.macros(root=write(tmp_path, text))


def test_only_what_a_statement_names_is_installed() -> None:
    with duckdb.connect() as connection:
        assert install_macros(connection, ["select 1"]) == []
        assert install_macros(connection, ["select is_asked($rank, rank)", "from x where In_Module(y, 'z')"]) == [
            "in_module",
            "is_asked",
        ]
        assert install_macros(connection, ["select is_asked(1, 1)"], {"is_asked"}) == []
        assert rows(connection, "select is_asked(1, 1)") == [(True,)]


def test_users_have_the_macros(tmp_path: Path) -> None:
    trace = TraceBuilder(rank=0).on(1).op("a", 0, 90).op("b", 10, 20).load(tmp_path)
    assert trace.sql("select is_asked(null, 1) as yes, in_module('a.b', 'a') as inside").row(0) == (True, True)
    found = trace.sql(
        "with op as (from nesting) from innermost('op', (rank, track_id), depth, parent_id) order by start_ns"
    )
    assert found["event_id"].len() == 4
    assert isinstance(trace, Trace)


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "value", "expected"),
    [("null", "3", True), ("null", "null", True), ("3", "3", True), ("3", "4", False), ("3", "null", None)],
)
def test_is_asked(database: duckdb.DuckDBPyConnection, asked: str, value: str, expected: bool | None) -> None:
    assert rows(database, f"select is_asked({asked}, {value})") == [(expected,)]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [("null", "null", [1, 2, 3]), ("2", "null", [2, 3]), ("null", "2", [1, 2]), ("2", "2", [2]), ("3", "2", [])],
)
def test_is_in_range(database: duckdb.DuckDBPyConnection, first: str, last: str, expected: list[int]) -> None:
    found = rows(database, f"select n from unnest([1, 2, 3]) as t(n) where is_in_range({first}, {last}, n) order by n")
    assert [number for (number,) in found] == expected


@pytest.mark.parametrize(
    ("path", "module", "expected"),
    [
        ("Net_0.Linear_0", "Net_0", True),
        ("Net_0", "Net_0", True),
        ("Net_01", "Net_0", False),
        ("Net_0", "Net_0.Linear_0", False),
        ("Net_0.Linear_0", None, True),
        (None, None, True),
        (None, "Net_0", None),
    ],
)
def test_in_module(
    database: duckdb.DuckDBPyConnection, path: str | None, module: str | None, expected: bool | None
) -> None:
    assert database.execute("select in_module($path, $module)", {"path": path, "module": module}).fetchall() == [
        (expected,)
    ]


def test_devices_and_streams_without_a_number(database: duckdb.DuckDBPyConnection) -> None:
    assert rows(database, "select device_of(null), device_of(0), stream_of(null), stream_of(7)") == [(-1, 0, -1, 7)]


def test_the_mean_is_weighted_by_time(database: duckdb.DuckDBPyConnection) -> None:
    """(1 x 30 + 4 x 10) / 40; what is not known does not count, and of no time each counts the same."""
    mean = "select weighted_mean(measure, dur_ns) from (values {}) as work (measure, dur_ns)"
    assert rows(database, mean.format("(1, 30), (4, 10), (null, 100)")) == [(1.75,)]
    assert rows(database, mean.format("(1, 0), (4, 0), (null, 5)")) == [(2.5,)]
    assert rows(database, mean.format("(null::int, 5)")) == [(None,)]


def test_calls_that_take_the_grid_in_threads(database: duckdb.DuckDBPyConnection) -> None:
    calls = ("hipExtModuleLaunchKernel", "hipLaunchKernel", "hipModuleLaunchKernel", "cudaLaunchKernel")
    asked = ", ".join(f"grid_is_in_threads('{call}')" for call in calls)
    assert rows(database, f"select {asked}") == [(True, False, False, False)]


@pytest.mark.parametrize(
    ("size", "names"),
    [
        # C++ types as in recorded shapes, names of `ScalarType` as in collectives, and names in Python
        (1, ["unsigned char", "char", "bool", "c10::quint8", "Byte", "Char", "Bool", "QInt8", "int8", "torch.uint8"]),
        (1, ["c10::Float8_e4m3fn", "Float8_e5m2", "float8_e8m0fnu", "c10::Float4_e2m1fn_x2"]),
        (2, ["c10::Half", "c10::BFloat16", "short int", "Half", "BFloat16", "UInt16", "float16", "torch.bfloat16"]),
        (4, ["float", "int", "unsigned int", "c10::qint32", "Float", "Int", "float32", "c10::complex<c10::Half>"]),
        (4, ["ComplexHalf", "complexhalf", "torch.complex32"]),
        (8, ["double", "long", "long int", "long long", "unsigned long", "Long", "int64", "UInt64", "ComplexFloat"]),
        (8, ["c10::complex<float>", "complex64"]),
        (16, ["c10::complex<double>", "ComplexDouble", "complex128"]),
        (None, ["", "TensorList", "Scalar", "std::string", "floats", "None"]),
    ],
)
def test_bytes_of_an_element(size: int | None, names: list[str], database: duckdb.DuckDBPyConnection) -> None:
    for name in names:
        assert database.execute("select bytes_of_dtype(?)", [name]).fetchall() == [(size,)], name


CALLS = {
    "is_kernel_launch": (
        *(
            "cudaLaunchKernel",
            "cudaLaunchKernelExC",
            "cudaLaunchCooperativeKernel",
            "cuLaunchKernel",
            "cuLaunchKernelEx",
        ),
        *("cuLaunchCooperativeKernel", "hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel"),
        *("hipLaunchCooperativeKernel", "urEnqueueKernelLaunch", "zeCommandListAppendLaunchKernel"),
    ),
    "is_graph_launch": ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"),
    "is_early_launch": ("cudaLaunchKernelExC", "cuLaunchKernelEx"),
    "is_capture_begin": ("cudaStreamBeginCapture", "hipStreamBeginCapture", "cuStreamBeginCapture_v2"),
    "is_capture_end": ("cudaStreamEndCapture", "hipStreamEndCapture"),
    "is_synchronise_call": (
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "hipEventSynchronize",
        "cuCtxSynchronize",
    ),
    "is_wait_for_device": ("cudaDeviceSynchronize", "cuCtxSynchronize", "cudaFree", "cuMemFree_v2"),
    "is_stream_wait": ("cudaStreamWaitEvent", "hipStreamWaitEvent"),
    "is_event_call": ("cudaStreamWaitEvent", "hipStreamWaitEvent", "cudaEventRecord", "cuEventQuery"),
    "is_copy_call": ("cudaMemcpyAsync", "hipMemcpyWithStream", "cuMemcpyHtoD_v2"),
}


@pytest.mark.parametrize("macro", CALLS)
def test_purpose_of_a_call(macro: str, database: duckdb.DuckDBPyConnection) -> None:
    names = {*(name for names in CALLS.values() for name in names), "cudaLaunchHostFunc", "cudaStreamIsCapturing"}
    found = {name for name in names if database.execute(f"select {macro}(?)", [name]).fetchall() == [(True,)]}
    assert found == {*CALLS[macro]}


OPS = {
    "is_value_read": ("aten::item", "aten::_local_scalar_dense"),
    "is_slice_op": ("aten::select",),
    "is_shape_op": ("aten::view",),
    "is_data_movement": ("aten::view", "aten::copy_", "aten::empty_like"),
    "is_matrix_product": ("aten::addmm", "aten::bmm"),
    "is_batched_product": ("aten::bmm",),
    "is_convolution_op": ("aten::conv2d", "aten::cudnn_convolution"),
    "is_batch_norm_op": ("aten::batch_norm", "aten::cudnn_batch_norm"),
    "is_weighted_op": ("aten::conv2d", "aten::addmm"),
    "is_costly_op": ("aten::addmm", "aten::bmm"),
    "is_random_op": ("aten::native_dropout", "aten::randn"),
    "is_update_arithmetic": ("aten::add_", "aten::lerp"),
    "is_norm_op": ("aten::linalg_vector_norm",),
    "is_foreach_op": ("aten::_foreach_add_", "aten::_foreach_zero_"),
    "is_list_op": ("aten::_foreach_add_", "aten::_foreach_zero_", "aten::_fused_adamw_"),
    "is_fill_op": ("aten::zero_", "aten::_foreach_add_", "aten::_foreach_zero_"),
    "is_copy_op": ("aten::copy_",),
    "is_gradient_accumulation": ("torch::autograd::AccumulateGrad",),
    "is_backward_of_op": ("AddmmBackward0", "autograd::engine::evaluate_function: SelectBackward0"),
    "is_op_of_autograd": (
        *("torch::autograd::AccumulateGrad", "torch::autograd::CopySlices"),
        "autograd::engine::evaluate_function: SelectBackward0",
    ),
    "is_collective_op": ("c10d::broadcast_", "c10d::allreduce_", "record_param_comms", "nccl:recv 0<-1"),
    "is_collective_or_wait_op": ("c10d::broadcast_", "c10d::allreduce_", "_c10d_functional::wait_tensor"),
    "is_broadcast_op": ("c10d::broadcast_",),
    "is_host_collective_mark": ("gloo:send", "mpi:all_reduce"),
    "is_send_receive_mark": ("gloo:send", "nccl:recv 0<-1"),
}


@pytest.mark.parametrize("macro", OPS)
def test_purpose_of_an_op(macro: str, database: duckdb.DuckDBPyConnection) -> None:
    names = {*(name for names in OPS.values() for name in names), "aten::relu", "aten::sum", "ncclDevKernel_AllReduce"}
    found = {name for name in names if database.execute(f"select {macro}(?)", [name]).fetchall() == [(True,)]}
    assert found == {*OPS[macro]}


def test_a_backward_node_of_a_slice_has_a_kind(database: duckdb.DuckDBPyConnection) -> None:
    kinds = {
        "autograd::engine::evaluate_function: SelectBackward0": "SelectBackward",
        "torch::autograd::CopySlices": "CopySlices",
        "SliceBackward1": "SliceBackward",
        "IndexSelectBackward0": "",
        "AddmmBackward0": "",
    }
    found = {name: database.execute("select slice_node_of(?)", [name]).fetchall() for name in kinds}
    assert found == {name: [(kind,)] for name, kind in kinds.items()}


def test_calls_that_block(database: duckdb.DuckDBPyConnection) -> None:
    calls = {
        "cuda_runtime": ["cudaStreamSynchronize", "cudaMemcpy", "hipFree", "cudaMemcpyAsync", "cuMemFree_v2"],
        "cuda_driver": ["cuMemcpyDtoH_v2", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2"],
        "cpu_op": ["cudaStreamSynchronize"],
    }
    blocking = {
        name
        for category, names in calls.items()
        for name in names
        if database.execute("select is_blocking_call(?, ?)", [category, name]).fetchall() == [(True,)]
    }
    assert blocking == {"cudaMemcpy", "hipFree", "cuMemcpyDtoH_v2", "cuStreamSynchronize", "cudaStreamSynchronize"}
    (row,) = database.execute("select is_blocking_call('cpu_op', 'cudaStreamSynchronize')").fetchall()
    assert row == (False,)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "to_device over_link pageable"),
        ("Memcpy HtoD (Host -> Device)", "to_device over_link"),
        ("CopyHostToDevice", "to_device over_link"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "to_device over_link"),
        ("Memcpy DtoH (Device -> Pinned)", "over_link"),
        ("Memcpy PtoP (Device -> Device)", "without_cpu over_link"),
        ("Memcpy DtoD (Device -> Device)", "without_cpu"),
        ("MEMORY_COPY_DEVICE_TO_DEVICE", "without_cpu"),
    ],
)
def test_direction_of_a_copy(name: str, kinds: str, database: duckdb.DuckDBPyConnection) -> None:
    asked = {"to_device": "is_copy_to_device", "without_cpu": "is_copy_without_cpu", "over_link": "is_copy_over_link"}
    asked["pageable"] = "is_pageable_copy"
    found = [kind for kind, macro in asked.items() if database.execute(f"select {macro}(?)", [name]).fetchall()[0][0]]
    assert sorted(found) == sorted(kinds.split())


def test_limits_are_exact_numbers(database: duckdb.DuckDBPyConnection) -> None:
    limits = [macro.name for macro in catalog.macros().values() if macro.subject == "limits"]
    (found,) = rows(database, f"select {', '.join(f'{name}()' for name in limits)}")
    assert all(isinstance(value, int | Decimal) and value > 0 for value in found)


# --- spans -----------------------------------------------------------------------------------------------------------


def test_is_outermost(database: duckdb.DuckDBPyConnection) -> None:
    spans(database, *NEST)
    found = rows(
        database, "select event_id from span qualify is_outermost(start_ns, end_ns, track_id, depth) order by event_id"
    )
    assert found == [(1,), (6,), (7,)]


def test_spans_that_start_together_or_have_no_duration_are_outermost(database: duckdb.DuckDBPyConnection) -> None:
    """Of two that are the same, the first in the order given; what starts where another one ends, the longest first."""
    spans(database, (1, 7, 0, 5, 0), (2, 7, 0, 5, 0), (3, 7, 5, 5, 0), (4, 7, 5, 6, 0))
    found = rows(
        database,
        "select event_id from span qualify is_outermost(start_ns, end_ns, track_id, (-end_ns, event_id))"
        " order by event_id",
    )
    assert found == [(1,), (4,)]


def test_nested(database: duckdb.DuckDBPyConnection) -> None:
    spans(database, *NEST)
    found = rows(database, "select event_id, level, around_id from nested('span', track_id, depth) order by event_id")
    assert found == [
        (1, 0, None),
        (2, 1, 1),
        (3, 2, 2),
        (4, 1, 1),
        (5, 1, 1),
        (6, 0, None),
        (7, 0, None),
    ]


def test_nested_keeps_the_columns_and_takes_several_lanes(database: duckdb.DuckDBPyConnection) -> None:
    spans(database, (1, 7, 0, 9, 0), (2, 7, 0, 9, 1), (3, 8, 0, 9, 0))
    found = database.sql("with own as (from span) from nested('own', (track_id, 1), depth) order by event_id")
    assert found.columns == ["event_id", "track_id", "start_ns", "end_ns", "depth", "level", "around_id"]
    assert [row[-1] for row in found.fetchall()] == [None, 1, None]


def test_a_span_without_duration_is_around_nothing(database: duckdb.DuckDBPyConnection) -> None:
    spans(database, (1, 7, 0, 9, 0), (2, 7, 3, 3, 1), (3, 7, 3, 5, 1), (4, 7, 3, 4, 2))
    found = rows(database, "select event_id, level, around_id from nested('span', track_id, depth) order by event_id")
    assert found == [(1, 0, None), (2, 1, 1), (3, 1, 1), (4, 2, 3)]


def test_paired_edges(database: duckdb.DuckDBPyConnection) -> None:
    """An end closes the last open begin of its lane. The last end of lane 7 and the begin of lane 8 are alone."""
    edges = "(1, 7, 0, true), (2, 7, 1, true), (3, 7, 3, false), (4, 7, 9, false), (5, 7, 10, false), (6, 8, 2, true)"
    found = rows(
        database,
        f"with edge as (from (values {edges}) as edge (event_id, track_id, start_ns, opens))"
        " from paired_edges('edge', track_id) order by event_id",
    )
    assert found == [(1, 9, 9), (2, 2, 3)]


def test_innermost(database: duckdb.DuckDBPyConnection) -> None:
    spans(database, *NEST)
    found = rows(
        database,
        "with inside as (from nested('span', track_id, depth))"
        " from innermost('inside', track_id, depth, around_id) order by lane, start_ns",
    )
    assert found == [
        (7, 0, 2, 2),
        (7, 2, 4, 3),
        (7, 4, 5, 2),
        (7, 5, 9, 5),
        (7, 9, 10, 1),
        (7, 10, 12, 6),
        (7, 12, None, None),
        (8, 0, 3, 7),
        (8, 3, None, None),
    ]


def test_merged(database: duckdb.DuckDBPyConnection) -> None:
    """Spans that overlap, touch or are the same are one; a gap and another lane keep them apart."""
    spans(
        database, (1, 7, 0, 4, 0), (2, 7, 2, 3, 0), (3, 7, 4, 6, 0), (4, 7, 4, 6, 0), (5, 7, 7, 8, 0), (6, 8, 6, 7, 0)
    )
    assert rows(database, "from merged('span', track_id) order by lane, start_ns") == [(7, 0, 6), (7, 7, 8), (8, 6, 7)]
    assert rows(database, "select start_ns, end_ns from merged('span', null) order by start_ns") == [(0, 8)]


@pytest.mark.parametrize(
    "statement",
    [
        "from nested('span', track_id, depth)",
        "from innermost('span', track_id, depth, null::bigint)",
        "from merged('span', track_id)",
    ],
)
def test_no_spans_give_no_rows(database: duckdb.DuckDBPyConnection, statement: str) -> None:
    spans(database)
    assert rows(database, statement) == []


def test_names_inside_of_macros_are_no_names_of_queries() -> None:
    """A CTE of the query is seen by the macro, unless one of the macro's own has its name."""
    inside = {
        name
        for macro in catalog.macros().values()
        for name in re.findall(r"(?:with |^)(\w+) as \(", macro.sql, re.MULTILINE)
    }
    outside = {
        name
        for query in catalog.queries()
        for each in (*query.steps, query)
        for name in re.findall(r"(?:with (?:recursive )?|^)(\w+) as (?:materialized )?\(", each.sql, re.MULTILINE)
    }
    assert inside
    assert not inside & outside


# --- work and moments ------------------------------------------------------------------------------------------------


def test_the_last_begun_is_the_innermost_that_starts_at_a_moment(database: duckdb.DuckDBPyConnection) -> None:
    """At 0 three start on a thread, of which 3 is innermost; those of another rank do not count."""
    spans(database, (1, 7, 0, 10, 0), (2, 7, 0, 5, 1), (3, 7, 0, 4, 2), (4, 7, 6, 8, 1), (5, 8, 0, 3, 0))
    database.execute("create table ranked as select 0 as rank, * from span union all select 1, 9, 7, 1, 2, 0")
    assert rows(database, "from last_begun('ranked', 0) order by all") == [(7, 0, 3), (7, 6, 4), (8, 0, 5)]


def test_the_largest_number_at_a_place_is_that_of_the_last_place(database: duckdb.DuckDBPyConnection) -> None:
    """Also where an earlier number is larger than any that 64 bits leave room for beside a place."""
    largest = 2**63 - 1
    database.execute(
        f"create table placed as from (values (1, {largest}), (2, 0), (3, null), ({largest}, 5)) t(place, n)"
    )
    sql = "select number_at(max(at_place(place, n)) over (order by place)) from placed order by place"
    assert rows(database, sql) == [(largest,), (0,), (0,), (5,)]


def test_keyed_work_has_what_it_is_grouped_by(database: duckdb.DuckDBPyConnection) -> None:
    names = "'memory' as class, 'Memcpy' as name, 'copy' as short_name, 'Net' as module_path, 'loss' as phase"
    database.execute(
        f"create table work as select 0 as rank, 1 as event_id, 10 as dur_ns, 8 as busy_ns, {names},"
        " 'gpu_memcpy' as category, unnest([4, null]) as op_id"
    )
    database.execute("create table op as select 0 as rank, 4 as event_id, 'aten::copy_' as name")
    for word, key in {"class": "memory", "name": "Memcpy", "module": "Net", "category": "gpu_memcpy"}.items():
        found = f"from keyed_work('work', 'op', '{word}')"
        assert rows(database, found) == [(0, 1, 10, 8, "memory", key)] * 2
    of_ops = "select key from keyed_work('work', 'op', 'op') order by key nulls last"
    assert rows(database, of_ops) == [("aten::copy_",), (None,)]


def test_copies_that_run_at_the_same_time_add_up(database: duckdb.DuckDBPyConnection) -> None:
    """From 4 to 6 two run, and from 8 on one whose rate is not known; the last one takes no time."""
    database.execute(
        "create table copies as select 0 as rank, 0 as device, 'Memset' as kind, * from (values"
        " (1, 0, 6, 10), (2, 4, 7, 5), (3, 8, 9, null), (4, 9, 9, 1)) t(event_id, start_ns, end_ns, bytes_per_s)"
    )
    columns = "start_ns, end_ns, copy_count, bytes_per_s, event_id"
    assert rows(database, f"select {columns} from copy_stretches('copies') order by start_ns") == [
        (0, 4, 1, 10, 1),
        (4, 6, 2, 15, 2),
        (6, 7, 1, 5, None),
        (7, 8, 0, 0, None),
        (8, 9, 1, None, 3),
        (9, None, 0, 0, None),
    ]


def test_durations_in_texts(database: duckdb.DuckDBPyConnection) -> None:
    times = [0, 999, 1_000, 9_996, 999_499, 999_500, 3_700_000, 12_345_678, 999_500_000, 12_340_000_000]
    found = rows(database, f"select duration_text(ns) from unnest({times}) as times (ns)")
    assert [text for (text,) in found] == [duration(ns) for ns in times]
    assert [text for (text,) in found][1:4] == ["999 ns", "1.00 µs", "10.0 µs"]
