"""Damaged, strange and malicious input: a `HotlineError` that says what is wrong, or all that could be read."""

import functools
import gzip
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis import (
    EmptyTraceError,
    ExportExistsError,
    HotlineError,
    HotlineWarning,
    RunFormatError,
    Trace,
    TraceFormatError,
)
from hotline_analysis.atomic.replacing import _machine
from hotline_analysis.kineto.source import CHUNK_BYTES, TextSource
from hotline_analysis.kineto.split import EventSplitter
from tests import zstd
from tests.trace_builder import TraceBuilder

KERNEL = '{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":5,"args":{"correlation":3}}'


ARGS: dict[str, Any] = {"Input Dims": [[2, 3], []], "note": [{"a": "},{"}]}


def small(count: int = 40) -> TraceBuilder:
    """A trace of `3 * count + 2` events of several kinds, with nested args and texts that look like borders."""
    trace = TraceBuilder(rank=0).process_name("python").step(1)
    for number in range(count):
        trace.op(f"op {number}", 10 * number, 10 * number + 5, **ARGS)
        trace.launches(f"kernel {number}", 10 * number + 6, 10 * number + 9)
    return trace


def salted(count: int) -> TraceBuilder:
    """A trace that does not compress well, so that it takes more than a few compressed blocks."""
    trace = small(count)
    rng = random.Random(1)
    for event in trace.events:
        event["salt"] = rng.randbytes(40).hex()
    return trace


def wrap(*events: str) -> str:
    return '{"traceEvents":[' + ",".join(events) + "]}"


def load(path: Path) -> Trace:
    """Load, and let the warnings be looked at in the manifest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HotlineWarning)
        return ha.load(path)


def write(folder: Path, content: str | bytes, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def names(trace: Trace) -> list[str]:
    return trace.sql("select name from event order by event_id")["name"].to_list()


def damage(trace: Trace) -> dict[str, Any]:
    return trace.sql("select damage, lost_event_count, lost_bytes, truncated, event_count from rank_info").row(
        0, named=True
    )


def parsed(text: str) -> Any:
    """An event, or its text if it has a comma before its end, which the database does not mind."""
    try:
        return json.loads(text)
    except ValueError:
        return text


# --- cut and corrupted files ------------------------------------------------------------------------------------


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all that is split here: a new one costs more than most of these texts."""
    return duckdb.connect()


def split(text: str) -> tuple[list[tuple[int, Any]], EventSplitter]:
    splitter = EventSplitter([text], database().cursor())
    found = [
        (event_id, parsed(event))
        for batch in splitter
        for event_id, event in zip(batch.ids.to_list(), batch.texts.to_list(), strict=True)
    ]
    return found, splitter


def test_cut_anywhere() -> None:
    """Every prefix gives exactly the events that are complete in it, and the loss is noted."""
    trace = small(2)
    text = trace.text()
    events = json.loads(text)["traceEvents"]
    ends = [end for _, end in places(trace, text)]
    for cut in sorted({*range(1, text.rindex("}"), 23), *(end + by for end in ends for by in range(-3, 3))}):
        found, splitter = split(text[:cut])
        assert found == list(enumerate(events))[: sum(end <= cut for end in ends)], cut
        if cut >= ends[0]:
            assert splitter.damage.notes, cut
            # Here a cut inside an event looks like a damaged event and the end of the document.
            assert splitter.damage.truncated or text[:cut].endswith("}]}"), cut
            assert splitter.damage.lost_events <= 1, cut


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst"])
def test_cut_files(tmp_path: Path, suffix: str) -> None:
    trace = salted(1000)
    path = trace.write(tmp_path / f"trace{suffix}")
    data = path.read_bytes().rstrip(b"\n")
    expected = [event["name"] for event in trace.events]
    for cut in (1, 2, 20):
        path.write_bytes(data[:cut])
        with pytest.raises(HotlineError, match=re.escape(str(path))):
            load(path)
    found = []
    for cut in (len(data) // 3, len(data) // 2, len(data) - 3):
        path.write_bytes(data[:cut])
        with load(path) as run:
            read = names(run)
            assert read == expected[: len(read)]
            assert damage(run)["damage"]
            assert damage(run)["truncated"] or len(read) == len(expected)
            assert damage(run)["damage"] in run.manifest["warnings"][0]
            found.append(len(read))
    assert found == sorted(found)
    assert 0 < found[0] < found[1] < len(expected)
    if suffix != ".json.zst":  # its last block comes whole or not at all
        assert found[-1] == len(expected)


def test_gzip_with_a_wrong_checksum(tmp_path: Path) -> None:
    trace = small()
    data = bytearray(gzip.compress(trace.text().encode()))
    data[-6] ^= 0xFF
    with load(write(tmp_path, bytes(data), "t.json.gz")) as run:
        assert names(run) == [event["name"] for event in trace.events]
        assert "compressed data is damaged" in damage(run)["damage"]


@pytest.mark.parametrize("compress", [gzip.compress, zstd.with_checksum], ids=["gzip", "zstd"])
def test_corrupted_compressed_data(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    trace = salted(2000)
    data = bytearray(compress(trace.text().encode()))
    middle = len(data) // 2
    data[middle : middle + 64] = random.Random(7).randbytes(64)
    path = write(tmp_path, bytes(data), "t.json.x")
    with load(path) as run:
        read = names(run)
        assert "compressed data is damaged" in damage(run)["damage"]
    expected = [event["name"] for event in trace.events]
    # Damage may show late, when some of what was read is garbage; zstd gives whole blocks of 128 KiB.
    sure = int(len(expected) * 0.35)
    assert read[:sure] == expected[:sure]
    assert len(read) <= len(expected)


@pytest.mark.parametrize(
    ("tail", "damaged"),
    [(b"", False), (b"\0" * 10_000, False), (b"\n\n", False), (b"garbage", True), (b'{"more": 1}', True)],
)
@pytest.mark.sampled
def test_what_follows_the_document(tmp_path: Path, tail: bytes, damaged: bool) -> None:
    for content in (wrap(KERNEL).encode() + tail, b"[" + KERNEL.encode() + b"]" + tail):
        with load(write(tmp_path, content)) as run:
            assert names(run) == ["k"]
            assert (damage(run)["damage"] is not None) == damaged
            assert damage(run)["lost_bytes"] == (len(tail) if damaged else 0)


def test_what_follows_compressed_data(tmp_path: Path) -> None:
    packed = gzip.compress(wrap(KERNEL).encode())
    for tail, damaged in ((b"\0" * (3 << 20), False), (b"garbage", True)):
        with load(write(tmp_path, packed + tail)) as run:
            assert names(run) == ["k"]
            assert (damage(run)["damage"] is not None) == damaged
            assert not damage(run)["truncated"]


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress], ids=["gzip", "zstd"])
def test_concatenated_members(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    text = small(5).text().encode()
    parts = [text[i : i + 100] for i in range(0, len(text), 100)]
    with load(write(tmp_path, b"".join(map(compress, parts)))) as run:
        assert len(names(run)) == 17
        assert damage(run)["damage"] is None


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress], ids=["gzip", "zstd"])
def test_a_small_file_that_unpacks_to_much_comes_in_pieces(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    size = 200 << 20
    packed = compress(wrap(KERNEL).encode() + b" " * size)
    assert len(packed) < 1 << 20
    chunks = [len(chunk) for chunk in TextSource(write(tmp_path, packed))]
    assert sum(chunks) == len(wrap(KERNEL)) + size
    assert max(chunks) <= 3 * CHUNK_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("filling", "is_inside"), [("[", False), ('"', False), ("[", True), ("[1,", True), (" ", True), ("{", True)]
)
@pytest.mark.sampled
def test_much_text_that_is_no_event_takes_little(tmp_path: Path, filling: str, is_inside: bool) -> None:
    """To check it as one event would take the database many bytes for each character, and to parse each piece long."""
    text = wrap(*[KERNEL] * 4)
    at = text.rindex('"ph"') if is_inside else len(text)
    much = text[:at] + filling * ((50 << 20) // len(filling)) + text[at:]
    path = write(tmp_path, zstd.compress(much.encode()))
    code = "import sys, hotline_analysis as ha; ha.import_traces(sys.argv[1], sys.argv[2]); import re, time; "
    code += "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1], time.process_time())"
    peak_kb, seconds = map(float, run_python(code, path, tmp_path / "run.hotline").communicate()[0].split())
    assert peak_kb < 900_000
    assert seconds < 15


def test_an_event_that_is_too_long_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one event, although its text comes in several pieces that are each too long."""
    monkeypatch.setattr("hotline_analysis.kineto.split._LONGEST_EVENT", 1000)
    monkeypatch.setattr("hotline_analysis.kineto.split._SHORT", 100)
    text = wrap('{"ph":"X","name":"a"}', '{"ph":"X","name":"' + "x" * 10_000 + '"}', '{"ph":"X","name":"b"}')
    splitter = EventSplitter([text[at : at + 700] for at in range(0, len(text), 700)], duckdb.connect())
    found = [row for batch in splitter for row in zip(batch.ids.to_list(), batch.texts.to_list(), strict=True)]
    assert [(place, json.loads(event)["name"]) for place, event in found] == [(0, "a"), (2, "b")]
    assert splitter.damage.lost_events == 1


def flip(text: str, share: float, seed: int) -> tuple[str, list[bool]]:
    """Replace a share of the characters at random; say of each whether it was hit."""
    rng = random.Random(seed)
    hit = [rng.random() < share for _ in text]
    printable = [chr(code) for code in range(32, 127)]
    return "".join(
        rng.choice([other for other in printable if other != char]) if bad else char
        for char, bad in zip(text, hit, strict=True)
    ), hit


def places(trace: TraceBuilder, text: str) -> list[tuple[int, int]]:
    """Where each event stands in the text of a trace, one event per line."""
    position = text.index("[\n", text.index('"traceEvents"')) + 2
    found = []
    for _ in trace.events:
        end = text.index("\n", position)
        found.append((position, position + len(text[position:end].rstrip(","))))
        position = end + 1
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.0005, 0.003, 0.01])
def test_flipped_bytes(share: float, seed: int) -> None:
    """Every event whose own text is whole is read."""
    trace = small(150)
    text = trace.text()
    first = places(trace, text)[0][0]
    flipped, hit = flip(text[first:], share, seed)
    found, splitter = split(text[:first] + flipped)
    untouched = [
        json.loads(text[start:end]) for start, end in places(trace, text) if not any(hit[start - first : end - first])
    ]
    # An event lives in the range of its own text: nothing is cut at its borders but the comma and the line's end.
    read = [json.dumps(event) for _, event in found]
    lost = [event["name"] for event in untouched if json.dumps(event) not in read]
    assert len(untouched) > 30
    assert lost == []
    ids = [event_id for event_id, _ in found]
    assert ids == sorted(set(ids))
    assert splitter.damage.notes


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("kind", ["cut", "doubled"])
@pytest.mark.sampled
def test_a_piece_that_is_missing_or_there_twice(kind: str, as_array: bool) -> None:
    """Every event that it does not touch is read, also where lists lose their ends or get another one."""
    trace = small(30)
    text = trace.text()
    first = places(trace, text)[0][0]
    text, spans = (text[first:-3], [(start - first, end - first) for start, end in places(trace, text)])
    opening, closing = ("[", "]") if as_array else ('{"traceEvents": [', "]}")
    damaged = 0
    for seed in range(60):
        rng = random.Random(seed)
        begin = rng.randrange(spans[3][0], spans[-4][1])
        end = min(begin + rng.choice([1, 3, 10, 40, 100, 300, 1000]), spans[-3][1])
        changed = text[:begin] + text[end:] if kind == "cut" else text[:end] + text[begin:]
        before, after = (begin, end) if kind == "cut" else (end, begin)
        found, splitter = split(opening + changed + closing)
        read = [json.dumps(event) for _, event in found]
        untouched = [text[start:stop] for start, stop in spans if stop <= before or start >= after]
        assert [event for event in untouched if json.dumps(json.loads(event)) not in read] == [], seed
        whole = {json.dumps(json.loads(text[start:stop])) for start, stop in spans}
        if whole - set(read) and set(read) <= whole:  # an event is gone, and no other was made of its rest
            # What is cut out as a whole leaves no trace, and a comma too many loses nothing.
            told = bool(splitter.damage.notes) and splitter.damage.lost_bytes > 0
            assert told or is_json(opening + changed + closing), seed
            damaged += told
    assert damaged > 10


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_a_list_without_an_end_in_a_long_file() -> None:
    """The events behind it are read, and the time does not grow with the square of the damage."""
    events = ",".join(KERNEL.replace('"k"', f'"k{number}"') for number in range(20_000))
    broken = KERNEL.replace('"correlation":3', '"list":[{"a":1},{"b":[')[:-2]
    text = f'{{"traceEvents":[{events},{broken},{events},{broken},{events}]}}'
    found, splitter = split(text)
    assert len(found) == 60_000
    assert splitter.damage.lost_events == 2
    assert [event_id for event_id, _ in found][-1] == 60_001


@pytest.mark.parametrize("pattern", ['{"ph":"X","a":1}]},', '{"ph":"X","a":[{"b":1},', '{"ph":"X"}],"x":1},', "%s]}},"])
@pytest.mark.sampled
def test_time_grows_with_the_damage(pattern: str) -> None:
    """Lists that have an end too many or too few, again and again: twice as many take about twice as long."""
    pattern = pattern.replace("%s", ",".join([KERNEL] * 30))

    def seconds(length: int) -> float:
        start = time.process_time()
        split_all = EventSplitter(['{"traceEvents":[' + pattern * (length // len(pattern))], duckdb.connect())
        for _ in split_all:
            pass
        return time.process_time() - start

    assert seconds(200_000) < 12 * max(seconds(50_000), 0.1)


def test_one_damaged_event_keeps_the_numbers_of_the_others() -> None:
    trace = small(20)
    text = trace.text()
    events = json.loads(text)["traceEvents"]
    for number in (0, 1, 30, 61):
        start, end = places(trace, text)[number]
        for broken in ("?" + text[start + 1 : end], text[start:end].replace(":", ";", 1), text[start : end - 1] + "?"):
            found, splitter = split(text[:start] + broken + text[end:])
            expected = [(i, event) for i, event in enumerate(events) if i != number]
            assert found == expected, (number, broken)
            assert splitter.damage.lost_events == 1
            assert splitter.damage.lost_bytes >= end - start - 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled
def test_flipped_bytes_of_a_file(tmp_path: Path, seed: int) -> None:
    """The whole way: no other exception, not even when the keys around the events are hit."""
    rng = random.Random(seed)
    data = bytearray(small(60).text().encode())
    for _ in range(len(data) // 100):
        data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        with load(write(tmp_path, bytes(data))) as run:
            assert damage(run)["damage"]
            assert run.table("annotated_event").height <= 182
    except HotlineError:
        pytest.fail("most events could be read")


# --- what is no trace --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"", EmptyTraceError, "is empty"),
        (b" \n\t ", EmptyTraceError, "is empty"),
        (b"\xef\xbb\xbf", EmptyTraceError, "is empty"),
        (gzip.compress(b"", mtime=0), EmptyTraceError, "is empty"),
        (b"[]", EmptyTraceError, "has no events"),
        (b'{"traceEvents": []}', EmptyTraceError, "has no events"),
        (b'{"traceEvents": null}', EmptyTraceError, "has no events"),
        (b'{"traceEvents": {}}', EmptyTraceError, "has no events"),
        (b"{}", TraceFormatError, "not a PyTorch profiler trace"),
        (b'{"a": [{"b": 1}]}', TraceFormatError, "not a PyTorch profiler trace"),
        (b'[{"name": "conv1", "type": "Conv2d", "ops": []}]', TraceFormatError, "with a phase"),
        (b'"traceEvents"', TraceFormatError, "not a PyTorch profiler trace"),
        (b"12", TraceFormatError, "not a PyTorch profiler trace"),
        (b"plain text\n", TraceFormatError, "starts with 'plain text"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, TraceFormatError, "not a PyTorch profiler trace"),
        (b"\0" * 5000, TraceFormatError, "not a PyTorch profiler trace"),
        (b"PK\x03\x04" + bytes(200), TraceFormatError, "not a PyTorch profiler trace"),
        (b'{"traceEvents": [1, 2]}', TraceFormatError, "no readable event"),
        (b'{"traceEvents": [{"ph"', TraceFormatError, "no readable event"),
        (b"\x1f\x8b", TraceFormatError, "cannot be decompressed"),
        (b"\x1f\x8b" + b"\xff" * 100, TraceFormatError, "cannot be decompressed"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 100, TraceFormatError, "cannot be decompressed"),
    ],
)
def test_no_trace(tmp_path: Path, content: bytes, error: type[HotlineError], says: str) -> None:
    path = write(tmp_path, content)
    output = tmp_path / "run.hotline"
    with pytest.raises(error, match=re.escape(says)) as raised:
        ha.import_traces(path, output)
    assert str(path) in raised.value.message
    assert raised.value.hint
    assert sorted(tmp_path.iterdir()) == [path]


class Creating:
    """Unpickled, it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


class Filling:
    """Unpickled, it would be a terabyte of zeros."""

    def __reduce__(self) -> Any:
        return (bytearray, (1 << 40,))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("name", ["snapshot.pickle", "snapshot.pkl", "trace.json", "trace.json.gz"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_memory_snapshot_is_no_trace_and_runs_nothing(
    tmp_path: Path, pack: Callable[[bytes], bytes], name: str, protocol: int
) -> None:
    created = tmp_path / "created"
    content = pickle.dumps({"segments": [Creating(created)], "device_traces": [[]]}, protocol)
    pickle.loads(content)["segments"][0].close()
    assert created.exists()  # it is hostile
    created.unlink()
    path = tmp_path / name
    path.write_bytes(pack(content))
    for ask in (ha.load, lambda file: ha.import_traces(file, tmp_path / "run.hotline")):
        with pytest.raises(TraceFormatError, match="seems to be a pickle, such as a memory snapshot"):
            ask(path)
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["snapshot.pickle", "rank1.json"])
def test_a_memory_snapshot_beside_a_trace(tmp_path: Path, name: str) -> None:
    """What has the name of a trace is told of; other files of the folder are not looked at."""
    folder = tmp_path / "traces"
    folder.mkdir()
    write(folder, small(2).text().encode(), "rank0.json")
    created = tmp_path / "created"
    (folder / name).write_bytes(pickle.dumps({"segments": [Creating(created)]}, 4))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with ha.load(folder) as run:
            assert run.table("op").height > 0
    assert [("pickle" in str(each.message)) for each in warned] == ([] if name.endswith("pickle") else [True])
    assert not created.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_pickle_that_would_fill_the_memory_takes_little(tmp_path: Path) -> None:
    """Unpickled, it would ask for a terabyte; it is packed from 200 MB of text beside that."""
    bomb = pickle.dumps({"segments": Filling(), "text": b" " * (200 << 20)}, 4)
    path = tmp_path / "bomb.pickle"
    path.write_bytes(zstd.compress(bomb))
    code = "import sys, hotline_analysis as ha\ntry: ha.import_traces(sys.argv[1], sys.argv[2])\n"
    code += "except ha.HotlineError as error: print('pickle' in str(error))\n"
    code += "import re, time\nprint(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])\n"
    code += "print(time.process_time())"
    told, peak_kb, seconds = run_python(code, path, tmp_path / "run.hotline").communicate()[0].splitlines()
    assert told == "True"
    assert float(peak_kb) < 900_000
    assert float(seconds) < 15


def test_missing_things(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    for source in (tmp_path, tmp_path / "absent.json", tmp_path / "*.json", [], [tmp_path]):
        with pytest.raises(TraceFormatError):
            ha.load(source)


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, wrap(KERNEL))

    def refuse(self: Path, *args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceFormatError, match=r"cannot read .*trace\.json: Permission denied"):
        ha.load(path)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = write(tmp_path, wrap(KERNEL))
    path.chmod(0)
    with pytest.raises(TraceFormatError, match="cannot read"):
        ha.load(path)


# --- strange events ----------------------------------------------------------------------------------------------


def test_a_trace_of_one_event(tmp_path: Path) -> None:
    for event in ('{"ph":"X"}', '{"ph":"i","name":"x"}', '{"ph":"M","name":"process_name","args":{"name":5}}', KERNEL):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HotlineWarning)
            run = load(write(tmp_path, wrap(event)))
        with run:
            assert len(names(run)) == 1
            assert (damage(run)["damage"] is None) == (event != '{"ph":"X"}')
            for table in ("annotated_event", "step", "phase_span", "gpu_busy", "launch"):
                assert run.table(table).height <= 1


TIMES = ["-1", "-900000000000000", "2000000000000000", "4600000000000000", "1e30", "NaN", "null", "5"]
DURATIONS = ["0", "900000000000000", "1e30", "-5", "NaN", "3"]


@pytest.mark.parametrize("category", ["kernel", "cpu_op", "user_annotation", "python_function", "cuda_runtime"])
@pytest.mark.sampled
def test_extreme_times_among_others(tmp_path: Path, category: str) -> None:
    """No arithmetic overflows, alone or together, and the other events keep their places."""
    odd = [
        '{"ph":"X","cat":"%s","name":"odd","pid":0,"tid":7,"ts":%s,"dur":%s}' % (category, ts, dur)  # noqa: UP031
        for ts in TIMES
        for dur in DURATIONS
    ]
    trace = small(3)
    text = trace.text().replace('"traceEvents": [', '"traceEvents": [' + ",".join(odd) + ",")
    with load(write(tmp_path, text)) as run:
        assert len(names(run)) == len(trace.events) + len(odd)
        kernels = run.sql("select name, start_ns, dur_ns from annotated_event where name like 'kernel%' order by name")
        assert kernels.rows() == [(f"kernel {n}", 10_000 * n + 6_000, 3_000) for n in range(3)]


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"traceEvents":[', '[{"ph":"X","args":'])
@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_nesting(tmp_path: Path, opening: str, depth: int) -> None:
    with pytest.raises(HotlineError):
        load(write(tmp_path, opening * depth))


@pytest.mark.parametrize("depth", [100, 970, 990, 200_000])
@pytest.mark.sampled
def test_deep_args_and_metadata(tmp_path: Path, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    event = KERNEL.replace('"correlation":3', f'"correlation":4,"deep":{deep}')
    with load(write(tmp_path, wrap(KERNEL, event, KERNEL))) as run:
        assert names(run) == ["k"] * 3
        args = run.sql("select args from event_args").item()
        assert args == '{"correlation":4,"deep":' + deep + "}"
    with load(write(tmp_path, f'{{"deep":{deep},"traceEvents":[{KERNEL}]}}')) as run:
        assert names(run) == ["k"]
        kept = run.sql("select metadata from rank_info").item()
        assert (damage(run)["damage"] is not None) or kept == '{"deep": ' + deep + "}"


def test_many_objects_that_lead_nowhere(tmp_path: Path) -> None:
    start = time.monotonic()
    for pattern in ('{"', '{"a":', '{"ph":', "},{", '{"a":1},{', '"', "[{", "\\", '"{"', '{"a":' * 900 + "!"):
        with pytest.raises(HotlineError):
            load(write(tmp_path, '{"traceEvents":[!' + pattern * (200_000 // len(pattern))))
    assert time.monotonic() - start < 20


def test_strange_names(tmp_path: Path) -> None:
    strange = [
        "n" * 10_000,
        "a\"b'c",
        "line\nbreak\r\ttab",
        "<script>alert(1)</script>",
        "'; drop table event; --",
        "😀é\u2028",
    ]
    strange += ["a},{b", "]}", "\\", "\\\\u0000", "\x7f", "%s {} $1", ""]
    trace = TraceBuilder()
    for number, name in enumerate(strange):
        args: dict[str, Any] = {name: name}
        trace.op(name, number, number + 1, **args).annotation(name, number, number + 1)
    with trace.load(tmp_path) as run:
        assert names(run) == [name for name in strange for _ in range(2)]
        assert run.sql("select name from annotated_event order by event_id")["name"].to_list() == names(run)


def test_numbers_of_many_digits(tmp_path: Path) -> None:
    digits = "9" * 5000
    event = KERNEL.replace('"correlation":3', f'"correlation":3,"x":{digits},"y":[{{}},{{}}]')
    with load(write(tmp_path, f'{{"big":{digits},"traceEvents":[{event},{KERNEL}]}}')) as run:
        assert names(run) == ["k", "k"]


def test_one_huge_event(tmp_path: Path) -> None:
    for filler in ("x" * 16_000_000, "},{" * 500_000):
        event = KERNEL.replace('"correlation":3', f'"correlation":3,"blob":"{filler}"')
        with load(write(tmp_path, wrap(KERNEL, event, KERNEL))) as run:
            assert names(run) == ["k"] * 3
            assert run.sql("select length(args) as n from event_args").item() == len(filler) + len(
                '{"correlation":3,"blob":""}'
            )


def test_lone_surrogates_around_the_events(tmp_path: Path) -> None:
    text = f'{{"deviceProperties":[{{"id":0,"name":"GPU \\ud83d"}}],"\\udc00":"\\ud83d","traceEvents":[{KERNEL}]}}'
    with load(write(tmp_path, text)) as run:
        assert run.sql("select name from device").item() == "GPU \ufffd"
        assert json.loads(run.sql("select metadata from rank_info").item())["?"] == "\ufffd"


@pytest.mark.parametrize(
    "metadata",
    [
        '"deviceProperties": "none"',
        '"deviceProperties": [1, null, {}, {"id": "x", "name": 5, "totalGlobalMem": 1e400}]',
        '"distributedInfo": [1]',
        '"distributedInfo": {"rank": "no number", "world_size": -1}',
        '"distributedInfo": {"rank": -3}',
        '"distributedInfo": {"rank": 1e30}',
        '"distributedInfo": {"rank": 99999999999999999999}',
        '"baseTimeNanoseconds": NaN',
        '"baseTimeNanoseconds": {}',
        '"traceEvents": 5',
        '"": Infinity',
    ],
)
@pytest.mark.sampled
def test_strange_metadata(tmp_path: Path, metadata: str) -> None:
    with load(write(tmp_path, f'{{{metadata},"traceEvents":[{KERNEL}]}}')) as run:
        assert names(run) == ["k"]
        assert run.ranks == [0]


# --- names of files and folders ------------------------------------------------------------------------------------

ODD_NAMES = [
    "a'b[1].json",
    'q"uote *?.json',
    "{a,b}.json",
    "-o.json",
    "percent%41.json",
    "name=x.json",
    "é 矩阵.json",
    "a\nb.json",
]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.sampled
def test_odd_file_names(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, wrap(KERNEL), name)
    with load(path) as run:
        assert run.sql("select file from rank_info").item() == name


@pytest.mark.usefixtures("in_processes")
def test_odd_file_names_in_a_folder(tmp_path: Path) -> None:
    for number, name in enumerate(ODD_NAMES[:3]):
        write(tmp_path, wrap(*[KERNEL] * number, KERNEL), name)
    with load(tmp_path) as run:
        found = dict(run.sql("select file, event_count from rank_info").rows())
        assert found == {name: number + 1 for number, name in enumerate(ODD_NAMES[:3])}


def test_a_file_name_that_is_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.json"))
    try:
        path.write_text(wrap(KERNEL))
    except OSError:
        pytest.skip("the file system refuses such names")
    with load(path) as run:
        assert run.sql("select file from rank_info").item() == "a\ufffd.json"


@pytest.mark.parametrize("folder", ["a'b[1]", "name=x/rank=7", "lr=0.1,bs=2", "*?", "{a,b}", "è '\" %41"])
@pytest.mark.sampled
def test_odd_folder_names(tmp_path: Path, folder: str) -> None:
    """`rank=7` and `name=x` above the run are no columns of it."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    write(place, wrap(KERNEL))
    with Trace(ha.import_traces(place, place / "run [1]'=.hotline")) as run:
        assert run.sql("select rank, name from event").rows() == [(0, "k")]
        assert run.sql("select rank, name from annotated_event").rows() == [(0, "k")]
        run.export(place / "out")
        assert pl.read_parquet(place / "out" / "event.parquet", glob=False)["name"].to_list() == ["k"]


# --- where the result goes -----------------------------------------------------------------------------------------


def test_output_exists(tmp_path: Path) -> None:
    path = write(tmp_path, wrap(KERNEL))
    run = ha.import_traces(path, tmp_path / "run.hotline")
    before = sorted(run.rglob("*"))
    with pytest.raises(ExportExistsError, match="exists already"):
        ha.import_traces(path, run)
    assert sorted(run.rglob("*")) == before
    write(tmp_path, wrap(KERNEL, KERNEL))
    ha.import_traces(path, run, overwrite=True)
    with Trace(run) as trace:
        assert names(trace) == ["k", "k"]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["run.hotline", "trace.json"]


def test_a_failed_import_keeps_what_it_would_have_replaced(tmp_path: Path) -> None:
    run = ha.import_traces(write(tmp_path, wrap(KERNEL)), tmp_path / "run.hotline")
    with pytest.raises(TraceFormatError):
        ha.import_traces(write(tmp_path, "no trace"), run, overwrite=True)
    with Trace(run) as trace:
        assert names(trace) == ["k"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_output_is_something_else(tmp_path: Path, overwrite: bool) -> None:
    path = write(tmp_path, wrap(KERNEL))
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    for output in (path, precious):
        with pytest.raises(ExportExistsError):
            ha.import_traces(path, output, overwrite=overwrite)
    assert (precious / "thesis.txt").read_text() == "years of work"
    assert path.read_text() == wrap(KERNEL)


def test_output_cannot_be_written(tmp_path: Path) -> None:
    path = write(tmp_path, wrap(KERNEL))
    for output in (path / "run.hotline", path / "runs" / "run.hotline"):
        with pytest.raises(HotlineError, match="cannot write") as found:
            ha.import_traces(path, output)
        assert found.value.hint == "There is a file where this path has a folder. Choose another place with -o."
    with pytest.raises(HotlineError, match="cannot write"):
        ha.import_traces(path, Path("/proc/nowhere/run.hotline"))


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writing fails in the middle."""
    code = (
        "import sys, hotline_analysis as ha\n"
        "try: ha.import_traces(sys.argv[1], sys.argv[2])\n"
        "except ha.HotlineError as error: print(type(error).__name__, error.message)"
    )
    path = small(3000).write(tmp_path / "t.json")
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (20_000, 20_000))
    process = run_python(code, path, tmp_path / "run.hotline", preexec_fn=limit)
    out, err = process.communicate(timeout=60)
    assert out.startswith("HotlineError cannot "), (out, err)
    assert [item.name for item in tmp_path.iterdir()] == ["t.json"]


IMPORT = "import sys, hotline_analysis as ha; ha.import_traces(sys.argv[1:-1], sys.argv[-1])"


@pytest.fixture(scope="module")
def two_large(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files that take a second or more to import."""
    folder = tmp_path_factory.mktemp("large")
    text = small(15_000).text()
    return [write(folder, text, f"rank{rank}.json") for rank in range(2)]


def leftovers(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir() if item.name != "ready")


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def children(process: subprocess.Popen[str]) -> list[int]:
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT], ids=lambda kind: kind.name)
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.sampled
def test_killed_in_the_middle(tmp_path: Path, two_large: list[Path], kind: signal.Signals, count: int) -> None:
    output = tmp_path / "run.hotline"
    process = run_python(IMPORT, *two_large[:count], output)
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.rglob("event.parquet")) or process.poll() is not None)
    started = children(process)
    assert len(started) == (count if count > 1 else 0)
    process.send_signal(kind)
    _, err = process.communicate(timeout=30)
    assert process.returncode not in (0, 1), err
    assert not output.exists()
    wait_for(lambda: not any(map(alive, started)))
    if kind == signal.SIGINT:
        assert leftovers(tmp_path) == []
    else:
        assert len(leftovers(tmp_path)) == 1
    ha.import_traces(write(tmp_path, wrap(KERNEL), "ready"), output)
    assert leftovers(tmp_path) == ["run.hotline"]


def test_leftovers_of_others_stay(tmp_path: Path) -> None:
    """Only what a dead process began for this very target is removed."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    dead = process.pid
    here, elsewhere = _machine(), "00000000"
    gone = [f".run.hotline.{here}.{dead}.abcd1234.partial", f".run.hotline.{here}.{dead}.abcd1234.old.partial"]
    forgotten = f".run.hotline.{elsewhere}.{dead}.abcd1234.partial"
    stay = [
        f".run.hotline.{here}.{os.getpid()}.abcd1234.partial",
        # Another machine or container has processes of its own.
        f".run.hotline.{elsewhere}.{dead}.00001234.partial",
        f".run.{here}.{dead}.abcd1234.partial",
        f".other.{here}.{dead}.abcd1234.partial",
        f".run.hotline.{here}.{dead}.x",
        "run.hotline.partial",
    ]
    for name in (*gone, forgotten, *stay):
        (tmp_path / name).mkdir()
    eight_days_ago = time.time() - 8 * 24 * 3600
    os.utime(tmp_path / forgotten, (eight_days_ago, eight_days_ago))
    ha.import_traces(write(tmp_path, wrap(KERNEL)), tmp_path / "run.hotline")
    assert {item.name for item in tmp_path.iterdir()} == {*stay, "run.hotline", "trace.json"}


def test_what_does_not_fit_into_memory_is_the_users_own(tmp_path: Path) -> None:
    run = ha.import_traces(write(tmp_path, wrap(KERNEL)), tmp_path / "run.hotline")
    with ha.load(run) as trace:
        spill = Path(trace.sql("select current_setting('temp_directory')").item())
        assert stat.S_IMODE(spill.stat().st_mode) == 0o700
        assert Path.cwd() not in spill.parents
        (spill / "file").touch()
    assert not spill.exists()


def test_a_temporary_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    path = write(tmp_path, wrap(KERNEL))
    trace = ha.load(path)
    assert len(leftovers(tmp_path / "tmp")) == 1
    trace.close()
    assert leftovers(tmp_path / "tmp") == []
    ha.load(path)  # forgotten at once
    with pytest.raises(TraceFormatError):
        ha.load(write(tmp_path, "no trace"))
    assert leftovers(tmp_path / "tmp") == []


# --- damaged runs --------------------------------------------------------------------------------------------------


def test_damaged_runs(tmp_path: Path) -> None:
    run = ha.import_traces(write(tmp_path, wrap(KERNEL)), tmp_path / "run.hotline")
    manifest = run / "manifest.json"
    text = manifest.read_text()
    for content in ("", "[]", "{}", "\0", text.replace('"format_version": ', '"format_version": 9'), text[:40]):
        manifest.write_text(content)
        with pytest.raises(RunFormatError):
            Trace(run)
    manifest.write_bytes(b"\xff\xfe")
    with pytest.raises(RunFormatError):
        Trace(run)
    manifest.write_text(text)
    for table in ("event", "gpu_event"):
        (run / table / "rank=0" / "data.parquet").write_bytes(b"PAR1 no parquet PAR1")
    with Trace(run) as trace:
        for _ in range(2):
            with pytest.raises(RunFormatError, match="is damaged"):
                ha.slowest_kernels(trace)
        with pytest.raises(RunFormatError, match="is damaged"):
            trace.sql("select count(*) from Event")
    with pytest.raises(RunFormatError):
        Trace(tmp_path / "absent")


def test_a_run_of_an_earlier_version_says_so(tmp_path: Path) -> None:
    run = ha.import_traces(write(tmp_path, wrap(KERNEL)), tmp_path / "run.hotline")
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "format_version": 1}))
    shutil.rmtree(run / "name_info")  # a table that came after version 1
    with pytest.raises(RunFormatError, match="imported by another version of this package") as raised:
        Trace(run)
    assert raised.value.hint == "Import the traces again."


# --- malicious surroundings ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder beside the run, with things that are nobody's business."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.txt").write_text("secret")
    pl.DataFrame({"a": [1]}).write_parquet(folder / "secret.parquet")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trace]:
    with TraceBuilder().op("a", 0, 1).load(tmp_path_factory.mktemp("run")) as trace:
        yield trace


SECRETS = [
    "from '{outside}/secret.parquet'",
    "from read_parquet('{outside}/secret.parquet')",
    "from read_parquet('{outside}/*.parquet')",
    "from read_parquet('{run}/../{up}/secret.parquet')",
    "from read_text('{outside}/secret.txt')",
    "from read_blob('{outside}/secret.txt')",
    "from read_csv('{outside}/secret.txt')",
    "from sniff_csv('{outside}/secret.txt')",
    "from parquet_metadata('{outside}/secret.parquet')",
    "from glob('{outside}/*')",
    "from query('from read_text(''{outside}/secret.txt'')')",
    "from read_text('file://{outside}/secret.txt')",
    "from read_text('/etc/hostname')",
    "from read_json('http://localhost:9/')",
    "from duckdb_secrets()",
    "select getenv('HOME')",
    "from secret",
]


@pytest.mark.parametrize("query", SECRETS)
def test_sql_cannot_read_other_files(run: Trace, outside: Path, query: str) -> None:
    up = os.path.relpath(outside, run.path.parent)
    assert (run.path / ".." / up / "secret.txt").exists()
    with pytest.raises(HotlineError, match="the SQL statement failed"):
        run.sql(query.format(outside=outside, run=run.path, up=up))


WRITES = [
    "copy (select 1) to '{run}/new.parquet'",
    "copy (select 1) to '{outside}/new.parquet'",
    "copy event to '{run}/event/rank=0/data.parquet'",
    "with w as (copy (select 1) to '{run}/new.parquet') from w",
    "with w as (copy (select 1) to '{run}/new.parquet') select * from event",
    "with a as (select 1), w as materialized (copy (select 1) to '{run}/new.parquet') from a",
    "from event union all (with w as (copy (select 1) to '{run}/new.parquet') from w)",
    "explain analyze copy (select 1) to '{run}/new.parquet'",
    "select 1; copy (select 1) to '{run}/new.parquet'",
    "/* select */ copy (select 1) to '{run}/new.parquet'",
    "export database '{run}/new'",
    "attach '{run}/new.db'",
    "attach '{outside}/new.db' as db",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset allowed_directories",
    "pragma enable_profiling",
    "create table t as select 1",
    "create or replace view event as select 1",
    "create macro f() as 1",
    "drop view event",
    "insert into event select * from event",
    "delete from event",
    "begin",
    "prepare p as select 1",
    "call pragma_version()",
    "use temp",
    "import database '{outside}'",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("query", WRITES)
def test_sql_cannot_write(run: Trace, outside: Path, query: str) -> None:
    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (*outside.rglob("*"), *run.path.rglob("*"))}

    before = state()
    with pytest.raises(HotlineError):
        run.sql(query.format(outside=outside, run=run.path))
    assert state() == before
    assert names(run) == ["a"]  # and the connection is as it was


@pytest.mark.parametrize(
    "query",
    [
        "select 1 as n",
        "from event;",
        "with a as (select 1 as n) from a",
        '/* a */ select \'copy (select 1) to x; "type":"COPY_QUERY_NODE"\' as n -- b',
        "(select 1) union all (select 2)",
        "values (1)",
        "describe event",
        "show tables",
        "summarize event",
        "from (pivot (select 1 as a, 2 as b) on a in (1) using sum(b))",
        "from query_table('event')",
    ],
)
def test_sql_can_ask_anything(run: Trace, query: str) -> None:
    assert run.sql(query).height > 0


def test_the_working_directory_is_not_searched_for_modules(tmp_path: Path) -> None:
    """Modules that lie beside untrusted traces are not executed, also not by the processes that import them."""
    for name in ("json", "duckdb", "polars", "hotline_analysis", "os"):
        write(tmp_path, "import pathlib; pathlib.Path('executed').touch()", f"{name}.py")
    for rank in range(2):
        write(tmp_path, wrap(KERNEL), f"rank{rank}.json")
    path = [entry for entry in sys.path if entry]
    code = (
        f"import sys; sys.path[:] = {path!r}; import hotline_analysis as ha;"
        " from hotline_analysis.importer import processes; processes._WORTH_PROCESSES_BYTES = 0;"
        " print(ha.load('.').ranks)"
    )
    process = run_python(code, cwd=tmp_path)
    out, err = process.communicate(timeout=60)
    assert out == "[0, 1]\n", err
    assert not (tmp_path / "executed").exists()
