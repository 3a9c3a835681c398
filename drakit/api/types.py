"""The fields of the API types of Kubernetes 1.37, from the table in `type_facts`: one description for all who need one.

`wire` reads JSON by it, `schema` says how fields merge, the server's `protobuf` finds them by number. A type is called as
lightkube's model: `core_v1.PodSpec`. Each is read from the table when it is first met.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from drakit.api.type_facts import TYPES

__all__ = ["Field", "Type", "model_name", "of"]

_FIELD = re.compile(
    r"(?P<name>\w+)(?:#(?P<number>\d+))?:(?P<wraps>(?:\*|\[\]|\{[^}]*\})*)(?P<core>[\w.]+)"
    r"(?:'(?P<alias>[\w.]+))?(?P<mark>[!~]?)(?:\+(?P<merging>.*))?"
)
_WRAP = re.compile(r"\*|\[\]|\{[^}]*\}")
_TYPE_META = ["apiVersion#0:s", "kind#0:s"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type: `wraps` around a scalar form or a struct (`core`)."""

    name: str
    wraps: tuple[str, ...]  # `[]`, `{key type}` from outside in; `*` where it is optional
    core: str  # the letter of a scalar form, or the name of a type
    alias: str  # Go's name of a scalar type, if it has one
    mark: str  # `!`: written even when empty; `~`: left out though Go's encoder would not
    merging: tuple[str, ...]  # as in the table
    embedded: tuple[str, ...]  # the Go types around it
    number: int | None  # in protobuf; 0: has none; None: one more than the field before it

    @property
    def struct(self) -> str:
        """The type it holds; "" for scalars."""
        return self.core if len(self.core) > 1 else ""

    @property
    def containers(self) -> tuple[str, ...]:
        """The lists and maps around the core."""
        return tuple(wrap for wrap in self.wraps if wrap != "*")


@dataclass(frozen=True, slots=True)
class Type:
    fields: dict[str, Field]
    atomic: bool  # merges as one value


@cache
def of(name: str) -> Type:
    module = name.partition(".")[0]
    words = _words(name)
    embedded: tuple[str, ...] = ()
    fields: dict[str, Field] = {}
    for word in words:
        if word.startswith("^"):
            embedded = tuple(filter(None, word[1:].split(".")))
        elif word != "atomic":
            field = _field(module, word, embedded)
            fields[field.name] = field
    return Type(fields, "atomic" in words)


def _words(name: str) -> list[str]:
    table = _table()
    module, _, cls = name.partition(".")
    words = table.get(name)
    if words is None and module in table:
        words = table.get(f"{table[module][0]}.{cls}")
    if words is None and cls.endswith("List"):
        words = ["TypeMeta", "metadata:meta_v1.ListMeta", f"items:[]{cls[:-4]}!"]
    if words is None:
        raise LookupError(f"the table of types has no {name}")
    return [*_TYPE_META, *words[1:]] if words[:1] == ["TypeMeta"] else words


@cache
def _table() -> dict[str, list[str]]:
    lines = (line.split(" ") for line in TYPES.replace("\n  ", " ").splitlines() if line)
    return {name: words for name, *words in lines}


def _field(module: str, word: str, embedded: tuple[str, ...]) -> Field:
    found = _FIELD.fullmatch(word)
    assert found is not None, word
    version = module.rpartition("_")[2]
    wraps = (
        f"{{{_go_name(version, wrap[1:-1] or 'string')}}}" if wrap[0] == "{" else wrap
        for wrap in _WRAP.findall(found["wraps"])
    )
    core = found["core"]
    return Field(
        name=found["name"],
        wraps=tuple(wraps),
        core=core if len(core) == 1 or "." in core else f"{module}.{core}",
        alias=_go_name(version, found["alias"] or ""),
        mark=found["mark"],
        merging=tuple((found["merging"] or "").split("+")) if found["merging"] else (),
        embedded=embedded,
        number=int(found["number"]) if found["number"] else None,
    )


def _go_name(version: str, name: str) -> str:
    return f"{version}.{name}" if name and "." not in name and name != "string" else name


@cache
def model_name(model: type) -> str:
    """The name of a lightkube model class, or of a resource class made from one."""
    for cls in model.__mro__:
        if cls.__module__.startswith("lightkube.models."):
            return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"
    raise TypeError(f"{model!r} is no model of lightkube")
