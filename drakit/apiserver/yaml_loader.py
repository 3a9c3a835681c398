"""YAML as Kubernetes reads it: converted to JSON first, so dates stay text, keys become text, anchors and merges cannot explode.

Apart from `bodies` because importing PyYAML costs more than a whole request. What a document may cost is bounded before the C
library composes it: it recurses without looking at the stack, and a few kilobytes of brackets would end the process.
"""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import yaml

__all__ = ["dump", "load"]

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BaseDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_NODES = 200_000  # what expanding anchors may grow to
_MAX_DEPTH = 1_000
_SHORT_LINE = 1_000  # no line of this length can nest deeper than that
_TAG = "tag:yaml.org,2002:"
# YAML 1.2's numbers, as Go's library has them: 12:30 is text, 1e3 a number.
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
# `y` and `n` are true and false there, in keys and values alike; PyYAML leaves them text.
_BOOL = re.compile(r"(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$")
_NUMBERS = {_TAG + "int": _INT, _TAG + "float": _FLOAT}


class _Loader(_Base):  # type: ignore[misc]  # the C loader has no types
    bool_values: ClassVar[dict[str, bool]] = {**_Base.bool_values, "y": True, "n": False}
    merged = 0

    def flatten_mapping(self, node: Any) -> None:
        """`<<` keys: as the library does it, but counting, because merges of merges multiply."""
        kept, merge = [], []
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                for source in reversed(value.value) if isinstance(value, yaml.SequenceNode) else (value,):
                    if not isinstance(source, yaml.MappingNode):
                        raise ValueError("map merge requires map or sequence of maps as the value")
                    self.flatten_mapping(source)
                    self.merged += len(source.value) + 1
                    if self.merged > _MAX_NODES:
                        raise ValueError("document contains excessive aliasing")
                    merge.extend(source.value)
            else:
                if key.tag == _TAG + "value":
                    key.tag = _TAG + "str"
                kept.append((key, value))
        if merge or len(kept) != len(node.value):
            node.value = merge + kept


def _number(loader: Any, node: Any) -> int | float:
    text = str(loader.construct_scalar(node))
    if _INT.match(text):
        plain = text.replace("_", "")
        digits = plain.lstrip("+-")
        base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2]) or (8 if digits[0] == "0" and len(digits) > 1 else 10)
        if len(digits) > 100:
            raise ValueError(f"the number {text[:20]}… is too large")
        number = int(plain, base)
        return number if abs(number) < 2**64 else float(number)  # as in Go
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


for _tag in _NUMBERS:
    _Loader.add_constructor(_tag, _number)

# Timestamps and the like stay text: JSON has no such type. Integers are tried before other numbers.
_OTHERS = (_TAG + "timestamp", _TAG + "bool", *_NUMBERS)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OTHERS]
    + [(tag, pattern) for tag, pattern in _NUMBERS.items() if first in "0123456789+-."]
    + [(_TAG + "bool", _BOOL)] * (first in "yYnNtTfFoO")
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


class _Dumper(_BaseDumper):  # type: ignore[misc]  # as above
    """Puts quotes around text that others would take for a truth value."""


for _first in "yYnN":
    _Dumper.add_implicit_resolver(_TAG + "bool", _BOOL, [_first])


def load(text: bytes) -> Any:
    """The first document. ValueError when it is nested too deeply or an alias bomb would make it too large."""
    _check_depth(text)
    budget = [_MAX_NODES]
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader underneath
    except (LookupError, TypeError, AttributeError, OverflowError) as error:  # `!!bool maybe`, `!!int ""`
        raise ValueError(f"a value does not fit its tag: {error}") from None
    return _plain(value, budget)


def _check_depth(text: bytes) -> None:
    """Few brackets and short lines cannot nest deeply; anything else is counted, event by event."""
    if text.count(b"[") + text.count(b"{") <= _MAX_DEPTH and max(map(len, text.splitlines()), default=0) <= _SHORT_LINE:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise ValueError(f"exceeded max depth of {_MAX_DEPTH}")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _plain(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError("document contains excessive aliasing")
    if isinstance(value, dict):
        return {_key(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, budget) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"json: unsupported value: {value}")
    if value is not None and not isinstance(value, str | bool | int | float):
        raise ValueError(f"a {type(value).__name__} has no form in JSON: write it as text")
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if not isinstance(key, str | int | float):
        raise ValueError(f"a {type(key).__name__} cannot be a key")
    return str(key)


def dump(value: Any) -> bytes:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    return text.encode()
