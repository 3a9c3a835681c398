"""What a list or watch selects: labels, and the fields that a kind may be selected by.

The grammar is `api.selectors`; here are the values of the fields and the test of one object. A parsed selection also
says which exact values it asks for, so that watches can be indexed by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drakit.api.errors import StatusError
from drakit.api.registry import Kind
from drakit.api.selectors import EVERYTHING as ALL_LABELS
from drakit.api.selectors import LabelSelector, parse_field_selector, parse_label_selector
from drakit.apiserver.stored import Plain

__all__ = ["EVERYTHING", "Selection", "field_reader", "parse_selection"]

Reader = Callable[[Plain], str]


@dataclass(frozen=True, slots=True)
class Selection:
    labels: LabelSelector = ALL_LABELS
    fields: tuple[tuple[str, str, bool], ...] = ()  # (field, value, must be equal)
    readers: tuple[Reader, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels.requirements and not self.fields

    def matches(self, obj: Plain) -> bool:
        if self.labels.requirements and not self.labels.matches(obj["metadata"].get("labels")):
            return False
        pairs = zip(self.fields, self.readers, strict=True)
        return all((reader(obj) == value) is equal for (_, value, equal), reader in pairs)

    def exact(self, field: str) -> str | None:
        """The one value that `field` must have, if the selection says so."""
        return next((value for name, value, equal in self.fields if equal and name == field), None)


EVERYTHING = Selection()


def parse_selection(kind: Kind, version: str, labels: str, fields: str) -> Selection:
    if not labels and not fields:
        return EVERYTHING
    try:
        by_label, terms = parse_label_selector(labels), parse_field_selector(fields)
    except ValueError as error:
        raise StatusError.bad_request(str(error)) from None
    return Selection(by_label, terms, tuple(_reader_or_refuse(kind, version, name) for name, _, _ in terms))


def _reader_or_refuse(kind: Kind, version: str, name: str) -> Reader:
    reader = field_reader(kind, name)
    if reader is not None:
        return reader
    if kind.plural == "resourceslices":
        text = f"field label not supported for {kind.group}/{version}, Kind={kind.kind}: {name}"
    elif kind.plural == "jobs":
        text = f'field label "{name}" not supported for Job'
    elif kind.selectable and kind.plural != "replicasets":  # its field is known to the store only
        text = f"field label not supported: {name}"
    else:
        text = f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    raise StatusError.bad_request(text)


def field_reader(kind: Kind, name: str) -> Reader | None:
    """How to read a selectable field of this kind; None when it is not selectable."""
    if name == "metadata.name":
        return _name
    if name == "metadata.namespace" and (kind.namespaced or not kind.selectable):
        return _namespace
    return kind.selectable.get(name)


def _name(obj: Plain) -> str:
    return str(obj["metadata"].get("name", ""))


def _namespace(obj: Plain) -> str:
    return str(obj["metadata"].get("namespace", ""))
