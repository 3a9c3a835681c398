"""What every verb works with: the store, the clock, the hooks. One per server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from drakit.api import strategy
from drakit.api.errors import FieldError, StatusError
from drakit.api.gates import FeatureGates
from drakit.api.kind import ExpressionChecker, Kind, NoExpressions, WriteContext
from drakit.apiserver import random_names
from drakit.apiserver.auth import Admission, AdmissionAttributes, Authorizer, Hooks, hooks
from drakit.apiserver.call import Call
from drakit.apiserver.refusals import denied
from drakit.apiserver.routes import Routes
from drakit.apiserver.store import Collection, Store
from drakit.apiserver.stored import Plain
from drakit.clock import Clock, SystemClock

__all__ = ["Context", "zero_object"]


class Privileges(Protocol):
    """Rights that depend on what a write changes; their errors stand among those of validation."""

    def concern(self, attributes: AdmissionAttributes) -> bool: ...

    def errors(self, attributes: AdmissionAttributes) -> list[FieldError]: ...


@dataclass
class Context:
    store: Store
    gates: FeatureGates = field(default_factory=FeatureGates.default)
    clock: Clock = field(default_factory=SystemClock)
    expressions: ExpressionChecker = field(default_factory=NoExpressions)
    admission: tuple[Admission, ...] = ()  # replaced as a whole
    authorizer: Authorizer | None = None
    routes: Routes = field(default_factory=lambda: Routes(()))
    new_uid: Callable[[], str] = random_names.uid
    privileges: Privileges | None = None
    # Writes to these (group, plural/subresource) pairs go to a function instead of the generic verb: reviews, tokens, …
    special: dict[tuple[str, str], Callable[[Context, Call], Any]] = field(default_factory=dict)
    _chosen: dict[tuple[str, str, str, str], Hooks] = field(default_factory=dict, repr=False)
    _chosen_from: tuple[Admission, ...] = field(default=(), repr=False)

    def write_context(
        self, version: str, now: datetime | None = None, asked: AdmissionAttributes | None = None
    ) -> WriteContext:
        """`asked`: the write whose author's rights are to be checked together with the object."""
        now, privileges = now or self.clock.now(), self.privileges
        if asked is None or privileges is None or not privileges.concern(asked):
            return WriteContext(self.gates, now, self.expressions, version)

        def errors(new: Plain, old: Plain | None) -> list[FieldError]:
            asked.object, asked.old_object = new, old
            return privileges.errors(asked)

        return WriteContext(self.gates, now, self.expressions, version, errors)

    def collection(self, kind: Kind) -> Collection:
        return self.store.collection(kind)

    def admit(self, attributes: AdmissionAttributes) -> Plain | None:
        """Run the plugins that may change the object; returns what became of it."""
        for admit in self._hooks(attributes)[0]:
            admit(attributes)
        return attributes.object

    def check_may_create(self, call: Call) -> None:
        """A PUT or an apply that makes something new needs the right to create as well."""
        if call.verb == "create" or self.authorizer is None or call.user.is_master:
            return
        asked = replace(call.question(), verb="create")
        decision = self.authorizer.authorize(asked)
        if not decision.allowed:
            raise denied(asked, decision.reason)

    def validate(self, attributes: AdmissionAttributes) -> None:
        for check in self._hooks(attributes)[1]:
            check(attributes)

    def _hooks(self, attributes: AdmissionAttributes) -> Hooks:
        """The functions of the plugins that have to do with such a write: looked up, because most have not."""
        if self._chosen_from is not self.admission:
            self._chosen, self._chosen_from = {}, self.admission
        kind = attributes.kind
        key = (kind.group, kind.plural, attributes.operation, attributes.request.subresource)
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = hooks(self.admission, kind, attributes.operation, key[3])
        return found


def admission_attributes(
    call: Call, operation: str, obj: Plain | None, old: Plain | None, *, dry_run: bool, options: Plain | None = None
) -> AdmissionAttributes:
    request = call.attributes()
    return AdmissionAttributes(
        request=request,
        kind=call.kind,
        operation=operation,
        object=obj,
        old_object=old,
        options=options or {},
        dry_run=dry_run,
        request_version=call.version,
        warnings=call.warnings,
        annotations=call.annotations,
    )


@lru_cache(maxsize=512)
def zero_object(kind: Kind, version: str) -> Plain:
    """What Go writes for an object with nothing set: `{"spec":{"devices":{"requests":null}},"status":{}}`."""
    obj = strategy.decode(kind, version, {}, default=False).obj
    if version != kind.storage_version:
        obj = strategy.encode(kind, version, obj)
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}


def internal_without_reason(message: str) -> StatusError:
    """Some of Kubernetes' errors reach the client as a bare 500."""
    return StatusError(500, "", message)
