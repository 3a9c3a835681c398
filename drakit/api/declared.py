"""Rules that Kubernetes declares with its types (`+k8s:` tags), as data: a `Type` lists its fields with what holds for each.

`check` runs them as the generated code does: what an update leaves as it was is not judged again, a field that is missing, fixed or
forbidden is not looked into, and everything found counts as declared (listed after the rules written by hand).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drakit.api import formats, wire
from drakit.api.errors import Errors, FieldError
from drakit.api.gates import FeatureGates

__all__ = ["Field", "Type", "at_least", "at_most", "check", "label_key", "long_name", "one_of", "segment", "short_name"]

Check = Callable[[Any, str], Errors]


@dataclass(frozen=True, slots=True)
class Field:
    """What holds for one field. Without any presence it is a struct that is always there."""

    name: str
    optional: bool = False
    required: bool = False
    pointer: bool = False  # given when it is there at all; otherwise when it is neither empty nor zero
    gate: str = ""  # forbidden without this gate
    immutable: bool = False
    immutable_if_gated: bool = False  # without the gate it may at least be taken away
    fixed_presence: bool = False  # may be neither set nor cleared by an update
    fixed_items: bool = False  # an update adds no items and takes none away
    max_items: int = 0
    key: str = ""  # the field by which items of a list are told apart
    items: bool = False
    type: Callable[[], Type] | None = None  # a function, since types may contain themselves
    check: Check | None = None  # a value that is no struct


@dataclass(frozen=True, slots=True)
class Type:
    fields: tuple[Field, ...]
    union: tuple[str, ...] = ()  # exactly one of these


@dataclass(frozen=True, slots=True)
class _Operation:
    update: bool
    gates: FeatureGates


def check(of: Type, new: Mapping[str, Any], old: Mapping[str, Any] | None, path: str, gates: FeatureGates) -> Errors:
    """What is wrong with a value; `old` is None when it is created."""
    operation = _Operation(old is not None, gates)
    return [error.as_declared() for error in _struct(of, new, old, path, operation)]


def _struct(
    of: Type, new: Mapping[str, Any], old: Mapping[str, Any] | None, path: str, operation: _Operation
) -> Errors:
    errors = _union(of.union, new, old, path, operation) if of.union else []
    for field in of.fields:
        value, before = new.get(field.name), (old or {}).get(field.name)
        if operation.update and old is not None and _same(value, before):
            continue
        here = f"{path}.{field.name}"
        found, proceed = _gatekeepers(field, value, before, here, operation)
        errors += found
        if proceed:
            errors += _inside(field, value, before, here, operation)
    return errors


def _union(
    names: Sequence[str], new: Mapping[str, Any], old: Mapping[str, Any] | None, path: str, operation: _Operation
) -> Errors:
    given = [name for name in names if _present(new.get(name))]
    if operation.update and old is not None and given == [name for name in names if _present(old.get(name))]:
        return []
    known = ", ".join(f"`{name}`" for name in names)
    if len(given) > 1:
        return [FieldError.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {known}")]
    return [] if given else [FieldError.invalid(path, "", f"must specify one of: {known}")]


def _gatekeepers(field: Field, value: Any, before: Any, path: str, operation: _Operation) -> tuple[Errors, bool]:
    """The rules that decide whether the value is looked into at all; each says what it has to say."""
    errors: Errors = []
    given = value is not None if field.pointer else bool(value)
    gated = bool(field.gate) and not operation.gates.enabled(field.gate)
    if gated and given:
        errors.append(FieldError.forbidden(path))
    if operation.update and (field.immutable or (field.immutable_if_gated and not gated)):
        errors.append(FieldError.invalid(path, None, "field is immutable"))
    if field.max_items and len(value or ()) > field.max_items:
        errors.append(FieldError.too_many(path, len(value), field.max_items))
    if field.required and not given:
        errors.append(FieldError.required(path))
    if operation.update and field.fixed_presence:
        if before is None and value is not None:
            errors.append(FieldError.invalid(path, None, "field cannot be set once created"))
        if before is not None and value is None:
            errors.append(FieldError.invalid(path, None, "field cannot be cleared once set"))
    if operation.update and field.fixed_items:
        errors += _moved_items(field.key, value or (), before or (), path)
    return errors, not errors and (given or not field.optional)


def _moved_items(key: str, new: Sequence[Any], old: Sequence[Any], path: str) -> Errors:
    errors = [
        FieldError.forbidden(f"{path}[{position}]", "item may not be added")
        for position, item in enumerate(new)
        if _lookup(old, item, key) is None
    ]
    removed = [item for item in old if _lookup(new, item, key) is None]
    return errors + [FieldError.forbidden(path, "item may not be removed") for _ in removed]


def _inside(field: Field, value: Any, before: Any, path: str, operation: _Operation) -> Errors:
    if field.check is not None:
        return field.check(value, path)
    if field.type is None:
        return []
    if not field.items:
        return _struct(field.type(), value or {}, before, path, operation)
    errors: Errors = []
    if field.key:
        seen: set[Any] = set()
        for position, item in enumerate(value):
            if item.get(field.key) in seen:
                errors.append(FieldError.duplicate(f"{path}[{position}]", _in_order(field.type(), item)))
            seen.add(item.get(field.key))
    for position, item in enumerate(value):
        was = _lookup(before or (), item, field.key) if field.key else None
        if operation.update and was is not None and _same(item, was):
            continue
        errors += _struct(field.type(), item, was, f"{path}[{position}]", operation)
    return errors


def _in_order(of: Type, value: Mapping[str, Any]) -> dict[str, Any]:
    """As Go writes it: fields in the order of the type."""
    shown: dict[str, Any] = {}
    for field in of.fields:
        inner = value.get(field.name)
        if field.name in value:
            nested = field.type() if field.type is not None else None
            if nested is not None and isinstance(inner, list):
                inner = [_in_order(nested, item) for item in inner]
            elif nested is not None and inner is not None:
                inner = _in_order(nested, inner)
            shown[field.name] = inner
    return shown


def _lookup(items: Sequence[Any], wanted: Mapping[str, Any], key: str) -> Any:
    return next((item for item in items if item.get(key) == wanted.get(key)), None)


def _present(value: Any) -> bool:
    return value is not None and value != []


def _same(one: Any, two: Any) -> bool:
    """Go's semantic equality: no list and an empty one are the same."""
    return wire.same(one, two) or (one in (None, []) and two in (None, []))


# Values


def _named(texts: Callable[[str], list[str]]) -> Check:
    return lambda value, path: [FieldError.invalid(path, value, text) for text in texts(value)]


short_name = _named(lambda text: formats.dns_label(text, formats.BYTES))
long_name = _named(lambda text: formats.dns_subdomain(text, formats.BYTES))
label_key = _named(formats.label_key)
segment = _named(formats.path_segment)


def at_least(limit: int) -> Check:
    text = f"must be greater than or equal to {limit}"
    return lambda value, path: [] if value >= limit else [FieldError.invalid(path, value, text)]


def at_most(limit: int) -> Check:
    text = f"must be less than or equal to {limit}"
    return lambda value, path: [] if value <= limit else [FieldError.invalid(path, value, text)]


def one_of(*words: str) -> Check:
    return lambda value, path: [] if value in words else [FieldError.not_supported(path, value, sorted(words))]
