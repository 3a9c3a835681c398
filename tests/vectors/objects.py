"""The pure functions against recorded answers: every body that creates or changes an object, without a server.

A script is replayed on a dictionary: POST and PUT are decoded and go through `api.strategy`, merge and JSON patches are applied to the
stored object first, GET encodes. What needs a server (admission, deletion, watches, apply) is left out and counted. Compared are
verdict, causes and object; texts are counted, and fail only at level message.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drakit.api import registry, strategy
from drakit.api.errors import FieldError, StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import Kind, WriteContext
from tests.vectors import Outcome, normal, patching, vector_files

FILES = ("api/validation.jsonl", "api/defaulting.jsonl", "api/versions.jsonl", "api/seeds.jsonl")
OWN = "objects.jsonl"
MESSAGES_WANTED = 0.95
_PATH = re.compile(
    r"/apis?/(?:(?P<group>[^/]+\.[^/]+|apps|batch|policy|autoscaling)/)?(?P<version>v[0-9a-z]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[a-z]+))?)?"
)
_SERVERS_WORDS = re.compile(
    r"does not match the expected|object provided is unrecognized|no kind .* is registered|requires resource=|should not be set on objects to be created"
)
Object = dict[str, Any]


def check(files: list[Path], level: str | None = None) -> Outcome:
    paths = files or vector_files(*FILES) or vector_files(OWN)
    outcome = Outcome()
    tally = Tally()
    for path in paths:
        for line in path.read_text().splitlines():
            if line.strip():
                script = json.loads(line)
                _run(_translated(script) if "about" in script else script, outcome, tally, level or "body")
    outcome.notes += tally.notes()
    if tally.messages and tally.equal / tally.messages < MESSAGES_WANTED:
        outcome.mismatches.append(
            f"messages equal in {tally.equal} of {tally.messages}: fewer than {MESSAGES_WANTED:.0%}"
        )
    return outcome


@dataclass
class Tally:
    steps: int = 0
    messages: int = 0
    equal: int = 0
    different: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def notes(self) -> list[str]:
        notes = [f"{self.steps} steps compared; texts equal in {self.equal} of {self.messages}"]
        notes += [f"left to the server: {count} {reason}" for reason, count in self.left_out.most_common()]
        return notes + [f"text differs: {text}" for text in self.different]


# Our own selection (tests/data/objects.jsonl) says the same in fewer words; here it becomes a script of the vectors' format.

_DO = {
    "create": ("POST", ""),
    "replace": ("PUT", ""),
    "read": ("GET", ""),
    "merge": ("PATCH", "application/merge-patch+json"),
    "patch": ("PATCH", "application/json-patch+json"),
}
_NAMESPACED = re.compile(r"(v\w+)/(resourceclaims|resourceclaimtemplates)")


def _translated(own: Object) -> Object:
    script: Object = {
        "id": own["id"],
        "title": own["about"],
        "steps": [_translated_step(step) for step in own["steps"]],
    }
    if "labels" in own:
        script["namespace"] = {"labels": own["labels"]}
    return script


def _translated_step(own: Object) -> Object:
    method, content_type = _DO[own["do"]]
    expect: Object = {"status": 201 if own["do"] == "create" else 200, "body": own.get("gives")}
    if "refused" in own:
        refused = own["refused"]
        causes = [{"reason": reason, "field": field} for reason, field in refused.get("causes", [])]
        expect = {"status": refused["code"], "body": {"kind": "Status", **refused, "details": {"causes": causes}}}
    if "warns" in own:
        expect["warnings"] = own["warns"]
    step = {
        "method": method,
        "path": "/apis/resource.k8s.io/" + _NAMESPACED.sub(r"\1/namespaces/${ns}/\2", own["at"]),
        "headers": {"Content-Type": content_type} if content_type else {},
        "expect": expect,
    }
    return {**step, **{name: own[name] for name in ("body", "query", "view") if name in own}}


class LeftOut(Exception):
    """What a step needs that the pure functions do not have."""


def _run(script: Object, outcome: Outcome, tally: Tally, level: str) -> None:
    replay = Replay(script)
    compared = 0
    for number, step in enumerate(script["steps"], 1):
        where = f"{script['id']} step {number} {step['method']} {step.get('path', '')}"
        try:
            answer = replay.perform(step)
        except LeftOut as reason:
            tally.left_out[str(reason)] += 1
            replay.learn(step)
            continue
        wrong = replay.compare(step, answer, tally, where)
        if wrong is None and level == "message" and tally.different and tally.different[-1].startswith(where):
            wrong = tally.different[-1]
        tally.steps += 1
        compared += 1
        if wrong:
            outcome.mismatches.append(f"{where}: {wrong}")
            return
    if compared:
        outcome.passed += 1


@dataclass
class Answer:
    status: int
    body: Object
    warnings: list[str]


@dataclass(frozen=True)
class Target:
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.kind.group, self.kind.plural, self.namespace, self.name


class Replay:
    warned: list[str]

    def __init__(self, script: Object) -> None:
        self.normaliser = normal.Normaliser(script)
        self.variables = {"p": "cvbcdfgh", "ns": "cvns-jklmnpqr"}
        for name, value in self.variables.items():
            self.normaliser.set(name, value)
        labels = script.get("namespace")
        self.labels: Object = labels.get("labels", {}) if isinstance(labels, dict) else {}
        self.store: dict[tuple[str, str, str, str], Object] = {}
        self.version = 100

    # Performing

    def perform(self, step: Object) -> Answer:
        method = step["method"]
        if method not in ("POST", "PUT", "PATCH", "GET"):
            raise LeftOut(f"{method} requests")
        if (
            "watch" in step
            or "retry_until" in step
            or any(key in step.get("query", {}) for key in ("labelSelector", "fieldSelector"))
        ):
            raise LeftOut("lists, watches and waiting")
        if any(
            name.lower() == "authorization" or name.lower().startswith("impersonate")
            for name in step.get("headers", {})
        ):
            raise LeftOut("requests of other users")
        if "as=Table" in step.get("headers", {}).get("Accept", "") or "PartialObject" in step.get("headers", {}).get(
            "Accept", ""
        ):
            raise LeftOut("tables and partial objects")
        if "apply" in step.get("headers", {}).get("Content-Type", "") or "strategic" in step.get("headers", {}).get(
            "Content-Type", ""
        ):
            raise LeftOut("strategic patches and apply")
        if "raw" in step:
            raise LeftOut("bodies that are no JSON")
        if step["expect"]["status"] == 409 and method != "POST":
            raise LeftOut("conflicts, which are the store's")
        if _SERVERS_WORDS.search(json.dumps((step["expect"].get("body") or {}).get("message", ""))):
            raise LeftOut("bodies whose kind or requester the server refuses")
        target = self.target(normal.substitute(step["path"], self.variables))
        self.warned: list[str] = []
        try:
            return self.dispatch(method, target, step)
        except StatusError as error:
            return Answer(error.code, error.to_status(), self.deprecation(target) + self.warned)

    def target(self, path: str) -> Target:
        match = _PATH.fullmatch(path)
        if match is None:
            raise LeftOut("other paths")
        kind = registry.by_resource(match["group"] or "", match["plural"])
        if kind is None or kind.version(match["version"]) is None:
            raise LeftOut("kinds or versions that are not served")
        if match["sub"] not in (None, "status"):
            raise LeftOut(f"the subresource {match['sub']}")
        return Target(kind, match["version"], match["namespace"] or "", match["name"] or "", match["sub"] or "")

    def deprecation(self, target: Target) -> list[str]:
        version = target.kind.version(target.version)
        return [version.deprecated] if version and version.deprecated else []

    def context(self, target: Target) -> WriteContext:
        def privileges(new: Object, old: Object | None) -> list[FieldError]:
            return admin_access(target, new, old, self.labels)

        return WriteContext(
            FeatureGates.default(), datetime.now(UTC), expressions(), version=target.version, privileges=privileges
        )

    def dispatch(self, method: str, target: Target, step: Object) -> Answer:
        body = normal.substitute(step.get("body"), self.variables)
        if method == "GET":
            if not target.name:
                raise LeftOut("lists, watches and waiting")
            return self.answer(200, target, self.stored(target), [])
        if method == "POST":
            return self.create(target, body, step)
        old = self.stored(target)
        strict: list[str] = []
        if method == "PATCH":
            kind = step.get("headers", {}).get("Content-Type", "")
            patched = patching.apply(kind, strategy.encode(target.kind, target.version, old), body)
            decoded = strategy.decode(target.kind, target.version, patched)
        else:
            decoded = strategy.decode(target.kind, target.version, body)
            strict = self.strict(target, decoded, step)
        return self.update(target, decoded.obj, old, strict, dry="dryRun" in step.get("query", {}))

    def stored(self, target: Target) -> Object:
        found = self.store.get(target.key)
        if found is None:
            if target.key in self.unknown:
                raise LeftOut("objects that the server made")
            raise StatusError.not_found(target.kind.group, target.kind.plural, target.name)
        return found

    unknown: frozenset[tuple[str, str, str, str]] = frozenset()

    def strict(self, target: Target, decoded: strategy.Decoded, step: Object) -> list[str]:
        """What fieldValidation says: an error, warnings (the default) or nothing."""
        mode = step.get("query", {}).get("fieldValidation", "Warn")
        found = list(decoded.strict_errors)
        if found and mode == "Strict":
            kind = target.kind.kind
            detail = f'{kind} in version "{target.version}" cannot be handled as a {kind}: strict decoding error: '
            raise StatusError.bad_request(detail + ", ".join(found))
        self.warned = found if mode == "Warn" else []
        return self.warned

    def create(self, target: Target, body: Any, step: Object) -> Answer:
        decoded = strategy.decode(target.kind, target.version, body)
        strict = self.strict(target, decoded, step)
        obj = decoded.obj
        meta = obj["metadata"]
        if target.kind.namespaced:
            meta["namespace"] = meta.get("namespace") or target.namespace
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + "bcdfg"
        meta["uid"] = normal.UID
        obj, warnings = strategy.create(target.kind, obj, self.context(target))
        key = (target.kind.group, target.kind.plural, meta.get("namespace") or "", meta["name"])
        if key in self.store:
            raise StatusError.already_exists(target.kind.group, target.kind.plural, meta["name"])
        if "dryRun" not in step.get("query", {}):
            self.stamp(obj)
            self.store[key] = obj
        return self.answer(201, target, obj, strict + warnings)

    def update(self, target: Target, new: Object, old: Object, strict: list[str], *, dry: bool) -> Answer:
        kind, meta = target.kind, new["metadata"]
        if not meta.get("resourceVersion") and kind.strategy.allow_unconditional_update(target.version):
            meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        elif meta.get("resourceVersion") and meta["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise StatusError.modified(kind.group, kind.plural, target.name)
        if kind.namespaced:
            meta["namespace"] = meta.get("namespace") or target.namespace
        new, warnings = strategy.update(kind, new, old, self.context(target), target.subresource)
        if not dry and new != old:
            self.stamp(new)
            self.store[target.key] = new
        return self.answer(200, target, new, strict + warnings)

    def stamp(self, obj: Object) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)

    def answer(self, status: int, target: Target, obj: Object, warnings: list[str]) -> Answer:
        encoded = copy.deepcopy(strategy.encode(target.kind, target.version, obj))
        return Answer(status, encoded, self.deprecation(target) + warnings)

    # What was left out may still have made the object that the next steps work on.

    def learn(self, step: Object) -> None:
        body = step["expect"].get("body") if "expect" in step else None
        if step["method"] not in ("POST", "PUT", "PATCH", "DELETE") or "path" not in step:
            return
        if step["expect"]["status"] >= 400:
            return
        try:
            target = self.target(normal.substitute(step["path"], self.variables))
        except LeftOut:
            return
        name = target.name or ((body or {}).get("metadata") or {}).get("name") or ""
        key = (*target.key[:3], str(normal.substitute(name, self.variables)))
        self.store.pop(key, None)
        self.unknown = self.unknown | {key}

    # Comparing

    def compare(self, step: Object, answer: Answer, tally: Tally, where: str) -> str | None:
        expected = step["expect"]
        for name, path in (step.get("save") or {}).items():
            value = normal.lookup(answer.body, path["path"] if isinstance(path, dict) else path)
            if value is None:
                return f"no value to save at {path}"
            self.variables[name] = value
            self.normaliser.set(name, value)
        if expected["status"] != answer.status:
            return f"expected {expected['status']}, got {answer.status}: {answer.body.get('message', '')[:300]}"
        if step.get("compare") == "status" or "body" not in expected:
            return None
        actual = self.normaliser.walk(answer.body)
        actual = normal.apply_view(actual, step.get("view"))
        wanted = normal.without_admission(expected["body"])
        actual = normal.without_admission(actual)
        self.texts(wanted, actual, expected.get("warnings", []), answer.warnings, tally, where)
        if len(expected.get("warnings", [])) != len(answer.warnings):
            return f"warnings: expected {expected.get('warnings', [])}, got {answer.warnings}"
        if wanted.get("kind") == "Status":
            return self.compare_status(wanted, actual)
        return normal.difference(wanted, actual)

    @staticmethod
    def compare_status(wanted: Object, actual: Object) -> str | None:
        if wanted.get("reason") != actual.get("reason"):
            return f"reason: expected {wanted.get('reason')}, got {actual.get('reason')}: {actual.get('message', '')[:300]}"

        def causes(body: Object) -> list[tuple[str, str]]:
            found = (body.get("details") or {}).get("causes") or []
            return sorted((cause.get("reason", ""), cause.get("field", "")) for cause in found)

        if causes(wanted) != causes(actual):
            return f"causes: expected {causes(wanted)}, got {causes(actual)}"
        return None

    def texts(
        self, wanted: Object, actual: Object, warnings: list[str], given: list[str], tally: Tally, where: str
    ) -> None:
        pairs = [(str(one), str(two)) for one, two in zip(warnings, map(self.normaliser.text, given), strict=False)]
        if wanted.get("kind") == "Status":
            pairs.append((wanted.get("message", ""), actual.get("message", "")))
        for one, two in pairs:
            tally.messages += 1
            if one == two:
                tally.equal += 1
            else:
                tally.different.append(f"{where}:\n    expected {one[:600]}\n    got      {two[:600]}")


def expressions() -> Any:
    from drakit.cel.device import ApiExpressionChecker

    return ApiExpressionChecker()


def admin_access(target: Target, new: Object, old: Object | None, labels: Object) -> list[FieldError]:
    """The one privilege that depends on the namespace alone; the rest is the server's."""
    if target.kind.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return []
    path = next(_admin_paths(target, new, old), None)
    if path is None or labels.get("resource.kubernetes.io/admin-access") == "true":
        return []
    detail = "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace"
    return [FieldError.forbidden(path, detail)]


def _admin_paths(target: Target, new: Object, old: Object | None) -> Iterator[str]:
    if old is None:
        spec = new["spec"].get("spec") or {} if target.kind.kind == "ResourceClaimTemplate" else new["spec"]
        for position, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
            if (request.get("exactly") or {}).get("adminAccess"):
                yield f"spec.devices.requests[{position}].adminAccess"
    elif target.subresource == "status":
        results = _results(new)
        if not any(result.get("adminAccess") for result in _results(old)):
            for position, result in enumerate(results):
                if result.get("adminAccess"):
                    yield f"status.allocation.devices.results[{position}].adminAccess"


def _results(claim: Object) -> list[Object]:
    return (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results") or []
