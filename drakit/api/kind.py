"""What a kind is: its names and versions, and the functions that are its own.

A new kind is one `Kind`; the functions of its `Strategy` are optional. `api.strategy` runs them in the order an API server does,
`api.registry` collects the kinds. Objects here are plain (JSON values) in the storage version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from drakit.api.errors import FieldError
from drakit.api.gates import FeatureGates
from drakit.api.times import timestamp

__all__ = [
    "ALL_VERBS",
    "ExpressionCheck",
    "ExpressionChecker",
    "Kind",
    "NoExpressions",
    "Object",
    "Strategy",
    "Subresource",
    "Version",
    "WriteContext",
    "text_at",
]

Object = dict[str, Any]
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class ExpressionCheck(Protocol):
    """What is known of one expression."""

    @property
    def error_type(self) -> str:
        """ "" when it is good, else invalid or internal."""
        ...

    @property
    def error(self) -> str: ...

    @property
    def max_cost(self) -> int: ...


class ExpressionChecker(Protocol):
    """Compiles and prices the CEL expressions that objects carry; implemented by `drakit.cel`.

    `stored` expressions were accepted before: they are compiled with everything that any version knew.
    """

    def check_selector(self, expression: str, *, stored: bool, gates: FeatureGates) -> ExpressionCheck: ...

    def check_derived(self, expression: str, *, stored: bool, gates: FeatureGates) -> ExpressionCheck: ...


@dataclass(frozen=True, slots=True)
class _Good:
    error_type: str = ""
    error: str = ""
    max_cost: int = 0


class NoExpressions:
    """Accepts every expression: for callers that have no engine at hand (offline conversion, unit tests)."""

    def check_selector(self, expression: str, *, stored: bool, gates: FeatureGates) -> ExpressionCheck:
        return _Good()

    def check_derived(self, expression: str, *, stored: bool, gates: FeatureGates) -> ExpressionCheck:
        return _Good()


@dataclass(slots=True)
class WriteContext:
    """What a write depends on besides the objects. Nobody changes one; frozen, it would cost several times as much to make."""

    gates: FeatureGates
    now: datetime  # UTC
    expressions: ExpressionChecker = field(default_factory=NoExpressions)
    version: str = ""  # the API version of the request; some rules differ by it ("" is the storage version)
    # What the requester may not do (new, old or None): asked when the object is complete, and listed first.
    privileges: Callable[[Object, Object | None], list[FieldError]] | None = None

    @property
    def timestamp(self) -> str:
        return timestamp(self.now)


Prepare = Callable[[Object, WriteContext], None]  # changes the (already copied) object in place
PrepareUpdate = Callable[[Object, Object, WriteContext], None]  # new, old; changes new in place
Validate = Callable[[Object, WriteContext], list[FieldError]]
ValidateUpdate = Callable[[Object, Object, WriteContext], list[FieldError]]  # new, old
Warn = Callable[[Object, Object | None, WriteContext], list[str]]  # new, old or None


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource that is written like the object itself: status, scale is none of these."""

    prepare_for_update: PrepareUpdate | None = None
    validate_update: ValidateUpdate | None = None
    warnings: Warn | None = None


@dataclass(frozen=True, slots=True)
class Strategy:
    """The functions of one kind. Every one is optional.

    Decoding: the body is read by its version's model, defaulted by `default[version]` (or `default[""]` for all versions),
    then brought to the storage version by `to_storage[version]`. Encoding is `from_storage[version]`.
    Create: `prepare_for_create`, metadata and `validate`. Update: `prepare_for_update`, metadata, `validate_update`.
    `validate_update` is the whole check of an update: call the create rules from it where Kubernetes does. Without it they are
    what is checked.
    """

    default: Mapping[str, Callable[[Object], None]] = field(default_factory=dict)
    to_storage: Mapping[str, Callable[[Object], Object]] = field(default_factory=dict)
    from_storage: Mapping[str, Callable[[Object], Object]] = field(default_factory=dict)
    # Where errors of declared rules stand in another version: those rules run on the object as it was sent.
    declared_path: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    prepare_for_create: Prepare | None = None
    validate: Validate | None = None
    prepare_for_update: PrepareUpdate | None = None
    validate_update: ValidateUpdate | None = None
    warnings: Warn | None = None
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    # Names of objects: None accepts any path segment. Returns the details of what is wrong.
    validate_name: Callable[[str, bool], Sequence[str]] | None = None
    # metadata.generation: kept by the server, +1 when the spec changes.
    generation: bool = False
    # Fields that the main resource may not write (reset to what is stored, absent on create): usually ("status",).
    reset: tuple[str, ...] = ()
    # Kinds whose own rules leave metadata to the generic check, which is milder and comes after them.
    own_metadata_rules: bool = True
    # Whether a finalizer without a domain must be one that Kubernetes knows.
    known_finalizers: bool = True
    allow_create_on_update: bool = False
    allow_unconditional_update: Callable[[str], bool] = lambda version: True


@dataclass(frozen=True, slots=True)
class Version:
    """One served version. `default` is whether it is on without --runtime-config."""

    name: str
    model: type
    default: bool = True
    deprecated: str = ""  # the Warning text sent with every answer; "" for none
    # Gates that this version of the kind needs, beside the version being on.
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    group: str  # "" is the core group
    kind: str
    plural: str
    namespaced: bool
    versions: tuple[Version, ...]  # in the order of preference
    storage_version: str = ""  # the first version unless said otherwise
    singular: str = ""  # the kind in lower case unless said otherwise
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> verbs
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    # Field selectors beside metadata.name and metadata.namespace.
    selectable: Mapping[str, Callable[[Object], str]] = field(default_factory=dict)
    strategy: Strategy = field(default_factory=Strategy)
    # Answer to DELETE in the given versions is a Status instead of the object.
    delete_returns_status: frozenset[str] = frozenset()
    # What happens to dependents when a DELETE says nothing: "" leaves them to the garbage collector, "Orphan" sets them free;
    # None: the kind has none, and a DELETE that speaks of them is taken as if it did not.
    default_propagation: str | None = ""
    # Names that a DELETE refuses, and why.
    undeletable: Mapping[str, str] = field(default_factory=dict)
    # The kind whose stored objects this one shows in another form: events.k8s.io Events are core Events.
    stored_as: Kind | None = None

    def __post_init__(self) -> None:
        if not self.storage_version:
            object.__setattr__(self, "storage_version", self.versions[0].name)
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())

    def __hash__(self) -> int:
        return hash((self.group, self.kind))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kind) and (self.group, self.kind) == (other.group, other.kind)

    @property
    def models(self) -> dict[str, type]:
        """The model of each version."""
        return {version.name: version.model for version in self.versions}

    @property
    def qualified(self) -> str:
        """plural.group, as messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    def version(self, name: str) -> Version | None:
        return next((version for version in self.versions if version.name == name), None)

    def api_version(self, version: str = "") -> str:
        """The apiVersion text: group/version, or the version alone in the core group."""
        version = version or self.storage_version
        return f"{self.group}/{version}" if self.group else version


def text_at(*names: str) -> Callable[[Object], str]:
    """Reads a field for a selector; absent is "", booleans are "true" and "false"."""

    def read(obj: Object) -> str:
        value: Any = obj
        for name in names:
            if not isinstance(value, dict):
                return ""
            value = value.get(name)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read
