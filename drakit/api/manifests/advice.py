"""What to change: for the mistakes that people make, the words to write instead.

Everything here is derived from the manifest itself: nothing is looked up, and where nothing better than Kubernetes' own message can
be said, nothing is said.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from drakit.api import registry, wire
from drakit.api.kind import Kind, Object
from drakit.api.manifests.reading import steps
from drakit.api.resource.convert import EXACT

__all__ = [
    "for_field_error",
    "for_fragment",
    "for_type_error",
    "for_unknown_field",
    "for_unknown_kind",
    "guessed_kind",
]

_REQUEST = re.compile(r"(?P<request>(?:spec\.)?spec\.devices\.requests\[[0-9]+\])\.(?P<field>\w+)")
_DEVICE = re.compile(r"spec\.devices\[[0-9]+\]\.(?P<field>\w+)")
_BASIC = frozenset({"attributes", "capacity", "taints", "consumesCounters", "nodeName", "nodeSelector", "allNodes"})
# Kinds that older versions had, and what does their work now.
_GONE = {
    "ResourceClass": "use a DeviceClass (apiVersion: resource.k8s.io/v1); its selectors say which devices belong to it",
    "ResourceClaimParameters": "put the parameters into the claim: spec.devices.config[].opaque",
    "ResourceClassParameters": "put the parameters into the DeviceClass: spec.config[].opaque",
    "PodSchedulingContext": "delete it: the scheduler allocates devices itself since Kubernetes 1.31",
    "PodScheduling": "delete it: the scheduler allocates devices itself since Kubernetes 1.31",
}


# Kinds


def for_unknown_kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    if group == "resource.k8s.io" and kind in _GONE:
        return f"{kind} is gone: {_GONE[kind]}"
    known = registry.by_kind(group, kind)
    if known is not None:
        offered = ", ".join(known.api_version(served.name) for served in known.versions)
        return f"{version} of {kind} is not known; write apiVersion: {known.api_version()} (known: {offered})"
    for candidate in registry.KINDS:
        if candidate.kind == kind:
            return f"write apiVersion: {candidate.api_version()}"
    names = {candidate.kind for candidate in registry.KINDS}
    close = difflib.get_close_matches(kind, names, 1)
    if close:
        return f"did you mean kind: {close[0]}?"
    return "a custom resource: its CustomResourceDefinition has to be installed"


def for_fragment(value: Object) -> str:
    """A piece of a manifest: says what it is a piece of."""
    guess = _guess_kind(value)
    if not guess:
        return "begin the manifest with apiVersion and kind, e.g. apiVersion: resource.k8s.io/v1, kind: ResourceClaim"
    kind, lead = guess
    lines = [lead] if lead else []
    lines += [f"this looks like a part of a {kind}: begin it with", "apiVersion: resource.k8s.io/v1", f"kind: {kind}"]
    if not isinstance(value.get("metadata"), dict):
        lines += ["metadata:", "  name: NAME"]
    return "\n".join(lines)


def guessed_kind(value: Object) -> str:
    """The kind that a manifest without one seems to be; "" when nothing tells."""
    guess = _guess_kind(value)
    return guess[0] if guess else ""


def _guess_kind(value: Object) -> tuple[str, str] | None:
    spec = value.get("spec")
    if isinstance(spec, dict):
        if isinstance(spec.get("spec"), dict):
            return "ResourceClaimTemplate", ""
        if "pool" in spec or "driver" in spec:
            return "ResourceSlice", ""
        if "taint" in spec:
            return "DeviceTaintRule", ""
        if isinstance(spec.get("devices"), dict):
            return "ResourceClaim", ""
        if "selectors" in spec or "config" in spec:
            return "DeviceClass", ""
        return None
    if "exactly" in value or "firstAvailable" in value or "all" in value:
        lead = (
            "requests stand in a list, under spec.devices.requests, each with a name and `exactly` or `firstAvailable`"
        )
        if "all" in value:
            lead += "\nthere is no `all`: write `exactly` with `allocationMode: All`"
        return "ResourceClaim", lead
    return None


# Unknown fields


def for_unknown_field(kind: Kind, version: str, path: str, value: Object) -> str:
    if kind.group == "resource.k8s.io":
        known = _unknown_in_claim(kind, version, path, value) or _unknown_in_slice(kind, version, path)
        if known:
            return known
    if kind.kind == "DeviceClass" and path == "spec.suitableNodes":
        return (
            "suitableNodes is gone since Kubernetes 1.32: select nodes in the pod, or devices by an attribute of theirs"
        )
    if re.search(r"resourceClaims\[[0-9]+\]\.source$", path):
        return (
            "`source` is gone since Kubernetes 1.31: write its resourceClaimName or resourceClaimTemplateName "
            "beside `name`, one level up"
        )
    if path == "name" and "name" not in (value.get("metadata") or {}):
        return f"the name belongs under metadata:\nmetadata:\n  name: {value['name']}"
    return _did_you_mean(kind, version, path)


def _unknown_in_claim(kind: Kind, version: str, path: str, value: Object) -> str:
    if kind.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return ""
    place = "spec.spec" if kind.kind == "ResourceClaimTemplate" else "spec"
    if path in (f"{place}.requests", f"{place}.constraints", f"{place}.config"):
        return f"move `{path.rpartition('.')[2]}` under {place}.devices"
    if kind.kind == "ResourceClaimTemplate" and path == "spec.devices":
        return "the spec of the claim stands under spec.spec: move `devices` one level deeper"
    match = _REQUEST.fullmatch(path)
    if match is None:
        return ""
    field = match["field"]
    if field in EXACT and version != "v1beta1":
        return f"{_flat_request(value, match['request'])}\nor keep the old form and write apiVersion: resource.k8s.io/v1beta1"
    if field == "exactly":
        return "v1beta1 has no `exactly`: write apiVersion: resource.k8s.io/v1, or move its fields one level up"
    if field == "all":
        return "there is no `all`: write `exactly` with `allocationMode: All`"
    return ""


def _flat_request(value: Object, path: str) -> str:
    """The request as it has to stand in v1, made from what was written."""
    request = _at(value, path)
    if not isinstance(request, dict):
        return "in v1 these fields stand under `exactly`"
    lines = [
        "in v1 a request says under `exactly` what it asks for:",
        "requests:",
        f"- name: {request.get('name', 'NAME')}",
        "  exactly:",
    ]
    for name in request:
        if name in EXACT:
            shown = request[name] if isinstance(request[name], str | int) else "…"
            lines.append(f"    {name}: {shown}")
    return "\n".join(lines)


def _at(value: Any, path: str) -> Any:
    for step in steps(path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            return None
    return value


def _unknown_in_slice(kind: Kind, version: str, path: str) -> str:
    match = _DEVICE.fullmatch(path) if kind.kind == "ResourceSlice" else None
    if match is None:
        return ""
    if match["field"] == "basic" and version != "v1beta1":
        return "`basic` is gone in v1: move its fields one level up, into the device"
    if match["field"] in _BASIC and version == "v1beta1":
        return "in v1beta1 these fields stand under `basic`; or write apiVersion: resource.k8s.io/v1"
    return ""


def _did_you_mean(kind: Kind, version: str, path: str) -> str:
    served = kind.version(version)
    parent, _, name = path.rpartition(".")
    if served is None:
        return ""
    known = wire.field_names(served.model, [step for step in steps(parent) if isinstance(step, str)])
    close = difflib.get_close_matches(name, known, 1, cutoff=0.75)
    if not close:
        lowered = {field.lower(): field for field in known}
        close = [lowered[name.lower()]] if name.lower() in lowered else []
    return f"did you mean `{close[0]}`?" if close else ""


# Values

_TYPE_ERROR = re.compile(
    r"cannot unmarshal (?P<found>\w+) into Go struct field \w+\.(?P<path>[\w.]+) of type (?P<wanted>\w+)"
)
_IN_GO = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


def for_type_error(message: str, value: Object) -> tuple[str, str]:
    """The field that a type error of the decoder means (it names no indexes, nor keys of maps), and what to write there."""
    match = _TYPE_ERROR.search(message)
    if match is None:
        return "", ""
    found, wanted = match["found"], match["wanted"]
    field = _first_of_type(value, match["path"].split("."), found, "") or match["path"]
    if wanted == "string" and found in ("bool", "number"):
        return (
            field,
            f"put the value in quotes: without them YAML takes it for a {'truth value' if found == 'bool' else found}",
        )
    if found == "string" and wanted in ("int32", "int64", "bool"):
        return field, f"write a {'truth value' if wanted == 'bool' else 'whole number'}, without quotes"
    return field, ""


def _first_of_type(value: Any, path: list[str], wanted: str, at: str) -> str:
    """Where the first value of a type is, along a path or anywhere in the map at its end; "" when there is none."""
    if not path and _IN_GO.get(type(value)) == wanted:
        return at
    inside: list[tuple[str, Any, list[str]]] = []
    if isinstance(value, list):
        inside = [(f"{at}[{number}]", item, path) for number, item in enumerate(value)]
    elif isinstance(value, dict) and not path:
        inside = [(f"{at}[{key}]", item, path) for key, item in value.items()]
    elif isinstance(value, dict) and path[0] in value:
        inside = [(f"{at}.{path[0]}" if at else path[0], value[path[0]], path[1:])]
    return next(filter(None, (_first_of_type(item, rest, wanted, where) for where, item, rest in inside)), "")


def for_field_error(kind: Kind, field: str, reason: str, value: Object) -> str:
    if field == "metadata.name" and reason == "FieldValueRequired":
        return "add a name:\nmetadata:\n  name: NAME"
    name = field.rpartition(".")[2]
    if name in ("matchAttribute", "distinctAttribute"):
        return _qualified_attribute(field, value)
    if reason == "FieldValueRequired" and re.fullmatch(r"(spec\.)?spec\.devices\.requests\[[0-9]+\]", field):
        return "say what is asked for:\nexactly:\n  deviceClassName: CLASS"
    if field == "spec.pool.resourceSliceCount":
        return "say how many slices the pool has, e.g. resourceSliceCount: 1"
    if field.startswith("metadata.ownerReferences") and name == "uid":
        return "an owner is named with its uid; leave ownerReferences out of manifests, whoever creates the object sets them"
    if kind.kind == "Pod" and re.fullmatch(r"spec\.resourceClaims\[[0-9]+\]", field):
        return "write resourceClaimName (an existing claim) or resourceClaimTemplateName (a claim per pod)"
    return ""


def _qualified_attribute(field: str, value: Object) -> str:
    attribute = _at(value, field)
    if not isinstance(attribute, str) or "/" in attribute:
        return ""
    name = field.rpartition(".")[2]
    domain = _driver_hint(value)
    return f"put the driver's domain in front of the attribute, e.g. {name}: {domain}/{attribute}"


def _driver_hint(value: Object) -> str:
    """The domain that the author most likely means: one that the manifest itself names."""
    text = str(value)
    found = re.search(r"device\.(?:attributes|capacity)\[['\"]([a-z0-9.-]+\.[a-z]+)['\"]\]", text)
    if found:
        return found[1]
    found = re.search(r"'(?:driver|deviceClassName)': '([a-z0-9-]+\.[a-z0-9.-]+)'", text)
    return found[1] if found else "DRIVER-DOMAIN"


_QUALIFIED = re.compile(r"""device\.(attributes|capacity)\[(["'])([^"'/]+)/([^"'/]+)\2\](\.value\b)?""")


def for_expression(expression: str) -> list[tuple[str, str]]:
    """Attributes looked up by their whole name: a domain that no device has, so that the expression compiles and never holds."""
    found = []
    for match in _QUALIFIED.finditer(expression):
        member, quote, domain, name, _ = match.groups()
        right = f"device.{member}[{quote}{domain}{quote}].{name}"
        found.append((f"{quote}{domain}/{name}{quote}", f"write {right} instead of {match.group(0)}"))
    return found
