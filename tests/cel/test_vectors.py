"""The recorded answers of Kubernetes 1.37, at the strictest level: outcomes, texts and costs."""

from __future__ import annotations

import pytest

from tests.vectors import SHARED, cel, cel_admission, vector_files


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["device", "derived", "selector"])
def test_expressions_agree_with_kubernetes(kind: str) -> None:
    assert vector_files(f"cel/{kind}.jsonl.gz")
    outcome = cel.check([], "cost", kind)
    assert outcome.passed
    assert outcome.mismatches == []


@pytest.mark.slow
def test_policies_agree_with_kubernetes() -> None:
    outcome = cel_admission.check([], "message")
    assert outcome.passed
    assert outcome.mismatches == []


@pytest.mark.slow
@pytest.mark.skipif(
    not (SHARED / "cel" / "spec.jsonl.gz").exists(), reason="the cel-spec tests are not part of this checkout"
)
def test_the_languages_conformance_tests_pass() -> None:
    outcome = cel.check([], None, "spec")
    assert outcome.passed > 1400
    assert outcome.mismatches == []


def test_a_wrong_answer_is_noticed() -> None:
    vector = {"match": True, "eval_error": None, "cost": 3, "unstable": ["cost"]}
    fields = ("match", "eval_error?", "cost")
    assert cel.compare(vector, {"match": True, "eval_error": None, "cost": 9}, fields) == []
    assert cel.compare(vector, {"match": False, "eval_error": None}, fields) != []
    assert cel.compare(vector, {"match": True, "eval_error": "x"}, fields) != []
    assert cel.compare(vector, {"match": 1, "eval_error": None}, fields) != []
