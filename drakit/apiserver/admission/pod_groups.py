"""PodGroups from their first moment: they are protected (one that is deleted stays until its last pod is gone; the finalizer goes
with `controllers.pod_groups`), and their priority is that of their class."""

from __future__ import annotations

from typing import ClassVar

from drakit.api.gates import FeatureGates
from drakit.api.registry import Kind
from drakit.apiserver.admission.pods import Priority
from drakit.apiserver.auth import Admission, AdmissionAttributes, Lookup
from drakit.apiserver.refusals import forbidden

__all__ = ["GroupPriority", "PodGroupProtection"]

FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection(Admission):
    def __init__(self, gates: FeatureGates) -> None:
        self._enabled = gates.enabled("GenericWorkload")

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        created = (kind.group, kind.plural, operation, subresource) == ("scheduling.k8s.io", "podgroups", "CREATE", "")
        return self._enabled and created

    def admit(self, attributes: AdmissionAttributes) -> None:
        group = attributes.object
        assert group is not None
        held = group["metadata"].get("finalizers") or []
        if FINALIZER not in held:
            attributes.object = {**group, "metadata": {**group["metadata"], "finalizers": [*held, FINALIZER]}}


class GroupPriority(Admission):
    """Turns the priorityClassName of new (Composite)PodGroups into a number; refuses one that was set by hand."""

    _NAMES: ClassVar = {"podgroups": "pod group", "compositepodgroups": "composite pod group"}

    def __init__(self, lookup: Lookup, gates: FeatureGates) -> None:
        self._priority = Priority(lookup)
        self._enabled = gates.enabled("GenericWorkload")
        self._policies = gates.enabled("PodGroupPreemptionPolicy")

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        named = kind.group == "scheduling.k8s.io" and kind.plural in self._NAMES
        return self._enabled and named and (operation, subresource) == ("CREATE", "")

    def admit(self, attributes: AdmissionAttributes) -> None:
        group = attributes.object
        assert group is not None
        spec, name = group["spec"], self._NAMES[attributes.kind.plural]
        fields, value, policy = self._priority.established(attributes, spec.get("priorityClassName") or "")
        given = spec.get("priority")
        if given is not None and given != value:
            text = (
                f"priority set in the {name} ({given}) must match the priority computed ({value}) "
                "based on the priority class set in the spec"
            )
            raise forbidden(attributes, text)
        if self._policies:
            given = spec.get("preemptionPolicy")
            chosen = "PreemptLowerPriority" if given is None else given  # the default, where nothing is said
            if chosen != policy:
                text = (
                    f"the string value of PreemptionPolicy ({chosen}) must not be provided in {name} spec; "
                    f"priority admission controller computed {policy} from the given PriorityClass name"
                )
                raise forbidden(attributes, text)
            fields["preemptionPolicy"] = policy
        attributes.object = {**group, "spec": {**spec, **fields, "priority": value}}
