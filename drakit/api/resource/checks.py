"""Rules that several kinds of resource.k8s.io share: lists, CEL selectors, opaque parameters, taints, node selectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from drakit.api import formats, wire
from drakit.api.errors import FieldError
from drakit.api.kind import Object, WriteContext
from drakit.api.resource import names

__all__ = [
    "at_most",
    "binding_conditions",
    "configuration",
    "distinct",
    "expression",
    "immutable",
    "named",
    "raw_object",
    "selectors",
    "skip_node_operations",
    "taint",
    "toleration",
    "too_much_to_compile",
    "unique",
]

ItemCheck = Callable[[Any, str], list[FieldError]]

MAX_EXPRESSION = 10 * 1024
MAX_EXPRESSIONS = 96 * 1024
MAX_COST = 1_000_000
MAX_OPAQUE = 10 * 1024
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_OPERATIONS = ("*", "NodePrepareResources", "NodeUnprepareResources")


def at_most(
    items: Sequence[Any] | None, limit: int, check: ItemCheck, path: str, *, declared: bool = True
) -> list[FieldError]:
    """Every item checked; too many are not even looked at."""
    if not items:
        return []
    if 0 <= limit < len(items):
        error = FieldError.too_many(path, len(items), limit)
        return [error.as_declared() if declared else error]
    errors: list[FieldError] = []
    for position, item in enumerate(items):
        errors += check(item, f"{path}[{position}]")
    return errors


def unique(
    items: Sequence[Any] | None, path: str, *, key: Callable[[Any], Any] | None = None, model: str = ""
) -> list[FieldError]:
    """An error for every item that was there before: declared rules show the whole item, in the order of its fields."""
    if not items or len(items) < 2:
        return []
    seen = set()
    errors = []
    for position, item in enumerate(items):
        identity = key(item) if key else item
        if identity in seen:
            shown = wire.in_order(model, item) if model else item
            errors.append(FieldError.duplicate(f"{path}[{position}]", shown).as_declared())
        seen.add(identity)
    return errors


def distinct(keys: Iterable[Any], path: str) -> list[FieldError]:
    """The older rule: shows the key that was there before."""
    seen = set()
    errors = []
    for position, key in enumerate(keys):
        if key in seen:
            errors.append(FieldError.duplicate(f"{path}[{position}]", key))
        seen.add(key)
    return errors


def immutable(path: str, new: Any, old: Any) -> list[FieldError]:
    """A field that never changes after the object was created."""
    return [] if wire.same(new, old) else [FieldError.invalid(path, None, "field is immutable").as_declared()]


def named(item: Object) -> str:
    return item.get("name") or ""


def selectors(items: list[Object] | None, path: str, ctx: WriteContext, *, stored: bool = False) -> list[FieldError]:
    def check(selector: Object, here: str) -> list[FieldError]:
        cel = selector.get("cel")
        if cel is None:
            return [FieldError.required(f"{here}.cel")]
        return expression(cel.get("expression") or "", f"{here}.cel.expression", ctx, stored=stored)

    return at_most(items, 32, check, path)


def expression(text: str, path: str, ctx: WriteContext, *, stored: bool = False) -> list[FieldError]:
    """A CEL selector. What was stored before was good once and is not looked at again."""
    if stored:
        return []
    if formats.length(text) > MAX_EXPRESSION:
        return [FieldError.too_long(path, MAX_EXPRESSION)]
    found = ctx.expressions.check_selector(text, stored=False, gates=ctx.gates)
    return expression_errors(text, path, found.error_type, found.error) or cost_errors(path, found.max_cost)


def too_much_to_compile(requests: Iterable[Object], path: str) -> list[FieldError]:
    """Kubernetes bounds each expression but not their sum: hundreds of long ones would keep everybody waiting.

    What counts is the text of distinct expressions, since each is compiled once.
    """
    texts: set[str] = set()
    for request in requests:
        texts.update((selector.get("cel") or {}).get("expression") or "" for selector in request.get("selectors") or ())
        texts.update(derived.get("expression") or "" for derived in request.get("derivedAttributes") or ())
    if sum(map(len, texts)) <= MAX_EXPRESSIONS:
        return []
    detail = f"too complex, the distinct CEL expressions together may not be more than {MAX_EXPRESSIONS} characters"
    return [FieldError.forbidden(path, detail)]


def expression_errors(text: str, path: str, error_type: str, error: str) -> list[FieldError]:
    if error_type == "invalid":
        return [FieldError.invalid(path, text, error)]
    if error_type:
        return [FieldError.internal(path, error)]
    return []


def cost_errors(path: str, cost: int) -> list[FieldError]:
    return [FieldError.forbidden(path, "too complex, exceeds cost limit")] if cost > MAX_COST else []


def configuration(config: Object, path: str, *, stored: bool = False) -> list[FieldError]:
    opaque = config.get("opaque")
    if opaque is None:
        return [FieldError.required(f"{path}.opaque")]
    errors = names.declared_driver_name(opaque.get("driver") or "", f"{path}.opaque.driver")
    return errors + raw_object(opaque.get("parameters"), f"{path}.opaque.parameters", MAX_OPAQUE, stored=stored)


def raw_object(value: Any, path: str, limit: int, *, stored: bool = False) -> list[FieldError]:
    """Free-form JSON that has to be an object. Its size is that of its compact text."""
    if value is None:
        return [FieldError.required(path)]
    if not stored and raw_size(value) > limit:
        return [FieldError.too_long(path, limit)]
    if not isinstance(value, dict):
        return [FieldError.invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


def raw_size(value: Any) -> int:
    return formats.length(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _effect(effect: str, path: str) -> list[FieldError]:
    return [] if effect in _EFFECTS else [FieldError.not_supported(path, effect, _EFFECTS).as_declared()]


def taint(value: Object, path: str, *, old: Object | None = None) -> list[FieldError]:
    """A DeviceTaint. An effect that was stored by a newer version is left alone."""
    errors = names.label_key(value.get("key") or "", f"{path}.key")
    if value.get("value"):
        errors += names.label_value(value["value"], f"{path}.value")
    effect = value.get("effect") or ""
    if old is None or (old.get("effect") or "") != effect:
        if not effect:
            errors.append(FieldError.required(f"{path}.effect").as_declared())
        else:
            errors += _effect(effect, f"{path}.effect")
    return errors


def toleration(value: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if value.get("key"):
        errors += names.declared_label_key(value["key"], f"{path}.key")
    operator, text = value.get("operator") or "", value.get("value") or ""
    if operator == "Exists":
        if text:
            errors.append(FieldError.invalid(f"{path}.value", text, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += names.label_value(text, f"{path}.value")
    elif not operator:
        errors.append(FieldError.required(f"{path}.operator").as_declared())
    else:
        errors.append(FieldError.not_supported(f"{path}.operator", operator, ("Equal", "Exists")).as_declared())
    if value.get("effect"):
        errors += _effect(value["effect"], f"{path}.effect")
    return errors


def binding_conditions(device: Object, path: str) -> list[FieldError]:
    """bindingConditions and bindingFailureConditions: few, distinct, disjoint, both or neither."""
    conditions = device.get("bindingConditions") or []
    failures = device.get("bindingFailureConditions") or []
    if not conditions and not failures:
        return []
    here, there = f"{path}.bindingConditions", f"{path}.bindingFailureConditions"
    errors = at_most(conditions, 4, names.label_key, here)
    errors += at_most(failures, 4, names.label_key, there)
    errors += distinct(conditions, here)
    seen: set[str] = set()
    for position, name in enumerate(failures):
        if name in seen:
            errors.append(FieldError.duplicate(f"{there}[{position}]", name))
        seen.add(name)
        if name in conditions:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(FieldError.invalid(f"{there}[{position}]", name, detail))
    if not conditions:
        detail = "bindingConditions are required to use bindingFailureConditions"
        errors.append(FieldError.invalid(here, device.get("bindingConditions"), detail))
    if not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        errors.append(FieldError.invalid(there, device.get("bindingFailureConditions"), detail))
    return errors


def skip_node_operations(operations: list[str] | None, path: str) -> list[FieldError]:
    if not operations:
        return []
    errors = []
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        detail = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        errors.append(FieldError.invalid(path, operations, detail))
    errors += unique(operations, path)
    for position, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(FieldError.not_supported(f"{path}[{position}]", operation, _OPERATIONS).as_declared())
    return errors


def node_name(name: str, path: str) -> list[FieldError]:
    return [FieldError.invalid(path, name, text) for text in formats.dns_subdomain(name)]
