"""Between v1 and v1beta1, the one version whose shape differs: flat requests, and devices under `basic`.

v1beta2 and v1alpha3 are read and written like v1. The functions share what they do not change with their argument.
"""

from __future__ import annotations

import re
from typing import Any

from drakit.api.kind import Object

__all__ = [
    "EXACT",
    "claim_path_in_v1beta1",
    "claim_to_v1",
    "claim_to_v1beta1",
    "slice_path_in_v1beta1",
    "slice_to_v1",
    "slice_to_v1beta1",
    "template_to_v1",
    "template_to_v1beta1",
]

_EXACTLY = re.compile(r"(\.devices\.requests\[[0-9]+\])\.exactly\b")
_DEVICE = re.compile(r"^(spec\.devices\[[0-9]+\])\.(?!name\b)")

# The fields of an exact request, which v1beta1 has in the request itself.
EXACT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)


def _requests(spec: Object, convert: Any) -> Object:
    devices = spec.get("devices") or {}
    if not devices.get("requests"):
        return spec
    return {**spec, "devices": {**devices, "requests": [convert(request) for request in devices["requests"]]}}


def _nested(request: Object) -> Object:
    # The class is always written, so only a class that is there says that this is an exact request.
    exact = {name: request[name] for name in EXACT if request.get(name, "") != ""}
    rest = {name: value for name, value in request.items() if name not in EXACT}
    if exact:
        rest["exactly"] = {"deviceClassName": "", **exact}
    return rest


def _flat(request: Object) -> Object:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    rest["deviceClassName"] = ""
    rest.update(request.get("exactly") or {})
    return rest


def claim_to_v1(claim: Object) -> Object:
    return {**claim, "spec": _requests(claim["spec"], _nested)}


def claim_to_v1beta1(claim: Object) -> Object:
    return {**claim, "spec": _requests(claim["spec"], _flat)}


def template_to_v1(template: Object) -> Object:
    spec = template["spec"]
    return {**template, "spec": {**spec, "spec": _requests(spec.get("spec") or {}, _nested)}}


def template_to_v1beta1(template: Object) -> Object:
    spec = template["spec"]
    return {**template, "spec": {**spec, "spec": _requests(spec.get("spec") or {}, _flat)}}


def claim_path_in_v1beta1(path: str) -> str:
    return _EXACTLY.sub(r"\1", path)


def slice_path_in_v1beta1(path: str) -> str:
    return _DEVICE.sub(r"\1.basic.", path)


def slice_to_v1(obj: Object) -> Object:
    spec = {name: value for name, value in obj["spec"].items() if name not in ("nodeName", "allNodes") or value}
    if spec.get("devices"):
        spec["devices"] = [{**device.get("basic", {}), "name": device.get("name", "")} for device in spec["devices"]]
    return {**obj, "spec": spec}


def slice_to_v1beta1(obj: Object) -> Object:
    spec = dict(obj["spec"])
    if spec.get("devices"):
        spec["devices"] = [
            {"name": device.get("name", ""), "basic": {name: value for name, value in device.items() if name != "name"}}
            for device in spec["devices"]
        ]
    return {**obj, "spec": spec}
