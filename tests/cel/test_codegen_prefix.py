"""startsWith with a constant prefix is two comparisons: it must agree with the method on every text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drakit.cel.device import DeviceInput, compile_selector

PREFIXES = ["G", "GPU-", "é", "\U0010fffe", "\U0010ffff", "a\U0010ffff", "z", "\ud7ff"]


def matches(prefix: str, text: str) -> bool:
    literal = "".join(f"\\U{ord(char):08x}" for char in prefix)
    selector = compile_selector(f"device.attributes['d'].text.startsWith('{literal}')")
    return selector.matches(DeviceInput("d", {"name": "x", "attributes": {"text": {"string": text}}}))


@pytest.mark.parametrize("prefix", PREFIXES)
@given(st.text(max_size=4), st.text(max_size=2))
def test_prefix_comparison_is_startswith(prefix: str, text: str, rest: str) -> None:
    for candidate in (text, prefix + rest, prefix[:-1] + rest, prefix[:-1] + text):
        assert matches(prefix, candidate) == candidate.startswith(prefix)
