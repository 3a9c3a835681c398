"""Our engine against Google's C++ one, on random expressions: no difference that `oracle.EXPLAINED` does not name."""

from __future__ import annotations

import pytest

from tests.cel.generate import Generator
from tests.cel.oracle import difference


def _differences(seeds: range) -> list[str]:
    return [text for text in (difference(Generator(seed).expression()) for seed in seeds) if text]


@pytest.mark.slow
def test_random_expressions_agree_with_the_other_engine() -> None:
    assert _differences(range(1_000_000, 1_000_600)) == []


@pytest.mark.long
def test_fifty_thousand_random_expressions_agree_with_the_other_engine() -> None:
    assert _differences(range(50_000)) == []
