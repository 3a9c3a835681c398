"""Claims that a PodGroup has: one reservation for all its pods, whoever of them writes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lightkube.models.events_v1 import Event
from lightkube.models.resource_v1 import ResourceClaim
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.gates import FeatureGates
from drakit.api.typed import from_plain
from drakit.client import Client, Informers
from drakit.client.transport import Request, Response
from drakit.clock import SystemClock
from drakit.scheduler.binding import ClaimWriter
from drakit.scheduler.state import State
from tests.scheduler.builders import claim as claim_object
from tests.scheduler.builders import device_class, info, node, place, refuse, slice_, state
from tests.scheduler.test_cluster import CLASS, GANGS, NS, claim, gang, node_of, pod, scenario, template, until


def member(name: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return pod(name, schedulingGroup={"podGroupName": "gang"}, resourceClaims=list(entries))


async def placed(client: Client, *names: str) -> bool:
    return all([await node_of(client, name) for name in names])


async def consumers(client: Client, name: str) -> list[tuple[str, str]]:
    found = await client.get(ResourceClaim, name, namespace=NS)
    return [(each.resource, each.name) for each in (found.status.reservedFor if found.status else None) or ()]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["resourceClaimTemplateName", "resourceClaimName"])
def test_a_claim_of_the_group_is_reserved_once_for_all_its_pods(source: str) -> None:
    async def test(client: Client) -> None:
        await client.create(template("shared") if source.endswith("TemplateName") else claim("shared"))
        entry = {"name": "d", source: "shared"}
        await client.create(gang(4, resourceClaims=[entry]))
        names = [f"g{index}" for index in range(4)]
        for name in names:
            await client.create(member(name, entry))
        await until(lambda: placed(client, *names), "all four placed", seconds=5)
        (made,) = (await client.list(ResourceClaim)).items
        assert made.metadata is not None
        assert await consumers(client, made.metadata.name or "") == [("podgroups", "gang")]

    scenario(test, gates=GANGS)


@pytest.mark.slow
def test_whoever_of_the_group_is_first_writes_the_allocation() -> None:
    """The first pod has a second claim to write, so the others come to the shared one before it."""

    async def test(client: Client) -> None:
        await client.create(template("own"))
        await client.create(claim("shared"))
        shared = {"name": "d", "resourceClaimName": "shared"}
        await client.create(gang(3, resourceClaims=[shared]))
        await client.create(member("g0", {"name": "e", "resourceClaimTemplateName": "own"}, shared))
        for name in ("g1", "g2"):
            await client.create(member(name, shared))
        await until(lambda: placed(client, "g0", "g1", "g2"), "all three placed", seconds=5)

        reasons = {event.reason for event in (await client.list(Event)).items}
        assert "FailedScheduling" not in reasons  # at the first attempt

    scenario(test, gates=GANGS)


class Slow:
    """A server whose answers take a while."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def request(self, request: Request) -> Response:
        await asyncio.sleep(0.01)
        response: Response = await self._inner.request(request)
        await asyncio.sleep(0.01)
        return response

    def watch(self, request: Request) -> Any:
        return self._inner.watch(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.slow
def test_pods_of_a_group_that_reserve_at_the_same_time_all_come_to_an_end() -> None:
    async def test(client: Client) -> None:
        await client.create(claim("c"))
        slow = Client(Slow(client.transport))
        informers = Informers(slow)
        claims = informers.of(ResourceClaim)
        informers.start()
        await claims.synced.wait()
        found = claims.get(f"{NS}/c")
        assert found is not None
        landed: list[str] = []
        writer = ClaimWriter(slow, claims, SystemClock(), landed.append, stamped=True)
        group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "G"}
        result = {"devices": {"results": [{"request": "r", "driver": CLASS, "pool": "node-0", "device": "gpu-0"}]}}
        await asyncio.wait_for(asyncio.gather(*(writer.reserve(found, group, result) for _ in range(4))), 5)
        assert await consumers(client, "c") == [("podgroups", "g")]
        assert landed
        await informers.stop()

    scenario(test)


class Broken(ClaimWriter):
    async def _store(self, *_: Any) -> None:
        await asyncio.sleep(0)
        raise KeyError("metadata")


def test_a_write_that_ends_in_a_bug_fails_for_all_who_share_it() -> None:
    async def reserve() -> list[Any]:
        writer = Broken(None, None, SystemClock(), lambda _: None, stamped=True)  # type: ignore[arg-type]
        asked = (writer.reserve(claim_object("c"), {"uid": uid}, None) for uid in "abc")
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [str(result) for result in asyncio.run(reserve())] == ["internal error: 'metadata'"] * 3


def grouped(gates: str, pods: int) -> State:
    made = state(node("n", pods=str(pods)), slice_("n"), device_class(), claim_object("c"))
    made.gates = FeatureGates.parse(gates)
    entry = {"name": "d", "resourceClaimName": "c"}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [entry]}
    made.groups["ns/g"] = from_plain(PodGroup, {"metadata": {"name": "g", "namespace": "ns", "uid": "G"}, "spec": spec})
    return made


def test_a_group_of_more_pods_than_a_claim_has_reservations_shares_it() -> None:
    pods = [info(f"p{number}", claims={"d": "c"}, schedulingGroup={"podGroupName": "g"}) for number in range(257)]
    made = grouped("GenericWorkload=true,DRAWorkloadResourceClaims=true", 400)
    for each in pods:
        place(made, each)
    made = grouped("GenericWorkload=true", 400)
    for each in pods[:256]:
        place(made, each)
    assert "resourceclaim in use" in refuse(made, pods[256]).message()


@pytest.mark.parametrize(
    ("gates", "entry", "uid"),
    [
        pytest.param("GenericWorkload=true,DRAWorkloadResourceClaims=true", "d", "G", id="the-groups"),
        pytest.param("GenericWorkload=true,DRAWorkloadResourceClaims=true", "other", "pod-p", id="another-entry"),
        pytest.param("GenericWorkload=true", "d", "pod-p", id="gate-off"),
    ],
)
def test_who_a_claim_is_reserved_for(gates: str, entry: str, uid: str) -> None:
    made = grouped(gates, 10)
    one = info("p", claims={entry: "c"}, schedulingGroup={"podGroupName": "g"})
    assert made.consumer(one, made.claims.stored["ns/c"])["uid"] == uid
