from pathlib import Path

from tests.answer.gloo_job import job, together
from tests.rule.loop import found

RULE = "unseen_rank"


def test_a_wait_for_ranks_without_a_file_is_gone(tmp_path: Path) -> None:
    """From the end of its op at 198 us, or the start of the collective at 200, until 800."""
    assert found(job(0, 200).load(tmp_path), RULE) == (1, 600, 600)


def test_with_the_files_of_several_ranks_the_late_one_is_named_instead(tmp_path: Path) -> None:
    assert found(together(tmp_path, 200, 700), RULE) is None


def test_a_loop_that_goes_on_beside_a_collective_does_not_wait(tmp_path: Path) -> None:
    trace = job(0, 200)
    for number in range(1, 4):
        trace.on(1).op("aten::mm", 1000 * number + 199, 1000 * number + 810)
    assert found(trace.load(tmp_path), RULE) is None
