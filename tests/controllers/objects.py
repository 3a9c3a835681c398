"""Small objects for controller tests."""

from __future__ import annotations

from typing import Any

from drakit.client import Plain


def template(app: str = "x", **spec: Any) -> Plain:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def workload(kind: str, name: str, *, app: str = "", **spec: Any) -> Plain:
    app = app or name
    body = {"selector": {"matchLabels": {"app": app}}, "template": template(app), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def job(name: str, **spec: Any) -> Plain:
    body = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def pod(
    name: str,
    *,
    claims: dict[str, str] | None = None,
    template_claims: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Plain:
    """`claims`: entry -> claim; `template_claims`: entry -> template."""
    entries = [{"name": entry, "resourceClaimName": claim} for entry, claim in (claims or {}).items()]
    entries += [
        {"name": entry, "resourceClaimTemplateName": source} for entry, source in (template_claims or {}).items()
    ]
    body: Plain = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0, **spec}
    if entries:
        body["resourceClaims"] = entries
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": body}


def claim_spec(device_class: str = "gpu") -> Plain:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": device_class}}]}}


def claim(name: str, **metadata: Any) -> Plain:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": claim_spec(),
    }


def claim_template(name: str, **metadata: Any) -> Plain:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": metadata, "spec": claim_spec()},
    }


def node(
    name: str, *, ready: str = "True", labels: dict[str, str] | None = None, heartbeat: str = "2026-01-01T00:00:00Z"
) -> Plain:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "KubeletReady",
        "lastHeartbeatTime": heartbeat,
        "lastTransitionTime": heartbeat,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {
            "conditions": [condition],
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        },
    }


def slice_(
    name: str,
    node_name: str,
    devices: list[Plain] | int = 1,
    *,
    driver: str = "gpu.example.com",
    generation: int = 1,
    count: int = 1,
) -> Plain:
    listed = [{"name": f"dev-{number}"} for number in range(devices)] if isinstance(devices, int) else devices
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": generation, "resourceSliceCount": count},
            "devices": listed,
        },
    }


def rule(name: str, effect: str = "NoExecute", **selector: str) -> Plain:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": {"key": "example.com/bad", "value": "yes", "effect": effect}},
    }


def pod_group(name: str, **spec: Any) -> Plain:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"basic": {}}, **spec},
    }
