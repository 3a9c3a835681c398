"""The errors of the API: what is wrong with a field, and what an API server answers when something fails.

    Exception
    └── StatusError            any API failure, raised by server and client alike; `.code` and `.reason` say which
    ValueError
    └── quantity.QuantityError, gates.GateError, manifests.ManifestError   (in their modules)

A FieldError is a value, not an exception: validation collects them and `invalid` makes one StatusError of all.
Texts are those of Kubernetes, because people and programs search for them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["GO_ESCAPES", "Errors", "FieldError", "StatusError", "at", "go_quote", "index", "key"]

REQUIRED = "FieldValueRequired"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
DUPLICATE = "FieldValueDuplicate"
FORBIDDEN = "FieldValueForbidden"
TOO_LONG = "FieldValueTooLong"
TOO_SHORT = "FieldValueTooShort"
TOO_MANY = "FieldValueTooMany"
NOT_FOUND = "FieldValueNotFound"
INTERNAL = "InternalError"

_TITLES = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    DUPLICATE: "Duplicate value",
    FORBIDDEN: "Forbidden",
    TOO_LONG: "Too long",
    TOO_SHORT: "Too short",
    TOO_MANY: "Too many",
    NOT_FOUND: "Not found",
    INTERNAL: "Internal error",
}
_WITHOUT_VALUE = frozenset({REQUIRED, FORBIDDEN, TOO_LONG, TOO_SHORT, INTERNAL})


class _Omitted:
    def __repr__(self) -> str:
        return "<value omitted>"


OMITTED: Any = _Omitted()

GO_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


def go_quote(text: str) -> str:
    """Go's %q."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quote_char(char) for char in text) + '"'


def _quote_char(char: str) -> str:
    if char in GO_ESCAPES:
        return GO_ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_json(value: Any) -> str:
    """Go's json.Marshal, which escapes <, > and & and sorts map keys."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def at(path: str, *names: str) -> str:
    """A field below path: at("spec", "devices") is spec.devices."""
    return ".".join((path, *names)) if path else ".".join(names)


def index(path: str, position: int) -> str:
    return f"{path}[{position}]"


def key(path: str, name: str) -> str:
    return f"{path}[{name}]"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field. `type` is the reason of the Status cause."""

    type: str
    field: str
    value: Any
    detail: str = ""
    # Found by a rule that Kubernetes declares with the type: those are listed after the others.
    declared: bool = dataclasses.field(default=False, compare=False)

    def as_declared(self) -> FieldError:
        return dataclasses.replace(self, declared=True)

    @property
    def body(self) -> str:
        """The text without the field, as it stands in a Status cause."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {_render(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field or '<nil>'}: {self.body}"

    @classmethod
    def required(cls, field: str, detail: str = "") -> FieldError:
        return cls(REQUIRED, field, "", detail)

    @classmethod
    def invalid(cls, field: str, value: Any, detail: str = "") -> FieldError:
        return cls(INVALID, field, value, detail)

    @classmethod
    def not_supported(cls, field: str, value: Any, supported: Iterable[str]) -> FieldError:
        """`supported` in the order they shall be named; Kubernetes sorts them where it keeps a set."""
        texts = ", ".join(go_quote(text) for text in supported)
        return cls(NOT_SUPPORTED, field, value, f"supported values: {texts}" if texts else "")

    @classmethod
    def duplicate(cls, field: str, value: Any) -> FieldError:
        return cls(DUPLICATE, field, value)

    @classmethod
    def forbidden(cls, field: str, detail: str = "") -> FieldError:
        return cls(FORBIDDEN, field, "", detail)

    @classmethod
    def not_found(cls, field: str, value: Any) -> FieldError:
        return cls(NOT_FOUND, field, value)

    @classmethod
    def too_long(cls, field: str, limit: int, *, unit: str = "byte") -> FieldError:
        return cls(TOO_LONG, field, OMITTED, f"may not be more than {limit} {_plural(unit, limit)}")

    @classmethod
    def too_many(cls, field: str, count: int, limit: int) -> FieldError:
        return cls(TOO_MANY, field, count, f"must have at most {limit} {_plural('item', limit)}")

    @classmethod
    def internal(cls, field: str, detail: str) -> FieldError:
        return cls(INTERNAL, field, None, detail)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else word + "s"


def _render(value: Any) -> str:
    if isinstance(value, str):
        return go_quote(value)
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return go_json(value)


Errors = list[FieldError]


class StatusError(Exception):
    """A failure of the API: an HTTP code, a machine-readable reason, a text, and what it is about.

    `details` is the plain body of Status.details: name, group, kind, uid, causes, retryAfterSeconds.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self._has_details = details is not None  # Go writes an empty one too, where it was given
        self.details: dict[str, Any] = {
            name: value for name, value in (details or {}).items() if value not in ("", None)
        }
        self.metadata: dict[str, Any] = dict(metadata or {})

    @property
    def causes(self) -> list[dict[str, Any]]:
        return list(self.details.get("causes") or [])

    @property
    def retry_after_seconds(self) -> int:
        return int(self.details.get("retryAfterSeconds") or 0)

    def to_status(self) -> dict[str, Any]:
        """The plain body that an API server sends."""
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        if self.message:
            body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details or self._has_details:
            body["details"] = self.details
        body["code"] = self.code
        return body

    @classmethod
    def from_status(cls, body: Mapping[str, Any], code: int = 0) -> StatusError:
        """From a body that an API server sent; `code` is the HTTP status where the body has none."""
        return cls(
            int(body.get("code") or code),
            str(body.get("reason") or ""),
            str(body.get("message") or ""),
            body.get("details"),
            metadata=body.get("metadata"),
        )

    @classmethod
    def not_found(cls, group: str, plural: str, name: str) -> StatusError:
        message = f"{_qualified(group, plural)} {go_quote(name)} not found"
        return cls(404, "NotFound", message, _details(group, plural, name))

    @classmethod
    def no_such_path(cls) -> StatusError:
        """For a path of a known group that names no resource."""
        return cls(404, "NotFound", "the server could not find the requested resource", {})

    @classmethod
    def already_exists(cls, group: str, plural: str, name: str) -> StatusError:
        message = f"{_qualified(group, plural)} {go_quote(name)} already exists"
        return cls(409, "AlreadyExists", message, _details(group, plural, name))

    @classmethod
    def generate_name_conflict(cls, group: str, plural: str, name: str) -> StatusError:
        message = (
            f"{_qualified(group, plural)} {go_quote(name)} already exists, "
            "the server was not able to generate a unique name for the object"
        )
        return cls(409, "AlreadyExists", message, {**_details(group, plural, name), "retryAfterSeconds": 1})

    @classmethod
    def conflict(cls, group: str, plural: str, name: str, cause: str) -> StatusError:
        message = f"Operation cannot be fulfilled on {_qualified(group, plural)} {go_quote(name)}: {cause}"
        return cls(409, "Conflict", message, _details(group, plural, name))

    @classmethod
    def modified(cls, group: str, plural: str, name: str) -> StatusError:
        """The conflict of an update made from an older version of the object."""
        cause = "the object has been modified; please apply your changes to the latest version and try again"
        return cls.conflict(group, plural, name, cause)

    @classmethod
    def apply_conflict(cls, message: str, causes: Sequence[Mapping[str, Any]]) -> StatusError:
        return cls(409, "Conflict", message, {"causes": [dict(cause) for cause in causes]})

    @classmethod
    def invalid(cls, group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
        # The same thing found twice is said once.
        errors = list({(error.type, str(error)): error for error in reversed(errors)}.values())[::-1]
        texts = [str(error) for error in errors]
        listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        message = f"{_qualified(group, kind)} {go_quote(name)} is invalid" + (f": {listed}" if texts else "")
        causes = [{"reason": error.type, "message": error.body, "field": error.field or "<nil>"} for error in errors]
        return cls(422, "Invalid", message, {**_details(group, kind, name), "causes": causes})

    @classmethod
    def forbidden(cls, group: str, plural: str, name: str, cause: str) -> StatusError:
        if not plural:
            message = f"forbidden: {cause}"
        elif not name:
            message = f"{_qualified(group, plural)} is forbidden: {cause}"
        else:
            message = f"{_qualified(group, plural)} {go_quote(name)} is forbidden: {cause}"
        return cls(403, "Forbidden", message, _details(group, plural, name))

    @classmethod
    def unauthorized(cls, message: str = "Unauthorized") -> StatusError:
        return cls(401, "Unauthorized", message)

    @classmethod
    def bad_request(cls, message: str) -> StatusError:
        return cls(400, "BadRequest", message)

    @classmethod
    def gone(cls, message: str) -> StatusError:
        return cls(410, "Gone", message)

    @classmethod
    def expired(cls, message: str, *, continue_token: str = "") -> StatusError:
        metadata = {"continue": continue_token} if continue_token else None
        return cls(410, "Expired", message, metadata=metadata)

    @classmethod
    def too_large(cls, message: str) -> StatusError:
        return cls(413, "RequestEntityTooLarge", f"Request entity too large: {message}")

    @classmethod
    def internal(cls, cause: str) -> StatusError:
        return cls(500, "InternalError", f"Internal error occurred: {cause}", {"causes": [{"message": cause}]})

    @classmethod
    def unavailable(cls, message: str) -> StatusError:
        return cls(503, "ServiceUnavailable", message)

    @classmethod
    def timeout(cls, message: str, retry_after_seconds: int = 0) -> StatusError:
        return cls(504, "Timeout", f"Timeout: {message}", {"retryAfterSeconds": retry_after_seconds or None})


def _qualified(group: str, name: str) -> str:
    return f"{name}.{group}" if group else name


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    # The order of Go's fields, so that bodies read alike.
    return {"name": name, "group": group, "kind": kind}
