"""Quantities: exact decimal amounts with Kubernetes' suffixes, rounding and canonical text.

A value is `mantissa * 10**exponent` in Python integers, never a float. What Kubernetes does is kept, odd corners included: amounts
below a nano are rounded away from zero, binary ones stop at 2**63-1, and a text that already looks canonical is kept as written
("1.500", "+5"). One thing is better: amounts over 999E print all their digits, where Kubernetes prints them without a suffix.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache, total_ordering
from typing import Final

__all__ = ["BINARY_SI", "DECIMAL_EXPONENT", "DECIMAL_SI", "Quantity", "QuantityError"]

DECIMAL_SI: Final = "DecimalSI"  # 12M
BINARY_SI: Final = "BinarySI"  # 12Mi
DECIMAL_EXPONENT: Final = "DecimalExponent"  # 12e6

_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_WRONG = "unable to parse quantity's suffix"
_NUMBER_WRONG = "unable to parse numeric part of quantity"

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}

_INT64_MAX = 2**63 - 1
_NANO = -9
# Sums of amounts further apart than this would need unbounded memory; nothing real comes near it.
_MAX_DIGITS = 4_000  # Python reads no more digits at once
_PARTS = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)


class QuantityError(ValueError):
    """Text that is no quantity, or arithmetic beyond any sensible size. The text is Kubernetes'."""


@total_ordering
class Quantity:
    """An immutable amount; equal and ordered by value, whatever the format it was written in."""

    __slots__ = ("_big", "_exponent", "_mantissa", "_text", "format")

    format: str
    _mantissa: int
    _exponent: int
    _text: str | None
    _big: bool  # Go holds it as a big decimal; only as_int64 can tell

    def __init__(self, mantissa: int = 0, exponent: int = 0, format: str = DECIMAL_SI) -> None:
        self._mantissa = mantissa
        self._exponent = exponent if mantissa else 0
        self.format = format
        self._text = None
        self._big = not -_INT64_MAX <= mantissa <= _INT64_MAX

    @staticmethod
    def parse(text: str) -> Quantity:
        """From text such as 1500m, 1.5, 2Gi or 1e3; raises QuantityError."""
        return _parse(text)

    @staticmethod
    def of(value: int, format: str = DECIMAL_SI) -> Quantity:
        return Quantity(value, 0, format)

    @staticmethod
    def milli(value: int, format: str = DECIMAL_SI) -> Quantity:
        return Quantity(value, -3, format)

    # Reading

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._canonical()
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def to_fraction(self) -> Fraction:
        self._guard(self._exponent)
        return Fraction(self._mantissa) * Fraction(10) ** self._exponent

    def value(self) -> int:
        """The amount as an integer, rounded away from zero."""
        return self.scaled(0)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return self.scaled(-3)

    def scaled(self, exponent: int) -> int:
        """How many times 10**exponent, rounded away from zero."""
        return self._scaled_exactly(exponent)[0]

    def is_scaled_exactly(self, exponent: int) -> bool:
        return self._scaled_exactly(exponent)[1]

    def as_int64(self) -> int | None:
        """The value where Go's AsInt64 gives one: 1000m is none, although it is 1."""
        if self._big or self._exponent < 0:
            return None
        if self._exponent > 18:
            return 0 if self._mantissa == 0 else None
        value = self._mantissa * 10**self._exponent
        return value if -(2**63) <= value <= _INT64_MAX else None

    def as_float(self) -> float:
        try:
            return float(self._mantissa * Fraction(10) ** self._exponent) if abs(self._exponent) < 400 else self._far()
        except OverflowError:
            return self._far()

    def _far(self) -> float:
        if self._mantissa == 0 or self._exponent < 0:
            return 0.0
        return float("inf") if self._mantissa > 0 else float("-inf")

    @property
    def is_zero(self) -> bool:
        return self._mantissa == 0

    @property
    def sign(self) -> int:
        return (self._mantissa > 0) - (self._mantissa < 0)

    # Arithmetic: a zero takes over the other's format, as in Kubernetes.

    def __add__(self, other: Quantity) -> Quantity:
        return self._combine(other, 1)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._combine(other, -1)

    def __mul__(self, factor: int) -> Quantity:
        return self._derived(self._mantissa * factor, self._exponent, self.format, self._big)

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return self._derived(-self._mantissa, self._exponent, self.format, self._big)

    def __abs__(self) -> Quantity:
        return -self if self._mantissa < 0 else self

    def __bool__(self) -> bool:
        return self._mantissa != 0

    # Comparison

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1. Amounts of any exponent are compared without writing them out."""
        left, right = self._mantissa, other._mantissa
        if self._exponent == other._exponent:
            return (left > right) - (left < right)
        if self.sign != other.sign:
            return 1 if self.sign > other.sign else -1
        shift = self._exponent - other._exponent
        if abs(shift) > 400:
            # Bits tell the magnitude within a digit; only when they are close is it worth multiplying out.
            distance = (left.bit_length() - right.bit_length()) * 0.30103 + shift
            if abs(distance) > 2:
                return self.sign if distance > 0 else -self.sign
        if shift > 0:
            left *= 10**shift
        else:
            right *= 10**-shift
        return (left > right) - (left < right)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        mantissa, times = _without_factors(self._mantissa, 10)
        return hash((mantissa, self._exponent + times if mantissa else 0))

    # Inside

    @classmethod
    def _derived(cls, mantissa: int, exponent: int, format: str, big: bool) -> Quantity:
        result = cls(mantissa, exponent, format)
        result._big = result._big or big
        return result

    def _combine(self, other: Quantity, sign: int) -> Quantity:
        format = other.format if self.is_zero else self.format
        exponent = min(self._exponent, other._exponent)
        if self.is_zero:
            exponent = other._exponent
        elif other.is_zero:
            exponent = self._exponent
        self._guard(self._exponent - exponent if self._mantissa else 0)
        self._guard(other._exponent - exponent if other._mantissa else 0)
        left = self._mantissa * 10 ** (self._exponent - exponent) if self._mantissa else 0
        right = other._mantissa * 10 ** (other._exponent - exponent) if other._mantissa else 0
        return self._derived(left + sign * right, exponent, format, self._big or other._big)

    @staticmethod
    def _guard(digits: int) -> None:
        if abs(digits) > _MAX_DIGITS:
            raise QuantityError(f"quantity arithmetic over more than {_MAX_DIGITS} digits")

    def _scaled_exactly(self, exponent: int) -> tuple[int, bool]:
        shift = self._exponent - exponent
        if shift >= 0:
            self._guard(shift)
            return self._mantissa * 10**shift, True
        if -shift > _MAX_DIGITS:
            return self.sign, self._mantissa == 0
        whole, rest = divmod(abs(self._mantissa), 10**-shift)
        return self.sign * (whole + (rest > 0)), rest == 0

    def _canonical(self) -> str:
        if self._mantissa == 0:
            return "0"
        format = self.format
        if format == BINARY_SI and self._exponent <= _MAX_DIGITS:
            whole, exact = self._scaled_exactly(0)
            if exact and not -1024 < whole < 1024:
                amount, times = _without_factors(whole, 1024)
                times, amount = (6, amount * 1024 ** (times - 6)) if times > 6 else (times, amount)
                return str(amount) + _BINARY_SUFFIX.get(times * 10, "")
            format = DECIMAL_SI
        amount, times = _without_factors(self._mantissa, 10)
        exponent = self._exponent + times
        amount *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if format == DECIMAL_EXPONENT:
            return f"{amount}e{exponent}" if exponent else str(amount)
        if exponent > 18:
            self._guard(exponent)
            amount, exponent = amount * 10 ** (exponent - 18), 18
        return str(amount) + _DECIMAL_SUFFIX[exponent]


def _without_factors(amount: int, base: int) -> tuple[int, int]:
    """amount without its factors of base, and how many there were."""
    if amount == 0:
        return 0, 0
    times = 0
    while amount % base == 0:
        amount //= base
        times += 1
    return amount, times


@lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity:
    if not text:
        raise QuantityError(_FORMAT_WRONG)
    match = _PARTS.fullmatch(text)
    if match is None:
        raise QuantityError(_FORMAT_WRONG)
    sign, digits, fraction, suffix = match.groups(default="")
    exponent, format = _suffix(suffix)
    if len(digits) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(_NUMBER_WRONG)
    digits = digits or "0"
    quantity = _fast(text, digits + fraction, len(digits), exponent, format, negative=sign == "-")
    return _slow(digits, fraction, exponent, format, negative=sign == "-") if quantity is None else quantity


def _suffix(suffix: str) -> tuple[int, str]:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], DECIMAL_SI
    if suffix in _BINARY:
        return _BINARY[suffix], BINARY_SI
    if len(suffix) > 1 and suffix[0] in "eE" and re.fullmatch(r"[-+]?[0-9]{1,25}", suffix[1:], re.ASCII):
        exponent = int(suffix[1:])
        if -(2**63) <= exponent < 2**63:
            return (exponent + 2**31) % 2**32 - 2**31, DECIMAL_EXPONENT  # Go keeps the low 32 bits
    raise QuantityError(_SUFFIX_WRONG)


def _fast(text: str, shifted: str, whole: int, exponent: int, format: str, *, negative: bool) -> Quantity | None:
    """What fits Go's 64-bit form; only there is a text that looks canonical kept as it is."""
    fraction = len(shifted) - whole
    if format == BINARY_SI:
        if fraction or 15 - whole - exponent * 3 // 10 - 1 < 0:
            return None
        amount = int(shifted)
        mantissa, scale = amount << exponent, 0
        as_written = exponent % 10 == 0 and amount & 7 != 0
    else:
        scale = exponent - fraction
        if len(shifted) > 18 or scale < _NANO:
            return None
        mantissa = int(shifted)
        as_written = scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    if mantissa > _INT64_MAX:
        return None
    quantity = Quantity(-mantissa if negative else mantissa, scale, format)
    quantity._exponent = scale
    if as_written:
        quantity._text = text
    return quantity


def _slow(digits: str, fraction: str, exponent: int, format: str, *, negative: bool) -> Quantity:
    mantissa, scale = int(digits + fraction), -len(fraction)
    if format == BINARY_SI:
        mantissa <<= exponent
    else:
        scale += exponent
    if scale < _NANO:
        shift = _NANO - scale
        if shift > len(digits) + len(fraction):
            mantissa = 1 if mantissa else 0
        else:
            mantissa = -(-mantissa // 10**shift)
        scale = _NANO
    if format == BINARY_SI:
        whole = -(-mantissa // 10**-scale)
        if whole > _INT64_MAX:
            mantissa, scale = _INT64_MAX, 0
        elif 0 < mantissa < 10**-scale:
            format = DECIMAL_SI  # Below one, binary suffixes would only confuse.
    return Quantity._derived(-mantissa if negative else mantissa, scale, format, True)
