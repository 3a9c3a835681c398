"""Between plain objects and lightkube's models.

`from_plain` reads what the API server stores (4 us a Pod). Objects made elsewhere may lack what a model calls required or hold null
in its place: those are filled with the zero value, as Go would read them.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["from_plain", "prepare", "to_plain"]

T = TypeVar("T")


def from_plain(cls: type[T], obj: dict[str, Any]) -> T:
    """The typed form of a plain object. Fields that the model does not know are left behind."""
    try:
        return msgspec.convert(obj, cls)
    except msgspec.ValidationError:
        return msgspec.convert(_filled(cls, obj), cls)


def prepare(cls: type[Any]) -> None:
    """Make the reader of a model now; otherwise its first object waits for that (40 ms for a Pod)."""
    with suppress(msgspec.ValidationError):  # there may be required fields; the reader has been made by then
        msgspec.convert({}, cls)


def to_plain(obj: Any) -> dict[str, Any]:
    """The plain form of a typed object; unset fields are left out."""
    plain: dict[str, Any] = msgspec.to_builtins(obj)
    return plain


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str  # in JSON
    type: Any
    required: bool


@lru_cache(maxsize=2048)
def _fields(cls: type) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    return tuple(_Field(field.encode_name, hints[field.name], field.required) for field in msgspec.structs.fields(cls))


def _filled(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin is Union:
        inner = [arg for arg in get_args(hint) if arg is not type(None)]
        return _filled(inner[0], value) if value is not None and len(inner) == 1 else value
    if origin is list and isinstance(value, list):
        return [_filled(get_args(hint)[0], item) for item in value]
    if origin is dict and isinstance(value, dict):
        return {key: _filled(get_args(hint)[1], item) for key, item in value.items()} if get_args(hint) else value
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and isinstance(value, dict):
        filled = dict(value)
        for field in _fields(hint):
            if filled.get(field.name) is not None:
                filled[field.name] = _filled(field.type, filled[field.name])
            elif field.required:
                filled[field.name] = _zero(field.type)
        return filled
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # a quantity written as a number
    return value


def _zero(hint: Any) -> Any:
    origin = get_origin(hint)
    if origin is list or hint is list:
        return []
    if origin is dict or hint is dict:
        return {}
    if origin is Union:
        return 0
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _filled(hint, {})
    return {str: "", int: 0, bool: False, float: 0.0}.get(hint, "1970-01-01T00:00:00Z")
