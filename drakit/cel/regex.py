"""Regular expressions: RE2's, because tenants write them and a backtracking engine would hang on some.

Go's and C++'s RE2 read the same syntax but word their errors differently; `compile_pattern` speaks Go's words.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from drakit.cel.values import Fault

__all__ = ["compile_pattern", "find", "find_all", "search"]

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20

# C++ text -> Go text
_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid character range": "invalid character class range",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "invalid UTF-8": "invalid UTF-8",
}


@lru_cache(maxsize=2048)
def _compile(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raw = error.args[0]
        message = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        return _Bad(_go_text(message, pattern))
    except UnicodeEncodeError:
        return _Bad("error parsing regexp: invalid UTF-8")


class _Bad:
    """A pattern that does not compile, cached like the others."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _go_text(message: str, pattern: str) -> str:
    what, _, where = message.partition(": ")
    words = _WORDS.get(what, what)
    if what == "invalid perl operator" and where.startswith("(?"):
        where = where[:3] if where[:3] != "(?<" else pattern[pattern.find("(?<") :][:4]
    if what == "unexpected )" or what == "missing )":
        where = pattern
    if what == "trailing \\":
        where = ""
    return f"error parsing regexp: {words}: `{where}`"


def compile_pattern(pattern: str) -> Any:
    compiled = _compile(pattern)
    if compiled.__class__ is _Bad:
        raise Fault(compiled.text)
    return compiled


def search(pattern: str, value: str) -> bool:
    return compile_pattern(pattern).search(value) is not None


def find(pattern: str, value: str) -> str:
    found = compile_pattern(pattern).search(value)
    return "" if found is None else str(found.group())


def find_all(pattern: str, value: str, limit: int) -> list[str]:
    """Go's FindAllString: `limit` matches at most, all when negative; an empty match right after a match does not count."""
    if limit == 0:
        return []
    compiled = compile_pattern(pattern)
    found: list[str] = []
    last_end = -1
    for match in compiled.finditer(value):
        if match.start() == match.end() == last_end:
            continue
        last_end = match.end()
        found.append(str(match.group()))
        if len(found) == limit:
            break
    return found
