"""coordination.k8s.io: Leases, for leader election and node heartbeats."""

from __future__ import annotations

from lightkube.models import coordination_v1

from drakit.api import formats
from drakit.api.errors import FieldError
from drakit.api.kind import Kind, Object, Strategy, WriteContext
from drakit.api.kinds import checks, entry

__all__ = ["KINDS"]


def _validate(lease: Object, ctx: WriteContext) -> list[FieldError]:
    spec = lease.get("spec") or {}
    errors: list[FieldError] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        errors.append(FieldError.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    errors += checks.non_negative(spec.get("leaseTransitions"), "spec.leaseTransitions")
    if spec.get("strategy") and spec["strategy"] != "OldestEmulationVersion":
        errors.append(FieldError.not_supported("spec.strategy", spec["strategy"], ("OldestEmulationVersion",)))
    if spec.get("preferredHolder") and not spec.get("strategy"):
        text = "may only be specified if `strategy` is defined"
        errors.append(FieldError.forbidden("spec.preferredHolder", text))
    return errors


def _validate_update(new: Object, old: Object, ctx: WriteContext) -> list[FieldError]:
    return _validate(new, ctx)


def _prepare(lease: Object, ctx: WriteContext) -> None:
    _drop_disabled(lease, {}, ctx)


def _prepare_update(new: Object, old: Object, ctx: WriteContext) -> None:
    _drop_disabled(new, old.get("spec") or {}, ctx)


def _drop_disabled(lease: Object, old_spec: Object, ctx: WriteContext) -> None:
    if not ctx.gates.enabled("CoordinatedLeaderElection") and not old_spec.get("strategy"):
        for name in ("strategy", "preferredHolder"):
            (lease.get("spec") or {}).pop(name, None)


LEASE = entry.kind(
    coordination_v1.Lease,
    "leases",
    Strategy(
        prepare_for_create=_prepare,
        prepare_for_update=_prepare_update,
        validate=_validate,
        validate_update=_validate_update,
        validate_name=formats.name_is(formats.dns_subdomain),
        known_finalizers=False,
        allow_create_on_update=True,
        allow_unconditional_update=lambda version: False,
    ),
    group="coordination.k8s.io",
    delete_returns_status=frozenset({"v1"}),
)
KINDS: tuple[Kind, ...] = (LEASE,)
