"""The `authorizer` of admission policies: checks built step by step, answered by a function the caller gives.

Checking is the one thing an expression can do that looks outside its inputs; the answer comes from `Authorize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from drakit.api import formats
from drakit.cel import types as t
from drakit.cel.functions import CLASSES, KNOWN_TYPES, Function, function, overload
from drakit.cel.values import Fault

__all__ = ["FUNCTIONS", "Access", "Authorize", "Authorizer", "Decision", "ResourceCheck"]


@dataclass(frozen=True)
class Access:
    """What is asked for. `user` is None for the one who makes the request, else a service account's name."""

    verb: str
    user: str | None = None
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True)
class Decision:
    """The answer to a check."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Decision"
    cel_unit_equality: ClassVar[bool] = True
    allowed: bool
    reason: str = ""
    error: str | None = None


Authorize = Callable[[Access], Decision]


@dataclass(frozen=True)
class Authorizer:
    """The variable `authorizer`."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Authorizer"
    cel_unit_equality: ClassVar[bool] = True
    authorize: Authorize
    user: str | None = None

    def service_account(self, namespace: str, name: str) -> Authorizer:
        if formats.dns_subdomain(name):
            raise Fault("Invalid service account name")
        if formats.dns_label(namespace):
            raise Fault("Invalid service account namespace")
        return replace(self, user=f"system:serviceaccount:{namespace}:{name}")


@dataclass(frozen=True)
class PathCheck:
    cel_type: ClassVar[str] = "kubernetes.authorization.PathCheck"
    cel_unit_equality: ClassVar[bool] = True
    authorizer: Authorizer
    path: str

    def check(self, verb: str) -> Decision:
        return self.authorizer.authorize(Access(verb, self.authorizer.user, path=self.path))


@dataclass(frozen=True)
class GroupCheck:
    cel_type: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    cel_unit_equality: ClassVar[bool] = True
    authorizer: Authorizer
    group: str


@dataclass(frozen=True)
class ResourceCheck:
    """A check of a resource; `authorizer.requestResource` is one for the object of the request."""

    cel_type: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    cel_unit_equality: ClassVar[bool] = True
    authorizer: Authorizer
    access: Access

    def check(self, verb: str) -> Decision:
        return self.authorizer.authorize(replace(self.access, verb=verb, user=self.authorizer.user))

    def having(self, **changes: str) -> ResourceCheck:
        return replace(self, access=replace(self.access, **changes))


_PATH = "kubernetes.authorization.PathCheck"
_GROUP = "kubernetes.authorization.GroupCheck"
_RESOURCE = "kubernetes.authorization.ResourceCheck"
_AUTHORIZER = "kubernetes.authorization.Authorizer"
_DECISION = "kubernetes.authorization.Decision"
_VALUES: tuple[Any, ...] = (Authorizer, PathCheck, GroupCheck, ResourceCheck, Decision)
CLASSES.update({cls.cel_type: cls for cls in _VALUES})
KNOWN_TYPES.extend(t.struct(cls.cel_type) for cls in _VALUES)


def _refine(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    return lambda check, text: check.having(**{field: text})


FUNCTIONS: list[Function] = [
    function("path", overload("authorizer_path", f"{_AUTHORIZER}.(string) -> {_PATH}", PathCheck)),
    function("group", overload("authorizer_group", f"{_AUTHORIZER}.(string) -> {_GROUP}", GroupCheck)),
    function(
        "serviceAccount",
        overload(
            "authorizer_serviceaccount", f"{_AUTHORIZER}.(string, string) -> {_AUTHORIZER}", Authorizer.service_account
        ),
    ),
    function(
        "resource",
        overload(
            "groupcheck_resource",
            f"{_GROUP}.(string) -> {_RESOURCE}",
            lambda v, text: ResourceCheck(v.authorizer, Access("", group=v.group, resource=text)),
        ),
    ),
    function(
        "subresource",
        overload("resourcecheck_subresource", f"{_RESOURCE}.(string) -> {_RESOURCE}", _refine("subresource")),
    ),
    function(
        "namespace", overload("resourcecheck_namespace", f"{_RESOURCE}.(string) -> {_RESOURCE}", _refine("namespace"))
    ),
    function("name", overload("resourcecheck_name", f"{_RESOURCE}.(string) -> {_RESOURCE}", _refine("name"))),
    function(
        "fieldSelector",
        overload("authorizer_fieldselector", f"{_RESOURCE}.(string) -> {_RESOURCE}", _refine("field_selector")),
    ),
    function(
        "labelSelector",
        overload("authorizer_labelselector", f"{_RESOURCE}.(string) -> {_RESOURCE}", _refine("label_selector")),
    ),
    function(
        "check",
        overload("pathcheck_check", f"{_PATH}.(string) -> {_DECISION}", lambda v, verb: v.check(verb)),
        overload("resourcecheck_check", f"{_RESOURCE}.(string) -> {_DECISION}", lambda v, verb: v.check(verb)),
    ),
    function("errored", overload("decision_errored", f"{_DECISION}.() -> bool", lambda v: v.error is not None)),
    function("error", overload("decision_error", f"{_DECISION}.() -> string", lambda v: v.error or "")),
    function("allowed", overload("decision_allowed", f"{_DECISION}.() -> bool", lambda v: v.allowed)),
    function("reason", overload("decision_reason", f"{_DECISION}.() -> string", lambda v: v.reason)),
]
