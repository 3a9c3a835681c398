"""The vectors' text forms: variables and macros in requests, placeholders in answers."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

UID = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
_VARIABLE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_TOKEN = re.compile(r"""\.?([^.\[\]]+)|\[(\d+)\]|\["([^"]*)"\]|\[\?([^=\]]+)=([^\]]*)\]""")


def substitute(value: Any, variables: dict[str, Any]) -> Any:
    """Replaces ${name}, $repeat, $repeatkeys and $str."""
    if isinstance(value, str):
        whole = _VARIABLE.fullmatch(value)
        if whole:
            return variables[whole[1]]
        return _VARIABLE.sub(lambda match: str(variables[match[1]]), value)
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            if isinstance(item, dict) and "$repeat" in item:
                items += [substitute(item["item"], {**variables, "i": i}) for i in range(item["$repeat"])]
            else:
                items.append(substitute(item, variables))
        return items
    if isinstance(value, dict):
        return _substitute_object(value, variables)
    return value


def _substitute_object(value: dict[str, Any], variables: dict[str, Any]) -> Any:
    if "$str" in value:
        middle = substitute(value["$str"], variables) * value["times"]
        return substitute(value.get("prefix", ""), variables) + middle + substitute(value.get("suffix", ""), variables)
    if "$repeatkeys" in value:
        made = {}
        for i in range(value["$repeatkeys"]):
            here = {**variables, "i": i}
            made[str(substitute(value["key"], here))] = substitute(value["value"], here)
        return {**made, **substitute(value.get("base", {}), variables)}
    return {str(substitute(key, variables)): substitute(item, variables) for key, item in value.items()}


def _tokens(path: str) -> list[tuple[str, str, str]]:
    found = []
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        assert match, path
        name, index, key, select, value = match.groups()
        found.append(
            ("index", index, "") if index else ("where", select, value) if select else ("key", name or key, "")
        )
        position = match.end()
    return found


def lookup(value: Any, path: str) -> Any:
    for kind, name, wanted in _tokens(path):
        if kind == "key":
            value = value.get(name) if isinstance(value, dict) else None
        elif kind == "index":
            value = value[int(name)] if isinstance(value, list) and int(name) < len(value) else None
        else:
            items = value if isinstance(value, list) else []
            value = next((item for item in items if str(lookup(item, name)) == wanted), None)
    return value


def _remove(value: Any, path: str) -> None:
    *parents, (_, last, _) = _tokens(path)
    for _, name, _ in parents:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value.pop(last, None)


def apply_view(body: Any, operations: list[dict[str, Any]] | None) -> Any:
    """The parts of an answer that a script compares; only what single objects need."""
    for operation in operations or []:
        ((kind, argument),) = operation.items()
        if kind == "only":
            if body.get("kind") != "Status":
                body = {path: lookup(body, path) for path in argument if lookup(body, path) is not None}
        elif kind == "drop":
            for path in argument:
                _remove(body, path)
        elif kind == "mask":
            for path in argument:
                _mask(body, path)
        else:
            raise AssertionError(f"view {kind}")
    return body


def _mask(value: Any, path: str) -> None:
    *parents, (_, last, _) = _tokens(path)
    for kind, name, _ in parents:
        if kind == "index":
            value = value[int(name)] if isinstance(value, list) and int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict) and last in value:
        value[last] = "<masked>"


class Normaliser:
    """Puts the placeholders of the vectors in the place of what differs from run to run."""

    def __init__(self, script: dict[str, Any]) -> None:
        steps = [{key: value for key, value in step.items() if key != "expect"} for step in script["steps"]]
        self.own = json.dumps(steps, ensure_ascii=False)
        self.names: list[tuple[str, str]] = []

    def set(self, name: str, value: Any) -> None:
        if isinstance(value, str) and len(value) >= 5 and not value.isdigit():
            self.names = sorted(
                [pair for pair in self.names if pair[1] != name] + [(value, name)], key=lambda p: -len(p[0])
            )

    def text(self, text: str) -> str:
        for value, name in self.names:
            text = text.replace(value, "${" + name + "}")
        text = _UUID.sub(lambda match: match[0] if match[0] in self.own else "<uid>", text)
        return _STAMP.sub(self._stamp, text)

    def _stamp(self, match: re.Match[str]) -> str:
        if match[0] in self.own:
            return match[0]
        age = datetime.now(UTC) - datetime.fromisoformat(match[0].replace("Z", "+00:00"))
        return "<time>" if abs(age) < timedelta(days=2) else match[0]

    def walk(self, value: Any, key: str = "") -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.walk(item, key) for item in value]
        if not isinstance(value, dict):
            return value
        out = {}
        for name, item in value.items():
            if name == "managedFields":
                continue
            if name == "resourceVersion" and key == "metadata" and isinstance(item, str):
                out[name] = "<rv>" if item else ""
            else:
                out[self.text(name)] = self.walk(item, name)
        if key == "metadata" and value.get("generateName") and str(value.get("name")).startswith(value["generateName"]):
            out["name"] = self.text(value["generateName"]) + "<rand>"
        return out


_ADMITTED = ("serviceAccount", "serviceAccountName", "priority", "preemptionPolicy", "tolerations")


_ADMITTED_PATHS = (
    "spec.volumes",
    "spec.tolerations",
    "spec.serviceAccount",
    "spec.serviceAccountName",
    "spec.containers[0].volumeMounts",
)


def without_admission(body: Any) -> Any:
    """A Pod or Node without what admission plugins put in: that is the server's part."""
    if not isinstance(body, dict):
        return body
    if any(path in body for path in _ADMITTED_PATHS):
        return {path: value for path, value in body.items() if path not in _ADMITTED_PATHS}
    if body.get("kind") == "Node" and "spec" in body:
        return {**body, "spec": {name: value for name, value in body["spec"].items() if name != "taints"}}
    if body.get("kind") != "Pod" or "spec" not in body:
        return body
    spec = {name: value for name, value in body["spec"].items() if name not in _ADMITTED}
    _drop_entries(spec, "volumes", "name", "kube-api-access-")
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = _without_token_mounts(spec[name])
    return {**body, "spec": spec}


def _without_token_mounts(containers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    containers = [dict(container) for container in containers]
    for container in containers:
        _drop_entries(container, "volumeMounts", "name", "kube-api-access-")
    return containers


def _drop_entries(obj: dict[str, Any], name: str, key: str, prefix: str) -> None:
    kept = [entry for entry in obj.get(name) or [] if not entry[key].startswith(prefix)]
    if kept:
        obj[name] = kept
    else:
        obj.pop(name, None)


def difference(wanted: Any, actual: Any, path: str = "") -> str | None:
    """Where two answers first differ."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        for key in [*wanted, *(key for key in actual if key not in wanted)]:
            if key not in actual:
                return f"{path}.{key}: missing, expected {json.dumps(wanted[key])[:300]}"
            if key not in wanted:
                return f"{path}.{key}: not expected, is {json.dumps(actual[key])[:300]}"
            found = difference(wanted[key], actual[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        pairs = enumerate(zip(wanted, actual, strict=True))
        return next((found for i, (one, two) in pairs if (found := difference(one, two, f"{path}[{i}]"))), None)
    if wanted == actual and isinstance(wanted, bool) == isinstance(actual, bool):
        return None
    return f"{path}: expected {json.dumps(wanted)[:300]}, is {json.dumps(actual)[:300]}"
