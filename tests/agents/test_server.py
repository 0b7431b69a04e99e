"""`hotline mcp` with the official client: what its tools give, what they refuse, and whether they suffice."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hotline_analysis.envelope import SCHEMA
from tests.agents.questions import FILES, QUESTIONS
from tests.runs import opened

mcp = pytest.importorskip("mcp")
SCHEMA_TEXT = json.loads(SCHEMA.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA_TEXT)


class Client:
    """The official client; it keeps what tools gave."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.envelopes: list[dict[str, Any]] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        found: dict[str, Any] = result.structured_content
        self.envelopes.append(found)
        return found

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        return str(result.content[0].text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for name, file in FILES.items():
        with opened(file) as trace:
            shutil.copytree(trace.path, place / "runs" / name)
    (place / "secret.json").write_text("[]")
    (place / "runs/link").symlink_to(place / "secret.json")
    return place


def with_client(folder: Path, what: Callable[[Client], Awaitable[Any]], *options: str) -> tuple[Any, Client]:
    """Do something with a server of its own, which is the installed command."""

    async def run() -> tuple[Any, Client]:
        arguments = ["-m", "hotline_analysis", "mcp", str(folder / "runs"), *options]
        server = mcp.StdioServerParameters(command=sys.executable, args=arguments)
        async with mcp.Client(mcp.stdio_client(server)) as client:
            found = Client(client)
            return await what(found), found

    return asyncio.run(run())


@pytest.fixture(scope="module")
def evaluation(folder: Path) -> tuple[list[Any], list[dict[str, Any]]]:
    """The answers to all questions, and all that the tools gave on the way."""

    async def ask(client: Client) -> list[Any]:
        return [await question.ask(client.call) for question in QUESTIONS]

    answers, client = with_client(folder, ask)
    return answers, client.envelopes


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(QUESTIONS)), ids=[question.text for question in QUESTIONS])
def test_the_tools_suffice(number: int, evaluation: tuple[list[Any], list[dict[str, Any]]]) -> None:
    assert evaluation[0][number] == QUESTIONS[number].known()


def test_there_are_twenty_questions() -> None:
    assert len(QUESTIONS) >= 20


@pytest.mark.long
def test_all_that_tools_give_is_as_the_schema_says(evaluation: tuple[list[Any], list[dict[str, Any]]]) -> None:
    VALIDATOR.check_schema(SCHEMA_TEXT)
    assert {each["kind"] for each in evaluation[1]} >= {"run", "rows", "event", "report", "gate"}
    for envelope in evaluation[1]:
        VALIDATOR.validate(envelope)


def test_the_schema_can_fail() -> None:
    assert not VALIDATOR.is_valid({"schema_version": 1, "kind": "rows"})
    base = {"schema_version": 1, "tool": {"name": "hotline_analysis", "version": "1"}, "runs": [], "warnings": []}
    assert VALIDATOR.is_valid({**base, "kind": "runs", "units": {}})
    assert not VALIDATOR.is_valid({**base, "kind": "rows", "units": {}})
    assert not VALIDATOR.is_valid({**base, "kind": "songs", "units": {}})


def test_a_session(folder: Path) -> None:
    """All that no question of the evaluation needs, in one session, as a server takes a second to start."""

    async def session(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.client.list_tools()).tools}
        assert "export" in tools
        assert all(tool.description and tool.annotations for tool in tools.values())
        assert tools["sql"].annotations.read_only_hint
        assert not tools["export"].annotations.read_only_hint
        # Nothing outside the folders, by whatever name.
        for name in (str(folder / "secret.json"), "../secret.json", "link", "/etc/passwd", "nothing"):
            assert "no run" in await client.refused("open_run", run=name)
        listed = (await client.call("list_runs"))["names"]
        assert sorted(Path(name).name for name in listed) == sorted(FILES)
        # Every figure of a report can be followed.
        report = (await client.call("report", run="cnn"))["report"]
        drills = [part["drill"] for part in [*report["findings"], *report["sections"]] if part["drill"]]
        assert len(drills) > 6
        for drill in drills:
            found = await client.call("ask", run="cnn", answer=drill["query"], parameters=drill["parameters"])
            assert found["rows"]
        # A part of the run.
        part = (await client.call("report", run="cnn", phase="backward"))["report"]
        asked_of = [section["drill"]["parameters"] for section in part["sections"] if section["drill"]]
        assert asked_of
        assert all(given["phase"] == "backward" for given in asked_of if "phase" in given)
        assert any("phase" in given for given in asked_of)
        assert part["advice"] == []
        # What changed in a phase, of a run and itself: nothing, and nothing of another phase.
        same = await client.call("compare", base="cnn", new="cnn", by="phase", phase="backward")
        assert same["query"]["parameters"] == {"by": "phase", "phase": "backward"}
        assert [row["phase"] for row in same["rows"]] == ["backward"]
        assert same["rows"][0]["delta_ns"] == 0
        # Rows and columns as asked.
        found = await client.call(
            "ask", run="cnn", answer="modules", columns=["path", "cpu_self_ns"], limit=2, offset=1
        )
        whole = await client.call("ask", run="cnn", answer="modules", limit=1000)
        assert found["rows"] == [{key: row[key] for key in ("path", "cpu_self_ns")} for row in whole["rows"][1:3]]
        assert found["truncation"] == {
            "total": len(whole["rows"]),
            "offset": 1,
            "returned": 2,
            "is_truncated": True,
        }
        assert found["units"] == {"cpu_self_ns": "ns"}
        # What is wrong is said with what to do.
        assert "no column 'x'" in await client.refused("ask", run="cnn", answer="steps", columns=["x"])
        assert "compare" in await client.refused("ask", run="cnn", answer="diff")
        assert "limit" in await client.refused("ask", run="cnn", answer="steps", limit=100_000)
        assert "SELECT" in await client.refused("sql", run="cnn", statement="drop table step")
        assert "no event" in await client.refused("event", run="cnn", event_id=10**9)
        assert "no table" in await client.refused("schema", table="x")
        # Descriptions.
        answers = (await client.call("list_answers", containing="memory"))["answers"]
        assert answers
        assert all("memory" in f"{each['name']} {each['summary']}".lower() for each in answers)
        described = (await client.call("describe_answer", name="steps"))["answer"]
        assert "dur_ns" in [column["name"] for column in described["columns"]]
        tables = (await client.call("schema", table="step"))["tables"]
        assert "start_ns" in [column["name"] for column in tables[0]["columns"]]
        # Predictions.
        table = await client.call("whatif", run="cnn")
        applies = [row for row in table["rows"] if row.get("predicted_ns")]
        assert applies
        name = next(row["scenario"] for row in applies)
        one = (await client.call("whatif", run="cnn", scenario=name))["prediction"]
        assert one["baseline_ns"] == applies[0]["baseline_ns"]
        assert "scenario" in await client.refused("whatif", run="cnn", scenario="magic")
        assert "rank" in await client.refused("whatif", run="cnn", rank=5)
        # A picture, and files where they may be.
        picture = (await client.client.call_tool("timeline", {"run": "cnn"})).content[0]
        assert (picture.mime_type, picture.data[:8]) == ("image/png", "iVBORw0K")
        written = await client.call("export", run="cnn", name="cnn.json", format="perfetto")
        assert Path(written["file"]) == folder / "out/cnn.json"
        assert json.loads((folder / "out/cnn.json").read_text())["traceEvents"]
        for name in ("../x.json", "/tmp/x.json", ""):
            assert "plain file name" in await client.refused("export", run="cnn", name=name)
        assert "exists" in await client.refused("export", run="cnn", name="cnn.json", format="html")
        # Resources and prompts.
        text = (await client.client.read_resource("hotline://guide")).contents[0].text
        assert "open_run" in text
        assert json.loads((await client.client.read_resource("hotline://answers")).contents[0].text)["answers"]
        prompts = {prompt.name for prompt in (await client.client.list_prompts()).prompts}
        assert prompts == {"why_slow", "why_slower"}
        got = await client.client.get_prompt("why_slower", {"base": "a", "new": "b"})
        assert "Compare the run b with a" in got.messages[0].content.text

    _, client = with_client(folder, session, "--exports", str(folder / "out"))
    for envelope in client.envelopes:
        VALIDATOR.validate(envelope)
