"""Random uids and name suffixes: one call for random bytes each, since every new object needs them."""

from __future__ import annotations

import os

__all__ = ["suffix", "uid"]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words by accident
_LENGTH = 5


def uid() -> str:
    """A UUID of version 4, as uuid.uuid4 makes it at three times the cost."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def suffix() -> str:
    """Five characters for a generated name."""
    # 64 bits for 24 bits' worth of letters: none is likelier than another by more than one part in 2**39.
    number, text = int.from_bytes(os.urandom(8)), ""
    for _ in range(_LENGTH):
        number, position = divmod(number, len(_ALPHABET))
        text += _ALPHABET[position]
    return text
