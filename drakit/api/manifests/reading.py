"""YAML and JSON text to plain values, every value with its position.

Read as Kubernetes reads it: YAML becomes JSON, so keys are text, dates stay text and only one document's own anchors count. The size,
the depth and what anchors expand to are bounded. Several documents in one text are separated by `---`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

__all__ = ["MAX_BYTES", "Document", "ManifestError", "Marks", "read"]

MAX_BYTES = 3 * 1024 * 1024  # what an API server takes as a body
_MAX_DEPTH = 100
_MAX_VALUES = 200_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0b[01_]+|0x[0-9a-fA-F_]+)")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9_]+|[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_TRUE = frozenset({"y", "Y", "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


class ManifestError(ValueError):
    """Text that cannot be read; says where."""

    def __init__(self, source: str, line: int, message: str) -> None:
        super().__init__(f"{source}:{line}: {message}")
        self.source = source
        self.line = line
        self.message = message


@dataclass(slots=True)
class Marks:
    """Where a value begins, and the same for what is in it (by key or index). Lines count from 1."""

    line: int
    column: int
    inside: dict[str | int, Marks] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    source: str
    value: Any
    marks: Marks
    duplicates: tuple[tuple[str, int], ...]  # field path and line of every key that was there before

    def line_of(self, path: str) -> int:
        """The line of a field path such as spec.devices[0].attributes[a/b].int, or of the nearest part of it that is there."""
        marks = self.marks
        for step in steps(path):
            inner = marks.inside.get(step)
            if inner is None:
                break
            marks = inner
        return marks.line


_DASHES = re.compile(r"[-\u2010-\u2015\u2212]{1,4}\s*")
_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]|\[([^\]]*)\]")


def steps(path: str) -> Iterator[str | int]:
    """The keys and indexes of a field path."""
    for match in _STEP.finditer(path):
        name, index, key = match.groups()
        yield int(index) if index is not None else name if name is not None else key


def read(text: str | bytes, source: str = "<text>") -> list[Document]:
    """All documents of a text; empty ones are left out. Raises ManifestError."""
    if len(text) > MAX_BYTES:
        raise ManifestError(source, 1, f"{len(text)} bytes: an API server takes at most {MAX_BYTES}")
    try:
        return list(_Reader(text, source).documents())
    except yaml.YAMLError as error:
        lines = text.rstrip().count("\n" if isinstance(text, str) else b"\n") + 1  # type: ignore[arg-type]  # each with its own
        raise _odd_separator(text, source) or _complaint(error, source, lines) from None


def _odd_separator(text: str | bytes, source: str) -> ManifestError | None:
    """Word processors and web pages turn `---` into dashes that YAML takes for text, and the error comes lines later."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    for number, line in enumerate(plain.split("\n"), 1):
        if _DASHES.fullmatch(line) and not line.isascii():
            return ManifestError(
                source, number, f"no YAML: {line.strip()!r} has a dash that is none of YAML's; write ---"
            )
    return None


def _complaint(error: yaml.YAMLError, source: str, lines: int) -> ManifestError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    line = (
        min(mark.line + 1, lines) if mark is not None else 1
    )  # what is missing at the end is missing after its last line
    if "could not find expected ':'" in problem:
        problem += ": this line or the one before is no `key: value`; take out placeholders such as `...`"
    elif "cannot start any token" in problem and "\\t" in repr(problem):
        problem += ": indent with spaces, not with tabs"
    return ManifestError(source, line, f"no YAML: {problem}")


class _Reader:
    """Builds values straight from the parser's events: half the work of PyYAML's node graph."""

    def __init__(self, text: str | bytes, source: str) -> None:
        self.source = source
        self.events = yaml.parse(text, Loader=_Loader)
        self.left = _MAX_VALUES
        self.anchors: dict[str, tuple[Any, Marks, int]] = {}
        self.duplicates: list[tuple[str, int]] = []

    def documents(self) -> Iterator[Document]:
        for event in self.events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self.anchors = {}
            self.duplicates = []
            value, marks = self.value(next(self.events), "", 0)
            if value is not None:
                yield Document(self.source, value, marks, tuple(self.duplicates))

    def fail(self, event: Any, message: str) -> ManifestError:
        return ManifestError(self.source, event.start_mark.line + 1, message)

    def spend(self, event: Any, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise self.fail(event, f"more than {_MAX_VALUES} values in one text")

    def value(self, event: Any, path: str, depth: int) -> tuple[Any, Marks]:
        self.spend(event)
        marks = Marks(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise self.fail(event, f"unknown anchor {event.anchor!r}")
            value, inner, size = self.anchors[event.anchor]
            self.spend(event, size)
            marks.inside = inner.inside
            return value, marks
        if depth > _MAX_DEPTH:
            raise self.fail(event, f"nested more than {_MAX_DEPTH} deep")
        before = self.left
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self.sequence(marks, path, depth)
        else:
            value = self.mapping(event, marks, path, depth)
        if event.anchor:
            self.anchors[event.anchor] = (value, marks, before - self.left)
        return value, marks

    def sequence(self, marks: Marks, path: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            item, inner = self.value(event, f"{path}[{len(items)}]", depth + 1)
            marks.inside[len(items)] = inner
            items.append(item)
        return items

    def mapping(self, start: Any, marks: Marks, path: str, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        merged: list[tuple[dict[str, Any], Marks]] = []
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, at = self.key(event, path, depth)
            here = f"{path}.{key}" if path else key
            value, inner = self.value(next(self.events), here, depth + 1)
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                merged += self.merged(start, value, inner)
                continue
            if key in entries:
                self.duplicates.append((here, at.line))
            # An empty value has no place of its own; its key has.
            inner.line, inner.column = (at.line, at.column) if value is None else (inner.line, inner.column)
            entries[key] = value
            marks.inside[key] = Marks(at.line, at.column, inner.inside)
        for other, other_marks in merged:
            for key, value in other.items():
                if key not in entries:
                    entries[key] = value
                    marks.inside[key] = other_marks.inside.get(key, other_marks)
        return entries

    def merged(self, event: Any, value: Any, marks: Marks) -> list[tuple[dict[str, Any], Marks]]:
        """What `<<` brings in: a mapping or a list of mappings."""
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in values):
            raise self.fail(event, "map merge requires map or sequence of maps as the value")
        self.spend(event, sum(len(item) for item in values))
        return [
            (item, marks.inside.get(n, marks) if isinstance(value, list) else marks) for n, item in enumerate(values)
        ]

    def key(self, event: Any, path: str, depth: int) -> tuple[str, Marks]:
        value, marks = self.value(event, path, depth + 1)
        if isinstance(value, dict | list):
            raise self.fail(event, "a key has to be text")
        if value is True or value is False:
            return ("true" if value else "false"), marks
        return ("null" if value is None else str(value)), marks


def _scalar(event: Any) -> Any:
    text, tag = event.value, event.tag
    if tag == "tag:yaml.org,2002:str" or (tag is None and not event.implicit[0]) or tag == "!":
        return text
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] in "-+.0123456789":
        return _number(text)
    return text


def _number(text: str) -> Any:
    if len(text) <= 100 and _INT.fullmatch(text):
        digits = text.replace("_", "")
        sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.lstrip("+"))
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            return sign * int(digits, 8)
        return sign * int(digits, 0)
    if len(text) <= 100 and _FLOAT.fullmatch(text):
        value = float(text.replace("_", ""))
        return text if value in (float("inf"), float("-inf")) else value
    return text
