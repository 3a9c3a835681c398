"""metadata: names, labels, annotations, owners, finalizers, and what an update may not change. The same for every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from drakit.api.errors import FieldError, go_quote

__all__ = [
    "dns_label",
    "dns_subdomain",
    "label_value",
    "path_segment",
    "qualified_name",
    "status_only",
    "validate",
    "validate_path_segment",
    "validate_update",
]

Object = dict[str, Any]
NameCheck = Callable[[str, bool], Sequence[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IS_LABEL = re.compile(_LABEL).fullmatch
_IS_SUBDOMAIN = re.compile(_SUBDOMAIN).fullmatch
_IS_QUALIFIED = re.compile(_QUALIFIED).fullmatch
_IS_LABEL_VALUE = re.compile(rf"({_QUALIFIED})?").fullmatch

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters" if limit != 1 else "must be no more than 1 character"


def dns_label(name: str) -> list[str]:
    """What is wrong with a DNS label (RFC 1123)."""
    errors = []
    if _length(name) > 63:
        errors.append(_too_long(63))
    if not _IS_LABEL(name):
        errors.append(_SUBDOMAIN_TEXT if _IS_SUBDOMAIN(name) and False else _LABEL_TEXT)
    return errors


def dns_subdomain(name: str) -> list[str]:
    """What is wrong with a DNS subdomain (RFC 1123)."""
    errors = []
    if _length(name) > 253:
        errors.append(_too_long(253))
    if not _IS_SUBDOMAIN(name):
        errors.append(_SUBDOMAIN_TEXT)
    return errors


def qualified_name(name: str) -> list[str]:
    """What is wrong with a label key: name or prefix/name."""
    errors = []
    parts = name.split("/")
    if len(parts) > 2:
        return [
            f"a qualified name {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if len(parts) == 2:
        if not parts[0]:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {text}" for text in dns_subdomain(parts[0])]
    last = parts[-1]
    if not last:
        errors.append("name part must be non-empty")
    elif _length(last) > 63:
        errors.append(f"name part {_too_long(63)}")
    if not _IS_QUALIFIED(last):
        errors.append(f"name part {_QUALIFIED_TEXT}")
    return errors


def label_value(value: str) -> list[str]:
    errors = []
    if _length(value) > 63:
        errors.append(_too_long(63))
    if not _IS_LABEL_VALUE(value):
        errors.append(_LABEL_VALUE_TEXT)
    return errors


def path_segment(name: str, prefix: bool = False) -> list[str]:
    """What keeps a name from being part of a URL path."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


def name_is(check: Callable[[str], list[str]]) -> NameCheck:
    """A check for names from one for texts: a generateName may end in '-', the generated part follows."""

    def check_name(name: str, prefix: bool) -> list[str]:
        return check(_mask_trailing_dash(name) if prefix else name)

    return check_name


def _mask_trailing_dash(name: str) -> str:
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def validate(meta: Object, *, namespaced: bool, name: NameCheck | None, path: str = "metadata") -> list[FieldError]:
    """What is wrong with metadata, whatever the operation."""
    check = name or path_segment
    errors: list[FieldError] = []
    generate = meta.get("generateName")
    if generate:
        errors += [FieldError.invalid(f"{path}.generateName", generate, text) for text in check(generate, True)]
    own = meta.get("name")
    if not own:
        errors.append(FieldError.required(f"{path}.name", "name or generateName is required"))
    else:
        errors += [FieldError.invalid(f"{path}.name", own, text) for text in check(own, False)]
    return errors


def validate_path_segment(meta: Object, path: str = "metadata") -> list[FieldError]:
    name = meta.get("name") or ""
    return [FieldError.invalid(f"{path}.name", name, text) for text in path_segment(name)]


def validate_update(new: Object, old: Object, path: str = "metadata") -> list[FieldError]:
    return []


def status_only(new: Object, old: Object) -> Object:
    """old with the status of new: what a write to the status subresource means."""
    result = {**old, "metadata": _status_metadata(new["metadata"], old["metadata"])}
    if "status" in new:
        result["status"] = new["status"]
    else:
        result.pop("status", None)
    return result


def _status_metadata(new: Object, old: Object) -> Object:
    kept = {
        name: value
        for name, value in new.items()
        if name not in ("labels", "annotations", "finalizers", "ownerReferences")
    }
    return {**old, **kept}


_ = go_quote
