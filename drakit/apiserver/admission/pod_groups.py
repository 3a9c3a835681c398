"""PodGroups are protected from their first moment: one that is deleted stays until its last pod is gone
(the finalizer goes with `controllers.pod_groups`)."""

from __future__ import annotations

from drakit.api.gates import FeatureGates
from drakit.api.registry import Kind
from drakit.apiserver.auth import AdmissionAttributes

__all__ = ["PodGroupProtection"]

FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection:
    def __init__(self, gates: FeatureGates) -> None:
        self._enabled = gates.enabled("GenericWorkload")

    def concerns(self, kind: Kind, operation: str, subresource: str) -> tuple[bool, bool]:
        created = (kind.group, kind.plural, operation, subresource) == ("scheduling.k8s.io", "podgroups", "CREATE", "")
        return self._enabled and created, False

    def admit(self, attributes: AdmissionAttributes) -> None:
        group = attributes.object
        if group is None or not self.concerns(attributes.kind, attributes.operation, attributes.request.subresource)[0]:
            return
        held = group["metadata"].get("finalizers") or []
        if FINALIZER not in held:
            attributes.object = {**group, "metadata": {**group["metadata"], "finalizers": [*held, FINALIZER]}}

    def validate(self, attributes: AdmissionAttributes) -> None:
        """Nothing beyond `admit`."""
