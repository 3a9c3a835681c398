"""The garbage collector when it knows too little: caches that fill late, owners that come late, kinds that come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lightkube.models.apps_v1 import ReplicaSet
from lightkube.models.core_v1 import ConfigMap, Pod, Secret
from lightkube.models.core_v1 import Event as CoreEvent
from lightkube.models.resource_v1 import ResourceClaim

from drakit.api.errors import StatusError
from drakit.api.gates import FeatureGates
from drakit.client import Plain, Resource, resource_of
from drakit.client.transport import Request
from drakit.clock import VirtualClock
from drakit.controllers.served import Served
from tests.controllers import objects as make
from tests.controllers.between import Between, nothing
from tests.controllers.cluster import Cluster
from tests.controllers.test_cleanup import GARBAGE, config, configs

GHOST = "11111111-1111-1111-1111-111111111111"


class Telling(Between):
    """It can say what its server has, as that of a real cluster."""

    kinds: list[Resource]
    stale: tuple[str, ...] = ()

    async def discover(self) -> tuple[list[Resource], list[str]]:
        return self.kinds, [*self.stale]


def owned_by(body: Plain, *owners: Plain, **fields: Any) -> Plain:
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **fields,
        }
        for owner in owners
    ]
    return body


def test_dependents_that_are_listed_late_are_orphaned_and_not_lost() -> None:
    clock = VirtualClock()

    async def late(request: Request) -> None:
        if request.method == "GET" and request.plural == "pods" and not request.name and not request.query:
            await clock.sleep(5)

    async def story() -> None:
        async with Cluster((), wrap=lambda inner: Between(inner, late), clock=clock) as cluster:
            owner = await cluster.create(make.workload("ReplicaSet", "r"))
            await cluster.create(owned_by(make.pod("p"), owner, controller=True))
            await cluster.delete(ReplicaSet, "r", propagation="Orphan")
            await cluster.kill()
            await cluster.start([GARBAGE])
            await cluster.settle(20)
            assert await cluster.list(ReplicaSet) == []
            (pod,) = await cluster.list(Pod)
            assert not pod["metadata"].get("ownerReferences")

    asyncio.run(story())


def test_a_kind_that_cannot_be_listed_does_not_stop_all_else() -> None:
    async def refuse(request: Request) -> None:
        if request.method == "GET" and request.plural == "pods" and not request.name and not request.query:
            raise StatusError.forbidden("", "pods", "", "not you")

    async def story() -> None:
        async with Cluster([GARBAGE], wrap=lambda inner: Between(inner, refuse)) as cluster:
            unknown = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": GHOST}}
            await cluster.create(owned_by(config("child"), unknown))
            await cluster.settle(20)
            assert await configs(cluster) == ["child"]
            await cluster.settle(15)
            assert await configs(cluster) == []

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param("owner", ["child", "rescuer"], id="an-owner-more-saves-it"),
        pytest.param("label", ["rescuer"], id="anything-else-does-not"),
    ],
)
def test_what_is_deleted_is_what_was_judged(change: str, left: list[str]) -> None:
    async def story() -> None:
        changed = False

        async def meanwhile(request: Request) -> None:
            nonlocal changed
            if request.method == "DELETE" and request.name == "child" and not changed:
                changed = True
                references = [*config("x", owner, rescuer)["metadata"]["ownerReferences"]]
                metadata = {"ownerReferences": references} if change == "owner" else {"labels": {"busy": "yes"}}
                await cluster.patch(ConfigMap, "child", {"metadata": metadata})

        async with Cluster([GARBAGE], wrap=lambda inner: Between(inner, meanwhile)) as cluster:
            owner, rescuer = await cluster.create(config("owner")), await cluster.create(config("rescuer"))
            await cluster.create(config("child", owner))
            await cluster.settle(1)
            await cluster.delete(ConfigMap, "owner")
            await cluster.settle(1)
            assert changed
            assert await configs(cluster) == left

    asyncio.run(story())


def test_an_owner_of_a_kind_that_is_not_watched_is_asked_for_again(play) -> None:
    async def story(cluster: Cluster) -> None:
        told = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "x"},
        }
        owner = {**await cluster.create(told), "apiVersion": "events.k8s.io/v1"}
        await cluster.create(owned_by(config("child"), owner))
        await cluster.settle(100)
        assert await configs(cluster) == ["child"]
        await cluster.delete(CoreEvent, "e")
        await cluster.settle(40)
        assert await configs(cluster) == []

    play(story, GARBAGE)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        pytest.param("v7", "ConfigMap", id="version"),
        pytest.param("v1", "Gadget", id="kind"),
        pytest.param("gone.example.com/v1", "ConfigMap", id="group"),
    ],
)
def test_a_reference_to_what_nobody_serves_is_not_judged(play, api_version: str, kind: str) -> None:
    async def story(cluster: Cluster) -> None:
        unknown = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "ghost", "uid": GHOST}}
        await cluster.create(owned_by(config("child"), unknown))
        await cluster.settle(100)
        assert await configs(cluster) == ["child"]

    play(story, GARBAGE)


@pytest.mark.parametrize(
    ("api_version", "left"),
    [
        pytest.param("resource.k8s.io/v1", [], id="preferred"),
        pytest.param("resource.k8s.io/v1beta1", [], id="served"),
        pytest.param("resource.k8s.io/v7", ["child"], id="not-served"),
    ],
)
def test_an_owner_may_be_named_in_any_version_that_is_served(play, api_version: str, left: list[str]) -> None:
    async def story(cluster: Cluster) -> None:
        owner = await cluster.create(make.claim("owner"))
        await cluster.create(owned_by(config("child"), {**owner, "apiVersion": api_version}))
        await cluster.settle(40)
        assert await configs(cluster) == ["child"]
        await cluster.delete(ResourceClaim, "owner")
        await cluster.settle(40)
        assert await configs(cluster) == left

    play(story, GARBAGE)


def test_dependents_of_a_kind_that_went_and_came_back_without_the_owner_go() -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            every = sorted(await Served(cluster.client, FeatureGates.default()).all(), key=str)
            Telling.kinds = every
            cluster._wrap = lambda inner: Telling(inner, nothing)
            await cluster.kill()
            await cluster.start([GARBAGE])
            owner = await cluster.create(config("owner"))
            await cluster.create(owned_by(make_secret("child"), owner))
            await cluster.settle(1)
            Telling.kinds = [each for each in every if each != resource_of(ConfigMap)]
            await cluster.settle(40)
            await cluster.delete(ConfigMap, "owner")
            await cluster.settle(40)
            assert [each["metadata"]["name"] for each in await cluster.list(Secret, "default")] == ["child"]
            Telling.kinds = every
            await cluster.settle(100)
            assert await cluster.list(Secret, "default") == []

    asyncio.run(story())


def test_objects_are_not_forgotten_while_one_version_of_their_kind_cannot_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with Cluster() as cluster:
            every = sorted(await Served(cluster.client, FeatureGates.default()).all(), key=str)
            claims = resource_of(ResourceClaim)
            older = Resource(claims.group, "v1beta1", claims.plural, claims.kind, True)
            monkeypatch.setattr(Telling, "kinds", every, raising=False)
            cluster._wrap = lambda inner: Telling(inner, nothing)
            await cluster.kill()
            await cluster.start([GARBAGE])
            owner = await cluster.create(config("owner"))
            await cluster.create(owned_by(make.claim("child"), owner))
            await cluster.settle(1)
            monkeypatch.setattr(Telling, "kinds", [older if each == claims else each for each in every])
            monkeypatch.setattr(Telling, "stale", (claims.api_version,))
            await cluster.settle(40)
            monkeypatch.setattr(Telling, "kinds", every)
            monkeypatch.setattr(Telling, "stale", ())
            await cluster.settle(70)
            await cluster.delete(ConfigMap, "owner")
            await cluster.settle(100)
            assert await cluster.list(ResourceClaim) == []

    asyncio.run(story())


def make_secret(name: str) -> Plain:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def test_only_references_that_block_are_made_not_to_in_a_circle(play) -> None:
    async def story(cluster: Cluster) -> None:
        one = await cluster.create(config("one"))
        two = await cluster.create(config("two", one, finalizers=["example.com/hold"]))
        loose = await cluster.create(config("loose", finalizers=["example.com/hold"]))
        references = config("x", one, loose)["metadata"]["ownerReferences"]
        del references[1]["blockOwnerDeletion"]
        await cluster.patch(ConfigMap, "two", {"metadata": {"ownerReferences": references}})
        await cluster.patch(
            ConfigMap, "one", {"metadata": {"ownerReferences": config("x", two)["metadata"]["ownerReferences"]}}
        )
        await cluster.settle()
        await cluster.delete(ConfigMap, "loose", propagation="Foreground")
        await cluster.delete(ConfigMap, "one", propagation="Foreground")
        await cluster.settle(1)
        kept = (await cluster.get(ConfigMap, "two"))["metadata"]["ownerReferences"]
        assert [each.get("blockOwnerDeletion") for each in kept] == [False, None]
        for name in ("two", "loose"):
            await cluster.patch(ConfigMap, name, {"metadata": {"finalizers": None}})
        await cluster.settle(1)
        assert await configs(cluster) == []

    play(story, GARBAGE)


def test_a_chain_of_owners_goes_in_the_foreground_from_its_end(play) -> None:
    async def story(cluster: Cluster) -> None:
        last = await cluster.create(config("link-00"))
        for number in range(1, 50):
            last = await cluster.create(config(f"link-{number:02}", last))
        await cluster.patch(ConfigMap, "link-49", {"metadata": {"finalizers": ["example.com/hold"]}})
        await cluster.settle(1)
        await cluster.delete(ConfigMap, "link-00", propagation="Foreground")
        await cluster.settle(1)
        assert len(await configs(cluster)) == 50
        await cluster.patch(ConfigMap, "link-49", {"metadata": {"finalizers": None}})
        await cluster.settle(1)
        assert await configs(cluster) == []

    play(story, GARBAGE)
