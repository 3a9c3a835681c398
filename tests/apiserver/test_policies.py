"""ValidatingAdmissionPolicies on plain objects: matching, decisions, messages, parameters, budgets, and their own validation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from drakit.apiserver.policies import FAILURES_ANNOTATION, Review, Verdict, evaluate, matches
from drakit.apiserver.policy_rules import validate_binding, validate_policy
from drakit.cel.admission import Access, Decision

RULE = {
    "apiGroups": ["resource.k8s.io"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["resourceclaims"],
}
CLAIM = {
    "metadata": {"name": "c1", "namespace": "ns", "labels": {"team": "ml"}},
    "spec": {"devices": {"requests": [{"name": "a"}]}},
}
NAMESPACE = {"metadata": {"name": "ns", "labels": {"env": "test"}}}


def policy(*validations: Any, name: str = "p", **spec: Any) -> dict[str, Any]:
    made = [{"expression": item} if isinstance(item, str) else item for item in validations]
    return {
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": made, **spec},
    }


def binding(*actions: str, name: str = "b", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"policyName": "p", "validationActions": list(actions or ("Deny",)), **spec},
    }


def review(
    obj: Mapping[str, Any] | None = CLAIM,
    *,
    old: Any = None,
    operation: str = "CREATE",
    allow: bool = True,
    **request: Any,
) -> Review:
    gvr = {"group": "resource.k8s.io", "version": "v1", "resource": "resourceclaims"}
    made = {
        "kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"}, "resource": gvr, "requestResource": gvr,
        "name": "c1", "namespace": "ns", "operation": operation, "userInfo": {"username": "admin", "groups": ["g"]}, "dryRun": False,
        **request,
    }  # fmt: skip
    return Review(made, obj, old, NAMESPACE, lambda access: Decision(allow, "because"))


def decide(subject: Mapping[str, Any], *bindings: Mapping[str, Any], **options: Any) -> Verdict:
    return evaluate([(subject, bindings or [binding()])], options.pop("review", review()), options.pop("params", None))


def message(verdict: Verdict) -> str:
    assert verdict.denial is not None
    return verdict.denial.message.split("denied request: ", 1)[1]


class Store:
    """Parameter objects: ConfigMaps by (namespace, name)."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.objects = objects

    def scope(self, api_version: str, kind: str) -> bool | None:
        return {"ConfigMap": True, "Node": False}.get(kind)

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return next((o for o in self.select(api_version, kind, namespace, {}) if o["metadata"]["name"] == name), None)

    def select(
        self, api_version: str, kind: str, namespace: str, selector: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        return [o for o in self.objects if o["metadata"].get("namespace", "") == namespace]


LIMITS = {"metadata": {"name": "limits", "namespace": "ns"}, "data": {"max": "2"}}
PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def by_name(action: str = "Deny", name: str = "limits") -> dict[str, Any]:
    return binding(paramRef={"name": name, "parameterNotFoundAction": action})


def test_true_allows_and_false_denies() -> None:
    assert decide(policy("object.metadata.name == 'c1'")).denial is None
    denial = decide(policy("object.metadata.name == 'x'")).denial
    assert denial is not None
    assert (denial.code, denial.reason) == (422, "Invalid")
    assert denial.message == (
        "resourceclaims.resource.k8s.io \"c1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: object.metadata.name == 'x'"
    )


@pytest.mark.parametrize(
    ("validation", "text"),
    [
        ({"expression": "false", "message": " plain "}, "plain"),
        ({"expression": "false", "message": "plain", "messageExpression": "'name ' + object.metadata.name"}, "name c1"),
        ({"expression": "false", "message": "plain", "messageExpression": "string(1/0)"}, "plain"),
        ({"expression": "false", "messageExpression": "'two\\nlines'"}, "failed expression: false"),
        (
            {"expression": "object.nope == 1", "message": "plain"},
            "expression 'object.nope == 1' resulted in error: no such key: nope",
        ),
    ],
)
def test_message_comes_from_the_best_source(validation: dict[str, Any], text: str) -> None:
    assert message(decide(policy(validation))) == text


def test_reason_sets_the_status_code() -> None:
    denial = decide(policy({"expression": "false", "reason": "Forbidden"})).denial
    assert denial is not None
    assert (denial.code, denial.reason) == (403, "Forbidden")


def test_failure_policy_decides_about_errors_only() -> None:
    assert decide(policy("object.nope == 1", failurePolicy="Ignore")).denial is None
    assert decide(policy("false", failurePolicy="Ignore")).denial is not None
    assert decide(policy("object.nope == 1", failurePolicy="Fail")).denial is not None


def test_actions_warn_and_audit() -> None:
    verdict = decide(policy({"expression": "false", "message": "m"}), binding("Warn", "Audit"))
    assert verdict.denial is None
    assert verdict.warnings == ("Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': m",)
    assert json.loads(verdict.annotations[FAILURES_ANNOTATION]) == [
        {"message": "m", "policy": "p", "binding": "b", "expressionIndex": 0, "validationActions": ["Warn", "Audit"]}
    ]


def test_audit_annotations_are_published() -> None:
    annotated = policy(
        "true", auditAnnotations=[{"key": "who", "valueExpression": "'by ' + request.userInfo.username"}]
    )
    assert decide(annotated).annotations == {"p/who": "by admin"}


def test_variables_are_lazy_and_see_earlier_ones() -> None:
    variables = [
        {"name": "n", "expression": "object.spec.devices.requests.size()"},
        {"name": "twice", "expression": "variables.n * 2"},
        {"name": "bad", "expression": "1 / 0"},
    ]
    assert decide(policy("variables.twice == 2", variables=variables)).denial is None
    verdict = decide(policy("variables.bad == 1", variables=variables))
    assert message(verdict).endswith('composited variable "bad" fails to evaluate: division by zero')


def test_match_conditions_skip_the_policy() -> None:
    def conditions(*expressions: str) -> list[dict[str, str]]:
        return [{"name": f"c{i}", "expression": text} for i, text in enumerate(expressions)]

    assert decide(policy("false", matchConditions=conditions("true", "false"))).denial is None
    assert decide(policy("false", matchConditions=conditions("object.nope == 1", "false"))).denial is None
    failed = decide(policy("false", matchConditions=conditions("object.nope == 1", "true")))
    assert message(failed) == "expression 'object.nope == 1' resulted in error: no such key: nope"
    assert (
        decide(policy("false", matchConditions=conditions("object.nope == 1"), failurePolicy="Ignore")).denial is None
    )


def test_params_by_name_and_by_selector() -> None:
    limited = policy("object.spec.devices.requests.size() <= int(params.data.max)", paramKind=PARAM_KIND)
    assert decide(limited, by_name(), params=Store(LIMITS)).denial is None
    two = Store(LIMITS, {"metadata": {"name": "zero", "namespace": "ns"}, "data": {"max": "0"}})
    selected = binding(paramRef={"selector": {}, "parameterNotFoundAction": "Deny"})
    assert decide(limited, selected, params=two).denial is not None


def test_missing_params_follow_the_not_found_action() -> None:
    denies = policy("false", paramKind=PARAM_KIND)
    missing = decide(denies, by_name("Deny", "nope"), params=Store(LIMITS))
    assert (
        message(missing)
        == "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    assert decide(denies, by_name("Allow", "nope"), params=Store(LIMITS)).denial is None
    unknown = decide(policy("true", paramKind={"apiVersion": "example.com/v1", "kind": "Nope"}), params=Store())
    assert unknown.denial is not None
    assert unknown.denial.message.endswith(
        "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Nope'"
    )


def test_authorizer_asks_the_callers_authorizer() -> None:
    asked: list[Access] = []

    def authorize(access: Access) -> Decision:
        asked.append(access)
        return Decision(access.user is None, "r")

    base = review()
    wanted = Review(base.request, base.object, None, NAMESPACE, authorize)
    text = "authorizer.requestResource.check('update').allowed() && !authorizer.serviceAccount('ns', 'sa').path('/x').check('get').allowed()"
    assert decide(policy(text), review=wanted).denial is None
    assert asked[0] == Access("update", group="resource.k8s.io", resource="resourceclaims", namespace="ns", name="c1")
    assert asked[1] == Access("get", user="system:serviceaccount:ns:sa", path="/x")


def test_more_than_two_authorization_checks_are_too_expensive() -> None:
    check = "authorizer.path('/x').check('get').allowed()"
    assert decide(policy(f"{check} && {check}")).denial is None
    assert "actual cost limit exceeded" in message(decide(policy(f"{check} && {check} && {check}")))


def test_budget_covers_all_expressions_of_a_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drakit.cel.admission.RUNTIME_BUDGET", 5_000)
    costly = "lists.range(200).all(i, i >= 0)"  # well within the limit of one expression
    assert decide(policy(costly)).denial is None
    verdict = decide(policy(*[costly] * 20))
    assert (
        message(verdict)
        == "validation failed due to running out of cost budget, no further validation rules will be run"
    )


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"resourceRules": [RULE]}, True),
        ({"resourceRules": [{**RULE, "operations": ["DELETE"]}]}, False),
        ({"resourceRules": [{**RULE, "operations": ["*"], "resources": ["*"]}]}, True),
        ({"resourceRules": [{**RULE, "resources": ["*/*"]}]}, True),
        ({"resourceRules": [{**RULE, "resources": ["resourceclaims/status"]}]}, False),
        ({"resourceRules": [{**RULE, "apiGroups": [""]}]}, False),
        ({"resourceRules": [{**RULE, "resourceNames": ["other"]}]}, False),
        ({"resourceRules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"resourceRules": [{**RULE, "apiVersions": ["v1beta1"]}], "matchPolicy": "Exact"}, False),
        ({"resourceRules": [{**RULE, "apiVersions": ["v1beta1"]}], "matchPolicy": "Equivalent"}, True),
        ({"resourceRules": [RULE], "excludeResourceRules": [RULE]}, False),
        ({"resourceRules": [RULE], "namespaceSelector": {"matchLabels": {"env": "test"}}}, True),
        ({"resourceRules": [RULE], "namespaceSelector": {"matchLabels": {"env": "prod"}}}, False),
        ({"resourceRules": [RULE], "objectSelector": {"matchLabels": {"team": "ml"}}}, True),
        ({"resourceRules": [RULE], "objectSelector": {"matchLabels": {"team": "web"}}}, False),
    ],
)
def test_match_constraints(resources: dict[str, Any], expected: bool) -> None:
    assert matches(resources, replace(review(), versions=("v1beta2", "v1beta1"))) is expected


def test_policies_do_not_apply_to_policies() -> None:
    gvr = {"group": "admissionregistration.k8s.io", "version": "v1", "resource": "validatingadmissionpolicies"}
    everything = {
        "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
    }
    assert matches(everything, review(resource=gvr, requestResource=gvr)) is False


def test_deletes_see_the_old_object() -> None:
    rules = {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}
    subject = policy("object == null && oldObject.metadata.name == 'c1'", matchConstraints=rules)
    assert decide(subject, review=review(None, old=CLAIM, operation="DELETE")).denial is None


@pytest.mark.parametrize(
    ("subject", "texts"),
    [
        (policy("true"), []),
        (policy("object.metadata.name"), ['spec.validations[0].expression: Invalid value: "object.metadata.name": must evaluate to bool but got dyn']),
        (policy("  "), ["spec.validations[0].expression: Required value: expression is not specified"]),
        (policy("true", failurePolicy="Maybe"), ['spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"']),
        (policy({"expression": "true", "message": "a\nb"}), ['spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks']),
        (policy("int('a') == 1"), [
            "spec.validations[0].expression: Internal error: program instantiation failed: type conversion error from 'string' to 'int'"
        ]),
        (policy("true", variables=[{"name": "if", "expression": "1"}]), ['spec.variables[0].name: Invalid value: "if": must be a valid CEL identifier']),
        (policy("true", matchConditions=[{"name": "", "expression": "true"}]), ["spec.matchConditions[0].name: Required value"]),
    ],
)  # fmt: skip
def test_policy_validation(subject: dict[str, Any], texts: list[str]) -> None:
    assert [str(error) for error in validate_policy(subject)] == texts


def test_expressions_of_the_old_object_may_use_what_new_ones_may_not() -> None:
    uses = policy("[1, 2].includes(1)")
    assert validate_policy(uses) != []
    assert validate_policy(uses, uses) == []


@pytest.mark.parametrize(
    ("actions", "texts"),
    [
        (["Deny"], []),
        ([], ["spec.validationActions: Required value"]),
        (["Nope"], ['spec.validationActions[0]: Unsupported value: "Nope": supported values: "Audit", "Deny", "Warn"']),
        (["Deny", "Deny"], ['spec.validationActions[1]: Duplicate value: "Deny"']),
    ],
)
def test_binding_validation(actions: list[str], texts: list[str]) -> None:
    subject = binding()
    subject["spec"]["validationActions"] = actions
    assert [str(error) for error in validate_binding(subject)] == texts


def test_param_ref_needs_name_or_selector() -> None:
    texts = [str(error) for error in validate_binding(binding(paramRef={"parameterNotFoundAction": "Deny"}))]
    assert texts == ["spec.paramRef: Required value: one of name or selector must be specified"]
