"""Request bodies: JSON or YAML text to plain values, with Kubernetes' complaints about text that is neither.

Duplicate fields are found here, because a parsed object no longer shows them. The usual body (compact JSON without
surprises) costs one parse and one comparison; only other texts are read a second time, slowly.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from drakit.api.errors import StatusError

__all__ = ["BodyError", "duplicates", "parse_json", "parse_yaml", "unrecognized"]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_TYPES = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
_HEADER = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_SHOWN = 30  # bytes of a bad body in the complaint about it
_NESTING = 200  # deeper than any object; stops a body made to exhaust the stack


class BodyError(ValueError):
    """The text is no JSON or YAML; the message is Go's."""


def parse_json(body: bytes) -> Any:
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        # Go replaces what is no UTF-8; so do we, then the text is judged as JSON.
        text = body.decode("utf-8", "replace")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    raise BodyError(_go_complaint(text))


def parse_yaml(body: bytes) -> Any:
    """YAML, of which JSON is a part. Imported late: few requests are YAML."""
    if body.lstrip()[:1] == b"{":
        try:
            return _decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass
    import yaml

    from drakit.apiserver.yaml_loader import load

    try:
        return load(body)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BodyError(_yaml_complaint(error)) from None


def _yaml_complaint(error: Exception) -> str:
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        # go-yaml counts from 0 and adds one only for what its scanner finds.
        scanning = isinstance(error, yaml.scanner.ScannerError)
        line = error.problem_mark.line + (1 if scanning else 0)
        problem = str(error.problem or error.context)
        if "expected ',' or ']'" in problem:
            problem = "did not find expected ',' or ']'"
        elif "expected ',' or '}'" in problem:
            problem = "did not find expected ',' or '}'"
        return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"
    return f"yaml: {error}"


def unrecognized(kind: str, body: bytes, error: BodyError, *, yaml: bool = False) -> StatusError:
    """400 for a body that cannot even be parsed."""
    cause = str(error) if yaml else f"couldn't get version/kind; json parse error: {error}"
    return StatusError.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {cause} ({_excerpt(body)})"
    )


def not_an_object(kind: str, body: bytes, value: Any) -> StatusError:
    complaint = f"json: cannot unmarshal {_TYPES.get(type(value), 'value')} into Go value of type {_HEADER}"
    return unrecognized(kind, body, BodyError(complaint))


def _excerpt(body: bytes) -> str:
    """How Go shows the first bytes: as text if they are, else in hexadecimal."""
    if not body:
        return "<empty>"
    shown, more = body[:_SHOWN], " ..." if len(body) > _SHOWN else ""
    return (shown.decode("utf-8", "replace") if shown[:1] == b"{" else shown.hex()) + more


def duplicates(body: bytes, value: Any) -> list[str]:
    """The fields that occur twice in one object of a JSON text, in the order they are met."""
    text, written = body.rstrip(), _encode(value)
    if text == written:
        return []
    # As most libraries write it. The spaces that this takes out of texts too only make it differ.
    if text.replace(b'": ', b'":').replace(b", ", b",") == written:
        return []
    found: list[tuple[dict[str, Any], list[str]]] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) != len(items):
            seen: set[str] = set()
            found.append((out, [name for name, _ in items if name in seen or seen.add(name)]))  # type: ignore[func-returns-value]
        return out

    try:
        json.loads(body, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return []
    return _duplicate_paths(body.decode("utf-8", "replace")) if found else []


def _duplicate_paths(text: str) -> list[str]:
    """Paths of repeated fields as Kubernetes' strict decoder reports them: each once, in reading order."""
    found: dict[str, None] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for name, item in value.items:
                here = f"{path}.{name}" if path else name
                if name in seen:
                    found[here] = None
                seen.add(name)
                walk(item, here)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                walk(item, f"{path}[{position}]")

    walk(json.loads(text, object_pairs_hook=_Pairs), "")
    return list(found)


class _Pairs:
    def __init__(self, items: list[tuple[str, Any]]) -> None:
        self.items = items


_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_SPACE = " \t\r\n"


def _go_complaint(text: str) -> str:
    """What Go's encoding/json says about the first thing that is wrong."""
    scanner = _Scanner(text)
    try:
        scanner.value(0)
        scanner.skip()
        if scanner.position < len(text):
            scanner.fail("after top-level value")
    except BodyError as error:
        return str(error)
    return "invalid JSON"


class _Scanner:
    """Walks JSON only to find the first fault and to word it as Go does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def fail(self, where: str) -> None:
        if self.position >= len(self.text):
            raise BodyError("unexpected end of JSON input")
        char = self.text[self.position]
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or (
            f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"
        )
        raise BodyError(f"invalid character {shown} {where}")

    def skip(self) -> str:
        while self.position < len(self.text) and self.text[self.position] in _SPACE:
            self.position += 1
        return self.text[self.position] if self.position < len(self.text) else ""

    def value(self, depth: int) -> None:
        char = self.skip()
        if depth > _NESTING * 50:
            raise BodyError("exceeded max depth")
        if char == "{":
            self.members(depth)
        elif char == "[":
            self.elements(depth)
        elif char == '"':
            self.string()
        elif char in ("t", "f", "n"):
            self.literal({"t": "true", "f": "false", "n": "null"}[char])
        elif match := _NUMBER.match(self.text, self.position):
            self.position = match.end()
        else:
            self.fail("looking for beginning of value" if char != "-" else "in numeric literal")

    def literal(self, word: str) -> None:
        for offset, char in enumerate(word):
            if self.position >= len(self.text) or self.text[self.position] != char:
                self.fail(f"in literal {word} (expecting '{word[offset]}')")
            self.position += 1

    def string(self) -> None:
        self.position += 1
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == '"':
                self.position += 1
                return
            if char < " ":
                self.fail("in string literal")
            if char == "\\":
                self.position += 1
                escape = self.text[self.position : self.position + 1]
                if escape == "u":
                    for _ in range(4):
                        self.position += 1
                        if self.text[self.position : self.position + 1] not in "0123456789abcdefABCDEF":
                            self.fail("in \\u hexadecimal character escape")
                elif not escape or escape not in '"\\/bfnrt':
                    self.fail("in string escape code")
            self.position += 1
        self.fail("")

    def members(self, depth: int) -> None:
        self.position += 1
        if self.skip() == "}":
            self.position += 1
            return
        while True:
            if self.skip() != '"':
                self.fail("looking for beginning of object key string")
            self.string()
            if self.skip() != ":":
                self.fail("after object key")
            self.position += 1
            self.value(depth + 1)
            char = self.skip()
            if char not in (",", "}"):
                self.fail("after object key:value pair")
            self.position += 1
            if char == "}":
                return

    def elements(self, depth: int) -> None:
        self.position += 1
        if self.skip() == "]":
            self.position += 1
            return
        while True:
            self.value(depth + 1)
            char = self.skip()
            if char not in (",", "]"):
                self.fail("after array element")
            self.position += 1
            if char == "]":
                return
