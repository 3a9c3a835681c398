"""What is used of quotas: kept up to date write by write, as counted anew; what a write costs does not depend on what is there."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from drakit.api import quotas
from drakit.apiserver.admission.quota_usage import QuotaUsage
from tests.effort import Bytecodes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = [("", "pods"), ("", "configmaps")]
Objects = dict[tuple[str, str, str], dict[str, Any]]


class Lookup:
    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def get(self, group: str, plural: str, namespace: str, name: str) -> Any:
        return self.objects.get((group, plural, name))

    def list(self, group: str, plural: str, namespace: str = "") -> list[Any]:
        return [obj for key, obj in self.objects.items() if key[:2] == (group, plural)]


def _quota(name: str, **spec: Any) -> dict[str, Any]:
    hard = {"pods": "1", "count/pods": "1", "requests.cpu": "1", "configmaps": "1"}
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def _pod(rng: random.Random, name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns"}
    if rng.random() < 0.4:
        end = NOW + timedelta(seconds=rng.randrange(-50, 50))
        metadata.update(
            deletionTimestamp=end.strftime("%Y-%m-%dT%H:%M:%SZ"), deletionGracePeriodSeconds=rng.randrange(30)
        )
    container = {"name": "c", "resources": {"requests": {"cpu": f"{rng.randrange(1, 4000)}m"}}}
    spec = {"containers": [container], **rng.choice(({}, {"activeDeadlineSeconds": 5}))}
    return {"metadata": metadata, "spec": spec, "status": {"phase": rng.choice(("Running", "Succeeded"))}}


def _counted_anew(quota: dict[str, Any], objects: Objects, now: datetime) -> quotas.Usage:
    counted = [
        quotas.usage(group, plural, obj, now=now)
        for (group, plural, _), obj in objects.items()
        if quotas.matches_scopes(quota, group, plural, obj)
    ]
    return quotas.total(counted, quotas.limits(quota))


@pytest.mark.parametrize("seed", range(50))
def test_sums_kept_up_to_date_are_as_counted_anew(seed: int) -> None:
    rng = random.Random(seed)
    objects: Objects = {}
    now = [NOW]
    usage = QuotaUsage(Lookup(objects), KINDS, lambda: now[0].timestamp())
    all_quotas = [_quota("all"), _quota("short", scopes=["Terminating"]), _quota("long", scopes=["NotTerminating"])]
    for step in range(60):
        group, plural = rng.choice(KINDS)
        key = (group, plural, f"o{rng.randrange(6)}")
        obj = None if rng.random() < 0.3 else _pod(rng, key[2]) if plural == "pods" else {"metadata": {"name": key[2]}}
        objects.pop(key, None)
        if obj is not None:
            objects[key] = obj
        usage.apply(*key[:2], "ns", key[2], obj)
        now[0] += timedelta(seconds=rng.choice((0, 0, 1, 7)))
        if step == 30:
            all_quotas[0] = _quota("all", scopes=["NotTerminating"])
        quota = rng.choice(all_quotas)
        assert usage.total(quota, "ns") == _counted_anew(quota, objects, now[0])
        others = {each: obj for each, obj in objects.items() if each != key}
        assert usage.total(quota, "ns", without=key) == _counted_anew(quota, others, now[0])


def test_a_write_costs_the_same_in_a_namespace_of_20_objects_and_of_2000() -> None:
    def cost(size: int) -> int:
        rng = random.Random(1)
        pods = {("", "pods", f"p{number}"): _pod(rng, f"p{number}") for number in range(size)}
        usage = QuotaUsage(Lookup(dict(pods)), KINDS, NOW.timestamp)
        usage.total(_quota("q"), "ns")
        counting = Bytecodes("apiserver", "api")
        with counting.on():
            usage.apply("", "configmaps", "ns", "new", {"metadata": {"name": "new"}})
            usage.apply("", "pods", "ns", "p0", None)
            assert usage.total(_quota("q"), "ns")["configmaps"] == quotas.limits(_quota("q"))["configmaps"]
        return counting.count

    assert cost(2000) < 1.2 * cost(20)


def test_nothing_is_kept_of_a_namespace_that_is_gone() -> None:
    usage = QuotaUsage(Lookup({}), KINDS, NOW.timestamp)
    usage.total(_quota("q"), "ns")
    assert usage._namespaces
    usage.apply("", "namespaces", "", "ns", None)
    assert not usage._namespaces


def test_ends_of_pods_that_change_again_and_again_are_kept_once() -> None:
    usage = QuotaUsage(Lookup({}), KINDS, NOW.timestamp)
    usage.total(_quota("q"), "ns")
    for number in range(1000):
        metadata = {"name": "p", "deletionTimestamp": "2036-01-01T00:00:00Z", "deletionGracePeriodSeconds": number}
        usage.apply("", "pods", "ns", "p", {"metadata": metadata})
    assert len(usage._namespaces["ns"].ends) < 200
