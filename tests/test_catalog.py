import re
from pathlib import Path

import pytest

from hotline_analysis import catalog
from hotline_analysis.errors import QueryNotFoundError, QueryParameterError
from hotline_analysis.vocabulary import PHASES

IDLE = """\
-- GPU idle time inside each training step,
-- by what the CPU was doing.
--
-- Idle is the time in which
-- no kernel runs.
--
-- It needs a GPU.
--
-- :param step BIGINT = NULL     only this step
-- :param share DOUBLE = 0.5     keep what is
--                               above this share
-- :param name VARCHAR = 'it''s' only this name
-- :param exact BOOLEAN = true   as it says
-- :param by VARCHAR in (op, module,
--                         step) = NULL   what a row is
-- :param least DOUBLE >= 1 = 2   at least so much
-- :param most BIGINT >= 1 <= 9 = 5   at most so much
-- :param n BIGINT               how many rows
-- :reads gpu_busy,
--        step
-- :column rank BIGINT           process rank
-- :column parts STRUCT(a BIGINT, b DECIMAL(18, 3))[] what it is made of (in order)
select rank, parts -- not a parameter: $nothing
from gpu_busy
where ($step is null or step = $step) and share > $share and name != $name and $exact and note != '$text'
and kind != $by and part between $least and $most
limit $n
"""
NESTING = "-- Build nesting.\n--\n-- :reads event\n-- :column event_id BIGINT the event\nselect * from event\n"


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        kind, _, stem = name.partition("_")
        (root / kind).mkdir(exist_ok=True)
        (root / kind / f"{stem}.sql").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path, answers_idle=IDLE, annotate_nesting=NESTING)


def test_header(root: Path) -> None:
    query = catalog.get("idle", root=root)
    assert (query.name, query.kind, query.writes) == ("idle", "answers", None)
    assert query.summary == "GPU idle time inside each training step, by what the CPU was doing."
    assert query.description == "Idle is the time in which no kernel runs.\n\nIt needs a GPU."
    assert query.reads == ("gpu_busy", "step")
    assert query.columns == (
        catalog.Column("rank", "BIGINT", "process rank"),
        catalog.Column("parts", "STRUCT(a BIGINT, b DECIMAL(18, 3))[]", "what it is made of (in order)"),
    )
    assert query.params == (
        catalog.Param("step", "BIGINT", False, None, "only this step"),
        catalog.Param("share", "DOUBLE", False, 0.5, "keep what is above this share"),
        catalog.Param("name", "VARCHAR", False, "it's", "only this name"),
        catalog.Param("exact", "BOOLEAN", False, True, "as it says"),
        catalog.Param("by", "VARCHAR", False, None, "what a row is", words=("op", "module", "step")),
        catalog.Param("least", "DOUBLE", False, 2.0, "at least so much", least=1),
        catalog.Param("most", "BIGINT", False, 5, "at most so much", least=1, most=9),
        catalog.Param("n", "BIGINT", True, None, "how many rows"),
    )
    assert query.sql == IDLE


def test_lists_in_a_header(tmp_path: Path) -> None:
    text = """\
-- What a gap is.
--
-- A gap is one of these:
--   load_data  before a forward pass,
--              or after it,
--   other      everything else.
-- Without marks,
-- nothing is known.
--
--   alone  a list of one
--
-- :reads event
-- :column event_id BIGINT the event
select * from event
"""
    query = catalog.get("gaps", root=write(tmp_path, answers_gaps=text))
    assert query.summary == "What a gap is."
    assert query.description.split("\n\n") == [
        "A gap is one of these:",
        "- `load_data`: before a forward pass, or after it,\n- `other`: everything else.",
        "Without marks, nothing is known.",
        "- `alone`: a list of one",
    ]


def test_derive_query_writes_its_name_unless_it_says_otherwise(tmp_path: Path) -> None:
    write(tmp_path, annotate_nesting=NESTING, annotate_spans=NESTING.replace("select", "-- :writes phase_span\nselect"))
    assert [query.writes for query in catalog.queries(root=tmp_path)] == ["nesting", "phase_span"]


def test_tables_without_which_a_query_has_no_rows(tmp_path: Path) -> None:
    said = "-- :only_with event or step\n-- :only_with event where dur_ns > 0 or name = 'a'\n"
    write(tmp_path, annotate_nesting=NESTING.replace(":reads event\n", f":reads event, step\n{said}"))
    [query] = catalog.queries(root=tmp_path)
    assert query.only_with == (("event", "step"), ("event where dur_ns > 0 or name = 'a'",))
    other = tmp_path / "other"
    other.mkdir()
    write(other, answers_bad=NESTING.replace(":reads event\n", f":reads event, step\n{said}"))
    with pytest.raises(ValueError, match=":only_with is not allowed here in a query of answers"):
        catalog.queries(root=other)


def test_a_view_that_is_kept(tmp_path: Path) -> None:
    kept = NESTING.replace(":reads event\n", ":reads event\n-- :kept\n")
    write(tmp_path, views_nesting=kept, views_spans=NESTING)
    assert [query.is_kept for query in catalog.queries(root=tmp_path)] == [True, False]
    write(tmp_path, views_nesting=kept.replace(":kept", ":kept for ever"))
    with pytest.raises(ValueError, match=":kept is not allowed here in a query of views"):
        catalog.queries(root=tmp_path)
    write(tmp_path, views_nesting=NESTING, answers_nests=kept)
    with pytest.raises(ValueError, match=":kept is not allowed here in a query of answers"):
        catalog.queries(root=tmp_path)


def test_queries_are_sorted_and_filtered_by_kind(root: Path) -> None:
    write(root, views_busy=IDLE)
    (root / "answers" / "README.md").write_text("no query")
    assert [query.name for query in catalog.queries(root=root)] == ["busy", "idle", "nesting"]
    assert [query.name for query in catalog.queries("annotate", root=root)] == ["nesting"]


def test_shipped_queries_have_valid_headers() -> None:
    folder = Path(__file__).parents[1] / "queries"
    assert [query.name for query in catalog.queries()] == sorted(
        file.stem
        for file in folder.rglob("*.sql")
        if file.parent.name != "macros"
        and (not (file.parent / f"{file.parent.name}.sql").exists() or file.stem == file.parent.name)
    )


@pytest.mark.parametrize(("name", "hint"), [("idel", "did you mean idle?"), ("zzz", "`hotline queries` lists all of")])
def test_unknown_query(root: Path, name: str, hint: str) -> None:
    with pytest.raises(QueryNotFoundError, match=f"There is no query named '{name}'. Hint: {hint}"):
        catalog.get(name, root=root)


def test_bind_fills_defaults(root: Path) -> None:
    values = catalog.get("idle", root=root).bind(n=3)
    assert values == {
        "step": None,
        "share": 0.5,
        "name": "it's",
        "exact": True,
        "by": None,
        "least": 2.0,
        "most": 5,
        "n": 3,
    }


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("step", "-7", -7),
        ("step", None, None),
        ("step", 2**63 - 1, 2**63 - 1),
        ("share", "1e3", 1000.0),
        ("share", 1, 1.0),
        ("name", "7", "7"),
        ("exact", "False", False),
        ("exact", "yes", True),
        ("exact", False, False),
        ("by", "step", "step"),
        ("by", None, None),
        ("least", "1", 1.0),
        ("most", "9", 9),
    ],
)
def test_bind_converts(root: Path, name: str, given: object, value: object) -> None:
    bound = catalog.get("idle", root=root).bind(n=1, **{name: given})[name]
    assert bound == value
    assert type(bound) is type(value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("step", "ten"),
        ("step", "1.5"),
        ("step", 1.5),
        ("step", True),
        ("step", 2**63),
        ("share", "half"),
        ("share", True),
        ("share", [1]),
        ("share", None),
        ("name", 7),
        ("exact", "maybe"),
        ("exact", 1),
        ("n", None),
    ],
)
def test_bind_rejects_wrong_type(root: Path, name: str, given: object) -> None:
    with pytest.raises(QueryParameterError, match=f"Parameter {name} of query idle must be"):
        catalog.get("idle", root=root).bind(**{"n": 1, name: given})


@pytest.mark.parametrize(
    ("name", "given", "allowed"),
    [
        ("by", "kernel", "op, module or step"),
        ("by", "", "op, module or step"),
        ("by", "STEP", "op, module or step"),
        ("least", "0.99", "1 or more"),
        ("least", float("nan"), "1 or more"),
        ("least", -5, "1 or more"),
        ("most", "10", "1 to 9"),
        ("step", "x", "a whole number"),
        ("share", "x", "a number"),
        ("name", 7, "text"),
        ("exact", "x", "true or false"),
    ],
)
def test_bind_rejects_what_the_header_does_not_allow(root: Path, name: str, given: object, allowed: str) -> None:
    complaint = re.escape(f"Parameter {name} of query idle must be {allowed}, not {given!r}.")
    with pytest.raises(QueryParameterError, match=f"^{complaint}$"):
        catalog.get("idle", root=root).bind(**{"n": 1, name: given})


@pytest.mark.parametrize("name", [query.name for query in catalog.queries() if "limit" in str(query.params)])
def test_bind_rejects_negative_numbers_of_rows(name: str) -> None:
    with pytest.raises(QueryParameterError, match=f"limit of query {name} must be 0 or more, not -1"):
        catalog.get(name).bind(limit=-1)
    assert catalog.get(name).bind(limit=0)["limit"] == 0


def test_bind_rejects_unknown_and_missing(root: Path) -> None:
    valid = "Hint: idle takes step, share, name, exact, by, least, most, n."
    with pytest.raises(QueryParameterError, match=f"Query idle has no parameter steps. {valid}"):
        catalog.get("idle", root=root).bind(n=1, steps=2)
    with pytest.raises(QueryParameterError, match=f"Query idle needs the parameter n. {valid}"):
        catalog.get("idle", root=root).bind()
    with pytest.raises(QueryParameterError, match="Hint: nesting takes no parameters"):
        catalog.get("nesting", root=root).bind(n=1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-- Build nesting.\n", "", "must begin with a one-sentence summary"),
        ("-- :reads event\n", "", "has no :reads"),
        (":reads event", ":reads event step", "bad.sql:3: expected :reads"),
        (":reads event", ":raeds event", "bad.sql:3: :raeds is not allowed here"),
        (":reads event", ":reads event\n-- and more", "bad.sql:4: prose goes before the directives"),
        (":reads event", ":reads event\n-- :reads step", "bad.sql:4: duplicate :reads"),
        (":reads event", ":reads event\n-- :param n INT = 3  rows", "expected :param NAME BIGINT|DOUBLE"),
        (":reads event", ":reads event\n-- :param n BIGINT = 3", "expected :param NAME BIGINT|DOUBLE"),
        (":reads event", ":reads event\n-- :param n BIGINT = '3'  rows", "the default '3' is not a whole number"),
        (":reads event", ":reads event\n-- :param n VARCHAR = a  rows", "the default a is not text"),
        (":reads event", ":reads event\n-- :param n BIGINT = 3  rows", "declared or used, but not both: \\$n"),
        (
            ":reads event",
            ":reads event\n-- :param n BIGINT in (a, b) = 3  rows",
            "`in` is for VARCHAR, and `>=` for numbers",
        ),
        (
            ":reads event",
            ":reads event\n-- :param n VARCHAR >= 1 = '3'  rows",
            "`in` is for VARCHAR, and `>=` for numbers",
        ),
        (":reads event", ":reads event\n-- :param n BIGINT >= 4 = 3  rows", "the default 3 is not 4 or more"),
        (":reads event", ":reads event\n-- :param n VARCHAR in (a, b) = 'c'  rows", "the default 'c' is not a or b"),
        ("from event", "from event limit $n", "declared or used, but not both: \\$n"),
        (":reads event", ":reads event\n-- :column rank bigint  it", "expected :column NAME TYPE"),
        (
            ":reads event",
            ":reads event\n-- :only_with event, step",
            "expected :only_with TABLE",
        ),
        (":reads event", ":reads event\n-- :only_with event or step", ":only_with names step, missing in :reads"),
        (":reads event", ":reads event\n-- :column a BIGINT  b\n-- :column a BIGINT  b", "a column is declared twice"),
    ],
)
def test_malformed_header(tmp_path: Path, old: str, new: str, message: str) -> None:
    write(tmp_path, annotate_bad=NESTING.replace(old, new))
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        catalog.queries(root=tmp_path)


def test_answer_must_declare_columns_and_may_not_write(tmp_path: Path) -> None:
    columns = "-- :column event_id BIGINT the event\n"
    write(tmp_path, answers_bad=NESTING.replace(columns, ""))
    with pytest.raises(ValueError, match="has no :column"):
        catalog.queries(root=tmp_path)
    write(tmp_path, answers_bad=NESTING.replace("select", "-- :writes step\nselect"))
    with pytest.raises(ValueError, match=":writes is not allowed here in a query of answers"):
        catalog.queries(root=tmp_path)


def test_name_must_be_unique_and_an_identifier(tmp_path: Path) -> None:
    write(tmp_path, annotate_idle=NESTING, answers_idle=IDLE)
    with pytest.raises(ValueError, match=r"answers/idle\.sql: annotate/idle\.sql also has this name"):
        catalog.queries(root=tmp_path)
    (tmp_path / "annotate" / "idle.sql").rename(tmp_path / "annotate" / "Idle-time.sql")
    with pytest.raises(ValueError, match="lower case"):
        catalog.queries(root=tmp_path)


COUNTED = """\
-- How many events lie in a step.
--
-- :param step BIGINT = NULL only this step
-- :param least BIGINT = 1 so many at least
-- :reads chosen
-- :column n BIGINT how many
select n from chosen where n >= $least
"""
CHOSEN = """\
-- The number of events.
--
-- :takes step
-- :reads inside, event
-- :column n BIGINT how many
select count(*) as n from event inner join inside using (event_id) where $step is null or step = $step
"""
INSIDE = "-- Events in steps.\n--\n-- :reads step\n-- :column event_id BIGINT the event\nselect event_id from step\n"


def counted(root: Path, **files: str) -> Path:
    """A query `counted` with its steps, in a folder of its name."""
    folder = root / "answers" / "events" / "counted"
    folder.mkdir(parents=True)
    for name, text in {"counted": COUNTED, "chosen": CHOSEN, "inside": INSIDE, **files}.items():
        (folder / f"{name}.sql").write_text(text, encoding="utf-8")
    return root


def test_a_folder_with_a_file_of_its_name_is_a_query_with_steps(tmp_path: Path) -> None:
    [query] = catalog.queries(root=counted(tmp_path))
    assert (query.name, query.folder) == ("counted", "answers/events")
    assert query.file == "answers/events/counted/counted.sql"
    assert [step.name for step in query.steps] == ["inside", "chosen"]
    assert query.tables == ("step", "event")
    assert query.uses == ("least",)
    assert [step.takes for step in query.steps] == [(), ("step",)]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"chosen": CHOSEN.replace("takes step", "takes step, phase").replace("or step", "or $phase = step")},
            "counted has no parameter phase",
        ),
        ({"chosen": CHOSEN.replace("takes step", "takes step, least")}, "declared or used, but not both"),
        ({"idle": INSIDE}, "unread steps: idle"),
        ({"inside": INSIDE.replace("reads step", "reads step, chosen")}, "steps read each other"),
        ({"counted": COUNTED.replace("n >= $least", "n > 0")}, "declared or used, but not both: \\$least"),
        ({"inside": INSIDE.replace("-- :reads", "-- :param n BIGINT n\n-- :reads")}, ":param is not allowed here"),
    ],
)
def test_steps_that_do_not_fit_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        catalog.queries(root=counted(tmp_path, **files))


def test_types_with_a_meaning_are_text_with_their_words(tmp_path: Path) -> None:
    header = "-- Work.\n--\n-- :param phase PHASE = NULL only this\n-- :reads event\n-- :column phase PHASE its phase\n"
    write(tmp_path, answers_work=header + "select $phase as phase from event\n")
    query = catalog.get("work", root=tmp_path)
    assert (query.params[0].type, query.params[0].words) == ("VARCHAR", PHASES)
    assert query.columns[0].type == "VARCHAR"
    assert "load_data, forward, loss" in query.columns[0].description
    with pytest.raises(QueryParameterError):
        query.bind(phase="foo")


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("rank RANK", ("rank", "BIGINT", "process rank")),
        ("step STEP    NULL outside every step", ("step", "BIGINT", "training step; NULL outside every step")),
        ("step STEP    of the launch", ("step", "BIGINT", "training step of the launch")),
        ("device DEVICE  -1 for the CPU", ("device", "BIGINT", "device number; -1 for the CPU")),
        ("first_step STEP  the first step", ("first_step", "BIGINT", "the first step")),
        ("class KERNEL_CLASS", ("class", "VARCHAR", "class of GPU work (computation, communication or memory)")),
    ],
)
def test_types_of_columns_have_a_shared_description(tmp_path: Path, line: str, column: tuple[str, str, str]) -> None:
    header = f"-- Work.\n--\n-- :reads event\n-- :column {line}\n"
    write(tmp_path, answers_work=header + f"select null as {column[0]} from event\n")
    (parsed,) = catalog.get("work", root=tmp_path).columns
    assert (parsed.name, parsed.type, parsed.description) == column


@pytest.mark.parametrize("line", ["step", "n BIGINT", "first_step STEP", "rank bigint"])
def test_a_column_needs_a_description(tmp_path: Path, line: str) -> None:
    write(tmp_path, answers_work=f"-- Work.\n--\n-- :reads event\n-- :column {line}\nselect 1 as n from event\n")
    with pytest.raises(ValueError, match="expected :column NAME TYPE"):
        catalog.get("work", root=tmp_path)


@pytest.mark.parametrize(
    ("name", "hint"), [("gpu_wait", 'hotline sql "from gpu_wait" TRACE'), ("timed", "Runs do not store")]
)
def test_a_run_is_not_asked_what_the_import_asks(name: str, hint: str) -> None:
    with pytest.raises(QueryNotFoundError, match="builds a table during import") as error:
        catalog.asked_of_a_run(name)
    assert hint in str(error.value.hint)
    assert catalog.asked_of_a_run("slowest_ops") == catalog.get("slowest_ops")
