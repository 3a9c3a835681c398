"""An environment: what an expression may use. It is data; a new variable, function or type is one declaration.

`Environment(variables={"x": types.INT})` is plain CEL; `kubernetes(...)` adds what Kubernetes offers. Environments
are immutable: `extend` makes another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drakit.cel import macros as m
from drakit.cel import types as t
from drakit.cel.functions import Function, merge
from drakit.cel.library import (
    authz,
    comprehensions,
    formatting,
    kubernetes,
    lists,
    network,
    optionals,
    standard,
    strings,
    urls,
)
from drakit.cel.parser import Macros
from drakit.cel.types import Type

__all__ = ["Environment", "StructType", "base", "kubernetes_base"]


@dataclass(frozen=True)
class StructType:
    """A type with named fields, e.g. `device`; values of it are dicts."""

    name: str
    fields: Mapping[str, Type]


def _no_size(path: tuple[str, ...]) -> int | None:
    return None


@dataclass(frozen=True)
class Environment:
    """Everything the phases look up. `functions` and `idents` always include the standard library's."""

    variables: Mapping[str, Type] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=lambda: merge(standard.FUNCTIONS))
    macros: Macros = field(default_factory=lambda: dict(m.STANDARD))
    structs: Mapping[str, StructType] = field(default_factory=dict)
    idents: Mapping[str, Type] = field(default_factory=lambda: dict(standard.IDENTS))  # names of types
    constants: Mapping[str, tuple[Type, Any]] = field(default_factory=lambda: dict(standard.CONSTANTS))
    container: str = ""
    optional_syntax: bool = False
    homogeneous: bool = False  # lists and maps of mixed types are errors (see validators)
    check_literals: bool = False  # patterns, durations and timestamps written out are checked at compile time
    mixed_numbers: bool = True  # `1 < 1.5` type-checks
    presence_costs: int = 1  # what has() costs
    attribute_activation: bool = False  # fast programs read variables as attributes of their argument (see cel.device)
    total_paths: frozenset[tuple[str, str]] = (
        frozenset()
    )  # variable.field whose every key exists: may be looked up ahead
    lazy_variables: bool = False  # variables may be computed at their first use (see plan.Lazy)
    size_of: Callable[[tuple[str, ...]], int | None] = _no_size  # the declared maximum size of a path

    def extend(
        self,
        *,
        variables: Mapping[str, Type] | None = None,
        functions: Iterable[Function] = (),
        macros: Macros | None = None,
        structs: Iterable[StructType] = (),
        idents: Mapping[str, Type] | None = None,
        container: str | None = None,
    ) -> Environment:
        added = tuple(functions)
        return replace(
            self,
            variables={**self.variables, **(variables or {})},
            functions=merge((*self.functions.values(), *added)) if added else self.functions,
            macros={**self.macros, **(macros or {})},
            structs={**self.structs, **{item.name: item for item in structs}},
            idents={**self.idents, **(idents or {})},
            container=self.container if container is None else container,
        )

    def candidates(self, name: str) -> list[str]:
        """The names that `name` may stand for inside the container, longest first."""
        if name.startswith("."):
            return [name[1:]]
        if not self.container:
            return [name]
        parts = self.container.split(".")
        return [".".join([*parts[:i], name]) for i in range(len(parts), 0, -1)] + [name]


def base() -> Environment:
    """CEL with its optional types, extensions for strings, lists and sets, and all macros; nothing of Kubernetes."""
    return Environment(optional_syntax=True).extend(
        functions=[
            *optionals.FUNCTIONS,
            *comprehensions.FUNCTIONS,
            *strings.FUNCTIONS,
            *formatting.FUNCTIONS,
            *lists.EXTENSION,
            *lists.SETS,
        ],
        macros={**m.EXISTS_ONE, **m.OPTIONAL, **m.TWO_VARIABLE, **m.BIND, **lists.MACROS},
        idents={"optional_type": t.optional_of(t.DYN)},
    )


def kubernetes_base(*, includes: bool) -> Environment:
    """What every CEL environment of Kubernetes 1.37 has; `includes` came with compatibility version 1.37."""
    env = Environment(
        optional_syntax=True,
        homogeneous=True,
        check_literals=True,
        presence_costs=0,
        macros={**m.STANDARD, **m.OPTIONAL},
    )
    return env.extend(
        functions=[
            *urls.FUNCTIONS,
            *kubernetes.REGEX,
            *(() if includes else lists.FUNCTIONS),
            *authz.FUNCTIONS,
            *optionals.FUNCTIONS,
            *kubernetes.QUANTITY,
            *strings.FUNCTIONS,
            *formatting.FUNCTIONS,
            *lists.SETS,
            *network.FUNCTIONS,
            *kubernetes.FORMAT_FUNCTIONS,
            *comprehensions.FUNCTIONS,
            *kubernetes.SEMVER,
            *lists.EXTENSION,
            *((*lists.FUNCTIONS, *lists.INCLUDES) if includes else ()),
        ],
        macros={**m.TWO_VARIABLE, **lists.MACROS},
        idents={"optional_type": t.optional_of(t.DYN), "net.IP": t.opaque("net.IP"), "net.CIDR": t.opaque("net.CIDR")},
    )
