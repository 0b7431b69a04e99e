"""The critical path against plain Python: random traces, the rules of `dependency_edges` once more, as loops."""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import hotline_analysis as ha
from hotline_analysis.answers.path import Until
from tests.random_traces import random_trace

START, END = "start", "end"
UNTIL: tuple[Until, ...] = ("host", "work", "launched")
Node = Any


class Edge(NamedTuple):
    kind: str
    source: Node
    target: Node
    start: int
    end: int
    weight: int
    name: str | None


class Oracle:
    """Edges and times of one window, by loops over the events of the file."""

    def __init__(self, events: list[dict[str, Any]], first: int, last: int, until: str, places: int = 1000) -> None:
        self.until, self.places = until, places
        spans = [
            (number, event, int(event["ts"] * 1000), int((event["ts"] + event["dur"]) * 1000))
            for number, event in enumerate(events)
            if event.get("ph") == "X"
        ]
        self.host = [span for span in spans if span[1]["cat"] in ("cpu_op", "user_annotation", "cuda_runtime")]
        calls = {span[1]["args"]["correlation"]: span for span in self.host if span[1]["cat"] == "cuda_runtime"}
        gpu = sorted(
            (start, end, number, event, calls[event["args"]["correlation"]])
            for number, event, start, end in spans
            if event["cat"] in ("kernel", "gpu_memcpy")
        )

        def done(at: int) -> int:
            return max([at, *(end for _, end, _, _, call in gpu if call[2] < at)])

        own = [(end, number) for _, end, number, _, call in gpu if first <= call[2] < last]
        self.first, self.last = {
            "host": (first, last),
            "work": (done(first), done(last)),
            "launched": (first, max([last, *(end for end, _ in own)])),
        }[until]
        # With `launched`, what was launched earlier is no part of the window, but may be waited for.
        self.earlier = {number for *_, number, _, call in gpu if call[2] < first} if until == "launched" else set()
        last_of = {event["tid"]: number for *_, number, event, _ in gpu if number in self.earlier}
        self.host_last = last
        durations = sorted(call[3] - call[2] for *_, call in gpu if call[3] > call[2])
        self.usual_call = durations[(len(durations) - 1) // 2]
        self.gpu = gpu
        self.works = [
            (max(start, self.first), max(min(end, self.last), self.first), number, event, call)
            for start, end, number, event, call in gpu
            if (end > self.first or number in last_of.values()) and start <= self.last and call[2] < last
        ]
        # By work, how many launches into its stream have not started when it is launched.
        self.pending = {
            number: sum(w[4][2] < call[2] < w[0] for w in gpu if w[3]["tid"] == event["tid"])
            for *_, number, event, call in gpu
        }
        self.waited = self._waited()
        self.edges: list[Edge] = []
        self._threads()
        self._starts()
        self._end(until)
        self.edges = [self._settled(edge) for edge in self.edges if not self._is_earlier(edge.target)]

    def _is_earlier(self, node: Node) -> bool:
        return isinstance(node, tuple) and node[0] in ("begin", "done") and node[1] in self.earlier

    def _settled(self, edge: Edge) -> Edge:
        """An edge from earlier work as one from the window's start."""
        if not self._is_earlier(edge.source):
            return edge
        passed = max(edge.start - self.first, 0)
        return edge._replace(source=START, start=self.first, weight=edge.weight + passed)

    def point(self, at: int) -> Node:
        return START if at <= self.first else ("cpu", at)

    def _threads(self) -> None:
        times = {self.first}
        times |= {at for *_, a, b in self.host if b > a for at in (a, b) if self.first < at <= self.host_last}
        if self.host_last > self.first:
            times.add(self.host_last)
        waits: dict[int, set[int]] = defaultdict(set)
        early: set[int] = set()
        for index, (_, event, start, end) in enumerate(self.host):
            if event["cat"] != "cuda_runtime" or not self.first < end <= self.host_last or end == start:
                continue
            mine = [w for w in self.works if w[4][0] == self.host[index][0]]
            if event["name"] == "cudaMemcpyAsync":
                waits[end] |= {w[2] for w in mine if w[0] <= end}
                early |= {w[2] for w in mine if w[0] <= end < w[1]}
            before = [w for w in self.works if w[4][2] < start]
            is_full = any(self.pending[w[2]] >= self.places for w in mine)
            if event["name"] == "cudaDeviceSynchronize":
                for stream in {w[3]["tid"] for w in self.gpu_before(start)}:
                    work = max(
                        (w for w in self.gpu_before(start) if w[3]["tid"] == stream),
                        key=lambda w: (w[4][2], w[1], w[2]),
                    )
                    if work[2] in {w[2] for w in self.works} and work[1] <= end:
                        waits[end].add(work[2])
            if event["name"] == "cudaStreamSynchronize" or is_full:
                ended = [w for w in self.works if w[1] <= end and w[1] > w[0]]
                latest = max(ended, key=lambda w: (w[1], w[2]), default=None)
                if latest is not None and latest in before and latest[1] > start:
                    waits[end].add(latest[2])
        since = {w[2]: w[0] if w[2] in early else w[1] for w in self.works}
        ordered = sorted(times)
        for a, b in pairwise(ordered):
            reached = max([a, *(since[number] for number in waits[b])])
            # The call of a copy that ends later does what any launch does; the rest of its time it waits.
            is_early = reached > a and max(waits[b], key=lambda number: (since[number], number)) in early
            own = min(b - reached, self.usual_call) if is_early else b - reached
            self.edges.append(Edge("host", self.point(a), self.point(b), a, b, own, None))
            for number in waits[b]:
                begun: Node = ("begin", number) if since[number] > self.first else START
                source = begun if number in early else ("done", number)
                self.edges.append(Edge("return", source, self.point(b), since[number], b, b - reached, None))
        self._places()

    def _places(self) -> None:
        """A launch needs a place in the queue: the work so many launches before has started."""
        for tid in {w[3]["tid"] for w in self.works}:
            places = max([self.places, *(self.pending[w[2]] for w in self.gpu if w[3]["tid"] == tid)])
            mine = sorted(
                (w for w in self.works if w[3]["tid"] == tid and w[2] not in self.earlier), key=lambda w: w[4][2]
            )
            if len(mine) <= places + 1:
                continue
            for place, (_, _, _, _, call) in enumerate(mine):
                if (place + 1) % max(1, self.places // 20) or call[3] > self.host_last:
                    continue
                start, _, number, *_ = mine[place - places - 1]  # from the end, if there are not so many before
                if place > places and start <= call[3]:
                    source = ("begin", number) if start > self.first else START
                    self.edges.append(Edge("full", source, self.point(call[3]), start, call[3], 0, None))
                elif place <= places and self.until == "launched":
                    self.edges.append(Edge("full", START, self.point(call[3]), self.first, call[3], 0, None))

    def _waited(self) -> dict[int, set[int]]:
        """By work, those that its stream waited for as calls tell: what was launched last before on another stream."""
        found: dict[int, set[int]] = defaultdict(set)
        for _, event, start, end in self.host:
            if event["name"] != "cudaStreamWaitEvent":
                continue
            later = [w for w in self.gpu if w[4][2] >= end]
            if not later:
                continue
            held = min(later, key=lambda w: (w[4][2], w[0]))
            others = [w for w in self.gpu if w[4][2] < start and w[3]["tid"] != held[3]["tid"]]
            if others:
                found[held[2]].add(max(others, key=lambda w: w[4][2])[2])
        return found

    def gpu_before(self, at: int) -> list[Any]:
        return [w for w in self.gpu if w[4][2] < at]

    def _starts(self) -> None:
        found: list[Any] = []
        for place, (start, end, number, event, call) in enumerate(self.works):
            name = event["name"]
            begin: Node = ("begin", number) if start > self.first else START
            self.edges.append(Edge("work", begin, ("done", number), start, end, end - start, name))
            if start <= self.first:
                continue
            earlier = [w for w in self.works[:place] if w[3]["tid"] == event["tid"] and w[1] <= start]
            queue = max(earlier, key=lambda w: (w[1], self.works.index(w)), default=None)
            queue_end = queue[1] if queue else None
            if queue is None:
                gone = [b for _, b, _, other, _ in self.gpu if other["tid"] == event["tid"] and b <= self.first]
                queue_end = max(gone, default=None)
            called = call[2] + min(call[3] - call[2], self.usual_call)
            waited = [w for w in self.works[:place] if w[2] in self.waited.get(number, ()) and w[1] <= start]
            awaited = max(waited, key=lambda w: (w[1], self.works.index(w)), default=None)
            free_at = max((at for at in (queue_end, awaited and awaited[1]) if at is not None), default=None)
            ready = max(min(called, start), self.first, *([free_at] if free_at is not None else []))
            # the work of any stream that ended last before the start
            ended: Any = max(
                (w for w in self.works if w[0] < w[1] <= start), key=lambda w: (w[1], self.works.index(w)), default=None
            )
            running: Any = self.works[place - 1] if place else None
            cause = "launch" if free_at is None or called >= free_at else "queue" if queue_end == free_at else "wait"
            if cause == "launch" and start - call[3] > 50_000:
                cause = "stall"
            if start - ready > 10_000:
                if ended and ended[1] > ready and start - ended[1] <= 50_000:
                    cause = "inferred"
                elif running and running[3]["tid"] != event["tid"] and running[0] < start < running[1]:
                    cause = "shared"
            if number not in self.earlier:
                found.append((start, number, name, call, queue, queue_end, ended, running, cause))
                for w in waited:
                    weight = start - w[1] if cause == "wait" and w is awaited else 0
                    self.edges.append(Edge("wait", ("done", w[2]), ("begin", number), w[1], start, weight, name))

        def usual(which: str, since: Any) -> int:
            waits = sorted(f[0] - since(f) for f in found if f[8] == which)
            return waits[(len(waits) - 1) // 2] if waits else 0

        usual_launch, usual_queue = usual("launch", lambda f: f[3][2]), usual("queue", lambda f: f[5])
        for start, number, name, call, queue, queue_end, ended, running, cause in found:
            begin = ("begin", number)
            since = max(call[2], self.first)
            binds = cause in ("launch", "stall")
            weight = start - since if binds else max(min(start, call[2] + usual_launch) - since, 0)
            kind = "stall" if cause == "stall" else "launch"
            self.edges.append(Edge(kind, self.point(call[2]), begin, since, start, weight, name))
            if queue_end is not None:
                since = max(queue_end, self.first)
                weight = start - since if cause == "queue" else max(min(start, queue_end + usual_queue) - since, 0)
                source: Node = ("done", queue[2]) if queue else START
                self.edges.append(Edge("queue", source, begin, since, start, weight, name))
            if cause == "inferred":
                weight = start - ended[1]
                self.edges.append(Edge("inferred", ("done", ended[2]), begin, ended[1], start, weight, name))
            if cause == "shared":
                source = ("begin", running[2]) if running[0] > self.first or running[2] in self.earlier else START
                weight = start - running[0]
                self.edges.append(Edge("shared", source, begin, running[0], start, weight, running[3]["name"]))

    def _end(self, until: str) -> None:
        if self.last <= self.first:
            return
        at = max(self.host_last, self.first)
        self.edges.append(Edge("end", self.point(at), END, at, self.last, 0, None))
        if until != "host":
            own = [w for w in self.works if w[2] not in self.earlier]
            for stream in {w[3]["tid"] for w in own}:
                work = max((w for w in own if w[3]["tid"] == stream), key=lambda w: (w[1], self.works.index(w)))
                self.edges.append(Edge("end", ("done", work[2]), END, work[1], self.last, 0, None))

    def longest(self, faster: str | None = None) -> int:
        """The longest path to the end, with the work of one name twice as fast."""
        into = defaultdict(list)
        for edge in self.edges:
            into[edge.target].append(edge)
        times: dict[Node, int] = {START: 0}
        todo = [END]
        while todo:
            node = todo[-1]
            missing = [edge.source for edge in into[node] if edge.source not in times]
            if missing:
                todo.extend(missing)
                continue
            todo.pop()
            if node not in times:
                times[node] = max(
                    times[e.source] + (e.weight // 2 if e.kind == "work" and e.name == faster else e.weight)
                    for e in into[node]
                )
        return times[END]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "places"), [(6, 1000), (2, 1000), (5, 4)])
def test_random_traces(tmp_path: Path, seed: int, places: int) -> None:
    built = random_trace(seed)
    trace = built.load(tmp_path)
    if places != 1000:
        # as if queues were short, or a trace would need thousands of launches
        trace._run.connection.execute(f"create or replace macro most_pending() as {places}")
        trace._run.known.add("most_pending")
    windows = trace.sql("select start_ns, end_ns from step order by step").rows()
    windows.append((windows[0][0], windows[-1][1]))
    kinds: Counter[str] = Counter()
    for first, last in windows:
        for until in UNTIL:
            oracle = Oracle(built.events, first, last, until, places)
            graph = ha.dependency_graph(trace, start_ns=first, end_ns=last, until=until)
            assert graph.length_ns == oracle.last - oracle.first
            if graph.edges.is_empty():
                assert oracle.last == oracle.first
                continue
            rows = graph.edges.select("kind", "start_ns", "end_ns", "weight_ns").rows()
            assert Counter(rows) == Counter((e.kind, e.start, e.end, e.weight) for e in oracle.edges)
            assert oracle.longest() == graph.length_ns == graph.path()["weight_ns"].sum() == graph.retimed_ns()
            for name in ("kernel0", "kernel1"):
                is_it = (pl.col("name") == name) & (pl.col("kind") == "work")
                faster = graph.reweighted(pl.when(is_it).then(pl.col("weight_ns") // 2).otherwise("weight_ns"))
                assert faster.retimed_ns() == faster.retimed_path()["weight_ns"].sum() == oracle.longest(name)
            kinds.update(graph.edges.filter(pl.col("binds") | (pl.col("kind") == "full"))["kind"])
    assert {"host", "launch", "work", "queue", "return", "wait"} <= set(kinds)
    assert ("full" in kinds) == (places < 1000)


def test_the_builder_writes_what_the_oracle_reads() -> None:
    events = random_trace(1).events
    assert all(isinstance(event["ts"], Decimal) for event in events if event.get("ph") == "X")
