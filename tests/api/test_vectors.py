from __future__ import annotations

import pytest

from tests.vectors import DATA, SHARED, objects


@pytest.mark.slow
def test_our_selection_of_recorded_answers_is_met_to_the_letter() -> None:
    outcome = objects.check([DATA / "objects.jsonl"], "message")
    assert outcome.mismatches == []
    assert outcome.passed > 150


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the full set of recorded answers is not here; the selection above is")
def test_every_recorded_body_gets_the_recorded_verdict() -> None:
    outcome = objects.check([])
    assert outcome.mismatches == []
    assert outcome.passed > 850
