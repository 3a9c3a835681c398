"""All that decisions read, in one place: nodes and pods, claims, inventory, classes, budgets; and how much of it is assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from lightkube.models.core_v1 import Namespace, Node
from lightkube.models.policy_v1 import PodDisruptionBudget
from lightkube.models.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.allocator import Allocated, Features, Inventory
from drakit.api.gates import FeatureGates
from drakit.scheduler.claims import Claims, claim_name, is_groups
from drakit.scheduler.evicting import EvictingTaints
from drakit.scheduler.extended import ClassesByResource
from drakit.scheduler.filters import StaticFits
from drakit.scheduler.hierarchy import Hierarchy, Ref
from drakit.scheduler.nodes import Nodes
from drakit.scheduler.outcome import Diagnosis
from drakit.scheduler.partitions import Partitions
from drakit.scheduler.pods import PodInfo

SPREAD, PACK = "spread", "pack"


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator may choose."""

    placement: str = SPREAD  # spread: least allocated node first; pack: most allocated first
    sample: int = 24  # feasible nodes compared per pod (upstream: 100 or more, of which it scores all)
    filter_timeout: float = 10.0  # DynamicResourcesArgs.filterTimeout
    binding_timeout: float = 600.0  # DynamicResourcesArgs.bindingTimeout
    clock: Callable[[], float] = monotonic  # bounds one allocator call


def disruptions_allowed(budget: PodDisruptionBudget) -> int:
    return (budget.status.disruptionsAllowed if budget.status else 0) or 0


@dataclass(frozen=True, slots=True)
class Promise:
    """The pod waits for others to leave the node (status.nominatedNodeName)."""

    info: PodInfo
    node: str
    claims: tuple[str, ...] = ()  # keys of those whose devices come free with the victims
    holds: tuple[Mapping[str, Any], ...] = ()  # allocation results: of devices that other nodes can have as well
    victims: tuple[str, ...] = ()  # UIDs of those who have to leave


@dataclass(slots=True)
class State:
    gates: FeatureGates = field(default_factory=FeatureGates.default)
    policy: Policy = field(default_factory=Policy)
    nodes: Nodes = field(default_factory=Nodes)
    inventory: Inventory = field(default_factory=Inventory)
    allocated: Allocated = field(default_factory=Allocated)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    resources: ClassesByResource = field(default_factory=ClassesByResource)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    groups: dict[str, PodGroup] = field(default_factory=dict)
    nominated: dict[str, Promise] = field(default_factory=dict)  # by pod UID, the earliest first
    leaving: set[str] = field(
        default_factory=set
    )  # UIDs of victims that are told to go; the server may not show it yet
    revision: int = 0  # moves with every change that a decision could see
    failures: dict[object, tuple[int, Diagnosis]] = field(default_factory=dict)  # by pod shape, at a revision
    last_node: str = ""  # where the last search stopped; the next starts behind it
    partitions: Partitions = field(default_factory=Partitions)
    together: Callable[[PodInfo], tuple[Ref | None, tuple[str, ...]]] = lambda info: (
        None,
        (info.uid,),
    )  # UIDs of those that go only with this pod, and the group that wants it
    hierarchy: Hierarchy = field(init=False)
    claims: Claims = field(init=False)
    static: StaticFits = field(init=False)
    evicting: EvictingTaints = field(init=False)
    features: Features = field(init=False)
    binding_conditions: bool = field(init=False)

    def __post_init__(self) -> None:
        self.hierarchy = Hierarchy(self.groups, nested=self.gates.enabled("CompositePodGroup"))
        self.claims = Claims(self.allocated, self.partitions)
        self.static = StaticFits(self.nodes)
        self.evicting = EvictingTaints(self.inventory)
        self.features = Features.from_gates(self.gates)
        self.binding_conditions = self.gates.enabled("DRADeviceBindingConditions") and self.gates.enabled(
            "DRAResourceClaimDeviceStatus"
        )

    @property
    def group_claims(self) -> bool:
        return self.gates.enabled("DRAWorkloadResourceClaims")

    def known_failure(self, key: object) -> Diagnosis | None:
        """What a pod of the same shape was told, when nothing has changed since."""
        revision, diagnosis = self.failures.get(key, (-1, None))
        return diagnosis if revision == self.revision else None

    def remember_failure(self, key: object, diagnosis: Diagnosis) -> None:
        if len(self.failures) > 256:
            self.failures.clear()
        self.failures[key] = (self.revision, diagnosis)

    def set_node(self, node: Node) -> bool:
        changed = self.nodes.set_node(node)
        if changed:  # heartbeats change nothing that is looked at here
            self.revision += 1
            self.inventory.set_node(node)
        return changed

    def remove_node(self, name: str) -> None:
        self.revision += 1
        self.nodes.remove_node(name)
        self.inventory.remove_node(name)

    def set_slice(self, slice_: ResourceSlice) -> None:
        self.revision += 1
        self.inventory.set_slice(slice_)
        self.partitions.set_slice(slice_)
        self.evicting.set_slice(slice_)

    def remove_slice(self, name: str) -> None:
        self.revision += 1
        self.inventory.remove_slice(name)
        self.partitions.remove_slice(name)
        self.evicting.remove_slice(name)

    def set_class(self, device_class: DeviceClass) -> None:
        assert device_class.metadata is not None
        assert device_class.metadata.name
        self.revision += 1
        self.classes[device_class.metadata.name] = device_class
        self.inventory.set_class(device_class)
        self.resources.set(device_class)

    def remove_class(self, name: str) -> None:
        self.revision += 1
        self.classes.pop(name, None)
        self.inventory.remove_class(name)
        self.resources.remove(name)

    def set_rule(self, rule: DeviceTaintRule) -> bool:
        """Whether it makes a difference to any device; so does `remove_rule`."""
        changed = self.inventory.set_rule(rule) | self.evicting.set_rule(rule)
        self.revision += changed
        return changed

    def remove_rule(self, name: str) -> bool:
        changed = self.inventory.remove_rule(name) | self.evicting.remove_rule(name)
        self.revision += changed
        return changed

    def set_namespace(self, namespace: Namespace) -> None:
        assert namespace.metadata is not None
        assert namespace.metadata.name
        self.namespaces[namespace.metadata.name] = namespace.metadata.labels or {}

    def remove_namespace(self, namespace: Namespace) -> None:
        assert namespace.metadata is not None
        self.namespaces.pop(namespace.metadata.name or "", None)

    def consumer(self, info: PodInfo, claim: ResourceClaim) -> dict[str, Any]:
        """Whom the claim is reserved for when the pod uses it: the pod, or its PodGroup where that has the same entry."""
        group = self.groups.get(info.group) if info.group and self.group_claims else None
        if group is not None and group.metadata is not None and claim.metadata is not None:
            for entry in info.claims:
                if claim_name(info.pod, entry)[0] == claim.metadata.name and is_groups(entry, group):
                    meta = group.metadata
                    return {
                        "apiGroup": "scheduling.k8s.io",
                        "resource": "podgroups",
                        "name": meta.name,
                        "uid": meta.uid,
                    }
        return {"resource": "pods", "name": info.name, "uid": info.uid}

    def takes_devices(self, info: PodInfo) -> bool:
        return bool(info.claims) or bool(self.resources.provided(info.requests))

    def nominate(
        self,
        info: PodInfo,
        node_name: str,
        claims: Iterable[str] = (),
        holds: Iterable[Mapping[str, Any]] = (),
        victims: Iterable[str] = (),
    ) -> None:
        """The pod waits for this node; what comes free there is promised to it."""
        self.revision += 1
        self.nominated[info.uid] = Promise(info, node_name, tuple(claims), tuple(holds), tuple(victims))

    def withdraw(self, uid: str) -> bool:
        """The promise has been kept or is given up; whether there was one."""
        if self.nominated.pop(uid, None) is None:
            return False
        self.revision += 1
        return True

    def place(self, info: PodInfo, node_name: str) -> None:
        self.revision += 1
        self.nodes.place(info, node_name)

    def displace(self, uid: str) -> None:
        self.revision += 1
        self.nodes.displace(uid)
