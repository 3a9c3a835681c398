"""What a real Kubernetes answered: the recorded vectors where they are, our own small selection otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drakit.allocator import Allocation, Failure, allocate
from drakit.allocator.changes import apply
from tests.allocator.objects import always_cutting
from tests.vectors import DATA, SHARED, allocator, rows
from tests.vectors.__main__ import main

OWN = DATA / "allocator.jsonl"
RECORDED = SHARED / "allocator"


def test_our_own_selection_agrees() -> None:
    outcome = allocator.check([OWN])
    assert outcome.mismatches == []
    assert outcome.passed >= 30


def test_options_of_the_command_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--show", "1", "allocator", str(OWN)], ["allocator", "--show", "1", str(OWN)]):
        assert main(arguments) == 0
        assert ", 0 failed" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scenarios.jsonl.gz", "hard.jsonl.gz"])
def test_recorded_answers_agree(name: str) -> None:
    if not (RECORDED / name).exists():
        pytest.skip("the recorded vectors are not beside the checkout; our own selection has run")
    outcome = allocator.check([RECORDED / name])
    assert outcome.mismatches == []


def test_cutting_from_the_first_step_on_changes_no_answer() -> None:
    with always_cutting():
        assert allocator.check([OWN]).mismatches == []


@pytest.mark.slow
def test_cutting_from_the_first_step_on_changes_no_recorded_answer() -> None:
    if not RECORDED.exists():
        pytest.skip("the recorded vectors are not beside the checkout; our own selection has run")
    with always_cutting():
        assert allocator.check([RECORDED / "scenarios.jsonl.gz", RECORDED / "hard.jsonl.gz"]).mismatches == []


def test_a_wrong_answer_is_noticed() -> None:
    """The comparison itself: another device, another order, another cause are all differences."""
    vector = next(v for v in rows.read(OWN) if v["outcome"] == "ok")
    answer = allocator.Scenario(vector).allocate()
    assert isinstance(answer, Allocation)
    assert allocator.difference(vector, answer) == ""
    devices = answer.results[0]["devices"]["results"]
    devices[0] = {**devices[0], "device": "another"}
    assert "results differ" in allocator.difference(vector, answer)
    assert "expected none" in allocator.difference({**vector, "outcome": "none"}, answer)
    said = "claim default/a: selector #0 on device d/p/x: CEL runtime error: no such key: model"
    wrong = {**vector, "outcome": "error", "error": said}
    assert allocator.difference(wrong, Failure("error", "n", said)) == ""
    assert allocator.difference(wrong, Failure("error", "n", said.replace("d/p/x", "d/p/y")))
    assert allocator.difference(wrong, Failure("error", "n", said.replace("runtime", "compile")))
    assert allocator.difference(wrong, Failure("none", "n", ""))


def test_hard_vectors_take_few_steps() -> None:
    """The worst takes 91; upstream tries millions on some. `bench/allocator.py` times them."""
    for vector in rows.read(RECORDED / "hard.jsonl.gz" if RECORDED.exists() else OWN):
        assert allocator.Scenario(vector).allocate().steps <= 150, vector["id"]


def _explain(path: Path, every: int = 1) -> dict[str, int]:
    seen = {"none": 0, "suggested": 0}
    for number, vector in enumerate(rows.read(path)):
        if vector["outcome"] != "none" or number % every:
            continue
        scenario = allocator.Scenario(vector)
        failure = scenario.allocate()
        assert isinstance(failure, Failure)
        explanation = failure.explain()
        assert explanation.blockers, vector["id"]
        seen["none"] += 1
        seen["suggested"] += bool(explanation.suggestions)
        for suggestion in explanation.suggestions:
            inventory, allocated, node, claims = apply(
                suggestion.changes, scenario.inventory, scenario.allocated, scenario.node, scenario.claims
            )
            outcome: Any = allocate(inventory, allocated, node, claims, features=scenario.features)
            assert isinstance(outcome, Allocation), (vector["id"], suggestion)
    return seen


def test_every_refusal_of_our_selection_is_explained_and_suggestions_help() -> None:
    seen = _explain(OWN)
    assert seen["none"] == seen["suggested"]


@pytest.mark.parametrize(
    "every", [pytest.param(1, id="all", marks=pytest.mark.long), pytest.param(9, id="some", marks=pytest.mark.slow)]
)
def test_recorded_refusals_are_explained_and_suggestions_help(every: int) -> None:
    if not RECORDED.exists():
        pytest.skip("the recorded vectors are not beside the checkout; our own selection has run")
    seen = [_explain(RECORDED / name, every) for name in ("scenarios.jsonl.gz", "hard.jsonl.gz")]
    none, suggested = (sum(each[key] for each in seen) for key in ("none", "suggested"))
    # The rest: nodes without any device within reach, and devices that no change of the claims makes usable.
    assert suggested / none > (0.98 if every == 1 else 0.9), f"{suggested} of {none}"
