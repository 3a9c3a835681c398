"""Kubernetes' quantities and versions, its regular expression functions, and the named formats."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Any, ClassVar

from drakit.api import formats
from drakit.api.errors import go_quote
from drakit.api.quantity import DECIMAL_EXPONENT, Quantity, QuantityError
from drakit.cel import regex
from drakit.cel.functions import CLASSES, Function, function, overload
from drakit.cel.library.network import ParseError
from drakit.cel.library.urls import parse_request_uri
from drakit.cel.text import parse_timestamp
from drakit.cel.values import INT_MIN, NONE, Fault, Optional, refusing_equality

__all__ = [
    "FORMATS",
    "FORMAT_FUNCTIONS",
    "QUANTITY",
    "REGEX",
    "SEMVER",
    "NamedFormat",
    "QuantityValue",
    "Semver",
    "parse_semver",
]


class QuantityValue:
    """A quantity. Sums and differences are `boxed`: Kubernetes returns pointers there, which `==` refuses on its right side."""

    __slots__ = ("boxed", "key", "quantity")
    cel_type: ClassVar[str] = "kubernetes.Quantity"

    def __init__(self, quantity: Quantity, boxed: bool = False) -> None:
        self.quantity = quantity
        self.boxed = boxed
        # Comparisons are most of what is done with quantities: every one is a whole number of nanos.
        self.key: int | Fraction
        try:
            self.key = quantity.scaled(-9) if quantity.is_scaled_exactly(-9) else quantity.to_fraction() * 10**9
        except QuantityError:
            raise Fault("quantity out of range") from None

    def cel_equal(self, other: Any) -> bool | None:
        if other.__class__ is not QuantityValue or other.boxed:
            return None
        return bool(self.key == other.key)

    __eq__ = refusing_equality
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return str(self.quantity)

    __repr__ = __str__


@lru_cache(maxsize=4096)
def _parse_quantity(text: str) -> QuantityValue | str:
    """The value, or the error's text: parsing the same literal again is a lookup."""
    try:
        return QuantityValue(Quantity.parse(text))
    except (QuantityError, Fault) as error:
        return str(error)


def _quantity(text: str) -> QuantityValue:
    parsed = _parse_quantity(text)
    if parsed.__class__ is str:
        raise Fault(parsed)
    return parsed  # type: ignore[return-value]  # not an error's text


def _as_integer(value: QuantityValue) -> int:
    number = value.quantity.as_int64()
    if number is None:
        raise Fault("cannot convert value to integer")
    return number


def _compare(a: QuantityValue, b: QuantityValue) -> int:
    return (a.key > b.key) - (a.key < b.key)


def _combine(a: QuantityValue, other: Quantity, sign: int) -> QuantityValue:
    try:
        return QuantityValue(a.quantity + other if sign > 0 else a.quantity - other, boxed=True)
    except QuantityError as error:
        raise Fault(str(error)) from None


def _subtract_int(a: QuantityValue, number: int) -> QuantityValue:
    """Go negates the number, and the least one is its own negative: among whole quantities the difference becomes a sum."""
    wraps = number == INT_MIN and (a.quantity.as_int64() or -1) >= 0
    return _combine(a, _of(number), 1 if wraps else -1)


def _of(number: int) -> Quantity:
    return Quantity.of(number, DECIMAL_EXPONENT)


_Q = "kubernetes.Quantity"
QUANTITY: list[Function] = [
    function("quantity", overload("string_to_quantity", f"(string) -> {_Q}", _quantity)),
    function(
        "isQuantity",
        overload("is_quantity_string", "(string) -> bool", lambda v: _parse_quantity(v).__class__ is QuantityValue),
    ),
    function("sign", overload("quantity_sign", f"({_Q}) -> int", lambda v: v.quantity.sign)),
    function("isGreaterThan", overload("quantity_is_greater_than", f"{_Q}.({_Q}) -> bool", lambda a, b: a.key > b.key)),
    function("isLessThan", overload("quantity_is_less_than", f"{_Q}.({_Q}) -> bool", lambda a, b: a.key < b.key)),
    function("compareTo", overload("quantity_compare_to", f"{_Q}.({_Q}) -> int", _compare)),
    function(
        "asApproximateFloat", overload("quantity_get_float", f"{_Q}.() -> double", lambda v: v.quantity.as_float())
    ),
    function("asInteger", overload("quantity_get_int", f"{_Q}.() -> int", _as_integer)),
    function(
        "isInteger", overload("quantity_is_integer", f"{_Q}.() -> bool", lambda v: v.quantity.as_int64() is not None)
    ),
    function(
        "add",
        overload("quantity_add", f"{_Q}.({_Q}) -> {_Q}", lambda a, b: _combine(a, b.quantity, 1)),
        overload("quantity_add_int", f"{_Q}.(int) -> {_Q}", lambda a, b: _combine(a, _of(b), 1)),
    ),
    function(
        "sub",
        overload("quantity_sub", f"{_Q}.({_Q}) -> {_Q}", lambda a, b: _combine(a, b.quantity, -1)),
        overload("quantity_sub_int", f"{_Q}.(int) -> {_Q}", _subtract_int),
    ),
]

# -- versions -------------------------------------------------------------------------------------------------


@total_ordering
class Semver:
    """A semantic version; build metadata does not count when comparing."""

    __slots__ = ("build", "key", "major", "minor", "patch", "pre")
    cel_type: ClassVar[str] = "kubernetes.Semver"

    def __init__(
        self, major: int, minor: int, patch: int, pre: tuple[str, ...] = (), build: tuple[str, ...] = ()
    ) -> None:
        self.major, self.minor, self.patch, self.pre, self.build = major, minor, patch, pre, build
        # A version without prerelease comes after all with one; numbers come before words.
        words = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre)
        self.key = (major, minor, patch, not pre, words)

    def cel_equal(self, other: Any) -> bool | None:
        return self.key == other.key if other.__class__ is Semver else None

    __eq__ = refusing_equality

    def __lt__(self, other: Semver) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(self.pre)
        return text + ("+" + ".".join(self.build) if self.build else "")

    __repr__ = __str__


_NUMBERS = re.compile(r"[0-9]*\Z")
_WORDS = re.compile(r"[0-9A-Za-z-]*\Z")


def _number(part: str, name: str) -> int:
    if not _NUMBERS.match(part):
        raise Fault(f"Invalid character(s) found in {name} number {go_quote(part)}")
    if len(part) > 1 and part[0] == "0":
        raise Fault(f"{name.capitalize()} number must not contain leading zeroes {go_quote(part)}")
    return _parse_uint(part)


def _parse_uint(part: str) -> int:
    if not part:
        raise Fault(f'strconv.ParseUint: parsing "{part}": invalid syntax')
    if len(part) > 20 or int(part) >= 2**64:
        raise Fault(f'strconv.ParseUint: parsing "{part}": value out of range')
    return int(part)


def parse_semver(text: str) -> Semver:
    """Strict semantic versions; faults with the texts of the library Kubernetes uses."""
    if not text:
        raise Fault("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise Fault("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    rest, plus, build_text = parts[2].partition("+")
    rest, dash, pre_text = rest.partition("-")
    patch = _number(rest, "patch")
    pre = tuple(pre_text.split(".")) if dash else ()
    for part in pre:
        _check_prerelease(part)
    build = tuple(build_text.split(".")) if plus else ()
    for part in build:
        if not part:
            raise Fault("Build meta data is empty")
        if not _WORDS.match(part):
            raise Fault(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver(major, minor, patch, pre, build)


def _check_prerelease(part: str) -> None:
    if not part:
        raise Fault("Prerelease is empty")
    if _NUMBERS.match(part):
        if len(part) > 1 and part[0] == "0":
            raise Fault(f"Numeric PreRelease version must not contain leading zeroes {go_quote(part)}")
        _parse_uint(part)
    elif not _WORDS.match(part):
        raise Fault(f"Invalid character(s) found in prerelease {go_quote(part)}")


def _normalized(text: str) -> str:
    """A leading v, missing minor and patch, and leading zeroes are forgiven."""
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            part = part.lstrip("0")
            if not part or part[0] not in "0123456789":
                part = "0" + part
            parts[i] = part
    if len(parts) < 3:
        if any(ch in parts[-1] for ch in "+-"):
            raise Fault("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@lru_cache(maxsize=4096)
def _version(text: str, normalize: bool) -> Semver | str:
    try:
        return parse_semver(_normalized(text) if normalize else text)
    except Fault as fault:
        return str(fault)


def _semver(text: str, normalize: bool = False) -> Semver:
    parsed = _version(text, normalize)
    if parsed.__class__ is str:
        raise Fault(parsed)
    return parsed  # type: ignore[return-value]  # not an error's text


def _is_semver(text: str, normalize: bool = False) -> bool:
    return _version(text, normalize).__class__ is Semver


def _compare_versions(a: Semver, b: Semver) -> int:
    return (a.key > b.key) - (a.key < b.key)


def _int64(number: int) -> int:
    """Go converts the unsigned number without a check."""
    return number - 2**64 if number >= 2**63 else number


_S = "kubernetes.Semver"
SEMVER: list[Function] = [
    function(
        "semver",
        overload("string_to_semver", f"(string) -> {_S}", _semver),
        overload("string_bool_to_semver", f"(string, bool) -> {_S}", _semver),
    ),
    function(
        "isSemver",
        overload("is_semver_string", "(string) -> bool", _is_semver),
        overload("is_semver_string_bool", "(string, bool) -> bool", _is_semver),
    ),
    function("isGreaterThan", overload("semver_is_greater_than", f"{_S}.({_S}) -> bool", lambda a, b: a.key > b.key)),
    function("isLessThan", overload("semver_is_less_than", f"{_S}.({_S}) -> bool", lambda a, b: a.key < b.key)),
    function("compareTo", overload("semver_compare_to", f"{_S}.({_S}) -> int", _compare_versions)),
    function("major", overload("semver_major", f"{_S}.() -> int", lambda v: _int64(v.major))),
    function("minor", overload("semver_minor", f"{_S}.() -> int", lambda v: _int64(v.minor))),
    function("patch", overload("semver_patch", f"{_S}.() -> int", lambda v: _int64(v.patch))),
]

# -- regular expressions --------------------------------------------------------------------------------------


def _illegal(fault: Fault) -> Fault:
    return Fault(f"Illegal regex: {fault}")


def _find(value: str, pattern: str) -> str:
    try:
        return regex.find(pattern, value)
    except Fault as fault:
        raise _illegal(fault) from None


def _find_all(value: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        return regex.find_all(pattern, value, limit)
    except Fault as fault:
        raise _illegal(fault) from None


REGEX: list[Function] = [
    function("find", overload("string_find_string", "string.(string) -> string", _find)),
    function(
        "findAll",
        overload("string_find_all_string", "string.(string) -> list(string)", _find_all),
        overload("string_find_all_string_int", "string.(string, int) -> list(string)", _find_all),
    ),
]

# -- named formats --------------------------------------------------------------------------------------------


class NamedFormat:
    """A well-known text format; `max_regex` is the size that its cost is estimated with."""

    __slots__ = ("check", "max_regex", "name")
    cel_type: ClassVar[str] = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], list[str]], max_regex: int) -> None:
        self.name = name
        self.check = check
        self.max_regex = max_regex

    def cel_equal(self, other: Any) -> bool | None:
        return self.name == other.name if other.__class__ is NamedFormat else None

    __eq__ = refusing_equality
    __hash__ = object.__hash__


def _uri(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except ParseError as error:
        return [str(error)]
    return []


_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z"
)


def _base64(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    return [] if _DATE.match(text) and _is_time(f"{text}T00:00:00Z") else ["invalid date"]


def _datetime(text: str) -> list[str]:
    return [] if _DATETIME.match(text) and _is_time(text.upper()) else ["invalid datetime"]


def _is_time(text: str) -> bool:
    try:
        return parse_timestamp(text) is not None
    except Fault:
        return False


_label, _subdomain, _dns1035 = (
    formats.name_is(formats.dns_label),
    formats.name_is(formats.dns_subdomain),
    formats.name_is(formats.dns1035_label),
)
FORMATS: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", lambda s: _label(s, False), 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", lambda s: _subdomain(s, False), 60),
    "dns1035Label": NamedFormat("DNS1035Label", lambda s: _dns1035(s, False), 30),
    "qualifiedName": NamedFormat("QualifiedName", formats.label_key, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", lambda s: _label(s, True), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", lambda s: _subdomain(s, True), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", lambda s: _dns1035(s, True), 30),
    "labelValue": NamedFormat("LabelValue", formats.label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", lambda s: [] if _UUID.match(s) else ["does not match the UUID format"], 70),
    "byte": NamedFormat("byte", _base64, 84),
    "date": NamedFormat("date", _date, 71),
    "datetime": NamedFormat("datetime", _datetime, 71),
}


def _validate(value: NamedFormat, text: str) -> Optional:
    problems = value.check(text)
    return Optional(problems) if problems else NONE


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _constant(value: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: value


CLASSES.update({cls.cel_type: cls for cls in (QuantityValue, Semver, NamedFormat)})
_F = "kubernetes.NamedFormat"
FORMAT_FUNCTIONS: list[Function] = [
    function("validate", overload("format-validate", f"{_F}.(string) -> optional(list(string))", _validate)),
    function("format.named", overload("format-named", f"(string) -> optional({_F})", _named)),
    *(
        function(f"format.{name}", overload(f"format.{name}", f"() -> {_F}", _constant(value)))
        for name, value in FORMATS.items()
    ),
]
