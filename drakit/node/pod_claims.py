"""Which ResourceClaims a pod uses, whether it may, and which devices each container gets. Pure; upstream's resourceclaim package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightkube.models.core_v1 import Container, Pod, PodResourceClaim
from lightkube.models.resource_v1 import ResourceClaim

from drakit.node.errors import PrepareError

__all__ = ["ClaimUse", "check_owner", "container_requests", "is_reserved", "resource_health_name", "uses"]

_SCHEDULING_GROUP = "scheduling.k8s.io"


@dataclass(frozen=True)
class ClaimUse:
    """One claim of a pod: the entry's name in the pod ("" for the extended resource claim) and the object's name."""

    entry: str
    claim: str
    check_owner: bool = False


def uses(pod: Pod) -> list[ClaimUse]:
    """In the order in which they are prepared. An entry whose template made no claim is left out."""
    assert pod.spec is not None
    found = []
    for entry in pod.spec.resourceClaims or ():
        use = _use(pod, entry)
        if use is not None:
            found.append(use)
    extended = pod.status.extendedResourceClaimStatus if pod.status else None
    if extended is not None:
        found.append(ClaimUse("", extended.resourceClaimName))
    return found


def _use(pod: Pod, entry: PodResourceClaim) -> ClaimUse | None:
    assert pod.metadata is not None
    where = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resourceClaimName:
        return ClaimUse(entry.name, entry.resourceClaimName)
    if not entry.resourceClaimTemplateName:
        raise PrepareError(f'{where}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in (pod.status.resourceClaimStatuses if pod.status else None) or ():
        if status.name == entry.name:
            return (
                ClaimUse(entry.name, status.resourceClaimName, check_owner=True) if status.resourceClaimName else None
            )
    raise PrepareError(f"{where}: ResourceClaim not created yet")


def _group(pod: Pod) -> str:
    group = pod.spec.schedulingGroup if pod.spec else None
    return (group.podGroupName or "") if group else ""


def check_owner(pod: Pod, claim: ResourceClaim) -> None:
    """A claim made from a template must have been made for this pod (or its PodGroup)."""
    assert pod.metadata is not None
    assert claim.metadata is not None
    controller = next((o for o in claim.metadata.ownerReferences or () if o.controller), None)
    if controller is not None and controller.uid == pod.metadata.uid:
        return
    group = _group(pod)
    named = controller is not None and controller.name == group and controller.kind == "PodGroup"
    if group and named and controller is not None and controller.apiVersion.startswith(_SCHEDULING_GROUP + "/"):
        return
    where = f"ResourceClaim {claim.metadata.namespace}/{claim.metadata.name} was not created for Pod"
    detail = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    raise PrepareError(f"{where} {pod.metadata.namespace}/{pod.metadata.name} ({detail})")


def is_reserved(pod: Pod, claim: ResourceClaim) -> bool:
    assert pod.metadata is not None
    group = _group(pod)
    for consumer in (claim.status.reservedFor if claim.status else None) or ():
        if consumer.uid == pod.metadata.uid:
            return True
        if (
            group
            and consumer.apiGroup == _SCHEDULING_GROUP
            and consumer.resource == "podgroups"
            and consumer.name == group
        ):
            return True
    return False


def container_requests(pod: Pod, container: Container) -> list[tuple[str, str, str]]:
    """(entry, claim, request) for each of the container's uses; request "" means all devices of the claim."""
    by_entry = {u.entry: u.claim for u in _safe_uses(pod) if u.entry}
    found = []
    for use in (container.resources.claims if container.resources else None) or ():
        if use.name in by_entry:
            found.append((use.name, by_entry[use.name], use.request or ""))
    extended = pod.status.extendedResourceClaimStatus if pod.status else None
    if extended is not None:
        wanted = _nonzero((container.resources.requests if container.resources else None) or {})
        for mapping in extended.requestMappings or ():
            if mapping.containerName == container.name and mapping.resourceName in wanted:
                found.append(("", extended.resourceClaimName, mapping.requestName))
    return found


def _safe_uses(pod: Pod) -> Sequence[ClaimUse]:
    try:
        return uses(pod)
    except PrepareError:
        return ()


def _nonzero(requests: dict[str, str]) -> set[str]:
    return {name for name, amount in requests.items() if str(amount) not in ("0", "")}


def resource_health_name(entry: str, request: str) -> str:
    return f"claim:{entry}/{request}" if request else f"claim:{entry}"
