"""One API request, taken apart: which verb on which kind, version, namespace and name, with which options.

Both doors make a Call (HTTP from a URL, the in-process transport from its Request); the verbs see nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from drakit.api.errors import FieldError, StatusError
from drakit.api.registry import Kind
from drakit.api.selectors import parse_field_selector
from drakit.apiserver.auth import Attributes, UserInfo
from drakit.apiserver.stored import Plain, Stored

__all__ = ["NOTHING", "Answer", "Call", "Listing", "bool_option", "int_option"]

NOTHING = object()  # no body at all, which differs from an empty one and from null


@dataclass(slots=True)
class Call:
    verb: str  # get list watch create update patch delete deletecollection connect
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, Sequence[str]]
    user: UserInfo
    content_type: str = ""
    body: bytes = b""
    value: Any = NOTHING  # the body when it needs no parsing: the in-process door
    agent: str = ""
    method: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log

    def option(self, name: str) -> str:
        found = self.query.get(name)
        return found[0] if found else ""

    def attributes(self) -> Attributes:
        option = self.option
        return Attributes(
            self.user, self.verb, self.kind.group, self.version, self.kind.plural, self.subresource, self.namespace, self.name,
            label_selector=option("labelSelector") if self.query else "",
            field_selector=option("fieldSelector") if self.query else "",
        )  # fmt: skip

    def question(self) -> Attributes:
        """The request as authorization sees it: a Namespace is asked for inside itself, so that the rights of those who live there
        count, and a list of one named object is asked for by its name."""
        asked = self.attributes()
        if self.kind.plural == "namespaces" and not self.kind.group:
            return replace(asked, namespace=self.name) if self.name else asked
        if not self.name and "metadata.name" in asked.field_selector and self.verb in ("list", "watch"):
            return replace(asked, name=_only_name(asked.field_selector))
        return asked

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.kind.namespaced else self.name

    def not_found(self) -> StatusError:
        return StatusError.not_found(self.kind.group, self.kind.plural, self.name)

    def has_body(self) -> bool:
        return bool(self.body) or self.value is not NOTHING


def _only_name(field_selector: str) -> str:
    try:
        wanted = [
            value for field, value, equal in parse_field_selector(field_selector) if equal and field == "metadata.name"
        ]
    except ValueError:
        return ""
    # The first one, if it could be a name at all: what is asked must be what is listed.
    return wanted[0] if wanted and wanted[0] not in (".", "..") and not set("/%") & set(wanted[0]) else ""


class Listing(NamedTuple):
    """A list answer before it has a form."""

    items: Sequence[Stored]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(slots=True)
class Answer:
    """What a verb answers: one stored object, a listing, or a plain value. `version` must be durable before it is sent."""

    code: int
    stored: Stored | None = None
    listing: Listing | None = None
    value: Plain | None = None
    version: int = 0


def bool_option(call: Call, name: str) -> bool:
    """As Go reads a query parameter: false and 0 are false, anything else given is true."""
    found = call.query.get(name)
    return bool(found) and found[0].lower() not in ("false", "0") if found else False


def int_option(call: Call, name: str) -> int | None:
    text = call.option(name)
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        raise StatusError.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -(2**63) <= number < 2**63:
        raise StatusError.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def version_number(text: str) -> int | None:
    """A resourceVersion as a number: digits, and no more of them than 64 bits hold. None when it is none."""
    if not (text.isascii() and text.isdigit()) or len(text) > 20:
        return None
    number = int(text)
    return number if number < 2**64 else None


def check_write_options(call: Call, options_kind: str) -> tuple[bool, str]:
    """dryRun, fieldValidation and fieldManager of a write; returns (dry run?, Ignore | Warn | Strict)."""
    query = call.query
    if not query:
        return False, "Warn"
    errors: list[FieldError] = []
    manager = call.option("fieldManager")
    if len(manager) > 128:
        errors.append(FieldError.too_long("fieldManager", 128))
    dry_run = check_dry_run(query.get("dryRun"), errors)
    validation = call.option("fieldValidation")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        errors.append(FieldError.not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if any(not char.isprintable() for char in manager):
        position = next(i for i, char in enumerate(manager) if not char.isprintable())
        text = f"invalid character U+{ord(manager[position]):04X} (at position {position})"
        errors.append(FieldError.invalid("fieldManager", manager, text))
    if errors:
        raise StatusError.invalid("meta.k8s.io", options_kind, "", errors)
    return dry_run, validation or "Warn"


def check_dry_run(values: Sequence[str] | None, errors: list[FieldError]) -> bool:
    if not values:
        return False
    if any(value != "All" for value in values):
        errors.append(FieldError.not_supported("dryRun", list(values), ("All",)))
    return True


def field_manager(call: Call) -> str:
    """The name under which changes are recorded: as given, else the program's name from its User-Agent."""
    return call.option("fieldManager") or call.agent.partition("/")[0][:128] or "unknown"
