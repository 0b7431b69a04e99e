"""Verdicts on made-up runs, whose changes are known."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotline_analysis as ha
from hotline_analysis.errors import HotlineError, QueryParameterError
from hotline_analysis.gating.rules import parse
from hotline_analysis.gating.statistics import t_quantile

MS = 1_000_000
GIB = 2**30
IDENTITY = {"device": "A100", "ranks": "1"}


def run(step: float, name: str = "run", *, device: str = "A100", peak: float = GIB, **parts: Any) -> ha.Measured:
    """A run of steps around so many ms; `parts` in ms are of the same in each step."""
    steps = [step * MS * (1 + wiggle) for wiggle in (-0.02, 0, 0.02, 0.01, -0.01, 0, 0)]
    values: dict[str, Sequence[float]] = {"step": steps, "memory_peak": [peak / 2, peak], "mfu": [40.0] * 7}
    for part, time in parts.items():
        values[part.replace("__", ":").replace("_in_", ".")] = [time * MS] * 7
    return ha.Measured(name, IDENTITY | {"device": device}, values)


BASE = [run(100 + wiggle, f"base{place}") for place, wiggle in enumerate((-0.5, 0.5, 0, 0.3, -0.3))]


def test_a_slower_run_fails_with_its_change() -> None:
    verdict = ha.gate(BASE, [run(105.0), run(105.2), run(104.8)])
    assert verdict.answer == "fail"
    (check,) = verdict.checks
    assert check.change == pytest.approx(5.0, abs=0.01)
    assert check.low is not None
    assert 3 < check.low < 5
    assert check.high is not None
    assert 5 < check.high < 7
    assert verdict.statement.startswith(
        "step 100 ms → 105 ms, +5.00 %, beyond the limit and beyond noise (step > +3 %)"
    )
    assert "(3 new runs against 5)" in verdict.statement


@pytest.mark.parametrize("step", [95.0, 100.0, 102.0])
def test_what_is_within_the_limit_passes(step: float) -> None:
    assert ha.gate(BASE, [run(step), run(step + 0.2)]).answer == "pass"


def test_what_is_within_noise_cannot_be_told() -> None:
    noisy = [run(step) for step in (90.0, 100.0, 110.0, 95.0, 105.0)]
    above = ha.gate(noisy, [run(105.0)])
    assert (above.answer, above.checks[0].reason) == ("cannot tell", "beyond the limit, but not beyond noise")
    below = ha.gate(noisy, [run(100.0)])
    assert (below.answer, below.checks[0].reason) == ("cannot tell", "noise is larger than the limit")
    assert ha.gate(noisy, [run(200.0)]).answer == "fail"
    assert ha.gate(noisy, [run(50.0)]).answer == "pass"
    detectable = below.checks[0].detectable
    assert detectable is not None
    assert detectable > 20


def test_one_run_on_either_side_has_the_noise_of_steps_and_says_so() -> None:
    for step, answer in ((100.0, "pass"), (103.0, "cannot tell"), (110.0, "fail")):
        verdict = ha.gate(run(100.0), run(step))
        assert verdict.answer == answer
        assert verdict.notes[0].startswith("One run on either side: the noise is that of steps")
    short = ha.Measured("short", IDENTITY, {"step": [100.0 * MS]})
    assert ha.gate(run(100.0), short).answer == "cannot tell"


def test_memory_is_one_number_a_run() -> None:
    rule = ["memory_peak > +1 %"]
    assert ha.gate(run(100.0), run(100.0), rule).answer == "pass"
    assert ha.gate(run(100.0), run(100.0, peak=1.02 * GIB), rule).answer == "fail"
    assert ha.gate(BASE, run(100.0, peak=1.02 * GIB), ["memory_peak > +100 MiB"]).answer == "pass"
    assert ha.gate(BASE, run(100.0, peak=1.2 * GIB), ["memory_peak > +100 MiB"]).answer == "fail"
    assert ha.gate(BASE, run(100.0), ["memory_peak > 1 GiB"]).answer == "pass"
    assert ha.gate(BASE, run(100.0), ["memory_peak > 0.9 GiB"]).answer == "fail"


# --- quick steps -----------------------------------------------------------------------------------------------------


def disturbed(step: float, share: float, count: int = 40, seed: int = 0) -> ha.Measured:
    """A run of which a share of the steps takes up to as long again, as other programs of the machine will have it."""
    random = np.random.default_rng(seed)
    quiet = step * MS * (1 + random.uniform(0, 0.002, count))
    longer = np.where(np.arange(count) < share * count, random.uniform(0.2, 1, count), 0)
    return ha.Measured("run", IDENTITY, {"step": random.permutation(quiet * (1 + longer)).tolist(), "mfu": [40.0] * 40})


SHARES = (0.1, 0.8, 0.3, 0.9, 0.6)  # more than a half moves the median


def test_quick_steps_fail_where_medians_cannot_tell() -> None:
    base = [disturbed(100.0, share, seed=seed) for seed, share in enumerate(SHARES)]
    new = [disturbed(105.0, share, seed=9 + seed) for seed, share in enumerate(SHARES[:3])]
    verdict = ha.gate(base, new)
    (check,) = verdict.checks
    assert (check.answer, check.of) == ("fail", "quick steps")
    assert check.base == pytest.approx(100.1 * MS, rel=2e-3)
    assert check.change == pytest.approx(5.0, abs=0.2)
    assert check.low is not None
    assert 4.5 < check.low < 5
    assert "105 ms in its quick steps, +" in verdict.statement
    assert "fail: beyond the limit and beyond noise, in quick steps" in str(verdict)
    # The same with too few steps, where the shortest one would decide.
    short = [ha.Measured("run", IDENTITY, {"step": run.values["step"][:19]}) for run in [*base, *new]]
    assert ha.gate(short[:5], short[5:]).answer == "cannot tell"


def test_quick_steps_alone_pass_nothing() -> None:
    """Half of the steps may have become longer, and noise hides it."""
    base = [disturbed(100.0, share, seed=seed) for seed, share in enumerate(SHARES)]
    new = [disturbed(100.0, share, seed=9 + seed) for seed, share in enumerate(SHARES[:3])]
    (check,) = ha.gate(base, new).checks
    assert (check.answer, check.of, check.reason) == ("cannot tell", "mean", "noise is larger than the limit")
    # Of quick steps, the change that would be found is far less than that of the medians, which differ by a half.
    assert check.detectable is not None
    assert check.detectable < 1


def test_means_come_first() -> None:
    """Whatever became longer on the whole fails, although the quick steps are as they were."""
    base = [disturbed(100.0, 0.1, seed=seed) for seed in range(5)]
    (check,) = ha.gate(base, [disturbed(100.0, 0.9, seed=9 + seed) for seed in range(3)]).checks
    assert (check.answer, check.of) == ("fail", "mean")
    for rule, of in (("step > 90 ms", "mean"), ("step < -3 %", "mean"), ("mfu < -3 %", "median")):
        assert ha.gate(base, base[:3], [rule]).checks[0].of == of


def test_all_ways_to_fail_share_the_level() -> None:
    """Of two or three chances to fail, each is taken half or a third as often."""

    def mostly(length: float, count: int) -> ha.Measured:
        """A run whose quick steps are those of all others."""
        return ha.Measured("run", IDENTITY, {"step": [90.0 * MS] * (count // 4) + [length * MS] * (count - count // 4)})

    # By hand: both sides are -1, 0 and 1 around their mean, so the spread is 1, and se = sqrt(1 / 3 + 1 / 3).
    se = (2 / 3) ** 0.5
    for count, tail, answer in (
        (19, 0.0051, "cannot tell"),
        (19, 0.0049, "fail"),
        (20, 0.0049, "cannot tell"),
        (20, 0.0033, "fail"),
    ):
        base, new = (
            [mostly(length + wiggle, count) for wiggle in (-1, 0, 1)]
            for length in (100.0, 100.0 + t_quantile(tail, 4) * se)
        )
        assert ha.gate(base, new, ["step > +1 ms"]).answer == answer


def test_quick_steps_fail_as_seldom_as_the_level_says() -> None:
    random = np.random.default_rng(8)
    count, failed = 1000, 0
    for _ in range(count):
        lengths = 100.0 * np.exp(random.normal(0, 0.02, 10))
        runs = [disturbed(length, 0.0, 20, int(random.integers(1 << 30))) for length in lengths]
        failed += ha.gate(runs[:7], runs[7:], ["step > +0.1 %"]).answer == "fail"
    assert failed <= 0.01 * count + 4 * (0.01 * count) ** 0.5  # within four standard errors of a binomial count


# --- other limits ----------------------------------------------------------------------------------------------------


def test_a_limit_without_a_sign_is_a_value() -> None:
    for limit, answer in ((90, "fail"), (100, "cannot tell"), (110, "pass")):
        verdict = ha.gate(BASE, [run(99.0), run(101.0), run(100.0)], [f"step > {limit} ms"])
        assert verdict.answer == answer
        assert verdict.checks[0].change == pytest.approx(100 * MS)
    assert ha.gate(BASE, run(100.0), ["mfu < 50 %"]).answer == "fail"
    assert ha.gate(BASE, run(100.0), ["mfu < 30 %"]).answer == "pass"


def test_less_than_the_baseline_fails_where_less_is_worse() -> None:
    slow = ha.Measured("new", IDENTITY, {**run(100.0).values, "mfu": [36.0] * 7})
    for rule, answer in (("mfu < -5 %", "fail"), ("mfu < -15 %", "pass"), ("mfu < -3 points", "fail")):
        verdict = ha.gate(BASE, slow, [rule])
        assert verdict.answer == answer
        assert verdict.checks[0].change == pytest.approx(-10.0 if "%" in rule else -4.0)
    assert ha.gate(BASE, slow, ["mfu < -5 points"]).answer == "pass"


def test_a_pattern_is_a_check_for_each_part() -> None:
    parts: dict[str, Any] = {
        "module__net": 60.0,
        "module__net_in_a": 40.0,
        "module__net_in_b": 20.0,
        "phase__forward": 60.0,
    }
    base = [run(100 + wiggle, **parts) for wiggle in (-0.5, 0, 0.5)]
    new = [run(100 + wiggle, **{**parts, "module__net_in_a": 44.0}) for wiggle in (-0.5, 0, 0.5)]
    verdict = ha.gate(base, new, ["module:* > +1 % of step"])
    assert {check.metric: check.answer for check in verdict.checks} == {
        "module:net": "pass",
        "module:net.a": "fail",
        "module:net.b": "pass",
    }
    assert verdict.checks[1].change == pytest.approx(4.0)
    assert {each.metric: each.change_ns for each in verdict.changed} == {"module:net.a": pytest.approx(4 * MS)}
    assert ha.gate(base, new, ["module:net.a > +5 ms"]).answer == "pass"
    assert ha.gate(base, new, ["module:net.a > +3 ms"]).answer == "fail"
    assert ha.gate(base, new, ["module:net.a > +9 %"]).answer == "fail"


def test_many_checks_need_more_evidence() -> None:
    random = np.random.default_rng(7)
    names = [f"module__m{number}" for number in range(40)]

    def noisy() -> ha.Measured:
        times: dict[str, Any] = {name: 1.0 + random.normal(0, 0.05) for name in names}
        return run(100.0, **times)

    failed = sum(
        ha.gate([noisy() for _ in range(5)], [noisy() for _ in range(3)], ["module:* > +1 %"]).answer == "fail"
        for _ in range(100)
    )
    assert failed <= 5  # 1 is expected; without the correction 33 of 100


def test_runs_that_differ_are_not_compared() -> None:
    verdict = ha.gate(BASE, run(200.0, device="H100"))
    assert (verdict.answer, verdict.changed) == ("cannot tell", [])
    assert verdict.checks[0].reason == "not comparable: device: A100 in one run, H100 in another"
    assert ha.gate(BASE, run(200.0, device="H100"), allow_different=["device"]).answer == "fail"
    assert ha.gate(BASE, run(200.0, device="H100"), ["step > 150 ms"]).answer == "fail"
    with pytest.raises(QueryParameterError, match="no run has a property 'colour'"):
        ha.gate(BASE, run(100.0), allow_different=["colour"])


def test_a_metric_that_is_not_there_cannot_be_told() -> None:
    verdict = ha.gate(BASE, run(100.0), ["phase:forward > +1 %", "step > +3 %"])
    assert [check.answer for check in verdict.checks] == ["cannot tell", "pass"]
    assert verdict.checks[0].reason == "the baseline and the new runs have no such metric"
    assert verdict.answer == "cannot tell"
    nothing = [run(100.0, phase__loss=0.0)]
    assert "no change in per cent" in ha.gate(nothing, nothing, ["phase:loss > +1 %"]).checks[0].reason


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("step", "is not a rule"),
        ("step > fast", "is not a rule"),
        ("steps > +3 %", "no metric 'steps'"),
        ("module: > +3 %", "no metric 'module:'"),
        ("step > 3 %", "has no sign"),
        ("step > +3", "no unit"),
        ("step > +3 MiB", "the unit 'MiB'"),
        ("step > -3 %", "would fail without any change"),
        ("mfu < +3 points", "would fail without any change"),
        ("memory_peak > +3 % of step", "share of the step"),
    ],
)
def test_what_is_no_rule_says_why(rule: str, said: str) -> None:
    with pytest.raises(QueryParameterError, match=said) as error:
        parse(rule)
    assert error.value.hint


def test_rules_are_read() -> None:
    rule = parse(" kernel:void f<int, (a)1>(x) >+1.5ms ")
    assert (rule.metric, rule.direction, rule.kind, rule.limit) == ("kernel:void f<int, (a)1>(x)", 1, "change", 1.5e6)
    assert parse("module: net.* > +1 % of step").metric == "module:net.*"
    assert parse("memory_peak > 20 GiB").limit == 20 * GIB
    assert parse("step < -3 %").direction == -1


# --- forms -----------------------------------------------------------------------------------------------------------


def test_forms_say_the_same() -> None:
    evil: dict[str, Any] = {"module__<b>|x": 10.0}
    base, new = [run(100.0, **evil), run(100.5, **evil)], [run(120.0, **evil), run(120.5, **evil)]
    verdict = ha.gate(base, new, ["step > +3 %", "module:* > +1 %", "phase:x > +1 %"])
    assert str(verdict).startswith("FAIL: ")
    markdown = verdict.to_markdown()
    assert "<b>" not in markdown
    assert "\\|x" in markdown
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows[:5]}) == 1
    suite = ET.fromstring(verdict.to_junit())[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    assert [[child.tag for child in case] for case in suite] == [["failure"], [], ["error"]]
    plain = json.loads(json.dumps(verdict.as_dict()))
    assert [check["answer"] for check in plain["checks"]] == ["fail", "pass", "cannot tell"]
    assert plain["checks"][0]["unit"] == "%"
    assert plain["base"] == ["run", "run"]


def test_a_baseline_file_holds_what_is_needed(tmp_path: Path) -> None:
    file = ha.write_baseline(BASE, tmp_path / "base.json")
    again = ha.read_baseline(file)
    assert [each.name for each in again] == ["base0", "base1", "base2", "base3", "base4"]
    assert ha.gate(again, run(110.0)).checks == ha.gate(BASE, run(110.0)).checks
    with pytest.raises(HotlineError, match="exists already"):
        ha.write_baseline(BASE, file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no", "the file is not JSON"),
        ("[]", "is not a baseline"),
        ('{"kind": "hotline-baseline", "schema_version": 9, "runs": []}', "has the version 9"),
        ('{"kind": "hotline-baseline", "schema_version": 1, "runs": [{}]}', "damaged"),
        (
            '{"kind": "hotline-baseline", "schema_version": 1,'
            ' "runs": [{"name": "a", "identity": {}, "values": {"step": [NaN]}}]}',
            "damaged",
        ),
    ],
)
def test_a_file_that_is_no_baseline_says_so(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(HotlineError, match=said):
        ha.read_baseline(tmp_path / "b.json")


def test_another_program_is_asked_about() -> None:
    other = [run(100.0, module__net_in_conv=20, module__net_in_fc=10, module__net=40)]
    question = "Only 1 of 3 modules of the new runs are in the baseline: is it the same program?"
    assert question in ha.gate([run(90.0, module__net=9, module__net_in_a=4, module__net_in_b=3)], other).notes
    # a module more is a change of the program
    same = [run(90.0, module__net=9, module__net_in_conv=4)]
    assert not any("same program" in note for note in ha.gate(same, other).notes)


# --- loops of several kinds of steps ---------------------------------------------------------------------------------


def kinds_run(steps: Sequence[float], kinds: Sequence[int]) -> ha.Measured:
    return ha.Measured("run", IDENTITY, {"step": [step * MS for step in steps]}, kinds)


def test_where_a_period_begins_changes_nothing() -> None:
    """Every second step takes 200 ms longer: 200 ms on average, also where 7 of 13 steps are the longer ones."""
    base = kinds_run([100.0, 300.0] * 11, [0, 1] * 11)
    new = kinds_run([300.0, *[100.0, 300.0] * 6], [0, *[1, 0] * 6])
    for verdict in (ha.gate(base, new), ha.gate(new, base)):
        (check,) = verdict.checks
        assert check.answer == "pass"
        assert [check.base, check.new] == pytest.approx([200 * MS, 200 * MS])
    assert ha.gate(base, kinds_run([100.0, 320.0] * 6, [0, 1] * 6)).answer == "fail"


def test_a_gate_that_cannot_tell_says_how_many_steps_to_record() -> None:
    random = np.random.default_rng(3)
    base, new = (kinds_run(random.normal(100.0, 10.0, 20).tolist(), [0] * 20) for _ in range(2))
    (check,) = ha.gate(base, new).checks
    assert check.answer == "cannot tell"
    # By hand: noise of 10 % in each step, t of 1 % in two ways and of 20 % together (2.58 + 0.84), and 3 %.
    needed = 2 * (0.1 * (2.58 + 0.84) / 0.03) ** 2
    assert check.steps_needed is not None
    assert needed / 2 < check.steps_needed < 2 * needed
    assert f"record {check.steps_needed:,} steps" in str(ha.gate(base, new))
    short = kinds_run([100.0], [0])
    assert "record 20 steps" in str(ha.gate(base, short))
