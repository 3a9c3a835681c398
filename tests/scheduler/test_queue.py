"""The queue: order, backoff, wake-ups by events that can help and by no others."""

from __future__ import annotations

import pytest

from drakit.scheduler import hints
from drakit.scheduler.filters import StaticFits
from drakit.scheduler.nodes import Nodes
from drakit.scheduler.queue import SchedulingQueue, backoff
from tests.scheduler.builders import info, node


def names(queue: SchedulingQueue) -> list[str]:
    found = []
    while (waiting := queue.pop()) is not None:
        found.append(waiting.info.name)
    return found


def rejected(queue: SchedulingQueue, name: str, *plugins: str, now: float = 0.0, **pod: object) -> None:
    queue.add(info(name, **pod), now)
    waiting = queue.pop()
    assert waiting is not None
    queue.unschedulable(waiting, frozenset(plugins), now)


def test_higher_priority_first_then_older() -> None:
    queue = SchedulingQueue()
    for name, priority, now in (("late", 0, 3.0), ("early", 0, 1.0), ("urgent", 10, 9.0)):
        queue.add(info(name, priority=priority), now)
    assert names(queue) == ["urgent", "early", "late"]


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10)])
def test_backoff_doubles_up_to_ten_seconds(attempts: int, seconds: float) -> None:
    assert backoff(attempts) == seconds


def test_an_error_is_retried_after_its_backoff_without_any_event() -> None:
    queue = SchedulingQueue()
    queue.add(info("p"), 0.0)
    waiting = queue.pop()
    assert waiting is not None
    queue.failed(waiting, 0.0)
    queue.flush(0.9)
    assert queue.pop() is None
    assert queue.next_deadline() == 1.0
    queue.flush(1.0)
    assert names(queue) == ["p"]


def test_an_unschedulable_pod_waits_for_a_matching_event() -> None:
    queue = SchedulingQueue()
    rejected(queue, "devices", "DynamicResources")
    rejected(queue, "cpu", "NodeResourcesFit")
    hints.devices_changed(queue, 100.0)
    assert names(queue) == ["devices"]
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}


def test_a_pod_woken_during_its_backoff_lets_others_go_first() -> None:
    queue = SchedulingQueue()
    rejected(queue, "again", "DynamicResources", priority=5)
    hints.devices_changed(queue, 0.5)
    queue.add(info("new"), 0.5)
    assert names(queue) == ["new", "again"]


def test_a_pod_woken_during_its_backoff_has_its_place_back_when_it_is_over() -> None:
    queue = SchedulingQueue()
    rejected(queue, "again", "DynamicResources", priority=5)
    hints.devices_changed(queue, 0.5)
    queue.add(info("new"), 0.5)
    queue.flush(1.0)
    assert names(queue) == ["again", "new"]


def test_a_pod_is_not_taken_early_after_an_error() -> None:
    queue = SchedulingQueue()
    queue.add(info("p"), 0.0)
    waiting = queue.pop()
    assert waiting is not None
    queue.failed(waiting, 0.0)
    assert not queue.has_work
    assert queue.pop() is None


def test_a_new_node_wakes_only_pods_that_its_static_filters_accept() -> None:
    queue, nodes = SchedulingQueue(), Nodes()
    rejected(queue, "there", "NodeAffinity", nodeSelector={"zone": "a"})
    rejected(queue, "elsewhere", "NodeAffinity", nodeSelector={"zone": "b"})
    nodes.set_node(node(labels={"zone": "a"}))
    hints.node_changed(queue, StaticFits(nodes), nodes.by_name["n"], 100.0)
    assert names(queue) == ["there"]


def test_a_pod_that_leaves_wakes_those_who_want_what_it_held() -> None:
    queue, nodes = SchedulingQueue(), Nodes()
    nodes.set_node(node())
    rejected(queue, "cpu", "NodeResourcesFit", requests={"cpu": "1"})
    rejected(queue, "memory", "NodeResourcesFit", requests={"memory": "1Gi"})
    rejected(queue, "devices", "DynamicResources")
    gone = info("gone", requests={"cpu": "2"})
    hints.pod_gone(queue, StaticFits(nodes), gone, nodes.by_name["n"], 100.0)
    assert names(queue) == ["cpu"]


def test_a_full_node_that_loses_a_pod_wakes_any_pod_that_it_could_take() -> None:
    queue, nodes = SchedulingQueue(), Nodes()
    nodes.set_node(node(pods="1"))
    rejected(queue, "memory", "NodeResourcesFit", requests={"memory": "1Gi"})
    hints.pod_gone(queue, StaticFits(nodes), info("gone", requests={"cpu": "2"}), nodes.by_name["n"], 100.0)
    assert names(queue) == ["memory"]


def test_after_five_minutes_an_unschedulable_pod_is_tried_anyway() -> None:
    queue = SchedulingQueue()
    rejected(queue, "p", "NodeAffinity")
    queue.flush_unschedulable(299.0)
    assert queue.pop() is None
    queue.flush_unschedulable(300.0)
    assert names(queue) == ["p"]


def test_a_gated_pod_is_not_tried_until_it_is_let_go() -> None:
    queue = SchedulingQueue()
    waiting = queue.add(info("p"), 0.0)
    queue.gate(waiting, "waiting for scheduling gates: [x]", ["ns/c"])
    hints.devices_changed(queue, 1.0)
    queue.flush_unschedulable(1000.0)
    assert queue.pop() is None
    assert queue.waiting_for("ns/c") == [waiting]
    queue.activate(waiting, 1.0)
    assert names(queue) == ["p"]
    assert queue.waiting_for("ns/c") == []


def test_a_deleted_pod_does_not_come_up() -> None:
    queue = SchedulingQueue()
    queue.add(info("a"), 0.0)
    queue.add(info("b"), 0.0)
    queue.delete("pod-a")
    assert names(queue) == ["b"]


def test_a_new_version_keeps_its_place() -> None:
    queue = SchedulingQueue()
    queue.add(info("a"), 0.0)
    queue.add(info("b"), 1.0)
    queue.replace(info("a", labels={"new": "label"}))
    waiting = queue.pop()
    assert waiting is not None
    assert waiting.info.labels == {"new": "label"}


def test_an_event_asks_only_the_pods_of_its_plugins() -> None:
    queue = SchedulingQueue()
    for index in range(1000):
        rejected(queue, f"cpu-{index}", "NodeResourcesFit")
    rejected(queue, "gpu", "DynamicResources")
    hints.devices_changed(queue, 10.0)
    assert queue.hints == 1
