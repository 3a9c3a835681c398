"""Who asks, and for what: the values that authentication, authorization and admission pass along.

Types only. `authn` makes a UserInfo from a connection, `rbac` and `node_authorizer` answer an Attributes with a Decision,
admission plugins see the object as well. The server calls them in that order and knows no more of them than this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from drakit.api.registry import Kind

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An identity: a person, a component, a node or a service account."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups


ANONYMOUS = UserInfo("system:anonymous", (UNAUTHENTICATED,))
ADMIN = UserInfo("kubernetes-admin", (MASTERS, AUTHENTICATED))


@dataclass(slots=True)
class Attributes:
    """A request as authorization sees it. `resource` is empty for non-resource paths, then `path` counts.

    Nobody changes one; it is not frozen because two are made per request, and that would cost seven times as much."""

    user: UserInfo
    verb: str  # get list watch create update patch delete deletecollection, or a method in lower case for a path
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def describe(self) -> str:
        """As Kubernetes words it: `cannot get resource "pods" in API group "" in the namespace "x"`."""
        if not self.resource:
            return f'cannot {self.verb} path "{self.path}"'
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'cannot {self.verb} resource "{resource}" in API group "{self.group}" {where}'


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""
    denied: bool = False  # an explicit no that later authorizers cannot overrule


NO_OPINION = Decision(False)


class Authenticator(Protocol):
    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None) -> UserInfo | None:
        """The user of a request: header names in lower case, the peer's verified certificate (DER). None: anonymous.

        Raises StatusError 401 when credentials were given and are wrong."""


class Authorizer(Protocol):
    def authorize(self, attributes: Attributes) -> Decision: ...


class Lookup(Protocol):
    """The store for those who only look: reads from memory, never waits."""

    def get(self, group: str, plural: str, namespace: str, name: str) -> Mapping[str, Any] | None: ...

    def list(self, group: str, plural: str, namespace: str = "") -> list[dict[str, Any]]: ...


@dataclass(slots=True)
class AdmissionAttributes:
    """A write as admission sees it. Objects are plain, in the storage version, defaulted; `object` is None on DELETE."""

    request: Attributes
    kind: Kind
    operation: str  # CREATE UPDATE DELETE CONNECT
    object: dict[str, Any] | None
    old_object: dict[str, Any] | None
    options: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    request_version: str = ""  # the API version the client used
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log


class Admission:
    """A plugin: it has `admit`, which may replace `attributes.object` (never mutates it in place), `validate`, or both. They
    raise StatusError to refuse, and are called for writes of the forms that it concerns."""

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        """Asked once for each form of write."""
        return True

    def admit(self, attributes: AdmissionAttributes) -> None: ...

    def validate(self, attributes: AdmissionAttributes) -> None: ...


Hook = Callable[[AdmissionAttributes], None]
Hooks = tuple[tuple[Hook, ...], tuple[Hook, ...]]


def hooks(plugins: Iterable[Admission], kind: Kind, operation: str, subresource: str) -> Hooks:
    """What to call for writes of this form: to fill in, and to validate."""
    concerned = [plugin for plugin in plugins if plugin.concerns(kind, operation, subresource)]
    admit = (plugin.admit for plugin in concerned if type(plugin).admit is not Admission.admit)
    validate = (plugin.validate for plugin in concerned if type(plugin).validate is not Admission.validate)
    return tuple(admit), tuple(validate)
