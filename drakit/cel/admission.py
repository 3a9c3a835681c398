"""The environments of ValidatingAdmissionPolicies, and the values of their variables.

`object` and `oldObject` are plain objects typed dyn; `request` and `namespaceObject` have declared types; `variables`
holds the policy's own, each computed at its first use. Rules: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from drakit.cel import types as t
from drakit.cel.environment import Environment, StructType, kubernetes_base
from drakit.cel.errors import CompileError, EvaluationError, ProgramError
from drakit.cel.library.authz import Access, Authorize, Authorizer, Decision, ResourceCheck
from drakit.cel.plan import Err
from drakit.cel.program import Limits, Program, compile_checked, link
from drakit.cel.types import Type

__all__ = [
    "MATCH_BUDGET", "PER_CALL_LIMIT", "RUNTIME_BUDGET", "Access", "Authorize", "Authorizer", "Compiled", "Decision", "Kind", "OutOfBudget",
    "PolicyCompiler", "ResourceCheck", "VariableValues", "admission_environment", "namespace_value",
]  # fmt: skip

PER_CALL_LIMIT = 1_000_000
RUNTIME_BUDGET = 10_000_000
MATCH_BUDGET = 2_500_000
_LIMITS = Limits(cost=PER_CALL_LIMIT)

Kind = Literal["stored", "new"]

_STRINGS = t.list_of(t.STRING)
_GVK = StructType("kubernetes.GroupVersionKind", {"group": t.STRING, "version": t.STRING, "kind": t.STRING})
_GVR = StructType("kubernetes.GroupVersionResource", {"group": t.STRING, "version": t.STRING, "resource": t.STRING})
_USER = StructType(
    "kubernetes.UserInfo",
    {"username": t.STRING, "uid": t.STRING, "groups": _STRINGS, "extra": t.map_of(t.STRING, _STRINGS)},
)
_REQUEST = StructType(
    "kubernetes.AdmissionRequest",
    {
        "kind": t.struct(_GVK.name), "resource": t.struct(_GVR.name), "subResource": t.STRING, "requestKind": t.struct(_GVK.name),
        "requestResource": t.struct(_GVR.name), "requestSubResource": t.STRING, "name": t.STRING, "namespace": t.STRING,
        "operation": t.STRING, "userInfo": t.struct(_USER.name), "dryRun": t.BOOL, "options": t.DYN,
    },
)  # fmt: skip
_NAMESPACE_SPEC = StructType("kubernetes.NamespaceSpec", {"finalizers": _STRINGS})
_NAMESPACE_CONDITION = StructType(
    "kubernetes.NamespaceCondition",
    {"status": t.STRING, "type": t.STRING, "lastTransitionTime": t.TIMESTAMP, "message": t.STRING, "reason": t.STRING},
)
_NAMESPACE_STATUS = StructType(
    "kubernetes.NamespaceStatus", {"conditions": t.list_of(t.struct(_NAMESPACE_CONDITION.name)), "phase": t.STRING}
)
_NAMESPACE_METADATA = StructType(
    "kubernetes.NamespaceMetadata",
    {
        "name": t.STRING, "generateName": t.STRING, "namespace": t.STRING, "labels": t.map_of(t.STRING, t.STRING),
        "annotations": t.map_of(t.STRING, t.STRING), "UID": t.STRING, "creationTimestamp": t.TIMESTAMP,
        "deletionGracePeriodSeconds": t.INT, "deletionTimestamp": t.TIMESTAMP, "generation": t.INT, "resourceVersion": t.STRING,
        "finalizers": _STRINGS,
    },
)  # fmt: skip
_NAMESPACE = StructType(
    "kubernetes.Namespace",
    {
        "metadata": t.struct(_NAMESPACE_METADATA.name),
        "spec": t.struct(_NAMESPACE_SPEC.name),
        "status": t.struct(_NAMESPACE_STATUS.name),
    },
)
_STRUCTS = (
    _GVK, _GVR, _USER, _REQUEST, _NAMESPACE, _NAMESPACE_METADATA, _NAMESPACE_SPEC, _NAMESPACE_STATUS, _NAMESPACE_CONDITION,
)  # fmt: skip
_VARIABLES = "kubernetes.variables"


@lru_cache(maxsize=16)
def admission_environment(kind: Kind = "stored", *, params: bool = False, authorizer: bool = True) -> Environment:
    """Without `variables`: those depend on the policy (see PolicyCompiler)."""
    names: dict[str, Type] = {
        "object": t.DYN,
        "oldObject": t.DYN,
        "namespaceObject": t.struct(_NAMESPACE.name),
        "request": t.struct(_REQUEST.name),
    }
    if params:
        names["params"] = t.DYN
    if authorizer:
        names["authorizer"] = t.struct(Authorizer.cel_type)
        names["authorizer.requestResource"] = t.struct(ResourceCheck.cel_type)
    env = kubernetes_base(includes=kind == "stored").extend(variables=names, structs=_STRUCTS)
    return replace(env, lazy_variables=True)


def namespace_value(namespace: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A Namespace as expressions see it: no kind, and only the metadata that the type declares (uid included)."""
    if namespace is None:
        return None
    shown = {
        "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
        "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
    }  # fmt: skip
    metadata = {key: value for key, value in (namespace.get("metadata") or {}).items() if key in shown}
    return {"metadata": metadata, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}


@dataclass(frozen=True)
class Compiled:
    """An expression of a policy: a program, or why there is none."""

    expression: str
    program: Program | None
    error: str = ""
    internal: bool = False  # the error is not the author's: API validation words it differently

    @property
    def result(self) -> Type | None:
        return None if self.program is None else self.program.result_type


class PolicyCompiler:
    """Compiles the expressions of one policy; its variables become known to what is compiled after them."""

    def __init__(self, kind: Kind, *, params: bool, composed: bool) -> None:
        self.kind = kind
        self.params = params
        self.composed = composed
        self.fields: dict[str, Type] = {}
        self.programs: dict[str, Compiled] = {}

    def _environment(self, authorizer: bool, variables: bool) -> Environment:
        env = admission_environment(self.kind, params=self.params, authorizer=authorizer)
        if not variables:
            return env
        return env.extend(
            variables={"variables": t.struct(_VARIABLES)}, structs=[StructType(_VARIABLES, dict(self.fields))]
        )

    def add_variable(self, name: str, expression: str) -> Compiled:
        compiled = self.compile(expression, returns=None)
        self.fields[name] = _declared(compiled.result)
        self.programs[name] = compiled
        return compiled

    def compile(
        self, expression: str, *, returns: tuple[Type, ...] | None, authorizer: bool = True, variables: bool = True
    ) -> Compiled:
        env = self._environment(authorizer, variables and self.composed)
        try:
            checked = compile_checked(expression, env)
        except CompileError as error:
            return Compiled(expression, None, f"compilation failed: {error}")
        result = checked.result
        if returns is not None and not any(result.same(wanted) for wanted in returns):
            if len(returns) == 1:
                return Compiled(expression, None, f"must evaluate to {returns[0]} but got {result}")
            listed = " ".join(str(wanted) for wanted in returns)
            return Compiled(expression, None, f"must evaluate to one of [{listed}] but got {result}")
        try:
            return Compiled(expression, link(expression, env, checked, _LIMITS))
        except ProgramError as error:
            return Compiled(expression, None, f"program instantiation failed: {error}", internal=True)


_KNOWN = frozenset({"string", "bytes", "bool", "double", "duration", "int", "null", "timestamp", "uint"})


def _declared(typ: Type | None) -> Type:
    """The type that a variable has for others: what the declaration language cannot say is dyn."""
    if typ is None:
        return t.DYN
    if typ.kind in _KNOWN:
        return typ
    if typ.kind in ("list", "map"):
        return Type(typ.kind, typ.name, tuple(_declared(param) for param in typ.params))
    return t.DYN


class OutOfBudget(Exception):
    """The expressions of a policy used up their common cost budget."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


class VariableValues:
    """The variable `variables`: computes each value once, and counts what that cost."""

    cel_type = _VARIABLES

    def __init__(self, programs: Mapping[str, Compiled], activation: Mapping[str, Any]) -> None:
        self._programs = programs
        self._activation = activation
        self._values: dict[str, Any] = {}
        self.cost = 0

    def take_cost(self) -> int:
        cost, self.cost = self.cost, 0
        return cost

    def cel_select(self, name: Any) -> tuple[bool, Any]:
        compiled = self._programs.get(name)
        if compiled is None:
            return False, None
        if name not in self._values:
            self._values[name] = self._evaluate(name, compiled)
        return True, self._values[name]

    def _evaluate(self, name: str, compiled: Compiled) -> Any:
        if compiled.program is None:
            return Err(f'composited variable "{name}" fails to compile: {compiled.error}')
        try:
            result = compiled.program.run(self._activation)
        except EvaluationError as error:
            self.cost += error.cost or 0
            return Err(f'composited variable "{name}" fails to evaluate: {error}')
        self.cost += result.cost
        if result.error is not None:
            return Err(f'composited variable "{name}" fails to evaluate: {result.error}')
        return result.value


def activation(
    *,
    object: Any,
    old_object: Any,
    request: Mapping[str, Any],
    namespace: Mapping[str, Any] | None,
    params: Any = None,
    authorize: Callable[[Access], Decision] | None = None,
) -> dict[str, Any]:
    """The variables of one evaluation, except `variables`."""
    made: dict[str, Any] = {
        "object": object,
        "oldObject": old_object,
        "request": request,
        "namespaceObject": namespace_value(namespace),
        "params": params,
    }
    if authorize is not None:
        authorizer = Authorizer(authorize)
        resource = request.get("requestResource") or request.get("resource") or {}
        made["authorizer"] = authorizer
        made["authorizer.requestResource"] = ResourceCheck(
            authorizer,
            Access(
                "",
                group=resource.get("group", ""),
                resource=resource.get("resource", ""),
                subresource=request.get("subResource", ""),
                namespace=request.get("namespace", ""),
                name=request.get("name", ""),
            ),
        )
    return made
