"""The spec of ResourceClaims and of the claims in ResourceClaimTemplates: requests, constraints, configuration."""

from __future__ import annotations

from collections.abc import Iterator

from drakit.api import formats
from drakit.api.errors import FieldError
from drakit.api.kind import Object, WriteContext
from drakit.api.resource import checks, names

__all__ = ["RequestNames", "default", "default_flat", "drop_disabled", "request_names", "request_reference", "validate"]

# The requests of a claim, each with its subrequests.
RequestNames = dict[str, frozenset[str]]

_MAX_REQUESTS = 32
_MAX_SUBREQUESTS = 8
_MAX_DERIVED = 32
_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


# Defaults


def default(spec: Object) -> None:
    """Fills in allocation mode, count and toleration operators (v1, v1beta2)."""
    for request in spec.get("devices", {}).get("requests") or ():
        if request.get("exactly") is not None:
            _default_request(request["exactly"])
        for subrequest in request.get("firstAvailable") or ():
            _default_request(subrequest)


def default_flat(spec: Object) -> None:
    """The same for v1beta1, where a request without a class has only subrequests."""
    for request in spec.get("devices", {}).get("requests") or ():
        if request.get("deviceClassName"):
            _default_request(request)
        else:
            _default_tolerations(request)
        for subrequest in request.get("firstAvailable") or ():
            _default_request(subrequest)


def _default_request(request: Object) -> None:
    mode = request.setdefault("allocationMode", "ExactCount")
    if mode == "ExactCount":
        request.setdefault("count", 1)
    _default_tolerations(request)


def _default_tolerations(request: Object) -> None:
    for toleration in request.get("tolerations") or ():
        toleration.setdefault("operator", "Equal")


# Fields behind feature gates


def _requests(spec: Object | None) -> Iterator[Object]:
    """Everything that asks for devices: exact requests and subrequests."""
    for request in ((spec or {}).get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def _drop(spec: Object, old: Object | None, field: str) -> None:
    if not any(field in request for request in _requests(old)):
        for request in _requests(spec):
            request.pop(field, None)


def drop_disabled(spec: Object, old: Object | None, ctx: WriteContext) -> None:
    """Removes fields of disabled features, unless the stored spec has them already."""
    enabled = ctx.gates.enabled
    if not enabled("DRAPrioritizedList") and not any("firstAvailable" in request for request in _top(old)):
        for request in _top(spec):
            request.pop("firstAvailable", None)
    if not enabled("DRADeviceTaints"):
        _drop(spec, old, "tolerations")
    if not enabled("DRAAdminAccess"):
        _drop(spec, old, "adminAccess")
    if not enabled("DRAConsumableCapacity"):
        _drop_consumable(spec, old)
    if not enabled("DRADerivedAttributes"):
        _drop(spec, old, "derivedAttributes")


def _drop_consumable(spec: Object, old: Object | None) -> None:
    constraints = ((old or {}).get("devices") or {}).get("constraints") or ()
    if any("distinctAttribute" in constraint for constraint in constraints):
        return
    if any("capacity" in request for request in _requests(old)):
        return
    for constraint in spec["devices"].get("constraints") or ():
        constraint.pop("distinctAttribute", None)
    for request in _requests(spec):
        request.pop("capacity", None)


def _top(spec: Object | None) -> list[Object]:
    return ((spec or {}).get("devices") or {}).get("requests") or []


# Validation


def request_names(spec: Object) -> RequestNames:
    return {
        request.get("name") or "": frozenset(sub.get("name") or "" for sub in request.get("firstAvailable") or ())
        for request in _top(spec)
    }


def request_reference(name: str, path: str, known: RequestNames) -> list[FieldError]:
    """request or request/subrequest, of this claim."""
    parts = name.split("/")
    if len(parts) > 2:
        return [FieldError.invalid(path, name, _REFERENCE)]
    errors: list[FieldError] = []
    for part in parts:
        errors += names.short_name(part, path)
    if parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        errors.append(FieldError.invalid(path, name, _REFERENCE))
    return errors


def references(items: list[str] | None, path: str, known: RequestNames) -> list[FieldError]:
    if not items:
        return []
    errors = checks.unique(items, path) if len(items) <= _MAX_REQUESTS else []
    return errors + checks.at_most(items, _MAX_REQUESTS, lambda name, here: request_reference(name, here, known), path)


def validate(spec: Object, path: str, ctx: WriteContext) -> list[FieldError]:
    return _Checker(spec, f"{path}.devices", ctx).run()


class _Checker:
    """One pass over a spec; holds what the requests have in common."""

    def __init__(self, spec: Object, path: str, ctx: WriteContext) -> None:
        self.devices: Object = spec.get("devices") or {}
        self.path = path
        self.ctx = ctx
        self.names = request_names(spec)
        self.derived_cost = 0
        self.constrained = _constrained_attributes(self.devices.get("constraints") or [])

    def run(self) -> list[FieldError]:
        requests = self.devices.get("requests") or []
        path = f"{self.path}.requests"
        too_much = checks.too_much_to_compile(_requests({"devices": self.devices}), path)
        if too_much:
            return too_much
        errors: list[FieldError] = []
        if len(requests) <= _MAX_REQUESTS:
            errors += checks.unique(requests, path, key=checks.named, model="resource_v1.DeviceRequest")
        errors += checks.at_most(requests, _MAX_REQUESTS, self.request, path)
        errors += checks.at_most(self.devices.get("constraints"), 32, self.constraint, f"{self.path}.constraints")
        errors += checks.at_most(self.devices.get("config"), 32, self.config, f"{self.path}.config")
        if self.derived_cost > checks.MAX_COST:
            detail = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"
            errors.append(FieldError.forbidden(self.path, detail))
        return errors

    def request(self, request: Object, path: str) -> list[FieldError]:
        errors = names.short_name(request.get("name") or "", f"{path}.name")
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
        if exactly is None and not alternatives:
            detail = "exactly one of `exactly` or `firstAvailable` is required"
            return [*errors, FieldError.required(path, detail)]
        if exactly is not None and alternatives:
            detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
            return [*errors, FieldError.invalid(path, None, detail), *self.declared(request, path)]
        name = request.get("name") or ""
        if exactly is not None:
            errors += names.class_name(exactly.get("deviceClassName") or "", f"{path}.exactly.deviceClassName")
            return errors + self.asked(exactly, f"{path}.exactly", name)
        return errors + self.alternatives(alternatives or [], f"{path}.firstAvailable", name)

    def declared(self, request: Object, path: str) -> list[FieldError]:
        """The rules that hold for both forms even when both are set."""
        errors = self.alternatives(
            request.get("firstAvailable") or [], f"{path}.firstAvailable", request.get("name") or ""
        )
        exactly = self.asked(request["exactly"], f"{path}.exactly", request.get("name") or "")
        return [error for error in exactly + errors if error.declared]

    def alternatives(self, alternatives: list[Object], path: str, request: str) -> list[FieldError]:
        def check(subrequest: Object, here: str) -> list[FieldError]:
            name = subrequest.get("name") or ""
            errors = names.short_name(name, f"{here}.name")
            errors += names.declared_class_name(subrequest.get("deviceClassName") or "", f"{here}.deviceClassName")
            return errors + self.asked(subrequest, here, f"{request}/{name}")

        errors: list[FieldError] = []
        if len(alternatives) <= _MAX_SUBREQUESTS:
            errors += checks.unique(alternatives, path, key=checks.named, model="resource_v1.DeviceSubRequest")
        return errors + checks.at_most(alternatives, _MAX_SUBREQUESTS, check, path)

    def asked(self, request: Object, path: str, name: str) -> list[FieldError]:
        """What exact requests and subrequests have in common."""
        errors = checks.selectors(request.get("selectors"), f"{path}.selectors", self.ctx)
        if request.get("derivedAttributes"):
            errors += self.derived_attributes(request["derivedAttributes"], f"{path}.derivedAttributes", name)
        errors += _allocation_mode(request, path)
        for position, toleration in enumerate(request.get("tolerations") or ()):
            errors += checks.toleration(toleration, f"{path}.tolerations[{position}]")
        return errors

    def derived_attributes(self, attributes: list[Object], path: str, request: str) -> list[FieldError]:
        def check(attribute: Object, here: str) -> list[FieldError]:
            return self.derived_attribute(attribute, here, request)

        errors = checks.at_most(attributes, -1, check, path)
        if len(attributes) > _MAX_DERIVED:
            # Only the declared rules stop at the limit.
            errors = [error for error in errors if not error.declared]
            errors.append(FieldError.too_many(path, len(attributes), _MAX_DERIVED).as_declared())
        return errors + checks.distinct((checks.named(attribute) for attribute in attributes), path)

    def derived_attribute(self, attribute: Object, path: str, request: str) -> list[FieldError]:
        errors: list[FieldError] = []
        name, text = attribute.get("name") or "", attribute.get("expression") or ""
        if not name:
            errors.append(FieldError.required(f"{path}.name").as_declared())
        else:
            if not self.is_constrained(name, request):
                detail = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
                errors.append(FieldError.invalid(f"{path}.name", name, detail))
            errors += names.declared_fully_qualified_name(name, f"{path}.name")
        if not text:
            return [*errors, FieldError.required(f"{path}.expression").as_declared()]
        if formats.length(text) > checks.MAX_EXPRESSION:
            return [*errors, FieldError.too_long(f"{path}.expression", checks.MAX_EXPRESSION)]
        found = self.ctx.expressions.check_derived(text, stored=False, gates=self.ctx.gates)
        wrong = checks.expression_errors(text, f"{path}.expression", found.error_type, found.error)
        if wrong:
            return errors + wrong
        self.derived_cost += found.max_cost
        return errors + checks.cost_errors(f"{path}.expression", found.max_cost)

    def is_constrained(self, attribute: str, request: str) -> bool:
        """Whether a constraint on this request (or all of them, or its parent) uses the attribute."""
        targets = ("", request, request.partition("/")[0])
        return any(attribute in self.constrained.get(target, ()) for target in targets)

    def constraint(self, constraint: Object, path: str) -> list[FieldError]:
        errors = references(constraint.get("requests"), f"{path}.requests", self.names)
        match, distinct = constraint.get("matchAttribute"), constraint.get("distinctAttribute")
        if match is not None:
            errors += names.declared_fully_qualified_name(match, f"{path}.matchAttribute")
        if distinct is not None:
            errors += names.declared_fully_qualified_name(distinct, f"{path}.distinctAttribute")
        if match is None and distinct is None:
            if self.ctx.gates.enabled("DRAConsumableCapacity"):
                detail = (
                    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
                )
                errors.append(FieldError.required(path, detail))
            else:
                errors.append(FieldError.required(f"{path}.matchAttribute"))
        return errors

    def config(self, config: Object, path: str) -> list[FieldError]:
        errors = references(config.get("requests"), f"{path}.requests", self.names)
        return errors + checks.configuration(config, path)


def _constrained_attributes(constraints: list[Object]) -> dict[str, set[str]]:
    """Per request reference ("" for all requests) the attributes that constraints use."""
    used: dict[str, set[str]] = {}
    for constraint in constraints:
        attribute = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
        if attribute:
            for request in constraint.get("requests") or [""]:
                used.setdefault(request, set()).add(attribute)
    return used


def _allocation_mode(request: Object, path: str) -> list[FieldError]:
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == "All":
        if count:
            detail = "must not be specified when allocationMode is 'All'"
            return [FieldError.invalid(f"{path}.count", count, detail)]
    elif mode == "ExactCount":
        if count <= 0:
            return [FieldError.invalid(f"{path}.count", count, "must be greater than zero")]
    else:
        error = FieldError.not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
        return [error.as_declared() if mode else error]  # the declared rule lets "" pass, for v1beta1's sake
    return []
