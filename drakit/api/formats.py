"""Formats of texts: DNS names, label keys and values, identifiers, versions. Each check returns what is wrong, in Kubernetes' words.

Kubernetes has two generations of some checks that differ in a word: lengths are given in "characters" by the older, in "bytes" by the
newer (declared) ones. `unit` chooses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

__all__ = [
    "BYTES",
    "c_identifier",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "dns_subdomain_caseless",
    "is_semver",
    "is_uuid",
    "label_key",
    "label_value",
    "length",
    "path_segment",
]

BYTES: Final = "bytes"
CHARACTERS: Final = "characters"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"

# Matching is done with simpler patterns than the ones quoted to the user: same language, no backtracking.
_is_label = re.compile(r"[a-z0-9](?:-*[a-z0-9])*").fullmatch
_is_subdomain = re.compile(r"[a-z0-9](?:-*[a-z0-9])*(?:\.[a-z0-9](?:-*[a-z0-9])*)*").fullmatch
_is_name = re.compile(r"[A-Za-z0-9](?:[-_.]*[A-Za-z0-9])*").fullmatch
_is_identifier = re.compile(_IDENTIFIER).fullmatch
_is_dns1035 = re.compile(r"[a-z](?:-*[a-z0-9])*").fullmatch

_NUMBER = "(?:0|[1-9][0-9]*)"
_PRERELEASE = "(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = "[0-9a-zA-Z-]+"
_semver = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?"
).fullmatch
_uuid = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch


def _regex_error(text: str, pattern: str, *examples: str) -> str:
    shown = "e.g. " + ",  or ".join(f"'{example}'" for example in examples) + ", " if examples else ""
    return f"{text} ({shown}regex used for validation is '{pattern}')"


_LABEL_TEXT = _regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TEXT = _regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_CASELESS_TEXT = _regex_error(
    "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
    "character",
    _SUBDOMAIN,
    "Example.com",
)
_DNS1035_TEXT = _regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
    "with an alphanumeric character",
    _DNS1035,
    "my-name",
    "abc-123",
)
_NAME_TEXT = _regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_TEXT = _regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_IDENTIFIER_TEXT = _regex_error(
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
    _IDENTIFIER,
    "my_name",
    "MY_NAME",
    "MyName",
)
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason = re.compile(r"[A-Za-z](?:[,:]*[A-Za-z0-9_])*").fullmatch
_REASON_TEXT = _regex_error(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or "
    "'_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def length(text: str) -> int:
    """Bytes in UTF-8, which is what Go's len counts."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _too_long(limit: int, unit: str) -> str:
    return f"must be no more than {limit} {unit}"


def dns_label(text: str, unit: str = CHARACTERS) -> list[str]:
    errors = [_too_long(63, unit)] if length(text) > 63 else []
    if not _is_label(text):
        errors.append("must not contain dots" if _is_subdomain(text) else _LABEL_TEXT)
    return errors


def dns1035_label(text: str) -> list[str]:
    errors = [_too_long(63, CHARACTERS)] if length(text) > 63 else []
    if not _is_dns1035(text):
        errors.append(_DNS1035_TEXT)
    return errors


def dns_subdomain(text: str, unit: str = CHARACTERS) -> list[str]:
    errors = [_too_long(253, unit)] if length(text) > 253 else []
    if not _is_subdomain(text):
        errors.append(_SUBDOMAIN_TEXT)
    return errors


def dns_subdomain_caseless(text: str) -> list[str]:
    errors = [_too_long(253, BYTES)] if length(text) > 253 else []
    if not (text.isascii() and _is_subdomain(text.lower())):
        errors.append(_CASELESS_TEXT)
    return errors


def label_key(text: str) -> list[str]:
    """A label key: name or prefix/name."""
    parts = text.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_NAME_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    errors = []
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {error}" for error in dns_subdomain(parts[0], BYTES)]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif length(name) > 63:
        errors.append(f"name part {_too_long(63, BYTES)}")
    if not _is_name(name):
        errors.append(f"name part {_NAME_TEXT}")
    return errors


def label_value(text: str) -> list[str]:
    errors = [_too_long(63, BYTES)] if length(text) > 63 else []
    if text and not _is_name(text):
        errors.append(_VALUE_TEXT)
    return errors


def condition_reason(text: str) -> list[str]:
    return [] if _is_reason(text) else [_REASON_TEXT]


def c_identifier(text: str) -> list[str]:
    return [] if _is_identifier(text) else [_IDENTIFIER_TEXT]


def path_segment(text: str, prefix: bool = False) -> list[str]:
    """What keeps a name from being one segment of a URL path."""
    if not prefix and text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in text]


def is_semver(text: str) -> bool:
    return _semver(text) is not None


def is_uuid(text: str) -> bool:
    """Lower-case hexadecimal digits, 8-4-4-4-12."""
    return _uuid(text) is not None


def name_is(check: Callable[[str], list[str]]) -> Callable[[str, bool], list[str]]:
    """A check for object names from one for texts: a generateName may end in '-', since a suffix follows."""

    def check_name(name: str, prefix: bool) -> list[str]:
        if prefix and len(name) > 1 and name.endswith("-"):
            name = name[:-2] + "a"
        return check(name)

    return check_name
