"""What an API server would say about a document, with the line it is about and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drakit.api import registry, strategy
from drakit.api.errors import StatusError
from drakit.api.kind import Kind, Object, WriteContext
from drakit.api.manifests import advice
from drakit.api.manifests.reading import Document, ManifestError, read

__all__ = ["Problem", "check", "check_text"]

_NO_UID = "00000000-0000-0000-0000-000000000000"  # the server will give it one


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong. `advice` tells the author what to write instead; "" where the message says it all."""

    source: str
    line: int
    field: str
    message: str
    advice: str = ""
    severity: str = "error"  # or warning

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        label = "" if self.severity == "error" else f"{self.severity}: "
        text = f"{self.source}:{self.line}: {label}{field}{self.message}"
        if not self.advice:
            return text
        return text + "".join(f"\n    {line}" for line in self.advice.split("\n"))


def check_text(text: str | bytes, source: str, ctx: WriteContext) -> list[Problem]:
    """Every problem of every document of a text; text that is no YAML is one problem."""
    try:
        documents = read(text, source)
    except ManifestError as error:
        return [Problem(source, error.line, "", error.message)]
    return [problem for document in documents for problem in check(document, ctx)]


def check(document: Document, ctx: WriteContext) -> list[Problem]:
    """What is wrong with one document. Lists (`kind: List`) are checked item by item."""
    value = document.value
    if not isinstance(value, dict):
        return [_problem(document, "", "is no object: an API object is a mapping with apiVersion, kind, metadata")]
    if value.get("kind") == "List" and isinstance(value.get("items"), list):
        return [problem for item in _items(document) for problem in check(item, ctx)]
    duplicates = [
        Problem(document.source, line, path, f'duplicate field "{path}"', "keep one of the two")
        for path, line in document.duplicates
    ]
    missing = [name for name in ("apiVersion", "kind") if not isinstance(value.get(name), str) or not value[name]]
    if missing:
        text = f"{' and '.join(missing)} not set"
        fragment = _problem(document, "", text, advice.for_fragment(value))
        return [*duplicates, fragment, *_check_fragment(document, ctx)]
    found = registry.by_api_version(value["apiVersion"], value["kind"])
    if found is None:
        text = f'no kind "{value["kind"]}" in version "{value["apiVersion"]}"'
        help_text = advice.for_unknown_kind(value["apiVersion"], value["kind"])
        return [*duplicates, _problem(document, "kind", text, help_text)]
    kind, version = found
    return duplicates + _check_object(document, kind, version, ctx)


def _check_fragment(document: Document, ctx: WriteContext) -> list[Problem]:
    """What would be wrong with a piece of a manifest if it were whole: nobody wants to hear of it one by one."""
    kind = registry.by_kind("resource.k8s.io", advice.guessed_kind(document.value))
    if kind is None or "spec" not in document.value:
        return []
    problems = _check_object(document, kind, kind.storage_version, ctx)
    return [problem for problem in problems if problem.field != "metadata.name"]


def _items(document: Document) -> list[Document]:
    marks = document.marks.inside["items"]
    return [
        Document(document.source, item, marks.inside.get(position, marks), ())
        for position, item in enumerate(document.value["items"])
    ]


def _problem(document: Document, field: str, message: str, help_text: str = "", severity: str = "error") -> Problem:
    return Problem(document.source, document.line_of(field), field, message, help_text, severity)


def _check_object(document: Document, kind: Kind, version: str, ctx: WriteContext) -> list[Problem]:
    value = document.value
    try:
        decoded = strategy.decode(kind, version, value)
    except StatusError as error:
        field, help_text = advice.for_type_error(error.message, value)
        return [_problem(document, field, error.message.partition(": ")[2], help_text)]
    problems = [
        _problem(document, path, f'unknown field "{path}"', advice.for_unknown_field(kind, version, path, value))
        for path in decoded.unknown_fields
    ]
    problems = _without_repeated_advice(problems)
    obj = decoded.obj
    meta = obj["metadata"]
    if kind.namespaced:
        meta["namespace"] = meta.get("namespace") or "default"
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + "xxxxx"
    meta["uid"] = _NO_UID
    try:
        _, warnings = strategy.create(kind, obj, ctx)
    except StatusError as error:
        explained = [problem.field for problem in problems]
        problems += [_cause(document, kind, cause, value, explained) for cause in error.causes]
        warnings = []
    served = kind.version(version)
    if served is not None and served.deprecated:
        warnings = [served.deprecated, *warnings]
    problems += [_problem(document, "", text, severity="warning") for text in warnings]
    return problems + [
        _problem(document, path, "selects no device: it asks for the domain " + found, help_text, "warning")
        for path, expression in _expressions(value, "")
        for found, help_text in advice.for_expression(expression)
    ]


def _expressions(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Every `cel: {expression: …}` with its path."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _expressions(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            inside = f"{path}.{name}" if path else str(name)
            if name == "cel" and isinstance(item, dict) and isinstance(item.get("expression"), str):
                yield f"{inside}.expression", item["expression"]
            else:
                yield from _expressions(item, inside)


def _without_repeated_advice(problems: list[Problem]) -> list[Problem]:
    """Four fields at the wrong place need one explanation."""
    seen: set[str] = set()
    result = []
    for problem in problems:
        known = problem.advice in seen
        seen.add(problem.advice)
        result.append(
            Problem(problem.source, problem.line, problem.field, problem.message, "" if known else problem.advice)
        )
    return result


def _cause(document: Document, kind: Kind, cause: Object, value: Object, explained: list[str]) -> Problem:
    field, message = cause.get("field") or "", cause.get("message") or ""
    if any(path.startswith(field) for path in explained) or (field == "metadata.name" and "name" in explained):
        return _problem(document, field, message)  # follows from an unknown field further down
    return _problem(document, field, message, advice.for_field_error(kind, field, cause.get("reason") or "", value))
