"""The strings extension, version 2 (as Kubernetes enables it), without `format`."""

from __future__ import annotations

from typing import Any

from drakit.api.errors import GO_ESCAPES
from drakit.cel.functions import Function, function, overload
from drakit.cel.values import MAX_TEXT, Fault, show

__all__ = ["FUNCTIONS"]


def _out_of_range(index: int) -> Fault:
    return Fault(f"index out of range: {index}")


def _char_at(value: str, index: int) -> str:
    if not 0 <= index <= len(value):
        raise _out_of_range(index)
    return value[index : index + 1]


def _index_of(value: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(value))
    return value.find(part, offset)


def _last_index_of(value: str, part: str) -> int:
    return value.rfind(part)


def _last_index_from(value: str, part: str, offset: int) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(value))
    if offset >= len(value):
        return -1
    return value.rfind(part, 0, offset + len(part))


_LOWER = {ord(ch): ch.lower() for ch in map(chr, range(65, 91))}
_UPPER = {ord(ch): ch.upper() for ch in map(chr, range(97, 123))}


def _replace(value: str, old: str, new: str, count: int = -1) -> str:
    if len(value) + len(value) * len(new) > MAX_TEXT:
        found = value.count(old) if old else len(value) + 1
        times = found if count < 0 else min(found, count)
        _bounded(len(value) + times * (len(new) - len(old)))
    return value.replace(old, new, count)


def _bounded(length: int) -> None:
    if length > MAX_TEXT:
        raise Fault(f"result too large: {length} characters")


def _split(value: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        if count < 0 or count >= len(value):
            return list(value)
        return [*value[: count - 1], value[count - 1 :]]
    return value.split(separator, count - 1 if count > 0 else -1)


def _substring(value: str, start: int) -> str:
    if not 0 <= start <= len(value):
        raise _out_of_range(start)
    return value[start:]


def _substring_range(value: str, start: int, end: int) -> str:
    if start > end:
        raise Fault(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(value):
            raise _out_of_range(index)
    return value[start:end]


# unicode.IsSpace
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def _join(values: list[Any], separator: str = "") -> str:
    for item in values:
        if item.__class__ is not str:
            raise Fault(f"join: invalid input: {show(item)}")
    _bounded(sum(map(len, values)) + len(separator) * len(values))
    return separator.join(values)


_QUOTED = str.maketrans(GO_ESCAPES)

FUNCTIONS: list[Function] = [
    function("charAt", overload("string_char_at_int", "string.(int) -> string", _char_at)),
    function(
        "indexOf",
        overload("string_index_of_string", "string.(string) -> int", _index_of),
        overload("string_index_of_string_int", "string.(string, int) -> int", _index_of),
    ),
    function(
        "lastIndexOf",
        overload("string_last_index_of_string", "string.(string) -> int", _last_index_of),
        overload("string_last_index_of_string_int", "string.(string, int) -> int", _last_index_from),
    ),
    function("lowerAscii", overload("string_lower_ascii", "string.() -> string", lambda v: v.translate(_LOWER))),
    function(
        "replace",
        overload("string_replace_string_string", "string.(string, string) -> string", _replace),
        overload("string_replace_string_string_int", "string.(string, string, int) -> string", _replace),
    ),
    function(
        "split",
        overload("string_split_string", "string.(string) -> list(string)", _split),
        overload("string_split_string_int", "string.(string, int) -> list(string)", _split),
    ),
    function(
        "substring",
        overload("string_substring_int", "string.(int) -> string", _substring),
        overload("string_substring_int_int", "string.(int, int) -> string", _substring_range),
    ),
    function("trim", overload("string_trim", "string.() -> string", lambda v: v.strip(_SPACE))),
    function("upperAscii", overload("string_upper_ascii", "string.() -> string", lambda v: v.translate(_UPPER))),
    function("strings.quote", overload("strings_quote", "(string) -> string", lambda v: f'"{v.translate(_QUOTED)}"')),
    function(
        "join",
        overload("list_join", "list(string).() -> string", _join),
        overload("list_join_string", "list(string).(string) -> string", _join),
    ),
]
