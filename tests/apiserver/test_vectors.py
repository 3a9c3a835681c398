"""What a real Kubernetes answered, asked of our server."""

from __future__ import annotations

import pytest

from tests.vectors import DATA, SHARED, api, api_replay

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not (SHARED / "api").exists(), reason="the recorded scripts are not here: see the selection below")
@pytest.mark.parametrize(("level", "share"), [("status", 1.0), ("body", 0.98), ("message", 0.9)])
def test_recorded_answers(level: str, share: float) -> None:
    outcome = api.check([], level)
    assert outcome.passed + outcome.failed + len(outcome.notes) > 1100
    assert outcome.passed >= share * (outcome.passed + outcome.failed), "\n".join(outcome.mismatches[:20])


@pytest.mark.skipif(not (SHARED / "api").exists(), reason="the recorded scripts are not here: see tests/walkthrough")
def test_recorded_lives() -> None:
    """With scheduler and controllers: allocation, release, taints and evictions, extended resources, quotas, events."""
    outcome = api.check([SHARED / "api" / "lifecycle.jsonl"], "body", jobs=16)
    assert outcome.passed + outcome.failed > 100
    assert not outcome.mismatches, "\n".join(outcome.mismatches)


def test_our_own_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "replay_module", lambda: api_replay)
    outcome = api.check([DATA / "api" / "scripts.jsonl"], "message")
    assert outcome.passed >= 12
    assert not outcome.mismatches, "\n".join(outcome.mismatches)


def test_the_selection_can_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    wrong = {
        "id": "x",
        "steps": [{"method": "GET", "path": "/version", "expect": {"status": 200, "body": {"minor": "1"}}}],
    }
    monkeypatch.setattr(api, "replay_module", lambda: api_replay)
    monkeypatch.setattr(api, "scripts", lambda files: [wrong])
    assert api.check([], "body").failed == 1
