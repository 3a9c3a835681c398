"""Fatal errors: met where Kubernetes meets them, and told in its words."""

from __future__ import annotations

from drakit.allocator import Failure, Features
from tests.allocator.objects import GPU, Cluster, Plain, claim, device, devices_of, request, slice_

DERIVING = Features.of("DerivedAttributes", "ListTypeAttributes", "ConsumableCapacity")
BROKEN = {"name": "drv.io/a", "expression": f'device.attributes["{GPU}"].numa'}


def _message(cluster: Cluster, plain: Plain) -> str:
    outcome = cluster.allocate(plain)
    assert isinstance(outcome, Failure)
    return outcome.message


def test_a_fault_comes_before_what_a_later_constraint_misses() -> None:
    cluster = Cluster([slice_("s", [device("x", model="A")])], features=DERIVING)
    constraints = [{"matchAttribute": "drv.io/a"}, {"matchAttribute": f"{GPU}/nope"}]
    text = f"evaluate derived attribute drv.io/a on device {GPU}/pool/x failed: no such key: numa"
    assert _message(cluster, claim(request(derivedAttributes=[BROKEN]), constraints=constraints)) == text
    # The other way round the device is left out before anything is evaluated.
    outcome = cluster.allocate(claim(request(derivedAttributes=[BROKEN]), constraints=constraints[::-1]))
    assert isinstance(outcome, Failure)
    assert outcome.kind == "none"


def test_a_fault_comes_before_a_value_that_a_later_constraint_finds_taken() -> None:
    devices = [device("x", model="A", numa=0), device("y", model="A"), device("z", model="B", numa=0)]
    cluster = Cluster([slice_("s", devices)], features=DERIVING)
    constraints = [{"matchAttribute": "drv.io/a"}, {"distinctAttribute": f"{GPU}/model"}]
    text = f"evaluate derived attribute drv.io/a on device {GPU}/pool/y failed: no such key: numa"
    assert _message(cluster, claim(request(count=2, derivedAttributes=[BROKEN]), constraints=constraints)) == text


def test_a_device_without_room_is_left_out_before_its_attributes_are_derived() -> None:
    shared = device("x", capacity={"memory": "10Gi"}, allowMultipleAllocations=True)
    cluster = Cluster([slice_("s", [shared, device("y", numa=0, capacity={"memory": "10Gi"})])], features=DERIVING)
    first = request("a", capacity={"requests": {"memory": "8Gi"}})
    second = request("b", capacity={"requests": {"memory": "8Gi"}}, derivedAttributes=[BROKEN])
    wanted = claim(first, second, constraints=[{"matchAttribute": "drv.io/a", "requests": ["b"]}])
    assert devices_of(cluster.allocate(wanted)) == [["a=pool/x", "b=pool/y"]]


# Selectors of nodes that Kubernetes cannot parse


def test_a_broken_node_selector_is_reported_as_kubernetes_does() -> None:
    terms = [
        {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["-5"]}, {"key": "zone", "operator": "In"}]}
    ]
    cluster = Cluster([slice_("s", [device("x")], nodeSelector={"nodeSelectorTerms": terms})])
    assert _message(cluster, claim(request())) == (
        "gather pool information: failed to perform node selection for slice s: failed to parse node selector "
        "&NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm{NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement{"
        "NodeSelectorRequirement{Key:n,Operator:Gt,Values:[-5],},NodeSelectorRequirement{Key:zone,Operator:In,Values:[],},},"
        "MatchFields:[]NodeSelectorRequirement{},},},}: "
        '[nodeSelectorTerms[0].matchExpressions[0].values[0][n]: Invalid value: "-5": a valid label must be an empty string '
        "or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?'), nodeSelectorTerms[0].matchExpressions[1].values: Invalid value: "
        "null: for 'in', 'notin' operators, values set can't be empty]"
    )


def test_a_broken_selector_of_a_device_names_the_device() -> None:
    fields = [{"key": "metadata.name", "operator": "Exists"}]
    broken = device("x", nodeSelector={"nodeSelectorTerms": [{"matchFields": fields}]})
    message = _message(Cluster([slice_("s", [broken], perDeviceNodeSelection=True)]), claim(request()))
    assert message.startswith("gather pool information: failed to perform node selection for device x in slice s: ")
    assert message.endswith(
        'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"'
    )
