"""ValidatingAdmissionPolicies: what a policy and its bindings say about a request. Pure: objects in, a verdict out.

Order and texts are Kubernetes': match constraints, match conditions, validations with their messages, audit annotations;
the first denial of the first policy is the answer. Looking up parameters and authorizing are the caller's (`Params`,
`Review.authorize`). `policy_rules` validates the objects themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from drakit.api.errors import StatusError
from drakit.api.selectors import matches_label_selector
from drakit.cel import admission as cel
from drakit.cel import types as t
from drakit.cel.admission import Access, Compiled, Decision, OutOfBudget, PolicyCompiler, VariableValues
from drakit.cel.errors import EvaluationError

__all__ = ["Params", "Review", "Verdict", "evaluate", "matches"]

Object = Mapping[str, Any]

MAX_MESSAGE = 5 * 1024
MAX_ANNOTATION = 10 * 1024
MAX_FAILURES = 50
FAILURES_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_EXEMPT = (
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
)


class Params(Protocol):
    """Where the objects that policies name as parameters come from."""

    def scope(self, api_version: str, kind: str) -> bool | None:
        """Whether objects of this kind are namespaced; None when there is no such kind."""

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None: ...

    def select(self, api_version: str, kind: str, namespace: str, selector: Object) -> Sequence[Object]: ...


class NoParams:
    """For callers without any."""

    def scope(self, api_version: str, kind: str) -> bool | None:
        return None

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        return None

    def select(self, api_version: str, kind: str, namespace: str, selector: Object) -> Sequence[Object]:
        return ()


@dataclass(frozen=True)
class Review:
    """A request as policies see it: a plain AdmissionRequest, and the objects in the version the request used."""

    request: Object
    object: Object | None
    old_object: Object | None
    namespace: Object | None  # the Namespace of a namespaced object
    authorize: Callable[[Access], Decision] | None = None
    # The other versions in which the same object can be had, and how: a policy written for v1beta1 must also see what comes as v1.
    versions: Sequence[str] = ()
    in_version: Callable[[str], Review] | None = None

    @property
    def version(self) -> str:
        request = self.request
        return str((request.get("requestResource") or request.get("resource") or {}).get("version") or "")


@dataclass(frozen=True)
class Verdict:
    """`denial` is None when the request may pass; the rest is for the response and the audit log."""

    denial: StatusError | None = None
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


# -- compiling ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Policy:
    """The compiled expressions of a policy."""

    conditions: tuple[Compiled, ...]
    validations: tuple[Compiled, ...]
    messages: tuple[Compiled | None, ...]
    annotations: tuple[Compiled, ...]
    variables: Mapping[str, Compiled]


@lru_cache(maxsize=256)
def _compile(text: str) -> _Policy:
    spec = json.loads(text)
    params = spec.get("paramKind") is not None
    variables = spec.get("variables") or ()
    compiler = PolicyCompiler("stored", params=params, composed=bool(variables))
    for variable in variables:
        compiler.add_variable(variable["name"], variable["expression"])

    def message(validation: Object) -> Compiled | None:
        text = validation.get("messageExpression")
        return compiler.compile(text, returns=(t.STRING,), authorizer=False) if text else None

    validations = spec.get("validations") or ()
    return _Policy(
        conditions=tuple(
            compiler.compile(item["expression"], returns=(t.BOOL,), variables=False)
            for item in spec.get("matchConditions") or ()
        ),
        validations=tuple(compiler.compile(item["expression"], returns=(t.BOOL,)) for item in validations),
        messages=tuple(message(item) for item in validations),
        annotations=tuple(
            compiler.compile(item["valueExpression"], returns=(t.STRING, t.NULL))
            for item in spec.get("auditAnnotations") or ()
        ),
        variables=compiler.programs,
    )


def _compiled(spec: Object) -> _Policy:
    wanted = ("paramKind", "variables", "matchConditions", "validations", "auditAnnotations")
    return _compile(json.dumps({key: spec[key] for key in wanted if spec.get(key)}, sort_keys=True))


# -- evaluating expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    error: str | None = None


class _Run:
    """Evaluates one group of expressions within a common budget."""

    def __init__(self, policy: _Policy, activation: dict[str, Any], budget: int) -> None:
        self.values = VariableValues(policy.variables, activation)
        self.activation = activation
        activation["variables"] = self.values
        self.budget = budget

    def all(self, expressions: Iterable[Compiled | None]) -> list[_Outcome | None]:
        return [None if expression is None else self.one(expression) for expression in expressions]

    def one(self, expression: Compiled) -> _Outcome:
        if expression.program is None:
            return _Outcome(error=f"compilation error: {expression.error}")
        try:
            result = expression.program.run(self.activation)
            value, error, cost = result.value, result.error, result.cost
        except EvaluationError as failure:
            value, error, cost = None, str(failure), failure.cost or 0
        self.spend(self.values.take_cost())
        self.spend(cost)
        if error is not None:
            return _Outcome(error=f"expression '{expression.expression}' resulted in error: {error}")
        return _Outcome(value)

    def spend(self, cost: int) -> None:
        if cost > self.budget:
            raise OutOfBudget
        self.budget -= cost


@dataclass(frozen=True)
class _Denial:
    message: str
    reason: str = ""
    index: int = 0


@dataclass(frozen=True)
class _Validated:
    """What one evaluation of a policy came to."""

    denials: tuple[_Denial, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    annotation_errors: tuple[str, ...] = ()


def _validate(policy: Object, review: Review, params: Any) -> _Validated:
    spec = policy["spec"]
    strict = (spec.get("failurePolicy") or "Fail") == "Fail"
    compiled = _compiled(spec)

    def failed(message: str) -> _Validated:
        return _Validated((_Denial(message),)) if strict else _Validated()

    try:
        matched = _match_conditions(compiled, review, params)
        if matched is not True:
            return _Validated() if matched is False else failed(matched)
        run = _Run(compiled, _activation(review, params, authorizer=True), cel.RUNTIME_BUDGET)
        outcomes = run.all(compiled.validations)
    except OutOfBudget as error:
        return failed(str(error))
    messages: Sequence[_Outcome | None] = ()
    spent = ""
    try:
        messages = _Run(compiled, _activation(review, params, authorizer=False), run.budget).all(compiled.messages)
    except OutOfBudget as error:
        spent = f"failed messageExpression: {error}"
    denials: list[_Denial] = []
    for i, outcome in enumerate(outcomes):
        assert outcome is not None
        error_text = outcome.error or spent
        if error_text:
            if strict:
                denials.append(_Denial(error_text, index=i))
        elif outcome.value is not True:
            validation = spec["validations"][i]
            text = _message(validation, messages[i] if i < len(messages) else None)
            denials.append(_Denial(text, validation.get("reason") or "Invalid", i))
    return _annotated(compiled, spec, review, params, strict, denials)


def _activation(review: Review, params: Any, *, authorizer: bool, namespace: bool = True) -> dict[str, Any]:
    return cel.activation(
        object=review.object,
        old_object=review.old_object,
        request=review.request,
        namespace=review.namespace if namespace else None,
        params=params,
        authorize=review.authorize if authorizer else None,
    )


def _match_conditions(compiled: _Policy, review: Review, params: Any) -> bool | str:
    """True: go on; False: the policy does not apply; a text: conditions failed and none was false."""
    if not compiled.conditions:
        return True
    run = _Run(compiled, _activation(review, params, authorizer=True, namespace=False), cel.MATCH_BUDGET)
    try:
        outcomes = run.all(compiled.conditions)
    except OutOfBudget as error:
        return str(error)
    if any(outcome is not None and outcome.value is False for outcome in outcomes):
        return False
    errors = list(dict.fromkeys(outcome.error for outcome in outcomes if outcome is not None and outcome.error))
    if not errors:
        return True
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _message(validation: Object, computed: _Outcome | None) -> str:
    text = ""
    if computed is not None and isinstance(computed.value, str):
        text = computed.value.strip()
        if len(text.encode()) > MAX_MESSAGE or "\n" in text:
            text = ""
    return text or (validation.get("message") or "").strip() or f"failed expression: {validation['expression'].strip()}"


def _annotated(
    compiled: _Policy, spec: Object, review: Review, params: Any, strict: bool, denials: Sequence[_Denial]
) -> _Validated:
    """The audit annotations, which have a budget of their own."""
    if not compiled.annotations:
        return _Validated(tuple(denials))
    run = _Run(compiled, _activation(review, params, authorizer=False), cel.RUNTIME_BUDGET)
    try:
        outcomes = run.all(compiled.annotations)
    except OutOfBudget as error:
        return _Validated((_Denial(str(error)),) if strict else ())
    published: list[tuple[str, str]] = []
    errors: list[str] = []
    for declared, outcome in zip(spec["auditAnnotations"], outcomes, strict=True):
        assert outcome is not None
        if outcome.error is not None:
            if strict:
                errors.append(outcome.error)
        elif isinstance(outcome.value, str) and outcome.value.strip():
            published.append((declared["key"], outcome.value.strip()[:MAX_ANNOTATION]))
    return _Validated(tuple(denials), tuple(published), tuple(errors))


# -- matching -------------------------------------------------------------------------------------------------


def matches(resources: Object | None, review: Review) -> bool:
    """Whether matchConstraints of a policy, or matchResources of a binding, cover the request."""
    return matched_version(resources, review) is not None


def matched_version(resources: Object | None, review: Review) -> str | None:
    """The version in which matchConstraints want to see the object; None when they do not cover the request."""
    if resources is None:
        return review.version
    resource = review.request.get("resource") or {}
    if resource.get("group") == "admissionregistration.k8s.io" and resource.get("resource") in _EXEMPT:
        return None
    if not _namespace_selected(resources.get("namespaceSelector"), review):
        return None
    if not _object_selected(resources.get("objectSelector"), review):
        return None
    equivalent = (resources.get("matchPolicy") or "Equivalent") == "Equivalent"
    if _covering(resources.get("excludeResourceRules") or (), review, equivalent) is not None:
        return None
    rules = resources.get("resourceRules") or ()
    return _covering(rules, review, equivalent) if rules else review.version


def _covering(rules: Sequence[Object], review: Review, equivalent: bool) -> str | None:
    """The version of the request if a rule names it, else the first other one that a rule names."""
    for version in (review.version, *(review.versions if equivalent else ())):
        if any(_rule_covers(rule, review.request, version) for rule in rules):
            return version
    return None


def _namespace_selected(selector: Object | None, review: Review) -> bool:
    if not selector:
        return True
    request = review.request
    if (request.get("kind") or {}).get("kind") == "Namespace" and not (request.get("kind") or {}).get("group"):
        subject = review.object if review.object is not None else review.old_object
        return matches_label_selector(selector, _labels(subject))
    if not request.get("namespace"):
        return True  # cluster-scoped objects are not selected by namespace
    return matches_label_selector(selector, _labels(review.namespace))


def _object_selected(selector: Object | None, review: Review) -> bool:
    if not selector:
        return True
    return any(
        subject is not None and matches_label_selector(selector, _labels(subject))
        for subject in (review.object, review.old_object)
    )


def _labels(subject: Object | None) -> Mapping[str, str]:
    metadata: Mapping[str, Any] = (subject or {}).get("metadata") or {}
    return metadata.get("labels") or {}


def _rule_covers(rule: Object, request: Object, version: str) -> bool:
    resource = request.get("requestResource") or request.get("resource") or {}
    operations = rule.get("operations") or ()
    if "*" not in operations and request.get("operation") not in operations:
        return False
    names = rule.get("resourceNames") or ()
    if names and request.get("name") not in names:
        return False
    namespaced = bool(request.get("namespace"))
    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") is not namespaced:
        return False
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and resource.get("group", "") not in groups:
        return False
    versions = rule.get("apiVersions") or ()
    if "*" not in versions and version not in versions:
        return False
    return _resource_covered(
        rule.get("resources") or (), resource.get("resource", ""), request.get("subResource") or ""
    )


def _resource_covered(patterns: Sequence[str], resource: str, subresource: str) -> bool:
    for pattern in patterns:
        wanted, _, wanted_sub = pattern.partition("/")
        if wanted in ("*", resource) and (wanted_sub == subresource or (wanted_sub == "*" and "/" in pattern)):
            return True
        if pattern in ("*/*",):
            return True
    return False


# -- parameters -----------------------------------------------------------------------------------------------


class _ConfigurationError(Exception):
    """The policy or binding cannot be applied as it stands."""


def _params(policy: Object, binding: Object, review: Review, params: Params) -> Sequence[Any]:
    """The parameter objects to evaluate with; [None] when the policy has none."""
    kind, reference = policy["spec"].get("paramKind"), binding["spec"].get("paramRef")
    if kind is None or reference is None:
        return [None]
    api_version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    namespaced = params.scope(api_version, name)
    namespace = reference.get("namespace") or ""
    if not namespaced and namespace:
        raise _ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if namespaced and not namespace:
        namespace = review.request.get("namespace") or ""
        if not namespace:
            raise _ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    found: Sequence[Object]
    if reference.get("name"):
        one = params.get(api_version, name, namespace, reference["name"])
        found = [] if one is None else [one]
    else:
        found = params.select(api_version, name, namespace, reference.get("selector") or {})
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise _ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


# -- the whole ------------------------------------------------------------------------------------------------


class _Collector:
    def __init__(self, review: Review) -> None:
        self.review = review
        self.first: tuple[str, str, str] | None = None  # policy and what it said; "" in the middle: no binding
        self.warnings: list[str] = []
        self.failures: list[dict[str, Any]] = []
        self.annotations: dict[str, list[str]] = {}

    def deny(self, policy: str, binding: str, message: str, reason: str = "") -> None:
        if self.first is None:
            whose = f"'{policy}' with binding '{binding}'" if binding else f"'{policy}'"
            self.first = (f"ValidatingAdmissionPolicy {whose} denied request: {message}", reason or "Invalid", policy)

    def take(self, policy: str, binding: Object, result: _Validated) -> None:
        name, actions = _name(binding), binding["spec"].get("validationActions") or ()
        for denial in result.denials:
            if "Deny" in actions:
                self.deny(policy, name, denial.message, denial.reason)
            if "Audit" in actions:
                self.failures.append(
                    {
                        "message": denial.message,
                        "policy": policy,
                        "binding": name,
                        "expressionIndex": denial.index,
                        "validationActions": list(actions),
                    }
                )
            if "Warn" in actions:
                self.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': {denial.message}"
                )
        for key, value in result.annotations:
            values = self.annotations.setdefault(f"{policy}/{key}", [])
            if value not in values:
                values.append(value)
        for text in result.annotation_errors:
            self.deny(policy, name, text)

    def verdict(self) -> Verdict:
        annotations = {key: ", ".join(values) for key, values in self.annotations.items()}
        if self.failures:
            annotations[FAILURES_ANNOTATION] = json.dumps(
                self.failures[:MAX_FAILURES], separators=(",", ":"), ensure_ascii=False
            )
        denial = None
        if self.first is not None:
            text, reason, _ = self.first
            resource = self.review.request.get("resource") or {}
            base = StatusError.forbidden(
                resource.get("group", ""), resource.get("resource", ""), self.review.request.get("name") or "", text
            )
            details = {**(base.details or {}), "causes": [{"message": text}]}
            denial = StatusError(_CODES.get(reason, 422), reason, base.message, details)
        return Verdict(denial, tuple(self.warnings), annotations)


def _name(subject: Object) -> str:
    return str((subject.get("metadata") or {}).get("name") or "")


def evaluate(hooks: Iterable[tuple[Object, Sequence[Object]]], review: Review, params: Params | None = None) -> Verdict:
    """Apply policies, each with its bindings, in the order given."""
    source = params or NoParams()
    collector = _Collector(review)
    for policy, bindings in hooks:
        spec = policy["spec"]
        strict = (spec.get("failurePolicy") or "Fail") == "Fail"
        version = matched_version(spec.get("matchConstraints"), review)
        if version is None:
            continue
        other = version != review.version and review.in_version is not None
        seen = review.in_version(version) if other and review.in_version is not None else review
        kind = spec.get("paramKind")
        if kind is not None and source.scope(kind.get("apiVersion", ""), kind.get("kind", "")) is None:
            if strict:
                wanted = _gvk(kind)
                problem = f"failed to configure policy: failed to find resource referenced by paramKind: '{wanted}'"
                collector.deny(_name(policy), "", problem)
            continue
        for binding in bindings:
            if not matches(binding["spec"].get("matchResources"), review):
                continue
            try:
                chosen = _params(policy, binding, review, source)
            except _ConfigurationError as error:
                if strict:
                    collector.deny(_name(policy), _name(binding), f"failed to configure binding: {error}")
                continue
            for param in chosen:
                collector.take(_name(policy), binding, _validate(policy, seen, param))
    return collector.verdict()


def _gvk(kind: Object) -> str:
    group, slash, version = kind.get("apiVersion", "").rpartition("/")
    return f"{group}{slash}{version}, Kind={kind.get('kind', '')}"
