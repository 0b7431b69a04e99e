"""From the bytes of a file to tables: every form that the format allows, and nothing lost on the way."""

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.errors import HotlineWarning
from hotline_analysis.kineto import source
from hotline_analysis.kineto.decode import Decoder
from hotline_analysis.kineto.reader import TraceReader
from hotline_analysis.kineto.split import EventSplitter
from hotline_analysis.schema import TABLES
from tests import zstd
from tests.runs import opened
from tests.trace_builder import TraceBuilder, dumps

KERNEL = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":5,"args":{"correlation":3}}'


class Read:
    """What a file gives: its tables in file order, and what the reader knows afterwards."""

    def __init__(self, path: Path) -> None:
        reader = TraceReader(path, spellings=catalog.rules()["event_categories"])
        parts: dict[str, list[pl.DataFrame]] = {}
        for tables in reader:
            for name, table in tables.items():
                parts.setdefault(name, []).append(pl.DataFrame(table))
        # Threads are numbered batch by batch here; the run's `track` is tested instead.
        self.tables = {name: pl.concat(frames).drop("pair", strict=False) for name, frames in parts.items()}
        self.metadata, self.damage, self.event_count = reader.metadata, reader.damage, reader.event_count

    def column(self, name: str, table: str = "event") -> list[Any]:
        return self.tables[table][name].to_list()

    def row(self, table: str, event_id: int = 0) -> dict[str, Any]:
        return self.tables[table].row(by_predicate=pl.col("event_id") == event_id, named=True)


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str | bytes], Read]:
    def read(text: str | bytes) -> Read:
        path = tmp_path / "trace.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Read(path)

    return read


Reads = Callable[[str | bytes], Read]


def wrap(*events: str) -> str:
    return '{"traceEvents":[' + ",".join(events) + "]}"


def complete(**fields: Any) -> str:
    return dumps({"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 2, **fields})


# --- the document ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        (f"[{KERNEL}]", {}),
        (f"[\n{KERNEL}\n]\n", {}),
        (f'{{"traceEvents":[{KERNEL}]}}', {}),
        (f'{{"traceEvents":[{KERNEL}],"a":1}}', {"a": 1}),
        (f'{{"a":1,"traceEvents":[{KERNEL}]}}', {"a": 1}),
        (f'{{"a":1,"traceEvents":[{KERNEL}],"b":[{{"c":[1]}}],"d":"}}]"}}', {"a": 1, "b": [{"c": [1]}], "d": "}]"}),
        (f' \t\r\n{{ "a" :\n1 , "traceEvents"\t:\r\n[ \n {KERNEL}\n ] , "b" : null }} \n', {"a": 1, "b": None}),
        (f'{{"a":{{"traceEvents":[1]}},"traceEvents":[{KERNEL}]}}', {"a": {"traceEvents": [1]}}),
        (f'{{"a":"\\"traceEvents\\":[","traceEvents":[{KERNEL}]}}', {"a": '"traceEvents":['}),
    ],
)
def test_document_forms(read: Reads, text: str, metadata: dict[str, Any]) -> None:
    result = read(text)
    assert result.column("name") == ["k"]
    assert result.metadata == metadata
    assert (result.damage.notes, result.damage.lost_bytes, result.damage.truncated) == ([], 0, False)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " :\t"), (",\r\n  ", ":")])
@pytest.mark.parametrize("reverse", [False, True])
def test_spacing_and_key_order(read: Reads, separators: tuple[str, str], reverse: bool) -> None:
    events = [{"ph": "X", "name": f"n{i}", "ts": i, "dur": 1, "args": {"x": [{"a": 1}, {"b": {}}]}} for i in range(5)]
    if reverse:
        events = [dict(reversed(event.items())) for event in events]
    result = read(json.dumps({"traceEvents": events}, separators=separators))
    assert result.column("name") == ["n0", "n1", "n2", "n3", "n4"]
    assert result.column("start_ns") == [0, 1000, 2000, 3000, 4000]
    assert [json.loads(args) for args in result.column("args", "event_args")] == [event["args"] for event in events]


def test_byte_order_marks_and_encodings(read: Reads) -> None:
    text = wrap(complete(name="Größe 矩阵 😀"))
    for data in (
        text.encode(),
        b"\xef\xbb\xbf" + json.dumps(json.loads(text), ensure_ascii=False).encode(),
        json.dumps(json.loads(text), ensure_ascii=False).encode("utf-16"),
    ):
        assert read(data).column("name") == ["Größe 矩阵 😀"]


def test_events_in_two_arrays_are_read_one_after_the_other(read: Reads) -> None:
    result = read(f'{{"traceEvents":[{KERNEL}],"x":1,"traceEvents":[{KERNEL},{KERNEL}]}}')
    assert result.column("event_id") == [0, 1, 2]


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst", ".gz", ".data"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstd.compress])
def test_compression_is_recognised_by_content(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(compress(wrap(KERNEL).encode()))
    assert Read(path).column("name") == ["k"]


# --- the splitter ---------------------------------------------------------------------------------------------------

NASTY = wrap(
    '{"ph":"X","name":"},{","args":{"a":[{"x":1},{"y":"]}"}]}}',
    '{"ph":"X","name":"\\"},  {\\"","args":{"o":{"p":{}},"q":[[],{}]}}',
    ' {"name":"e\\\\","ph":"i"} ',
    '{"ph":"é😀","args":{"s":"a]}","t":"\\u00e9,{"}}',
).replace('"traceEvents"', '"m":-12.5e1,"k":"]}","d":[{"a":1},{"b":2}],"traceEvents"')


def split(text: str, sizes: Iterable[int]) -> tuple[list[tuple[int, Any]], dict[str, Any], list[str]]:
    """Ids and values of the events, the metadata and the notes, if the text comes in chunks of these sizes."""

    def chunks() -> Iterator[str]:
        position = 0
        for size in sizes:
            if position >= len(text):
                return
            yield text[position : position + size]
            position += size
        yield text[position:]

    splitter = EventSplitter(chunks(), duckdb.connect())
    events = [
        (event_id, json.loads(event))
        for batch in splitter
        for event_id, event in zip(batch.ids.to_list(), batch.texts.to_list(), strict=True)
    ]
    return events, splitter.metadata, splitter.damage.notes


SPACED = json.dumps(json.loads(NASTY), separators=(" ,\n", "\t: "), ensure_ascii=False, indent=1)


@pytest.mark.parametrize("text", [NASTY, SPACED], ids=["dense", "spaced"])
def test_chunk_size_does_not_matter(text: str) -> None:
    expected = json.loads(text)
    events = list(enumerate(expected.pop("traceEvents")))
    for size in [*range(1, 20), 33, 64, 200, len(text)]:
        assert split(text, [size] * len(text)) == (events, expected, []), size


CHARACTERS = st.sampled_from('{}[],:"\\/ \n\tabé😀\x00\x7f\u2028')
TEXT = st.text(CHARACTERS, max_size=6)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
EVENTS = st.lists(st.dictionaries(TEXT, VALUE, max_size=4), max_size=6)
STYLES = st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : "), (",\n  ", ":\r\n")])


@settings(deadline=None, max_examples=80)
@given(
    EVENTS,
    st.dictionaries(TEXT, VALUE, max_size=2),
    st.dictionaries(TEXT, VALUE, max_size=2),
    STYLES,
    st.booleans(),
    st.lists(st.integers(1, 60), max_size=30),
)
def test_any_json_is_split_as_a_parser_does(
    events: list[dict[str, Any]],
    before: dict[str, Any],
    after: dict[str, Any],
    style: tuple[str, str],
    ascii_only: bool,
    sizes: list[int],
) -> None:
    document = {**before, "traceEvents": events}
    document |= {key: value for key, value in after.items() if key not in document}
    text = json.dumps(document, separators=style, ensure_ascii=ascii_only)
    expected = json.loads(text)
    assert split(text, sizes) == (list(enumerate(expected.pop("traceEvents"))), expected, [])


@pytest.mark.long
@settings(deadline=None, max_examples=60)
@given(EVENTS.filter(len), st.data())
def test_a_cut_file_gives_the_events_before_the_cut(events: list[dict[str, Any]], data: st.DataObject) -> None:
    texts = [json.dumps(event) for event in events]
    text = "[" + ", ".join(texts) + "]"
    cut = data.draw(st.integers(1, len(text) - 1))
    ends = [1 + sum(map(len, texts[: n + 1])) + 2 * n for n in range(len(texts))]
    whole = sum(end <= cut for end in ends)
    found, _, notes = split(text[:cut], data.draw(st.lists(st.integers(1, 40), max_size=20)))
    assert found == list(enumerate(json.loads(text)))[:whole]
    assert notes  # which of them, no one can tell: a cut behind a `}]` looks like the end of the array


@pytest.mark.long
def test_tiny_chunks_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder().process_name("päron 😀")
    for number in range(12):
        trace.op(f"op {number} }},{{ é", number, number + 1, seq=number)
    path = trace.write(tmp_path / "t.json")
    whole = Read(path)
    for size in (1, 50):
        monkeypatch.setattr(source, "CHUNK_BYTES", size)
        small = Read(path)
        assert small.tables["event"].equals(whole.tables["event"])
        assert small.tables["op"].equals(whole.tables["op"])


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path = TraceBuilder().op("a", 0, 1).write(tmp_path / "t.json.gz")
    seen: list[int] = []
    for _ in TraceReader(path, seen.append):
        pass
    assert seen[-1] == path.stat().st_size


# --- times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [
        ("0", 0),
        ("12", 12_000),
        ("12.3", 12_300),
        ("12.345", 12_345),
        ('"12.345"', 12_345),
        ('"12"', 12_000),
        ("-5.001", -5_001),
        ("1700000000000000", 1_700_000_000_000_000_000),
        ("1700000000000000.123", 1_700_000_000_000_000_123),
        ("1700000000000000.001", 1_700_000_000_000_000_001),
        ("1700000000000000.999", 1_700_000_000_000_000_999),
        ('"1700000000000000.123"', 1_700_000_000_000_000_123),
        ("4379780731286.864", 4_379_780_731_286_864),
        ("8900000000000.001", 8_900_000_000_000_001),
        ("2000000000", 2_000_000_000_000),
        ("1.5e3", 1_500_000),
        ("1E+3", 1_000_000),
        ("NaN", None),
        ("Infinity", None),
        ("-Infinity", None),
        ("null", None),
        ("true", None),
        ('"soon"', None),
        ("[1]", None),
        ("9223372036854775807", None),
        ("99999999999999999999999999", None),
        ("1e300", None),
        ("-9000000000000000", None),
    ],
)
def test_start(read: Reads, ts: str, start_ns: int | None) -> None:
    # The `ts` among the args must not be taken for the event's own.
    result = read(wrap('{"ph":"X","name":"e","args":{"ts": 1600000000000000.125},"ts" : ' + ts + ',"dur":1}', KERNEL))
    assert result.column("start_ns") == [start_ns, 10_000]
    if start_ns is None and ts != "null":
        assert ts.strip('"') in result.row("event_args")["fields"]


@pytest.mark.parametrize(
    ("dur", "dur_ns"),
    [
        ("0", 0),
        ("7", 7_000),
        ("0.001", 1),
        ("17804.243", 17_804_243),
        ('"17804.243"', 17_804_243),
        ("1e-7", 0),
        ("2.5e-2", 25),
        ("31536000000000", 31_536_000_000_000_000),
        ("-1", None),
        ("-0.5", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e300", None),
        ("9223372036854775807", None),
        ("null", None),
    ],
)
def test_duration(read: Reads, dur: str, dur_ns: int | None) -> None:
    result = read(wrap('{"ph":"X","name":"e","ts":10,"dur":' + dur + "}", KERNEL))
    assert result.column("dur_ns") == [dur_ns, 5_000]
    assert result.column("end_ns") == [None if dur_ns is None else 10_000 + dur_ns, 15_000]
    if dur_ns is None:
        assert dur in result.row("event_args")["fields"]


@given(st.integers(0, 2 * 10**18), st.integers(0, 10**15))
@settings(deadline=None, max_examples=25)
def test_any_time_is_exact(start_ns: int, dur_ns: int) -> None:
    def microseconds(ns: int) -> str:
        return f"{ns // 1000}.{ns % 1000:03d}"

    text = wrap(complete(ts=Decimal(microseconds(start_ns)), dur=Decimal(microseconds(dur_ns))))
    splitter = EventSplitter([text], duckdb.connect())
    [batch] = list(splitter)

    decoder = Decoder(duckdb.connect())
    row = pl.DataFrame(decoder.decode(batch)["event"]).row(0, named=True)
    decoder.close()
    assert (row["start_ns"], row["dur_ns"]) == (start_ns, dur_ns)


def test_base_time(tmp_path: Path) -> None:
    for value in (1790857026000000000, "1790857026000000000"):
        with TraceBuilder(baseTimeNanoseconds=value).op("a", "1.5", 2).load(tmp_path) as trace:
            row = trace.table("rank_info").row(0, named=True)
            assert (row["base_time_ns"], row["start_ns"], row["end_ns"]) == (1790857026000000000, 1500, 2000)


# --- kinds of events ------------------------------------------------------------------------------------------------

SPELLINGS = {
    "cpu_op": ["cpu_op", "CPU_OP", "Operator", "hpu_op"],
    "user_annotation": ["user_annotation"],
    "gpu_user_annotation": ["gpu_user_annotation", "GCU_USER_ANNOTATION"],
    "kernel": ["kernel", "Kernel", "concurrent_kernel", "mtia_ccp_events", "npu_kernel"],
    "gpu_memcpy": ["gpu_memcpy", "Memcpy", "GCU_MEMCPY"],
    "gpu_memset": ["gpu_memset", "Memset", "GCU_MEMSET"],
    "cuda_runtime": [
        "cuda_runtime",
        "Runtime",
        "hip_runtime",
        "hip_api",
        "xpu_runtime",
        "mtia_runtime",
        "glow_runtime",
        "privateuse1_runtime",
        "gcu_runtime",
        "enqueue",
        "dequeue",
    ],
    "cuda_driver": ["cuda_driver", "driver", "hip_driver", "xpu_driver", "privateuse1_driver"],
    "ac2g": ["ac2g", "async_cpu_to_gpu", "HostToDevice"],
    "fwdbwd": ["fwdbwd", "forward_backward"],
    "cuda_sync": ["cuda_sync", "xpu_sync", "hip_sync"],
    "python_function": ["python_function", "Python"],
    "cpu_instant_event": ["cpu_instant_event"],
    "something_new": ["something_new", "Something_New"],
    "trace": ["Trace"],
}


def test_category_spellings(read: Reads) -> None:
    pairs = [(raw, category) for category, raws in SPELLINGS.items() for raw in raws]
    result = read(wrap(*(complete(cat=raw) for raw, _ in pairs), '{"ph":"X","name":"no category","ts":1}'))
    assert result.column("category") == [category for _, category in pairs] + [None]
    assert result.column("raw_category") == [raw if raw != category else None for raw, category in pairs] + [None]


def test_every_known_spelling_is_tested() -> None:
    rules = catalog.rules()["event_categories"].to_pylist()
    words = {(rule["spelling"], rule["category"]) for rule in rules if rule["spelling"] != rule["category"]}
    endings = {(spelling[1:], category) for spelling, category in words if spelling.startswith("*")}
    ours = {(raw.lower(), category) for category, raws in SPELLINGS.items() for raw in raws if raw.lower() != category}
    assert {(spelling, category) for spelling, category in words if not spelling.startswith("*")} <= ours
    assert all(any(raw.endswith(ending) for raw, _ in ours) for ending, _ in endings)


def test_ids_as_text_or_numbers(read: Reads) -> None:
    args = '{"correlation":"12","External id":"34"}'
    result = read(
        wrap(
            KERNEL.replace('{"correlation":3}', args).replace('"pid":0,"tid":7', '"pid":"0","tid":"7"'),
            KERNEL.replace('{"correlation":3}', '{"correlation":9007199254740993,"external id":5}'),
            '{"ph":"s","id":17,"cat":"ac2g","name":"ac2g","pid":0,"tid":7,"ts":10}',
            '{"ph":"f","id":"0x1a","cat":"async_cpu_to_gpu","name":"x","pid":0,"tid":7,"ts":10,"bp":"e"}',
        )
    )
    assert result.column("correlation")[:2] == [12, 9007199254740993]
    assert result.column("external_id")[:2] == [34, 5]
    flows = result.tables["flow"].select("event_id", "kind", "flow_id", "ph", "binding", "start_ns").rows()
    assert flows == [(2, "launch", "17", "s", None, 10_000), (3, "launch", "0x1a", "f", "e", 10_000)]


def test_tracks_are_the_same_whatever_the_type_of_their_ids(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for pid, tid in ((1, 2), ("1", "2"), (1, "2"), ("Spans", 2)):
        trace.event(ph="X", name="e", pid=pid, tid=tid, ts=1, dur=1)
    trace.event(ph="i", name="without a thread", ts=1, s="g")
    trace.process_name("python", 1).thread_name("main", 2, 1)
    trace.event(ph="i", name="nameless", pid="", tid="", ts=1, s="g")
    trace.event(ph="C", name="process alone", pid=1, ts=1)
    with trace.load(tmp_path) as run:
        assert run.sql("select track_id from event order by event_id")["track_id"].to_list() == [
            0,
            0,
            0,
            1,
            None,
            2,
            0,
            3,
            4,
        ]
        names = run.sql("select pid, tid, process_name, thread_name from track order by track_id").rows()
        assert names == [
            ("1", "2", "python", "main"),
            ("Spans", "2", None, None),
            ("1", "0", "python", None),
            ("", "", None, None),
            ("1", None, "python", None),
        ]


def test_strings(read: Reads) -> None:
    cases = {
        '"plain"': "plain",
        '"a\\"b\\\\"': 'a"b\\',
        '"é 矩阵 😀"': "é 矩阵 😀",
        '"\\u00e9\\ud83d\\ude00"': "é😀",
        '"line\nbreak\ttab\x01"': "line\nbreak\ttab\x01",
        '"lone \\ud83d high"': "lone \ufffd high",
        '"lone \\udc00 low"': "lone \ufffd low",
        '"not lone \\\\ud83d"': "not lone \\ud83d",
        '"nul \\u0000"': "nul \0",
        '"<b>&amp;</b> `; drop table event; --"': "<b>&amp;</b> `; drop table event; --",
        '""': "",
        "5": "5",
        "null": "",  # what counts is found by its name
        '"' + "n" * 10_000 + '"': "n" * 10_000,
    }
    result = read(wrap(*('{"ph":"X","name":%s,"ts":1,"dur":1}' % name for name in cases)))  # noqa: UP031
    assert result.column("name") == list(cases.values())
    assert result.damage.notes == []


def test_invalid_utf8_is_replaced(read: Reads) -> None:
    assert read(wrap(complete(name="a?b")).encode().replace(b"?", b"\xff")).column("name") == ["a\ufffdb"]


def test_the_first_of_duplicate_keys_wins_and_the_others_are_kept(read: Reads) -> None:
    event = '{"ph":"X","name":"first","name":"second","ts":1,"ts":2,"dur":1,"args":{"x":1,"x":2}}'
    result = read(wrap(event))
    assert result.column("name") == ["first"]
    assert result.column("start_ns") == [1000]
    assert result.row("event_args")["args"] == '{"x":1,"x":2}'
    assert result.row("event_args")["fields"] == event


def test_shapes_that_are_no_json_stay_among_the_args(read: Reads) -> None:
    args: dict[str, Any] = {"Input Dims": " ", "Input type": "\0", "Input Strides": "[1", "Concrete Inputs": ["2"]}
    result = read(TraceBuilder().op("aten::mm", 0, 1, **args).text())
    row = result.row("op")
    assert [row[name] for name in ("input_dims", "input_types", "input_strides")] == [None] * 3
    assert json.loads(row["concrete_inputs"]) == ["2"]
    assert json.loads(result.row("event_args")["args"]) == args


def test_args_of_any_shape(read: Reads) -> None:
    shapes = ["{}", "null", "[1,2]", '"text"', "7", '{"a":[{"b":1},{"c":[{}]}],"d":"},{","e":"]}","f":{"g":{}}}', "[]"]
    result = read(wrap(*(complete(args="@").replace('"@"', shape) for shape in shapes), '{"ph":"X","name":"none"}'))
    assert result.event_count == len(shapes) + 1
    kept = {row["event_id"]: row["args"] or row["fields"] for row in result.tables["event_args"].iter_rows(named=True)}
    assert set(kept) == {1, 2, 3, 4, 5, 6}
    assert json.loads(kept[1])["args"] is None
    for number in (2, 3, 4, 5, 6):
        assert json.loads(kept[number]) == json.loads(shapes[number])


def test_fields_without_a_column_are_kept(read: Reads) -> None:
    event = '{"ph":"b","cat":"async","name":"a","id":"0x7","id2":{"local":1},"tts":5,"ts":1,"pid":1,"tid":1}'
    result = read(wrap(KERNEL, event))
    assert result.tables["event_args"].select("event_id", "args", "fields").rows() == [(1, None, event)]


def test_numbers_too_large_for_a_column_are_kept(read: Reads) -> None:
    args = '{"correlation":18446744073709551615,"stream":7}'
    result = read(wrap(KERNEL.replace('{"correlation":3}', args)))
    assert result.column("correlation") == [None]
    assert result.row("event_args")["args"] == args


def test_counters(read: Reads) -> None:
    args = '{"a":1,"b":"2.5","c/d~":-3,"":4,"word":"x","list":[1]}'
    result = read(wrap('{"ph":"C","name":"c","pid":1,"ts":1,"args":' + args + "}", '{"ph":"C","name":"none","ts":1}'))
    expected = [("", 4.0), ("a", 1.0), ("b", 2.5), ("c/d~", -3.0), ("list", None), ("word", None)]
    assert result.tables["counter"].select("series", "value").rows() == expected
    assert result.row("event_args")["args"] == args


def test_instants_and_metadata_events(read: Reads) -> None:
    result = read(
        wrap(
            '{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"","ts":12.5}',
            '{"ph":"M","name":"process_labels","pid":0,"tid":0,"ts":0,"args":{"labels":"GPU 0"}}',
            '{"ph":"R","name":"mark","ts":3}',
        )
    )
    assert result.tables["event"].select("ph", "scope", "start_ns", "dur_ns", "end_ns").rows() == [
        ("i", "g", 12_500, None, None),
        ("M", None, 0, None, None),
        ("R", None, 3_000, None, None),
    ]
    assert result.row("event_args", 1)["args"] == '{"labels":"GPU 0"}'


def test_events_without_a_duration(tmp_path: Path) -> None:
    trace = TraceBuilder().op("whole", 0, 10)
    trace.event(ph="X", cat="cpu_op", name="open", pid=1000, tid=1, ts=2)
    trace.event(ph="X", cat="kernel", name="backwards", pid=0, tid=7, ts=2, dur=-1)
    trace.event(ph="i", cat="cpu_op", name="instant", pid=1000, tid=1, ts=3)
    with pytest.warns(
        HotlineWarning,
        match=r"results exclude 2 events \(1 with the end before the start and 1 without a valid .* none was lost",
    ):
        run = trace.load(tmp_path)
    with run:
        rows = run.sql("select name, start_ns, dur_ns, end_ns from event order by event_id").rows()
        assert rows[:3] == [("whole", 0, 10_000, 10_000), ("open", 2_000, None, None), ("backwards", 2_000, None, None)]
        assert run.sql("select name from annotated_event").rows() == [("whole",)]


def begin_end(*edges: tuple[str, str, int, int | str]) -> TraceBuilder:
    """Begin and end events: (ph, name, time, thread)."""
    trace = TraceBuilder()
    for ph, name, ts, tid in edges:
        trace.event(ph=ph, cat="cpu_op", name=name, pid=1, tid=tid, ts=ts)
    return trace


def durations(trace: TraceBuilder, folder: Path) -> dict[str, int | None]:
    with trace.load(folder) as run:
        return dict(run.sql("select name, dur_ns from event where ph <> 'E' order by event_id").rows())


def test_begin_and_end_nested(tmp_path: Path) -> None:
    trace = begin_end(
        ("B", "a", 0, 1), ("B", "b", 1, 1), ("E", "b", 3, 1), ("B", "c", 4, 1), ("E", "", 8, 1), ("E", "", 9, 1)
    )
    assert durations(trace, tmp_path) == {"a": 9_000, "b": 2_000, "c": 4_000}


def test_begin_and_end_of_interleaved_threads(tmp_path: Path) -> None:
    trace = begin_end(
        ("B", "a", 0, 1), ("B", "b", 1, 2), ("E", "", 5, 1), ("B", "c", 6, 1), ("E", "", 7, 2), ("E", "", 8, 1)
    )
    assert durations(trace, tmp_path) == {"a": 5_000, "b": 6_000, "c": 2_000}


def test_begin_and_end_without_their_other_half(tmp_path: Path) -> None:
    trace = begin_end(
        ("E", "", 0, 1), ("B", "a", 1, 1), ("E", "", 3, 1), ("B", "open", 5, 1), ("B", "b", 6, 1), ("E", "", 8, 1)
    )
    assert durations(trace, tmp_path) == {"a": 2_000, "open": None, "b": 2_000}


def test_begin_and_end_become_annotated_events(tmp_path: Path) -> None:
    trace = begin_end(("B", "a", 0, 1), ("B", "b", 1, 1), ("E", "", 3, 1), ("E", "", 9, 1)).op("x", 20, 30)
    with trace.load(tmp_path) as run:
        rows = run.sql("select name, dur_ns, self_ns from annotated_event order by event_id").rows()
        assert rows == [("a", 9_000, 7_000), ("b", 2_000, 2_000), ("x", 10_000, 10_000)]


# --- nothing is lost ------------------------------------------------------------------------------------------------

# Where each argument is to be found, written down by hand from the meaning of the columns.
PLACES: dict[str, list[tuple[str, str]]] = {
    "correlation": [("event", "correlation")],
    "External id": [("event", "external_id")],
    "external id": [("event", "external_id")],
    "Sequence number": [("op", "sequence_number")],
    "Fwd thread id": [("op", "forward_thread")],
    "Record function id": [("op", "record_function_id")],
    "Ev Idx": [(table, "profiler_index") for table in ("op", "python_call", "memory_event")],
    "Profiler Event Index": [("op", "profiler_index")],
    "Input Dims": [("op", "input_dims")],
    "Input type": [("op", "input_types")],
    "Input Strides": [("op", "input_strides")],
    "Concrete Inputs": [("op", "concrete_inputs")],
    "Module Hierarchy": [("op", "module_hierarchy")],
    "Call stack": [("op", "call_stack")],
    "Trace name": [("op", "trace_name")],
    "Trace iteration": [("op", "trace_iteration")],
    "Python id": [("python_call", "python_id")],
    "Python parent id": [("python_call", "python_parent_id")],
    "Python module id": [("python_call", "python_module_id")],
    "cbid": [("runtime_call", "callback_id")],
    "cid": [("runtime_call", "callback_id")],
    "kernel": [("runtime_call", "kernel")],
    "src": [("runtime_call", "source")],
    "dst": [("runtime_call", "destination")],
    "device": [("gpu_op", "device"), ("sync", "device")],
    "context": [("gpu_op", "context"), ("sync", "context")],
    "stream": [("gpu_op", "stream"), ("sync", "stream")],
    "queued": [("gpu_op", "queued")],
    "grid": [("gpu_op", "grid"), ("runtime_call", "grid")],
    "block": [("gpu_op", "block"), ("runtime_call", "block")],
    "shared memory": [("gpu_op", "shared_memory_bytes"), ("runtime_call", "shared_memory_bytes")],
    "registers per thread": [("gpu_op", "registers_per_thread")],
    "blocks per SM": [("gpu_op", "blocks_per_sm")],
    "warps per SM": [("gpu_op", "warps_per_sm")],
    "est. achieved occupancy %": [("gpu_op", "occupancy_pct")],
    "bytes": [("gpu_op", "bytes"), ("runtime_call", "bytes")],
    "memory bandwidth (GB/s)": [("gpu_op", "bandwidth_gb_per_s")],
    "kind": [("gpu_op", "kind"), ("runtime_call", "kind")],
    "Collective name": [("collective", "name")],
    "dtype": [("collective", "dtype")],
    "In msg nelems": [("collective", "in_elements")],
    "Out msg nelems": [("collective", "out_elements")],
    "Group size": [("collective", "group_size")],
    "Process Group Name": [("collective", "group_name")],
    "Process Group Description": [("collective", "group_description")],
    "Process Group Ranks": [("collective", "group_ranks")],
    "In split size": [("collective", "in_split")],
    "Out split size": [("collective", "out_split")],
    "Rank": [("collective", "peer")],
    "Global rank start": [("collective", "global_rank_start")],
    "Global rank stride": [("collective", "global_rank_stride")],
    "Addr": [("memory_event", "address")],
    "Bytes": [("memory_event", "bytes")],
    "Device Type": [("memory_event", "device_type")],
    "Device Id": [("memory_event", "device_id")],
    "Total Allocated": [("memory_event", "total_allocated_bytes")],
    "Total Reserved": [("memory_event", "total_reserved_bytes")],
    "finished": [("memory_event", "finished")],
    "cuda_sync_kind": [("sync", "kind")],
    "wait_on_stream": [("sync", "wait_on_stream")],
    "wait_on_cuda_event_id": [("sync", "wait_on_event_id")],
    "wait_on_cuda_event_record_corr_id": [("sync", "wait_on_correlation")],
}
EMPTY_IS_NULL = {"Module Hierarchy", "Call stack"}
REAL = Path(os.environ.get("HOTLINE_TRACES", "no traces"))
OWN = Path(__file__).parent / "data"
SAMPLES = [
    *(OWN / name for name in ("cnn_checkpoint.json.gz", "dlrm.json.gz", "transformer.json.gz")),
    *(
        pytest.param(REAL / name, marks=pytest.mark.traces)
        for name in (
            "counters/alexnet_a100.json.gz",
            "counters/alexnet_cupti_a100.json.gz",
            "inference/bert_small_h100.json.gz",
            "inference/sglang_graph_replay_mi300.json.gz",
            "labelled/resnet50/trace.json.gz",
            "multi_rank/rank-0.json.gz",
            "robustness/cpu_only.json.gz",
            "robustness/gpu_only_mi210.json.gz",
            "training/resnet18_ddp_checkpoint_mi300.json.gz",
        )
    ),
]


def parse(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, strict=False)


def same(found: Any, value: Any) -> bool:
    """Whether a column holds the file's value: numbers by value, lists as JSON, all else as text."""
    if found is None:
        return False
    if isinstance(found, bool) or isinstance(value, bool):
        return bool(found == value)
    if isinstance(found, float):
        return found == float(value)
    if isinstance(found, int):
        return Decimal(found) == Decimal(value)
    return found == value or (isinstance(value, list | dict | int) and parse(found) == value)


class Tables:
    """All tables of a run that come from the file, as rows by event."""

    def __init__(self, trace: ha.Trace) -> None:
        self.tables = {
            table.name: {row["event_id"]: row for row in trace.table(table.name).iter_rows(named=True)}
            for table in TABLES.values()
            if table.kind == "read" and table.columns[0].name == "event_id" and table.name != "counter"
        }
        self.counters = {
            (row["event_id"], row["series"]): row["value"] for row in trace.table("counter").iter_rows(named=True)
        }
        self.tracks = {row["track_id"]: row for row in trace.table("track").iter_rows(named=True)}

    def row(self, table: str, event_id: int) -> dict[str, Any]:
        return self.tables[table].get(event_id, {})

    def lost(self, event_id: int, event: dict[str, Any]) -> list[str]:
        """The fields and args of an event that no table holds."""
        row = self.row("event", event_id)
        kept = self.row("event_args", event_id)
        if kept.get("fields") is not None:
            return [] if parse(kept["fields"]) == event else ["fields"]
        track = self.tracks.get(row["track_id"], {})
        flow = self.row("flow", event_id)
        expected = {
            "ph": row["ph"],
            "cat": row["raw_category"] or row["category"],
            "name": row["name"],
            "pid": track.get("pid"),
            "tid": track.get("tid"),
            "ts": row["start_ns"],
            "dur": row["dur_ns"],
            "s": row["scope"],
            "id": flow.get("flow_id"),
            "bp": flow.get("binding"),
        }
        lost = []
        for field, value in event.items():
            if field in ("ts", "dur"):
                good = Decimal(value) * 1000 == expected[field]
            elif field == "args":
                continue
            else:
                good = expected.get(field) == str(value)
            if not good:
                lost.append(field)
        args = parse(kept["args"]) if kept.get("args") is not None else {}
        for name, value in event.get("args", {}).items():
            places = [self.row(table, event_id).get(column) for table, column in PLACES.get(name, [])]
            if not (
                any(same(found, value) for found in places)
                or (name in args and args[name] == value)
                or (name in EMPTY_IS_NULL and value == "")
                or (name == "Python parent id" and value is None)
                or same(self.counters.get((event_id, name)), value)
            ):
                lost.append(f"args.{name}")
        return lost


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_is_lost(path: Path) -> None:
    document = parse(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
    events = document.pop("traceEvents")
    with opened(path) as trace:
        tables = Tables(trace)
        info = trace.table("rank_info").row(0, named=True)
    assert info["event_count"] == len(events)
    assert (info["damage"], info["lost_bytes"], info["lost_event_count"], info["truncated"]) == (None, 0, 0, False)
    environment = document.get("metadata", {}).get("system", {}).get("env", {})
    environment.update({name: "***" for name in environment if name == "HF_TOKEN"})  # secrets are lost on purpose
    assert parse(info["metadata"]) == document
    assert sorted(tables.tables["event"]) == list(range(len(events)))
    lost = {(number, field) for number, event in enumerate(events) for field in tables.lost(number, event)}
    assert lost == set()


def test_the_search_for_losses_finds_them(tmp_path: Path) -> None:
    trace = TraceBuilder().op("a", 0, 10, seq=3, unknown="kept").kernel("k", 1, "2.125", correlation=4)
    with trace.load(tmp_path) as run:
        tables = Tables(run)
    op, kernel = (parse(dumps(event)) for event in trace.events)
    assert tables.lost(0, op) == tables.lost(1, kernel) == []
    assert tables.lost(0, {**op, "name": "b", "new": 1}) == ["name", "new"]
    assert tables.lost(0, {**op, "args": {"Sequence number": 4, "unknown": "changed", "x": 1}}) == [
        "args.Sequence number",
        "args.unknown",
        "args.x",
    ]
    assert tables.lost(1, {**kernel, "dur": Decimal("1.126")}) == ["dur"]
