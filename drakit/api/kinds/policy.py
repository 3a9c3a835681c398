"""policy: PodDisruptionBudgets."""

from __future__ import annotations

from lightkube.models import policy_v1

from drakit.api import selector_validation
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Kind, Object, Strategy, Subresource, WriteContext
from drakit.api.kinds import checks, entry

__all__ = ["KINDS"]


def _validate(budget: Object, ctx: WriteContext) -> Errors:
    spec = budget.get("spec") or {}
    errors: Errors = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        # Go's field names: Kubernetes prints the internal object.
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[0].upper() + name[1:]: spec.get(name) for name in names}
        errors.append(FieldError.invalid("spec", shown, text))
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        if isinstance(value, int):
            errors += checks.non_negative(value, f"spec.{name}")
        elif isinstance(value, str) and not (value.endswith("%") and value[:-1].isdecimal()):
            text = (
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
                "for validation is '[0-9]+%')"
            )
            errors.append(FieldError.invalid(f"spec.{name}", value, text))
        elif isinstance(value, str) and int(value[:-1]) > 100:
            errors.append(FieldError.invalid(f"spec.{name}", value, "must not be greater than 100%"))
    errors += selector_validation.label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        supported = ("AlwaysAllow", "IfHealthyBudget")
        errors.append(FieldError.not_supported("spec.unhealthyPodEvictionPolicy", policy, supported))
    return errors


BUDGET = entry.kind(
    policy_v1.PodDisruptionBudget,
    "poddisruptionbudgets",
    Strategy(
        validate=_validate,
        subresources={"status": Subresource()},
        own_metadata_rules=False,
        known_finalizers=False,
        allow_unconditional_update=lambda version: False,
        generation=True,
        reset=("status",),
    ),
    group="policy",
    subresources=entry.STATUS,
    short_names=("pdb",),
    delete_returns_status=frozenset({"v1"}),
)
KINDS: tuple[Kind, ...] = (BUDGET,)
