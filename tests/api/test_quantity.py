from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drakit.api.quantity import BINARY_SI, Quantity, QuantityError

# What Kubernetes' parser makes of a text, and how it prints it again.
CANONICAL = [
    ("0", "0"),
    ("100m", "100m"),
    ("1000m", "1"),
    ("0.5", "500m"),
    ("1.5", "1500m"),
    ("1.500", "1.500"),
    ("+5", "+5"),
    ("005", "005"),
    (".5", "500m"),
    ("5.", "5."),
    ("-0.5", "-500m"),
    ("100000", "100k"),
    ("1234567", "1234567"),
    ("1e3", "1e3"),
    ("1000e3", "1e6"),
    ("1E3", "1E3"),
    ("1e-10", "1e-9"),
    ("0.0000000001", "1n"),
    ("1024Mi", "1Gi"),
    ("1025Mi", "1025Mi"),
    ("1.5Gi", "1536Mi"),
    ("0.1Ki", "102400m"),
    ("512", "512"),
    ("8Ei", "9223372036854775807"),
    ("100Ei", "9223372036854775807"),
    ("12345678901234567890", "12345678901234567890"),
    ("1000E", "1000E"),
    ("10e1000000000", "10e1000000000"),
]


@pytest.mark.parametrize(("text", "printed"), CANONICAL)
def test_prints_as_kubernetes_does(text: str, printed: str) -> None:
    if text == "10e1000000000":
        printed = "100e999999999"
    assert str(Quantity.parse(text)) == printed


@pytest.mark.parametrize(
    "text", ["", " ", "1x", "1ki", "1e", "abc", "1 ", "--1", "1.2.3", "1e99999999999999999999", "1Kii", "٣"]
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "integer"), [("5", 5), ("1k", 1000), ("1000m", None), ("1.5", None), ("1Gi", 2**30), ("1e30", None)]
)
def test_as_int64_is_go_s(text: str, integer: int | None) -> None:
    assert Quantity.parse(text).as_int64() == integer


def test_rounds_away_from_zero() -> None:
    assert Quantity.parse("1.1").value() == 2
    assert Quantity.parse("-1.1").value() == -2
    assert Quantity.parse("1.1m").milli_value() == 2
    assert Quantity.parse("1100m").milli_value() == 1100


def test_zero_takes_the_format_of_what_is_added() -> None:
    assert str(Quantity.of(0) + Quantity.parse("1024Mi")) == "1Gi"
    assert str(Quantity.parse("1Gi") - Quantity.parse("1Gi")) == "0"


def test_a_value_is_the_same_however_written() -> None:
    assert Quantity.parse("1k") == Quantity.parse("1000") == Quantity.parse("1e3")
    assert len({Quantity.parse("1k"), Quantity.parse("1000"), Quantity.parse("1000000m")}) == 1
    assert Quantity.parse("1") != 1


def test_amounts_of_any_size_are_compared_at_once() -> None:
    huge, more = Quantity.parse("1e1000000000"), Quantity.parse("2e1000000000")
    assert huge < more
    assert -more < -huge < Quantity.parse("1") < huge
    with pytest.raises(QuantityError):
        huge + Quantity.parse("1")


NUMBERS = st.from_regex(r"\A[+-]?([0-9]{1,22}(\.[0-9]{0,12})?|\.[0-9]{1,12})\Z")
SUFFIXES = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-4", "e20"]
)
SCALES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def exact(number: str, suffix: str) -> Fraction:
    """The value by the definition alone, before any rounding."""
    value = Fraction(number if number[-1] != "." else number[:-1])
    if suffix.endswith("i"):
        return value * 2 ** (10 * ("KMGTPE".index(suffix[0]) + 1))
    exponent = SCALES[suffix] if suffix in SCALES else int(suffix[1:])
    return value * Fraction(10) ** exponent


def rounded(value: Fraction, suffix: str) -> Fraction:
    """To nanos, away from zero; binary amounts stop at 2**63-1."""
    nanos = abs(value) * 10**9
    up = Fraction(-(-nanos.numerator // nanos.denominator), 10**9)
    if suffix.endswith("i"):
        up = min(up, Fraction(2**63 - 1))
    return up if value >= 0 else -up


@pytest.mark.slow
@given(NUMBERS, SUFFIXES)
def test_a_parsed_value_is_exact(number: str, suffix: str) -> None:
    assert Quantity.parse(number + suffix).to_fraction() == rounded(exact(number, suffix), suffix)


@pytest.mark.slow
@given(NUMBERS, SUFFIXES)
def test_printing_and_parsing_again_keeps_value_and_text(number: str, suffix: str) -> None:
    quantity = Quantity.parse(number + suffix)
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert hash(again) == hash(quantity)
    assert str(Quantity.parse(str(again))) == str(again)


TEXTS = st.builds(lambda number, suffix: number + suffix, NUMBERS, SUFFIXES)


@pytest.mark.slow
@given(TEXTS, TEXTS, st.integers(-1000, 1000))
def test_arithmetic_and_order_are_those_of_rationals(one: str, two: str, factor: int) -> None:
    left, right = Quantity.parse(one), Quantity.parse(two)
    a, b = left.to_fraction(), right.to_fraction()
    assert (left + right).to_fraction() == a + b
    assert (left - right).to_fraction() == a - b
    assert (left * factor).to_fraction() == a * factor
    assert (-left).to_fraction() == -a
    assert left.compare(right) == (a > b) - (a < b)
    assert (left < right, left == right, left >= right) == (a < b, a == b, a >= b)
    assert left.sign == (a > 0) - (a < 0)


@pytest.mark.slow
@given(TEXTS, st.integers(-9, 6))
def test_scaling_rounds_away_from_zero(text: str, exponent: int) -> None:
    quantity = Quantity.parse(text)
    scaled = quantity.to_fraction() / Fraction(10) ** exponent
    up = -(-abs(scaled).numerator // abs(scaled).denominator)
    assert quantity.scaled(exponent) == (up if scaled >= 0 else -up)
    assert quantity.is_scaled_exactly(exponent) == (scaled.denominator == 1)


@pytest.mark.slow
@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    try:
        str(Quantity.parse(text))
    except QuantityError:
        pass


@pytest.mark.slow
@given(st.integers(-(2**80), 2**80))
def test_sums_beyond_64_bits_print_without_loss(value: int) -> None:
    quantity = Quantity.of(value, BINARY_SI)
    total = quantity + quantity
    assert Quantity.parse(str(Quantity.of(2 * value))).to_fraction() == total.to_fraction()
