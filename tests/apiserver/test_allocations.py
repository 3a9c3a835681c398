"""The store refuses to promise a device twice, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

from drakit.api.errors import StatusError
from tests.apiserver.serving import Local, claim, local_server, run

DRIVER = "gpu.example.com"


def slice_of(devices: list[dict[str, Any]], *, generation: int = 1, name: str = "s", **spec: Any) -> dict[str, Any]:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": 1}
    body: dict[str, Any] = {"driver": DRIVER, "pool": pool, "nodeName": "node", **spec}
    if devices:
        body["devices"] = devices
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": body}


def result(device: str, **more: Any) -> dict[str, Any]:
    return {"request": "gpu", "driver": DRIVER, "pool": "pool", "device": device, **more}


async def publish(local: Local, *slices: dict[str, Any]) -> None:
    for one in slices:
        await local.request("POST", "resourceslices", namespace="", body=one)


async def allocate(local: Local, name: str, *results: dict[str, Any]) -> dict[str, Any]:
    if name not in [item["metadata"]["name"] for item in (await local.request("GET")).body["items"]]:
        await local.create(claim(name))
    body = {"status": {"allocation": {"devices": {"results": list(results)}}}}
    return await local.patch(name, body, subresource="status")


async def refused(local: Local, name: str, *results: dict[str, Any]) -> str:
    with pytest.raises(StatusError) as error:
        await allocate(local, name, *results)
    assert error.value.code == 409
    assert error.value.reason == "Conflict"
    found = (await local.request("GET", name=name)).body
    assert "allocation" not in found["status"]
    return str(error.value)


def test_a_device_has_one_holder() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await publish(local, slice_of([{"name": "dev-0"}, {"name": "dev-1"}]))
            await allocate(local, "a", result("dev-0"))
            text = await refused(local, "b", result("dev-0"))
            assert "device gpu.example.com/pool/dev-0 is already allocated to ResourceClaim default/a" in text
            await allocate(local, "b", result("dev-1"))

    run(scenario())


@pytest.mark.parametrize("how", ["deallocate", "delete"])
def test_a_device_that_is_given_back_can_be_had(how: str) -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await publish(local, slice_of([{"name": "dev-0"}]))
            await allocate(local, "a", result("dev-0"))
            if how == "delete":
                await local.request("DELETE", name="a")
            else:
                await local.patch("a", {"status": {"allocation": None}}, subresource="status")
            await allocate(local, "b", result("dev-0"))

    run(scenario())


def test_admin_access_neither_takes_nor_meets_a_holder() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await local.request("PATCH", "namespaces", "default", group="", namespace="", content_type="application/merge-patch+json",
                                body={"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})  # fmt: skip
            await publish(local, slice_of([{"name": "dev-0"}]))
            admin = claim("admin")
            admin["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
            await local.create(admin)
            await allocate(local, "a", result("dev-0"))
            await allocate(local, "admin", result("dev-0", adminAccess=True))
            await allocate(local, "a2", result("dev-0", adminAccess=True))

    run(scenario())


def test_shares_must_fit_into_the_capacity() -> None:
    device = {"name": "dev-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    ids = [f"11111111-2222-3333-4444-55555555555{number}" for number in range(4)]

    def share(number: int, amount: str) -> dict[str, Any]:
        return result("dev-0", shareID=ids[number], consumedCapacity={"memory": amount})

    async def scenario() -> None:
        async with local_server() as local:
            await publish(local, slice_of([device]))
            await allocate(local, "a", share(0, "4Gi"))
            await allocate(local, "b", share(1, "6Gi"))
            text = await refused(local, "c", share(2, "1"))
            assert "capacity memory" in text
            assert "ResourceClaim default/a holds 4Gi" in text
            same = await refused(local, "e", share(0, "0"))
            assert "belongs to ResourceClaim default/a" in same

    run(scenario())


def test_a_whole_device_is_not_given_beside_shares() -> None:
    device = {"name": "dev-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    share = result("dev-0", shareID="11111111-2222-3333-4444-555555555555", consumedCapacity={"memory": "1Gi"})

    async def scenario() -> None:
        async with local_server() as local:
            await publish(local, slice_of([device]))
            await allocate(local, "a", share)
            assert "already allocated" in await refused(local, "b", result("dev-0"))

    run(scenario())


def test_counters_of_a_pool_are_not_exceeded() -> None:
    def partition(name: str, amount: str) -> dict[str, Any]:
        return {"name": name, "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": amount}}}]}

    counters = [{"name": "gpu-0", "counters": {"memory": {"value": "8Gi"}}}]

    async def scenario() -> None:
        async with local_server() as local:
            pool = {"name": "pool", "generation": 1, "resourceSliceCount": 2}
            await publish(
                local,
                slice_of([], name="c", pool=pool, sharedCounters=counters),
                slice_of(
                    [partition("half", "4Gi"), partition("whole", "8Gi"), partition("other", "4Gi")],
                    name="d",
                    pool=pool,
                ),
            )
            await allocate(local, "a", result("half"))
            text = await refused(local, "b", result("whole"))
            assert "counter memory of gpu-0 in pool gpu.example.com/pool would be 12Gi of 8Gi" in text
            assert "default/a" in text
            await allocate(local, "c", result("other"))

    run(scenario())


def test_holders_are_known_again_after_a_restart(tmp_path: Any) -> None:
    async def scenario() -> None:
        async with local_server(data=tmp_path) as local:
            await publish(local, slice_of([{"name": "dev-0"}]))
            await allocate(local, "a", result("dev-0"))
        async with local_server(data=tmp_path) as local:
            assert "default/a" in await refused(local, "b", result("dev-0"))

    run(scenario())


def test_an_allocation_may_be_written_again_unchanged() -> None:
    async def scenario() -> None:
        async with local_server() as local:
            await publish(local, slice_of([{"name": "dev-0"}]))
            first = await allocate(local, "a", result("dev-0"))
            again = await allocate(local, "a", result("dev-0"))
            assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]

    run(scenario())
