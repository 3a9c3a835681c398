"""Random clusters and claims for property tests, small enough for the reference or large enough to hurt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.allocator.objects import GPU, claim, device_class, exactly, node, slice_
from tests.allocator.reference import Predicate, SelectorError

NIC = "nic.example.com"
Plain = dict[str, Any]


def _model_is_a(driver: str, device: Mapping[str, Any]) -> bool:
    attributes = device.get("attributes") or {}
    if driver != GPU or "model" not in attributes:
        raise SelectorError("no such key: model")
    return bool(attributes["model"]["string"] == "A")


def _model_is_a_if_any(driver: str, device: Mapping[str, Any]) -> bool:
    attributes = device.get("attributes") or {}
    return driver == GPU and "model" in attributes and attributes["model"]["string"] == "A"


PREDICATES: dict[str, Predicate] = {
    "true": lambda _driver, _device: True,
    f'device.driver == "{GPU}"': lambda driver, _device: driver == GPU,
    f'device.attributes["{GPU}"].model == "A"': _model_is_a,
    f'device.attributes["{GPU}"].?model.orValue("") == "A"': _model_is_a_if_any,
    "!device.allowMultipleAllocations": lambda _driver, device: not device.get("allowMultipleAllocations"),
}
_SAFE = [text for text, predicate in PREDICATES.items() if predicate is not _model_is_a]
CLASSES = [device_class("any"), device_class("gpu", f'device.driver == "{GPU}"')]
NODE = node("node-1")
TAINTS = [
    {"key": "bad", "effect": "NoSchedule"},
    {"key": "sick", "effect": "NoExecute", "value": "x"},
    {"key": "n", "effect": "None"},
]
TOLERATIONS = [
    {"operator": "Exists"},
    {"key": "bad", "operator": "Exists"},
    {"key": "sick", "operator": "Equal", "value": "x"},
]


@st.composite
def devices(draw: st.DrawFn, name: str, counter_sets: int) -> Plain:
    plain: Plain = {"name": name}
    attributes: Plain = {}
    if draw(st.integers(0, 5)):
        attributes["model"] = {"string": draw(st.sampled_from("AB"))}
    if draw(st.integers(0, 5)):
        attributes["root"] = draw(st.sampled_from([{"int": 0}, {"int": 1}, {"string": "x"}]))
    if attributes:
        plain["attributes"] = attributes
    if draw(st.booleans()):
        capacity: Plain = {"value": draw(st.sampled_from(["4", "10"]))}
        if not draw(st.integers(0, 2)):
            capacity["requestPolicy"] = {"default": "2", "validValues": ["2", "4", "8"]}
        plain["capacity"] = {"memory": capacity}
    if not draw(st.integers(0, 3)):
        plain["allowMultipleAllocations"] = True
    if not draw(st.integers(0, 4)):
        plain["taints"] = draw(st.lists(st.sampled_from(TAINTS), min_size=1, max_size=2))
    if counter_sets and draw(st.integers(0, 3)):
        amount = str(draw(st.integers(1, 3)))
        which = draw(st.integers(0, counter_sets - 1))
        plain["consumesCounters"] = [{"counterSet": f"set-{which}", "counters": {"units": {"value": amount}}}]
    if not draw(st.integers(0, 7)):
        plain["bindingConditions"] = ["Ready"]
    return plain


@st.composite
def pools(draw: st.DrawFn, number: int, most: int) -> list[Plain]:
    driver = draw(st.sampled_from([GPU, GPU, NIC]))
    counter_sets = draw(st.sampled_from([0, 0, 1, 2]))
    parts = draw(st.integers(1, 2))
    total = draw(st.integers(1, most))
    made = [draw(devices(f"dev-{i}", counter_sets)) for i in range(total)]
    count = parts + (counter_sets > 0) + (draw(st.integers(0, 11)) == 0)
    where = draw(st.sampled_from([{"nodeName": "node-1"}, {"nodeName": "node-1"}, {"allNodes": True}]))
    common: Plain = {"driver": driver, "pool": f"pool-{number}", "count": count, "generation": 2, **where}
    result = [
        slice_(f"slice-{number}-{draw(st.integers(0, 9))}-{part}", made[part::parts], **common) for part in range(parts)
    ]
    if counter_sets:
        sets = [
            {"name": f"set-{i}", "counters": {"units": {"value": str(draw(st.integers(2, 6)))}}}
            for i in range(counter_sets)
        ]
        result.append(slice_(f"slice-{number}-c", sharedCounters=sets, **common))
    if not draw(st.integers(0, 7)):
        result.append(slice_(f"slice-{number}-old", [{"name": "old"}], **{**common, "generation": 1}))
    return result


@st.composite
def specs(draw: st.DrawFn, errors: bool, *, in_list: bool = False) -> Plain:
    texts = list(PREDICATES) if errors else _SAFE
    fields: Plain = {}
    if not draw(st.integers(0, 7)):
        fields["allocationMode"] = "All"
    if not in_list and not draw(st.integers(0, 9)):
        fields["adminAccess"] = True
    if not draw(st.integers(0, 3)):
        fields["tolerations"] = draw(st.lists(st.sampled_from(TOLERATIONS), min_size=1, max_size=2))
    if not draw(st.integers(0, 3)):
        fields["capacity"] = {"requests": {"memory": str(draw(st.integers(1, 6)))}}
    chosen = draw(st.lists(st.sampled_from(texts), max_size=draw(st.sampled_from([0, 0, 1, 2]))))
    return exactly(
        draw(st.sampled_from([1, 1, 1, 2, 3])), *chosen, cls=draw(st.sampled_from(["any", "any", "gpu"])), **fields
    )


@st.composite
def claims(draw: st.DrawFn, number: int, errors: bool) -> Plain:
    requests: list[Plain] = []
    for i in range(draw(st.sampled_from([1, 1, 2, 3]))):
        if draw(st.integers(0, 3)):
            requests.append({"name": f"r{i}", "exactly": draw(specs(errors))})
        else:
            subs = [{"name": f"s{j}", **draw(specs(errors, in_list=True))} for j in range(draw(st.integers(1, 3)))]
            requests.append({"name": f"r{i}", "firstAvailable": subs})
    constraints = []
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        constraint: Plain = {kind: f"{GPU}/{draw(st.sampled_from(['root', 'model']))}"}
        if draw(st.booleans()):
            constraint["requests"] = draw(
                st.lists(st.sampled_from([r["name"] for r in requests]), min_size=1, unique=True)
            )
        constraints.append(constraint)
    return claim(*requests, name=f"claim-{number}", constraints=constraints)


@st.composite
def scenarios(
    draw: st.DrawFn, *, most: int = 4, most_pools: int = 2, most_claims: int = 2, errors: bool = True
) -> Plain:
    """slices, held, claims."""
    slices = [plain for number in range(draw(st.integers(1, most_pools))) for plain in draw(pools(number, most))]
    held = []
    for plain in slices:
        for device in plain["spec"].get("devices") or ():
            if draw(st.integers(0, 4)):
                continue
            result = {
                "driver": plain["spec"]["driver"],
                "pool": plain["spec"]["pool"]["name"],
                "device": device["name"],
            }
            if device.get("allowMultipleAllocations"):
                result["shareID"] = f"share-{len(held)}"
                if device.get("capacity"):
                    result["consumedCapacity"] = {"memory": str(draw(st.integers(1, 4)))}
            held.append(result)
    made = [draw(claims(number, errors)) for number in range(draw(st.integers(1, most_claims)))]
    return {"slices": draw(st.permutations(slices)), "held": held, "claims": made}
