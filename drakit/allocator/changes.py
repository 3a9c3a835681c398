"""Changes that might make claims fit, as data, and how to apply them to copies of the inputs.

Used to verify suggestions before they are offered, and by tools that carry them out. Operations:
    free              devices: (driver/pool/device, …)                  nobody holds these any more
    set-count         claim, request, count
    ask-for-some      claim, request, count                             ExactCount instead of All
    set-selector      claim, request, index, expression (None: drop)
    set-class         claim, request, deviceClass
    set-class-selector  deviceClass, index, expression (None: drop)
    tolerate          claim, request, toleration
    set-capacity      claim, request, capacity, value (None: drop)
    drop-constraint   claim, index
    drop-request      claim, request
    complete-pool     pool (driver/pool)                                the published slices are all there are
    label-node        labels (None: remove)
    use-node          node
    declare-feature   feature                                           in the node's status.declaredFeatures
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from lightkube.models.core_v1 import Node, NodeStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim

from drakit.allocator.allocated import Allocated
from drakit.allocator.devices import PoolKey
from drakit.allocator.inventory import Inventory

__all__ = ["Change", "apply"]

Change = Mapping[str, Any]


def apply(
    changes: Iterable[Change], inventory: Inventory, allocated: Allocated, node: Node, claims: Sequence[ResourceClaim]
) -> tuple[Inventory, Allocated, Node, list[ResourceClaim]]:
    """Copies with the changes made; the inputs stay as they are."""
    plain = [msgspec.to_builtins(claim) for claim in claims]
    freed: list[tuple[PoolKey, str]] = []
    for change in changes:
        match change["op"]:
            case "free":
                freed += [_device(device) for device in change["devices"]]
            case "set-class-selector":
                inventory = _with_class(inventory, change)
            case "complete-pool":
                driver, _, pool = change["pool"].partition("/")
                inventory = inventory.with_pool_complete((driver, pool))
            case "label-node":
                node = _labelled(node, change["labels"])
            case "use-node":
                node = inventory.nodes.get(change["node"]) or Node(metadata=ObjectMeta(name=change["node"]))
            case "declare-feature":
                node = _declaring(node, change["feature"])
            case _:
                _change_claims(plain, change)
    changed = [msgspec.convert(claim, type(original)) for claim, original in zip(plain, claims, strict=True)]
    return inventory, allocated.without(freed) if freed else allocated, node, changed


def _labelled(node: Node, labels: Mapping[str, str | None]) -> Node:
    metadata = copy.copy(node.metadata) if node.metadata is not None else ObjectMeta()
    merged = {**(metadata.labels or {}), **labels}
    metadata.labels = {key: value for key, value in merged.items() if value is not None}
    changed = copy.copy(node)
    changed.metadata = metadata
    return changed


def _declaring(node: Node, feature: str) -> Node:
    changed = copy.copy(node)
    changed.status = copy.copy(node.status) if node.status is not None else NodeStatus()
    changed.status.declaredFeatures = [*(changed.status.declaredFeatures or ()), feature]
    return changed


def _device(text: str) -> tuple[PoolKey, str]:
    # Pool names may hold slashes; drivers and devices may not.
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    return (driver, pool), device


def _with_class(inventory: Inventory, change: Change) -> Inventory:
    name = change["deviceClass"]
    plain = msgspec.to_builtins(inventory.classes[name])
    _set_selector(plain["spec"].get("selectors") or [], change)
    other = copy.copy(inventory)
    other.classes = {**inventory.classes, name: msgspec.convert(plain, DeviceClass)}
    return other


def _change_claims(claims: list[dict[str, Any]], change: Change) -> None:
    namespace, slash, name = change["claim"].rpartition("/")
    claim = next(
        claim
        for claim in claims
        if claim["metadata"]["name"] == name and claim["metadata"].get("namespace", "") == (namespace if slash else "")
    )
    devices = claim["spec"]["devices"]
    if change["op"] == "drop-constraint":
        del devices["constraints"][change["index"]]  # several: from the last on
        return
    name, _, subrequest = change["request"].partition("/")
    request = next(request for request in devices["requests"] if request["name"] == name)
    if change["op"] == "drop-request":
        devices["requests"].remove(request)
        _forget_request(devices, name)
        return
    if subrequest:
        spec = next(sub for sub in request["firstAvailable"] if sub["name"] == subrequest)
    else:
        spec = request["exactly"]
    _change_request(spec, change)


def _forget_request(devices: dict[str, Any], name: str) -> None:
    """Constraints and config that were only about the request go with it: an empty list would mean all requests."""
    for field in ("constraints", "config"):
        kept = []
        for entry in devices.get(field) or ():
            listed = entry.get("requests")
            if listed:
                rest = [r for r in listed if r != name and not r.startswith(f"{name}/")]
                if not rest:
                    continue
                entry["requests"] = rest
            kept.append(entry)
        devices[field] = kept


def _change_request(spec: dict[str, Any], change: Change) -> None:
    match change["op"]:
        case "set-count":
            spec["count"] = change["count"]
        case "ask-for-some":
            spec["allocationMode"] = "ExactCount"
            spec["count"] = change["count"]
        case "set-selector":
            _set_selector(spec["selectors"], change)
        case "set-class":
            spec["deviceClassName"] = change["deviceClass"]
        case "tolerate":
            spec["tolerations"] = [*(spec.get("tolerations") or ()), dict(change["toleration"])]
        case "set-capacity":
            requests = spec["capacity"]["requests"]
            if change["value"] is None:
                del requests[change["capacity"]]
            else:
                requests[change["capacity"]] = change["value"]
        case other:
            raise ValueError(f"unknown change {other!r}")


def _set_selector(selectors: list[dict[str, Any]], change: Change) -> None:
    # Dropping would shift the numbers of later changes; a selector that always holds does not.
    expression = "true" if change["expression"] is None else change["expression"]
    selectors[change["index"]] = {"cel": {"expression": expression}}
