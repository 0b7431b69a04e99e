"""Options that the header of an answer gives, completion, pipes, and the viewer."""

import gzip
import io
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import hotline_analysis as ha
from hotline_analysis import catalog
from hotline_analysis.answers.named import COMPUTED
from hotline_analysis.cli import app, options, serving
from hotline_analysis.cli.common import from_pipe
from tests.runs import opened
from tests.viewer import visit

TRACE = Path(__file__).parents[1] / "tests/data/cnn.json.gz"


@pytest.fixture(scope="module")
def run() -> Path:
    return opened(TRACE).path


def result(*arguments: object, stdin: bytes | None = None) -> Any:
    return CliRunner().invoke(
        app, list(map(str, arguments)), prog_name="hotline", env={"COLUMNS": "110"}, input=stdin or None
    )


def hotline(*arguments: object, stdin: bytes | None = None) -> str:
    done = result(*arguments, stdin=stdin)
    assert (done.exit_code, done.stderr) == (0, ""), done.stderr
    return str(done.stdout)


def rows(*arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(hotline(*arguments, "--json"))["rows"]
    return found


# --- options of an answer --------------------------------------------------------------------------------------------


def test_an_option_is_the_parameter(run: Path) -> None:
    assert len(rows("query", "slowest_ops", run, "--limit", 3)) == 3
    found = rows("query", "slowest_ops", run, "--limit", 3, "--sort", "cpu_total", "--phase", "backward")
    with opened(TRACE) as trace:
        assert found == ha.slowest_ops(trace, limit=3, sort="cpu_total", phase="backward").to_dicts()
    asked = rows("query", "critical_path", run, "--step", 3, "--until", "host")
    assert asked == rows("query", "critical_path", run, "-p", "step=3", "-p", "until=host")
    assert asked
    told = json.loads(hotline("query", "kernel_breakdown", run, "--kernel-class", "computation", "--json"))
    assert told["query"]["parameters"] == {"kernel_class": "computation"}


def test_an_option_may_stand_anywhere(run: Path) -> None:
    behind = rows("query", "slowest_ops", run, "--limit", 2)
    assert len(behind) == 2
    assert rows("query", "--limit", 2, "slowest_ops", run) == behind
    assert rows("query", "--limit=2", "slowest_ops", run) == behind


def test_null_is_given_where_it_is_allowed(run: Path) -> None:
    told = json.loads(hotline("query", "roofline", run, "--limit", "null", "--json"))
    assert told["query"]["parameters"] == {"limit": None}
    assert "must be a whole number" in result("query", "slowest_ops", run, "--limit", "null").stderr
    assert catalog.get("slowest_ops").bind(module="null")["module"] == "null"  # a text is a text


def test_every_answer_has_its_parameters_as_options() -> None:
    for name in [*COMPUTED, *(query.name for query in catalog.queries("answers"))]:
        known = options.answer_named(name)
        made = {option.name: option.opts for option in options._options(known)}
        own = {param.name: [f"--{param.name.replace('_', '-')}"] for param in known.params}
        assert made == own | {"limit": ["--limit"]}


def test_help_is_that_of_the_answer() -> None:
    text = hotline("query", "slowest_ops", "--help")
    assert "CPU ops by name, with self time" in text
    assert "--limit INTEGER maximum number of rows [0 or more; default: 10]" in " ".join(text.split())
    assert text.index("Options of slowest_ops:") < text.index("--sort") < text.index("\nOptions:") < text.index("--csv")
    assert "[required]" in hotline("query", "event_place", "--help").partition("Options of")[2]
    assert "--frames / --no-frames" in hotline("query", "dependency_edges", "--help")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["slowest_ops", "--limit", "many"], "Invalid value for '--limit': must be a whole number, not 'many'."),
        (["slowest_ops", "--limit", "-1"], "Invalid value for '--limit': must be 0 or more, not '-1'."),
        (["slowest_ops", "--phase", "foo"], "must be load_data, forward, loss, zero_grad, backward, clipping,"),
        (["slowest_ops", "--limt", "1"], "No such option: --limt"),
        (["steps", "--limit", "-1"], "Invalid value for '--limit': must be 0 or more, not '-1'."),
        (["slowest_ops", "--limit", "1", "-p", "limit=2"], "limit is also given as an option"),
    ],
)
def test_a_wrong_option_is_wrong_usage_before_the_trace_is_read(arguments: list[str], complaint: str) -> None:
    done = result("query", *arguments, "nowhere.json")
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in " ".join(done.stderr.split())


def test_an_answer_that_is_not_there_is_told_first() -> None:
    done = result("query", "slowest_op", "nowhere.json", "--limit", 1)
    assert done.exit_code == 1
    assert "did you mean slowest_ops" in done.stderr


# --- completion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("query slowest_o", ["slowest_ops"]),
        ("query critical_path_", ["critical_path_breakdown"]),
        ("queries slowest_o", ["slowest_ops"]),
        ("query slowest_ops --li", ["--limit"]),
        ("query slowest_ops --sort cpu", ["cpu_self", "cpu_total"]),
        ("schema annotated", ["annotated_event"]),
        ("repo", ["report"]),
    ],
)
def test_a_shell_completes(words: str, found: list[str]) -> None:
    line = f"hotline {words}"
    asked = {"_HOTLINE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = CliRunner().invoke(app, [], prog_name="hotline", env=asked)
    assert done.stdout.split() == found


# --- pipes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gzip", "json"])
def test_a_trace_comes_through_a_pipe(pack: Any) -> None:
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 5}]
    content = pack(json.dumps({"traceEvents": events}).encode())
    found = json.loads(hotline("query", "slowest_ops", "-", "--json", "-o", "-", stdin=content))
    assert [row["cpu_self_ns"] for row in found["rows"]] == [5000]
    assert found["runs"][0]["parts"] == [{"rank": 0, "file": "stdin.json", "event_count": 1}]


def test_a_pipe_can_be_read_once(run: Path) -> None:
    done = result("diff", "-", "-", stdin=gzip.decompress(TRACE.read_bytes()))
    assert done.exit_code == 1
    assert "standard input is empty" in done.stderr


def test_there_must_be_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(typer.BadParameter, match="reads a trace from a pipe"), from_pipe(["-"]):
        pass


def test_an_export_goes_through_a_pipe(run: Path, tmp_path: Path) -> None:
    piped = hotline("export", run, "--format", "perfetto", "-o", "-")
    hotline("export", run, "--format", "perfetto", "-o", tmp_path / "same.json")
    assert piped == (tmp_path / "same.json").read_text(encoding="utf-8")
    assert hotline("chart", "steps", run, "-o", "-").startswith("<!doctype html>")


# --- the viewer ------------------------------------------------------------------------------------------------------


def test_the_viewer_gets_the_export(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched = visit(monkeypatch)
    address = hotline("view", run)
    assert address.startswith("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:")
    [content] = fetched
    with opened(TRACE) as trace:
        ha.export_perfetto(trace, tmp_path / "same.json")
    assert gzip.decompress(content) == (tmp_path / "same.json").read_bytes()


def test_the_server_gives_one_file_to_one_origin(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(b"{}")
    (tmp_path / "other.json").write_bytes(b"secret")
    with serving.served(tmp_path / "one.json", 0) as server:
        base = f"http://127.0.0.1:{server.server_port}"
        for place in ("/", "/one.json", "/other.json", f"{server.place}/../../other.json", f"{server.place}?a"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(base + place)
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(base + server.place, data=b"x")
        assert not server.fetched.is_set()
        with urllib.request.urlopen(base + server.place) as answer:
            assert answer.read() == b"{}"
            assert answer.headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
        assert server.fetched.wait(10)
        assert server.server_address[0] == "127.0.0.1"
        done = result("view", TRACE, "--no-browser", "--port", server.server_port)
        assert done.exit_code == 1
        assert "cannot use port" in done.stderr


def test_a_server_finds_a_free_port_whose_page_hands_the_file_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.json").write_bytes(b"{}")
    with serving.served(tmp_path / "one.json", 0) as other:
        monkeypatch.setattr(serving, "PORT", other.server_port)  # is taken
        with serving.served(tmp_path / "one.json", None) as server:
            assert server.server_port != other.server_port
            assert server.url.startswith(f"http://127.0.0.1:{server.server_port}/")
            with urllib.request.urlopen(server.url) as answer:
                page = answer.read().decode()
            assert server.place in page
            assert "https://ui.perfetto.dev" in page
            assert not server.fetched.is_set()
            with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{server.place}") as answer:
                assert answer.read() == b"{}"
            assert server.fetched.wait(10)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_the_server(run: Path) -> None:
    command = [sys.executable, "-m", "hotline_analysis", "view", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as it:
        assert it.stdout
        assert it.stdout.readline().startswith("https://ui.perfetto.dev/")
        it.send_signal(2)
        assert it.wait(60) == 130


def test_every_answer_can_be_cut(run: Path) -> None:
    """An answer that knows no limit gives its first rows; JSON says how many there are."""
    whole = rows("query", "step_limits", run)
    assert rows("query", "step_limits", run, "--limit", 2) == whole[:2]
    told = json.loads(hotline("query", "step_limits", run, "--limit", 1, "--json"))
    assert (told["rows"], told["truncation"]["total"], told["query"]["parameters"]) == (whole[:1], len(whole), {})
    assert len(hotline("query", "steps", run, "--limit", 1, "--csv").splitlines()) == 2
    assert "maximum number of rows  [0 or more]" in hotline("query", "step_limits", "--help")
    assert "must be 0 or more" in result("query", "step_limits", run, "--limit", "-1").stderr
