"""From chosen devices to AllocationResults: results, config and node selector, as upstream assembles them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from lightkube.models.core_v1 import NodeSelector, NodeSelectorRequirement
from lightkube.models.resource_v1 import DeviceToleration, ResourceClaim

from drakit.allocator.claims import config_of
from drakit.allocator.devices import SliceRecord, Traits
from drakit.allocator.errors import Fatal
from drakit.allocator.problem import Alternative, Problem
from drakit.allocator.search import Choice, Search

__all__ = ["assemble"]

# Share ids are derived, not drawn: the allocator uses no random numbers, and a claim holds a device's share once per result.
_SHARES = uuid.UUID("6f1dc1f8-3e0f-5d3c-9f43-0d1f6c6d4a7e")


def assemble(problem: Problem, search: Search) -> tuple[dict[str, Any], ...]:
    return tuple(_allocation(problem, search, index, claim) for index, claim in enumerate(problem.claims))


def _allocation(problem: Problem, search: Search, index: int, claim: ResourceClaim) -> dict[str, Any]:
    choices = search.results[index]
    chosen = [
        slot.alternatives[search.chosen.get(number, 0)]
        for number, slot in enumerate(problem.slots)
        if slot.claim_index == index
    ]
    devices: dict[str, Any] = {}
    if choices:
        devices["results"] = [_result(problem, claim, choice, n) for n, choice in enumerate(choices)]
    config = _config(claim, chosen)
    if config:
        devices["config"] = config
    allocation: dict[str, Any] = {"devices": devices}
    selector = _node_selector(problem, claim, choices)
    if selector is not None:
        allocation["nodeSelector"] = selector
    return allocation


def _result(problem: Problem, claim: ResourceClaim, choice: Choice, position: int) -> dict[str, Any]:
    alternative = choice.alternative
    pool, index = problem.view.locate(choice.number)
    traits = pool.layout.traits[index]
    record = pool.slices[pool.layout.slice_of[index]]
    name = pool.layout.names[index]
    result: dict[str, Any] = {
        "request": alternative.full_name,
        "driver": pool.key[0],
        "pool": pool.key[1],
        "device": name,
    }
    if alternative.admin:
        result["adminAccess"] = True
    if alternative.tolerations:
        result["tolerations"] = tolerations(alternative.tolerations)
    if problem.features.DeviceBindingAndStatus:
        if traits.binding_conditions:
            result["bindingConditions"] = list(traits.binding_conditions)
        if traits.binding_failure_conditions:
            result["bindingFailureConditions"] = list(traits.binding_failure_conditions)
    if choice.consumed is not None:
        uid = (claim.metadata.uid if claim.metadata is not None else None) or ""
        result["shareID"] = str(
            uuid.uuid5(_SHARES, f"{uid}/{position}/{alternative.full_name}/{'/'.join(pool.key)}/{name}")
        )
        if choice.consumed.texts:
            result["consumedCapacity"] = dict(choice.consumed.texts)
    if problem.features.OptionalNodeOperations and record.skip_node_operations:
        result["skipNodeOperations"] = list(record.skip_node_operations)
    return result


def tolerations(tolerations: Sequence[DeviceToleration]) -> list[dict[str, Any]]:
    """As Go writes them: an empty string is left out."""
    plain = (msgspec.to_builtins(toleration) for toleration in tolerations)
    return [{key: value for key, value in each.items() if value != ""} for each in plain]


def _config(claim: ResourceClaim, chosen: Sequence[Alternative]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    of_class: dict[str, list[dict[str, Any]]] = {}
    for alternative in chosen:
        name = alternative.spec.deviceClassName
        if name in of_class:
            for entry in of_class[name]:
                entry["requests"].append(alternative.full_name)
            continue
        class_config = (alternative.cls.spec.config if alternative.cls.spec is not None else None) or ()
        of_class[name] = [
            {"source": "FromClass", "requests": [alternative.full_name], **_opaque(c)} for c in class_config
        ]
        entries += of_class[name]
    for config in config_of(claim):
        listed = config.requests or ()
        if not listed or any(_covered(alternative, listed) for alternative in chosen):
            entries.append({"source": "FromClaim", "requests": list(listed), **_opaque(config)})
    for entry in entries:
        if all(_covered(alternative, entry["requests"]) for alternative in chosen):
            entry["requests"] = []
        if not entry["requests"]:
            del entry["requests"]  # no list means all requests
    return entries


def _covered(alternative: Alternative, names: Sequence[str]) -> bool:
    return alternative.slot.request.name in names or alternative.full_name in names


def _opaque(config: Any) -> dict[str, Any]:
    return {} if config.opaque is None else {"opaque": msgspec.to_builtins(config.opaque)}


def _node_selector(problem: Problem, claim: ResourceClaim, choices: Sequence[Choice]) -> dict[str, Any] | None:
    fields: list[dict[str, Any]] = []
    expressions: list[dict[str, Any]] = []
    for choice in choices:
        pool, index = problem.view.locate(choice.number)
        traits = pool.layout.traits[index]
        node_name, selector = _placement(pool.slices[pool.layout.slice_of[index]], traits)
        if node_name or (traits.binds_to_node and not problem.features.oldest):
            here = {"key": "metadata.name", "operator": "In", "values": [problem.view.node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [here]}]}
        terms = (selector.nodeSelectorTerms if selector is not None else None) or ()
        if len(terms) > 1:
            name = (claim.metadata.name if claim.metadata is not None else None) or ""
            raise Fatal(
                f"create NodeSelector for claim {name}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms",
                "node-selector",
                claim=name,
            )
        for term in terms:
            _merge(fields, term.matchFields)
            _merge(expressions, term.matchExpressions)
    if not fields and not expressions:
        return None
    merged: dict[str, Any] = {}
    if expressions:
        merged["matchExpressions"] = expressions
    if fields:
        merged["matchFields"] = fields
    return {"nodeSelectorTerms": [merged]}


def _placement(record: SliceRecord, traits: Traits) -> tuple[str, NodeSelector | None]:
    placement = traits.placement if record.per_device else record.placement
    return (placement.node_name, placement.selector) if placement is not None else ("", None)


def _merge(into: list[dict[str, Any]], requirements: Sequence[NodeSelectorRequirement] | None) -> None:
    for requirement in requirements or ():
        plain: dict[str, Any] = msgspec.to_builtins(requirement)
        if not any(_same(plain, present) for present in into):
            into.append(plain)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (one["key"], one["operator"], set(one.get("values") or ())) == (
        other["key"],
        other["operator"],
        set(other.get("values") or ()),
    )
