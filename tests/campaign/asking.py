"""What is asked of a case, and what may not happen: the oracles."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.cli import console
from hotline_analysis.errors import EmptyTraceError, HotlineError, HotlineWarning, QueryParameterError, TraceFormatError
from tests.campaign import reading
from tests.campaign.children import at_stage
from tests.campaign.reading import Reading

# Control characters but for the end of a line, and what changes the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_TOO_LONG = "a single event is longer than 16 MiB"  # a limit of the importer, which it tells
_FORMULA = tuple("=+-@\t\r")
_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)
# Ratios that can be more than all: idle time of several devices to that of the steps, and rows that make up for others.
_RATIOS = {"launch_stats.idle_pct", "memory_peak.bytes_pct"}
_RATIOS |= {"memory_breakdown.bytes_pct", "memory_breakdown.byte_seconds_pct"}
# More than the peak of a GPU, where a row says why; what is lost is then less than nothing.
_RATIOS |= {"roofline.efficiency_pct", "roofline.lost_pct", "kernel_metrics.roofline_pct"}
# What the sums are made of. Of the other answers, and of what is drawn and exported, a case asks one in `one_in`.
_SUMMED = {"coverage", "phases", "steps", "step_time_breakdown", "temporal_breakdown"}
_PREDICTIONS = (
    *("whatif", "on_gpu", "data_parallel_scaling", "bucket_sizes", "share_gpu", "backward_chain", "recomputation"),
)
# Where something is, and differences, can be negative.
_SIGNED = re.compile(
    r"(.*_)?(start|end|at|call|time_from|lost|gain|gain_low|gain_high|delta|shift|first|last|late|lateness|longer|cause)_ns|.*delta.*"
)


@dataclass(frozen=True)
class Finding:
    """Something that may not happen: what kind of thing, and what exactly."""

    kind: str
    text: str


class Asker:
    """Imports one file, asks one in so many questions, all if `one_in` is 1, and collects what is wrong."""

    def __init__(self, path: Path, expected: Reading | None, rng: random.Random, *, one_in: int) -> None:
        self.path = path
        self.one_in = one_in
        self.expected = expected
        self.rng = rng
        self.folder = path.parent
        self.findings: list[Finding] = []
        self.outcome = "asked"
        self.missed = 0

    def chosen(self, weight: int = 1) -> bool:
        """Whether something is asked that only some cases ask."""
        return self.rng.random() < weight / self.one_in

    def find(self, kind: str, text: str) -> None:
        """Note a finding, once."""
        finding = Finding(kind, text[:600])
        if finding not in self.findings:
            self.findings.append(finding)

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Note every exception: on a trace that could be imported, every answer has to come."""
        at_stage(self.folder, what)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", HotlineWarning)
                yield
        except HotlineError as error:
            self.find("refused", f"{what}: {type(error).__name__}: {error.message}")
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.find(
                "exception", f"{what}: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            )

    def run(self) -> None:
        """Import the file and ask everything."""
        run = self._import()
        if run is None:
            return
        with self.trying("open"), ha.load(run) as trace:
            self._compare_events(trace)
            frames = self._answers(trace)
            self._scopes(trace)
            if len(trace.ranks) > 1:  # of an export with several processes; each rank adds up to 100 %
                self._reports(trace)
                return
            with self.trying("sums"):
                self._sums(trace, frames)
            self._predictions(trace)
            self._reports(trace)
            self._exports(trace)
        with self.trying("command line"):
            self._command_line(run)
        left = sorted(item.name for item in self.folder.iterdir() if ".partial" in item.name)
        if left:
            self.find("leftovers", ", ".join(left))

    # --- reading ------------------------------------------------------------------------------------------------------

    def _import(self) -> Path | None:
        at_stage(self.folder, "import")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", HotlineWarning)
                return ha.import_traces(self.path, self.folder / "run.hotline")
        except (TraceFormatError, EmptyTraceError) as error:
            self.outcome = f"{type(error).__name__}"
            if not error.hint or str(self.path) not in error.message:
                self.find("poor error", error.message)
            with_phase = [event for event in self._events().values() if event.get("ph") is not None]
            if with_phase and self._begins_as_json():
                self.find("refused", f"import: {len(with_phase)} events can be read, but: {error.message}")
        except HotlineError as error:
            self.outcome = "refused"
            self.find("refused", f"import: {type(error).__name__}: {error.message}")
        except Exception as error:
            self.outcome = "exception"
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.find(
                "exception", f"import: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            )
        return None

    def _begins_as_json(self) -> bool:
        return self.expected is not None and self.expected.begins_as_json

    def _events(self) -> Mapping[int, Mapping[str, Any]]:
        return self.expected.events if self.expected else {}

    def _compare_events(self, trace: ha.Trace) -> None:
        """Every readable event is read, or the loss is told."""
        if self.expected is None:
            return
        # Processes of one file are ranks of their own.
        info = trace.sql(
            "select any_value(damage) as damage, sum(lost_event_count)::bigint as lost_event_count,"
            " bool_or(truncated) as truncated, sum(event_count)::bigint as event_count from rank_info"
        ).row(0, named=True)
        lost = info["lost_event_count"]
        told = info["damage"] is not None and any(info["damage"] in text for text in trace.manifest["warnings"])
        if info["damage"] is not None and not told:
            self.find("untold", f"the damage is in no warning: {info['damage']}")
        read = trace.sql("select count(*), count(ph) from event").row(0)
        if read[0] != info["event_count"]:
            self.find("untold", f"{info['event_count']} events are said to be read, and the table has {read[0]}")
        if self.expected.is_whole and not (info["damage"] and _TOO_LONG in info["damage"]):
            if read[0] != len(self.expected.events):
                self.find("lost", f"{read[0]} events are read of {len(self.expected.events)} of a valid file; {info}")
            if lost != self.expected.foreign_count:
                self.find("lost", f"{lost} are called lost, and {self.expected.foreign_count} are no events; {info}")
            self._compare_fields(trace)
            return
        if not told and not self.expected.has_extra_commas:
            self.find("untold", f"the file is damaged, and nothing is said of it; {info}")
        with_phase = sum(event.get("ph") is not None for event in self.expected.events.values())
        self.missed = max(0, with_phase - read[1])
        if self.missed > lost:
            self.find("lost", f"{self.missed} of {with_phase} readable events are not read; {info}")
        elif read[1] > self.expected.most and self.expected.is_unpacked:
            self.find("invented", f"{read[1]} events are read of at most {self.expected.most}; {info}")

    def _compare_fields(self, trace: ha.Trace) -> None:
        """Of a valid file, every event has its position and its fields."""
        frame = trace.sql("select event_id, ph, name, start_ns, dur_ns from event order by event_id")
        changed = self._changed(trace)
        for fault in reading.faults(self._events(), changed)[:3]:
            self.find("other value", fault[:400])
        times = reading.times(self._events(), changed)
        for place, ph, name, start, dur in frame.iter_rows():
            if len(self.findings) > 5:
                return
            event = self._events().get(place)
            if event is None:
                self.find("lost", f"event {place} is not where it stands in the file")
                continue
            for what, found, said in (("ph", ph, event.get("ph")), ("name", name, event.get("name"))):
                if isinstance(said, str) and found != said.encode("utf-16", "surrogatepass").decode(
                    "utf-16", "replace"
                ):
                    self.find("other value", f"{what} of event {place} is {found!r:.80} and not {said!r:.80}")
            starts, lasts = times.get(place, (reading.start_ns(event), None))
            for what, found, exact in (("start", start, starts), ("dur", dur, lasts)):
                if (found is None) != (exact is None):
                    self.find("other value", f"{what} of event {place} is {found} and not {exact} ({event})"[:400])
                elif exact is not None and abs(found - exact) > 1 + 2 * reading.slack([exact]):
                    self.find("other value", f"{what} of event {place} is {found} and not {exact}")

    def _changed(self, trace: ha.Trace) -> dict[int, reading.Change]:
        """The times that the importer says it has changed."""
        rows = trace.sql(
            "select event_id, json_extract_string(fields, '$.time_rule') as rule, start_ns, dur_ns from event_args"
            " inner join event using (rank, event_id) where contains(fields, '\"time_rule\"')"
        ).rows()
        return {
            place: reading.Change(rule, Decimal(start), None if dur is None else Decimal(dur))
            for place, rule, start, dur in rows
            if rule is not None
        }

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answers(self, trace: ha.Trace) -> dict[str, pl.DataFrame]:
        frames = {}
        for query in catalog.queries("answers", "charts", "export", "whatif"):
            if not self.chosen() and query.name not in _SUMMED:
                continue
            given = self._required(trace, query)
            if None in given.values():  # about a step, where there is none
                continue
            with self.trying(f"query {query.name}"):
                frames[query.name] = trace.query(query.name, **given)
        for name, answer in COMPUTED.items():
            if not self.chosen():
                continue
            with self.trying(f"query {name}"):
                frames[name] = answer.ask(*[trace] * answer.traces)
        for name, frame in frames.items():
            self._check_frame(name, frame)
        if "roofline" in frames:
            above = frames["roofline"].filter(pl.col("efficiency_pct") > 100.0001, pl.col("over_reason").is_null())
            if not above.is_empty():
                self.find("share", f"roofline.efficiency_pct is {above['efficiency_pct'].max()!r} without a reason")
        return frames

    def _required(self, trace: ha.Trace, query: catalog.Query) -> dict[str, Any]:
        step = trace.sql("select min(step) as step from step where rank = $rank", rank=trace.ranks[0]).item()
        given = {"rank": trace.ranks[0], "start_ns": 0, "end_ns": 10**9, "event": 0, "span": 0, "samples": 2}
        given["step"] = step
        return {param.name: given[param.name] for param in query.params if param.required}

    def _check_frame(self, name: str, frame: pl.DataFrame) -> None:
        for column in frame:
            if not column.dtype.is_numeric():
                continue
            values = column.drop_nulls()
            if values.dtype.is_float() and values.is_nan().any():
                self.find("no number", f"{name}.{column.name} has a NaN")
            low, high = values.min(), values.max()
            if not isinstance(low, int | float | Decimal) or not isinstance(high, int | float | Decimal):
                continue
            is_share = column.name.endswith("_pct") and f"{name}.{column.name}" not in _RATIOS
            if is_share and (low < -1e-6 or high > 100.0001):
                self.find("share", f"{name}.{column.name} is from {low} to {high}")
            if column.name.endswith("_ns") and not _SIGNED.fullmatch(column.name) and low < 0:
                self.find("negative", f"{name}.{column.name} is {low}")

    def _scopes(self, trace: ha.Trace) -> None:
        """A few answers for one rank, step or phase."""
        steps = trace.sql("select step from step")["step"].to_list()
        scopes: dict[str, list[Any]] = {
            "rank": trace.ranks,
            "step": steps[:50],
            "phase": ["forward", "backward", "optimizer", "other"],
            "device": trace.sql("select distinct coalesce(device, -1) as device from gpu_op")["device"].to_list()[:10],
        }
        queries = [
            query
            for query in catalog.queries("answers")
            if query.params and not any(param.required for param in query.params)
        ]
        for query in self.rng.sample(queries, 8):
            name = self.rng.choice([param.name for param in query.params])
            if values := scopes.get(name):
                value = self.rng.choice(values)
                # Events of a category need not have what another category's have, such as the device of memory.
                with self.trying(f"query {query.name} {name}={value}"), suppress(QueryParameterError):
                    self._check_frame(query.name, trace.query(query.name, **{name: value}))

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _sums(self, trace: ha.Trace, frames: Mapping[str, pl.DataFrame]) -> None:
        """Figures that have to be equal, and equal to those of the plain reading."""

        def total(name: str, column: str) -> int | None:
            return int(frames[name][column].sum() or 0) if name in frames else None

        kernels = {}
        for by in ("category", "class", "name", "phase", "module"):
            with self.trying(f"query kernel_breakdown by={by}"):
                kernels[by] = trace.query("kernel_breakdown", by=by)
                self._check_frame(f"kernel_breakdown by={by}", kernels[by])
        sums = {f"kernel_breakdown by={by}": int(frame["gpu_time_ns"].sum() or 0) for by, frame in kernels.items()}
        counts = {f"kernel_breakdown by={by}": int(frame["count"].sum() or 0) for by, frame in kernels.items()}
        if "coverage" in frames:
            sums["coverage"] = int(frames["coverage"]["gpu_time_ns"].sum() or 0)
            counts["coverage"] = int(frames["coverage"]["event_count"].sum() or 0)
        if self.expected is not None and self.expected.is_whole and not reading.has_other_writer(self._events()):
            work = reading.gpu_work(self._events(), self._changed(trace))
            exact = sum((each.dur for each in work.values()), Decimal(0))
            counts["the file"] = len(work)
            if abs(exact - sums.get("coverage", 0)) > reading.slack(each.dur for each in work.values()) + 1:
                sums["the file"] = int(exact)
            self._compare_busy(trace, work)
        self._same("GPU time", sums)
        self._same("GPU events", counts)
        self._shares(frames, kernels)
        with self.trying("sum of phases"):
            steps = trace.sql("select coalesce(sum(end_ns - start_ns), 0) as dur from step")["dur"].item()
            figures = {"steps": total("steps", "dur_ns"), "step": int(steps)}
            if trace.sql("select count(*) from phase_span where is_main").item():  # else there is no CPU to speak of
                figures["phases"] = total("phases", "cpu_ns")
            self._same("time of the steps", figures)
        for name, whole, parts in (
            (
                "step_time_breakdown",
                "wall_ns",
                ("kernel", "copy", "communication", "runtime", "load_data", "cpu", "other"),
            ),
            (
                "temporal_breakdown",
                "window_ns",
                (
                    "idle",
                    "computation_only",
                    "communication_only",
                    "memory_only",
                    "computation_communication",
                    "computation_memory",
                    "communication_memory",
                    "all_three",
                ),
            ),
        ):
            if name in frames:
                frame = frames[name].select(
                    whole=pl.col(whole), parts=pl.sum_horizontal(*(f"{part}_ns" for part in parts))
                )
                for row in frame.filter(pl.col("whole") != pl.col("parts")).head(1).iter_rows():
                    self.find("sum", f"{name}: the parts are {row[1]} and the whole {row[0]}")
        if {"phases", "steps"} <= frames.keys():
            in_steps = frames["steps"]["gpu_time_ns"].sum()
            self._same("GPU time of the steps", {"steps": in_steps, "phases": total("phases", "gpu_time_ns")})

    def _same(self, what: str, figures: Mapping[str, Any]) -> None:
        known = {name: value for name, value in figures.items() if value is not None}
        if len(set(known.values())) > 1:
            self.find("sum", f"{what}: " + ", ".join(f"{name} {value}" for name, value in known.items()))

    def _compare_busy(self, trace: ha.Trace, work: Mapping[int, reading.GpuWork]) -> None:
        """The time in which a device is busy is the union of its work."""
        if any(not (each.device is None or type(each.device) is int) for each in work.values()):
            return  # which device a text or a fraction names is not for this reading to say
        devices: dict[int, list[tuple[Decimal, Decimal]]] = defaultdict(list)
        for each in work.values():
            device = -1 if each.device is None or not -(2**63) <= each.device < 2**63 else each.device
            devices[device].append((each.start, each.start + each.dur))
        with self.trying("busy time"):
            found = dict(
                trace.sql("select device, sum(end_ns - start_ns) as ns from gpu_busy group by device").iter_rows()
            )
            for device, intervals in devices.items():
                exact = reading.union(intervals)
                allowed = 2 * reading.slack(time for interval in intervals for time in interval) + 1
                if abs(exact - int(found.get(device, 0))) > allowed:
                    self.find("sum", f"device {device} is busy for {found.get(device, 0)} ns and not {exact}")

    def _shares(self, frames: Mapping[str, pl.DataFrame], kernels: Mapping[str, pl.DataFrame]) -> None:
        """What is shared out adds up to all of it."""
        shared = [("coverage", frames.get("coverage"), "gpu_time_pct"), ("phases", frames.get("phases"), "cpu_pct")]
        shared += [("phases", frames.get("phases"), "gpu_time_pct")]
        shared += [(f"kernel_breakdown by={by}", frame, "gpu_time_pct") for by, frame in kernels.items()]
        for name, frame, column in shared:
            if frame is not None:
                values = [float(value) for value in frame[column].drop_nulls()]
                total = sum(values)
                if values and abs(total - 100) > 0.001:
                    self.find("share", f"{name}.{column} adds up to {total}")

    def _predictions(self, trace: ha.Trace) -> None:
        """Predictions may be refused with a reason, and end in no other way."""
        for name in _PREDICTIONS:
            if not self.chosen():
                continue
            with self.trying(f"prediction {name}"):
                try:
                    found = getattr(ha, name)(trace)
                except HotlineError as error:
                    reasons = [str(error)]
                else:
                    reasons = []
                    if isinstance(found, pl.DataFrame):
                        self._check_frame(name, found)
                        reasons += found["reason"].drop_nulls().to_list() if "reason" in found.columns else []
                for reason in reasons:
                    if "SQL statement failed" in reason:
                        self.find("refused", f"prediction {name}: {reason}")

    # --- what leaves --------------------------------------------------------------------------------------------------

    def _reports(self, trace: ha.Trace) -> None:
        if not self.chosen(3):
            return
        with self.trying("report"):
            report = ha.report(trace, source_lines=False)
            self._clean("report as text", report.to_text())
            self._clean(
                "report as text, narrow and coloured", re.sub("\x1b\\[[0-9;]*m", "", report.to_text(60, color=True))
            )
            markdown = report.to_markdown()
            self._clean("report as markdown", markdown)
            if "<hotlinexss" in markdown:
                self.find("injection", "report as markdown")
            _strict_json(report.to_json())
            if not self.chosen():
                return
            timeline = None
            with self.trying("timeline"):
                timeline = ha.charts.timeline(trace, source_lines=False)
                self._clean_page("timeline page", timeline.to_html())
            with self.trying("report as html"):
                self._clean_page("report as html", report.to_html(timeline))

    def _clean(self, what: str, text: str) -> None:
        if match := _CONTROL.search(text):
            around = text[max(0, match.start() - 40) : match.end() + 40]
            self.find("control character", f"{what}: {match[0]!a} in {around!a}")

    def _clean_page(self, what: str, text: str) -> None:
        self._clean(what, text)
        parser = _Elements()
        parser.feed(text)
        parser.close()
        if parser.found:
            self.find("injection", f"{what}: {parser.found[:3]}")

    def _perfetto(self, trace: ha.Trace) -> None:
        file = self.folder / "export.json"
        with self.trying("export"):
            ha.export_perfetto(trace, file)
            try:
                events = _strict_json(file.read_text(encoding="utf-8"))["traceEvents"]
            except RecursionError:  # what nests too deeply for Python's own parser
                events = []
            ours = [event for event in events if event.get("cat") != "hotline"]
            if events and len(ours) < trace.sql("select count(*) from event").item():
                self.find("lost", f"the export has {len(ours)} events beside ours")

    def _exports(self, trace: ha.Trace) -> None:
        if self.chosen():
            self._perfetto(trace)
        name = self.rng.choice([query.name for query in catalog.queries("answers") if not _needs(query)])
        with self.trying(f"CSV of {name}"):
            frame = trace.query(name)
            text = console.to_csv(frame)
            csv.field_size_limit(1 << 30)
            rows = list(csv.reader(io.StringIO(text, newline="")))
            if len(rows) != frame.height + 1:
                self.find("csv", f"{name} has {frame.height} rows and its CSV {len(rows) - 1}")
            self._clean(f"CSV of {name}", text)
            for cell in (cell for row in rows[1:] for cell in row):
                if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell):
                    self.find("formula", f"CSV of {name}: {cell[:60]!a}")
            self._clean(f"table of {name}", console.to_table(frame))

    def _command_line(self, run: Path) -> None:
        """One command as a user gives it: its exit status, and no traceback."""
        from hotline_analysis.cli import app

        out = self.folder
        commands: list[list[str]] = [
            ["report", str(run)],
            ["report", str(self.path)],
            ["report", str(run), "-o", str(out / "report.html")],
            ["report", str(run), "-o", str(out / "report.md")],
            ["diff", str(run), str(run)],
            ["timeline", str(run), "-o", str(out / "timeline.html")],
            ["chart", "phases", str(run), "-o", str(out / "chart.json")],
            ["export", str(run), "-o", str(out / "tables")],
            ["export", str(run), "--format", "perfetto", "-o", str(out / "trace.json.gz")],
            ["query", "slowest_ops", str(run), "--csv"],
            ["query", "critical_path", str(run), "--json"],
            ["sql", "from annotated_event limit 200", str(run)],
            ["sql", "from event_args", str(run), "--json"],
            ["sql", "from event", str(run), "-o", str(out / "events.csv")],
        ]
        command = self.rng.choice(commands)
        what = "hotline " + " ".join(word for word in command if not word.startswith("/"))
        printed, complained = io.StringIO(), io.StringIO()
        status: object = 0
        with self.trying(what):
            try:
                with redirect_stdout(printed), redirect_stderr(complained):
                    app(command, prog_name="hotline")
            except SystemExit as stop:
                status = stop.code or 0
            if status != 0:
                self.find("exit status", f"{what}: {status}: {complained.getvalue()[-300:]}")
            if "Traceback" in complained.getvalue():
                self.find("exception", f"{what}: {complained.getvalue()[-400:]}")
            if "--json" in command:
                _strict_json(printed.getvalue())
            elif "--csv" not in command:
                self._clean(what, printed.getvalue())
            self._clean(f"messages of {what}", complained.getvalue())


def _needs(query: catalog.Query) -> bool:
    return any(param.required for param in query.params)


def _strict_json(text: str) -> Any:
    """JSON as every program reads it: Python would also take NaN."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


class _Elements(HTMLParser):
    """Finds the element that exotic names try to make."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if "hotlinexss" in tag or any("hotlinexss" in name or name.startswith("onerror") for name, _ in attrs):
            self.found.append(self.get_starttag_text() or tag)
