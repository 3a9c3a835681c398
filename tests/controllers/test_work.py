"""No controller works in proportion to all objects for one event: the same events in a cluster ten times the size, counted."""

from __future__ import annotations

import asyncio

import pytest

from drakit.controllers.runner import NAMES
from tests.controllers.work import EVENTS, measure

SMALL, LARGE = 20, 200
_SLACK = 1.25  # ten times the objects make far more than this when anything looks at all of them


@pytest.mark.slow
def test_work_for_one_event_does_not_grow_with_the_cluster() -> None:
    small, large = asyncio.run(measure(SMALL)), asyncio.run(measure(LARGE))
    for event in EVENTS:
        key = (event.controller, event.title)
        (few, _), (many, writes) = small[key], large[key]
        assert (writes > 0) is event.changes, f"{key}: {writes} writes"
        assert many <= few * _SLACK, f"{key}: {few} at {SMALL} objects, {many} at {LARGE}"


def test_every_controller_is_counted() -> None:
    assert {event.controller for event in EVENTS} == {*NAMES}
