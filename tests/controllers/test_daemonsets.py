"""DaemonSets: the roster by node, kept up to date, against one made anew."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from lightkube.models.apps_v1 import ControllerRevision
from lightkube.models.core_v1 import Pod

from drakit.client import Plain
from drakit.controllers.daemonset_decisions import Roster, decide, next_status, tolerations
from tests.controllers import objects as make
from tests.controllers.cluster import Cluster
from tests.controllers.kubelet import add_node, run_until_quiet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODES = [f"n{number}" for number in range(5)]


def _set(rng: random.Random) -> Plain:
    rolling = rng.choice(({"maxUnavailable": 1}, {"maxUnavailable": "50%"}, {"maxSurge": 1, "maxUnavailable": 0}))
    strategy = {"type": rng.choice(("RollingUpdate", "RollingUpdate", "OnDelete")), "rollingUpdate": rolling}
    body = make.workload("DaemonSet", "d", minReadySeconds=rng.choice((0, 10)), updateStrategy=strategy)
    if rng.random() < 0.5:
        body["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "yes"}
    return body


def _node(rng: random.Random, name: str) -> Plain:
    taints = rng.choice(([], [], [{"key": "k", "effect": "NoExecute"}], [{"key": "k", "effect": "NoSchedule"}]))
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"gpu": rng.choice(("yes", "no"))}},
        "spec": {"taints": taints},
    }


def _pod(rng: random.Random, number: int) -> Plain:
    since = (NOW - timedelta(seconds=rng.choice((5, 60)))).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": rng.choice(("True", "True", "False")), "lastTransitionTime": since}
    labels = {"app": rng.choice(("d", "d", "d", "d", "other")), "controller-revision-hash": rng.choice(("old", "new"))}
    metadata: Plain = {"name": f"d-{number}", "namespace": "default", "labels": labels, "creationTimestamp": since}
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = since
    phase = rng.choice(("Running", "Running", "Running", "Pending", "Failed"))
    where = {"nodeName": rng.choice([*NODES, "gone"])} if rng.random() < 0.9 else {}
    return {"kind": "Pod", "metadata": metadata, "spec": where, "status": {"phase": phase, "conditions": [ready]}}


@pytest.mark.parametrize("seed", range(200))
def test_roster_kept_up_to_date_is_as_one_made_anew(seed: int) -> None:
    """Which of several outdated nodes comes first may differ; how many, and everything else, may not."""
    rng = random.Random(seed)
    owner = _set(rng)
    nodes: dict[str, Plain] = {}
    pods: dict[int, Plain] = {}
    roster, now = Roster(owner, "new", (), ()), NOW
    for _ in range(40):
        number, node = rng.randrange(9), rng.choice(NODES)
        action = rng.random()
        if action < 0.4:
            pods[number] = _pod(rng, number)
            roster.put(pods[number])
        elif action < 0.6 and number in pods:
            roster.remove(pods.pop(number))
        elif action < 0.9:
            nodes[node] = _node(rng, node)
            roster.put_node(nodes[node])
        elif node in nodes:
            del nodes[node]
            roster.remove_node(node)
        fresh = Roster(owner, "new", nodes.values(), pods.values())
        fresh._backoff = dict(roster._backoff)  # what was done before is not in the pods
        now += timedelta(seconds=rng.choice((0, 0, 3)))
        step, expected = decide(roster, now), decide(fresh, now)
        assert len(step.create) == len(expected.create)
        assert len(step.delete) == len(expected.delete)
        assert step.wait == expected.wait
        assert _names(step.ended) == _names(expected.ended)
        assert next_status(owner, roster, now) == next_status(owner, fresh, now)
        for group, members in fresh.updates.items():
            assert roster.updates[group].keys() == members.keys()
        assert (roster.strangers, roster.revisions) == (fresh.strangers, fresh.revisions)
        assert {*roster.ripening} == {*fresh.ripening}


NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("given", "result"),
    [
        pytest.param([], [NOT_READY], id="added"),
        pytest.param([{"key": "mine"}], [{"key": "mine"}, NOT_READY], id="others-stay"),
        pytest.param([{**NOT_READY, "tolerationSeconds": 300}], [NOT_READY], id="no-end"),
        pytest.param([{**NOT_READY, "value": ""}], [NOT_READY], id="no-value"),
        pytest.param([{**NOT_READY, "effect": ""}], [{**NOT_READY, "effect": ""}, NOT_READY], id="other-effect"),
    ],
)
def test_daemon_tolerates_its_node_without_end(given: list[Plain], result: list[Plain]) -> None:
    """A toleration with an end beside one without would still evict the pod."""
    all_of_them = tolerations({"tolerations": given})
    assert [each for each in all_of_them if each["key"] in (NOT_READY["key"], "mine")] == result
    assert len(all_of_them) == len(result) + 5


def test_set_that_is_updated_by_hand_does_not_surge() -> None:
    """`kubectl patch` of the strategy's type leaves what was said about rolling updates."""
    owner = make.workload("DaemonSet", "d")
    owner["spec"]["updateStrategy"] = {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    pods = [
        {
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "creationTimestamp": f"2025-01-0{day}T00:00:00Z",
                "labels": {"app": "d", "controller-revision-hash": name},
            },
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running", "conditions": [ready]},
        }
        for day, name in enumerate(("old", "new"), 1)
    ]
    step = decide(Roster(owner, "new", [{"metadata": {"name": "n"}, "spec": {}}], pods), NOW)
    assert (step.create, [pod["metadata"]["name"] for pod in step.delete]) == ([], ["new"])


def test_statefulset_of_the_same_name_and_template_has_revisions_of_its_own(play) -> None:
    async def story(cluster: Cluster) -> None:
        await add_node(cluster, "n")
        await cluster.create(make.workload("StatefulSet", "same", replicas=1, serviceName="s"))
        await cluster.create(make.workload("DaemonSet", "same"))
        await run_until_quiet(cluster)
        revisions = await cluster.list(ControllerRevision)
        assert sorted(revision["metadata"]["ownerReferences"][0]["kind"] for revision in revisions) == [
            "DaemonSet",
            "StatefulSet",
        ]
        for pod in await cluster.list(Pod):
            assert pod["metadata"]["labels"]["controller-revision-hash"]

    play(story, "daemonset-controller", "statefulset-controller")


def _names(pods: list[Plain]) -> Counter[str]:
    return Counter(pod["metadata"]["name"] for pod in pods)
