"""Compare admission policies with what a real Kubernetes 1.37 API server decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drakit.api.errors import StatusError
from drakit.api.selectors import matches_label_selector
from drakit.apiserver.policies import Review, evaluate
from drakit.apiserver.policy_rules import validate_binding, validate_policy
from drakit.cel.admission import Access, Decision
from tests.vectors import Outcome, vector_files
from tests.vectors.cel import compare, short
from tests.vectors.rows import read

GROUP = "admissionregistration.k8s.io"
FIELDS = {
    "outcome": ("policy_accepted", "binding_accepted", "allowed", "code"),
    "message": ("policy_accepted", "binding_accepted", "allowed", "code", "reason", "message", "warnings"),
}
KINDS = {("v1", "ConfigMap"): True, ("v1", "ServiceAccount"): True, ("v1", "Namespace"): False, ("v1", "Node"): False}


class Existing:
    """The parameter objects that a vector says exist."""

    def __init__(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self.objects = objects

    def scope(self, api_version: str, kind: str) -> bool | None:
        return KINDS.get((api_version, kind))

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return next((o for o in self._in(namespace) if o["metadata"]["name"] == name), None)

    def select(
        self, api_version: str, kind: str, namespace: str, selector: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        return [o for o in self._in(namespace) if matches_label_selector(selector, o["metadata"].get("labels"))]

    def _in(self, namespace: str) -> list[Mapping[str, Any]]:
        return [o for o in self.objects if o["metadata"].get("namespace", "") == namespace]


def authorize(access: Access) -> Decision:
    """`admin` may do everything; service accounts have no rights in the vectors."""
    return Decision(access.user is None)


def _invalid(kind: str, name: str, errors: list[Any]) -> str:
    return StatusError.invalid(GROUP, kind, name, errors).message


def run(vector: dict[str, Any]) -> dict[str, Any]:
    policy = {"metadata": {"name": vector["policy"]["name"]}, "spec": vector["policy"]["spec"]}
    binding = {"metadata": {"name": vector["binding"]["name"]}, "spec": vector["binding"]["spec"]}
    errors = validate_policy(policy)
    if errors:
        return {
            "policy_accepted": False,
            "message": _invalid("ValidatingAdmissionPolicy", policy["metadata"]["name"], errors),
        }
    errors = validate_binding(binding)
    if errors:
        message = _invalid("ValidatingAdmissionPolicyBinding", binding["metadata"]["name"], errors)
        return {"policy_accepted": True, "binding_accepted": False, "message": message}
    review = Review(vector["request"], vector["object"], vector["oldObject"], vector["namespaceObject"], authorize)
    verdict = evaluate([(policy, [binding])], review, Existing(vector["params"]))
    got: dict[str, Any] = {"policy_accepted": True, "binding_accepted": True, "warnings": list(verdict.warnings)}
    if verdict.denial is None:
        return got | {
            "allowed": True,
            "code": vector["code"] if vector.get("allowed") else 200,
            "reason": None,
            "message": None,
        }
    denial = verdict.denial
    return got | {"allowed": False, "code": denial.code, "reason": denial.reason, "message": denial.message}


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    for stage in ("policy", "binding"):
        if vector.get(f"{stage}_accepted") is False:
            return {f"{stage}_accepted": False, "message": vector[f"{stage}_error"]["message"]}
    names = ("policy_accepted", "binding_accepted", "allowed", "code", "reason", "message", "unstable")
    return {name: vector.get(name) for name in names if name != "unstable" or name in vector} | {
        "warnings": list(vector.get("warnings") or ())
    }


def check(files: Sequence[Path], level: str | None) -> Outcome:
    outcome = Outcome()
    failed: Counter[str] = Counter()
    for path in files or vector_files("cel/admission.jsonl.gz"):
        for vector in read(path):
            bad = compare(expected(vector), run(vector), FIELDS["outcome" if level in (None, "outcome") else "message"])
            if bad:
                failed[vector["category"]] += 1
                shown = short([v.get("expression") for v in vector["policy"]["spec"].get("validations", ())])
                outcome.mismatches.append("\n".join([f"MISMATCH {vector['id']}: {shown}", *bad]))
            else:
                outcome.passed += 1
    if failed:
        outcome.notes.append("by category: " + ", ".join(f"{name} {count}" for name, count in sorted(failed.items())))
    return outcome
