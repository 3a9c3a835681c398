"""YAML as Kubernetes reads it: converted to JSON first, so dates stay text, keys become text, anchors cannot explode.

Apart from `bodies` because importing PyYAML costs more than a whole request.
"""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["dump", "load"]

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_NODES = 200_000  # what expanding anchors may grow to


class _Loader(_Base):  # type: ignore[misc]  # the C loader has no types
    pass


# Timestamps and the like stay text: JSON has no such type.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def load(text: bytes) -> Any:
    """The first document. ValueError when an alias bomb would make it too large."""
    budget = [_MAX_NODES]
    return _plain(yaml.load(text, Loader=_Loader), budget)  # noqa: S506  # a SafeLoader underneath


def _plain(value: Any, budget: list[int]) -> Any:
    budget[0] -= 1
    if budget[0] < 0:
        raise ValueError("document contains excessive aliasing")
    if isinstance(value, dict):
        return {_key(key): _plain(item, budget) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, budget) for item in value]
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def dump(value: Any) -> bytes:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, allow_unicode=True, default_flow_style=False)
    return text.encode()
