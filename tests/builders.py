"""Small builders of plain objects, in the storage version: what a test does not say is valid and unremarkable."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

DRIVER = "gpu.example.com"
CLASS = "gpu"
NODE = "node-0"


def metadata(name: str, namespace: str = "", **more: Any) -> Object:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **more}


def _object(kind: str, meta: Object, version: str = "v1", **parts: Any) -> Object:
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": meta, **parts}


def selector(expression: str) -> Object:
    return {"cel": {"expression": expression}}


def device_class(name: str = CLASS, *expressions: str, **spec: Any) -> Object:
    selectors = {"selectors": [selector(text) for text in expressions]} if expressions else {}
    return _object("DeviceClass", metadata(name), spec={**selectors, **spec})


def request(name: str = "req-0", class_name: str = CLASS, **exactly: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": class_name, **exactly}}


def subrequest(name: str, class_name: str = CLASS, **more: Any) -> Object:
    return {"name": name, "deviceClassName": class_name, **more}


def claim(name: str = "claim", *requests: Object, namespace: str = "default", **devices: Any) -> Object:
    return _object("ResourceClaim", metadata(name, namespace), spec=claim_spec(*requests, **devices))


def claim_spec(*requests: Object, **devices: Any) -> Object:
    return {"devices": {"requests": list(requests) or [request()], **devices}}


def template(name: str = "template", *requests: Object, namespace: str = "default", **devices: Any) -> Object:
    return _object("ResourceClaimTemplate", metadata(name, namespace), spec={"spec": claim_spec(*requests, **devices)})


def device(name: str = "dev-0", **fields: Any) -> Object:
    return {"name": name, **fields}


def slice_(name: str = "slice", *devices: Object, driver: str = DRIVER, pool: str = "pool-0", **spec: Any) -> Object:
    node: Object = (
        {} if {"nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeName"} & set(spec) else {"nodeName": NODE}
    )
    shown = {} if "sharedCounters" in spec else {"devices": list(devices) or [device()]}
    pool_spec = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return _object("ResourceSlice", metadata(name), spec={"driver": driver, "pool": pool_spec, **node, **shown, **spec})


def taint(key: str = "example.com/unhealthy", effect: str = "NoSchedule", **more: Any) -> Object:
    return {"key": key, "effect": effect, **more}


def taint_rule(name: str = "rule", **spec: Any) -> Object:
    return _object("DeviceTaintRule", metadata(name), spec={"taint": taint(), **spec})


def result(device_name: str = "dev-0", request_name: str = "req-0", **more: Any) -> Object:
    return {"request": request_name, "driver": DRIVER, "pool": "pool-0", "device": device_name, **more}


def allocation(*results: Object, **more: Any) -> Object:
    return {"devices": {"results": list(results) or [result()]}, **more}


def consumer(name: str = "pod", uid: str = "uid-0") -> Object:
    return {"resource": "pods", "name": name, "uid": uid}
