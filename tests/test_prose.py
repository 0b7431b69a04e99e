"""The English of the project stays plain: few sentences have a habit that makes them hard to decode."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.prose import habits, of_page, of_python, of_sql, sentences

# Of 100 sentences. httpx, memray and narwhals have at most 0.1 headless clauses and quaint words.
MOST_PCT = {"headless": 0.5, "quaint": 0.5, "long": 1.0, "pronouns": 2.0}


@pytest.mark.parametrize("habit", MOST_PCT)
def test_few_sentences_have_the_habit(habit: str) -> None:
    every = list(sentences())
    guilty = [sentence for sentence in every if habit in habits(sentence.text)]
    share = 100 * len(guilty) / len(every)
    files = Counter(sentence.file for sentence in guilty).most_common(5)
    assert share <= MOST_PCT[habit], (
        f"{share:.1f} % of sentences (python -m tests.prose --list {habit}), most in {files}"
    )


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The launched work of the step.", set()),
        ("The time of what is launched in the step.", {"headless"}),
        ("What can the GPU do at most?", set()),
        ("The profiler tells nothing about the kernel.", {"quaint"}),
        ("It is the one that they have of those.", {"pronouns"}),
        ("The name of `what it tells` is code.", set()),
        (" ".join(["word"] * 41), {"long"}),
    ],
)
def test_habits_are_recognised(sentence: str, expected: set[str]) -> None:
    assert habits(sentence) == expected


def test_text_is_found_where_people_write_it() -> None:
    module = '"""Doc."""\n\n# A comment\n# of two lines.\nx = 1  # noqa: S1\n# Another comment.\n'
    assert [(kind, text) for kind, _, text in of_python(module)] == [
        ("docstring", "Doc."),
        ("comment", "A comment of two lines."),
        ("comment", "Another comment."),
    ]
    query = "-- Head.\n-- :reads event\nselect 1\n    -- Inner.\n"
    assert [text for _, _, text in of_sql(query)] == ["Head.", "Inner."]
    page = "# Title\n\nA paragraph.\n\n```text\nOutput tells.\n```\n\n| a | table |\n"
    assert [text.strip() for _, _, text in of_page(page)] == ["A paragraph."]
