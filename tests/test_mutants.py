"""Mutants change what is run, in one place, and a test kills those that it sees."""

from __future__ import annotations

from pathlib import Path

from tests import mutants

SQL = """-- A comment: 1 and 2 < 3.
select max(a) as first, b - 10 as left, 'x and 1' as text
from t inner join u on t.id = u.id and t.a <= u.b
where a.n1 > 0 or b <> $least
order by b desc
"""
PYTHON = '''"""1 and 2."""


def f(*rest: int, least: int = -3) -> bool:
    return min(rest) + 2 < least and rest[0] == 1  # or 5
'''


def changes(file: str, text: str) -> list[tuple[str, str]]:
    return [(text[each.start : each.end], each.new) for each in mutants.mutants_of(file, text)]


def test_of_sql_comments_texts_and_names_stay() -> None:
    assert changes("a.sql", SQL) == [
        ("max", "min"),
        ("-", "+"),
        ("10", "11"),
        ("inner", "left"),
        ("and", "or"),
        ("<=", "<"),
        (">", ">="),
        ("0", "1"),
        ("or", "and"),
        ("<>", "="),
        ("desc", "asc"),
    ]


def test_of_python_too() -> None:
    assert changes("a.py", PYTHON) == [
        ("3", "4"),
        ("min", "max"),
        ("+", "-"),
        ("2", "3"),
        ("<", "<="),
        ("and", "or"),
        ("0", "1"),
        ("==", "!="),
        ("1", "2"),
    ]


def test_a_mutant_is_in_one_line_and_says_which() -> None:
    *_, last = mutants.mutants_of("a.py", PYTHON)
    assert last.of(PYTHON) == PYTHON.replace("== 1", "== 2")
    assert last.told(PYTHON).startswith("a.py:5: 1 -> 2: return min(rest)")


def test_the_same_seed_gives_the_same_mutants() -> None:
    some = ("queries/answers/queue/", "hotline_analysis/gating/")
    first = mutants.chosen(60, 1, some)
    assert first == mutants.chosen(60, 1, some) != mutants.chosen(60, 2, some)
    assert {each.file.partition("/")[0] for each in first} == {"queries", "hotline_analysis"}


def test_a_test_that_fails_kills_and_the_file_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def f() -> int:\n    return 1 + 2\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    (tmp_path / "test_sum.py").write_text("from own import f\n\n\ndef test_sum():\n    assert f() == 3\n")
    (tmp_path / "test_none.py").write_text("from own import f\n\n\ndef test_none():\n    assert f() < 9\n")
    text = (tmp_path / "own.py").read_text()
    *_, mutant = mutants.mutants_of("own.py", text)
    assert mutants.is_killed(mutant, tmp_path, "test_sum.py")
    assert not mutants.is_killed(mutant, tmp_path, "test_none.py")
    assert (tmp_path / "own.py").read_text() == text
