"""Label and field selectors: the text form of queries and the LabelSelector object, parsed once and matched often.

Errors are ValueError with Kubernetes' texts; callers turn them into 400 or field errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|\(|\)|,|<|>)|([^\s,()=!<>]+))")


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: str  # in, notin, exists, !exists, gt, lt
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!exists":
                return value is None
            case _:
                (bound,) = self.values
                try:
                    number, limit = int(value or ""), int(bound)
                except ValueError:
                    return False
                return number > limit if self.operator == "gt" else number < limit


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements that must all hold; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        return all(requirement.matches(labels) for requirement in self.requirements)

    def exact(self, key: str) -> frozenset[str] | None:
        """The only values that `key` may have, if the selector says so: for use with an index."""
        for requirement in self.requirements:
            if requirement.key == key and requirement.operator == "in":
                return requirement.values
        return None


EVERYTHING = LabelSelector()


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """`a=b,c!=d,e in (x,y),f notin (z),g,!h`."""
    tokens = _tokens(text)
    requirements: list[Requirement] = []
    position = 0

    def peek() -> str:
        return tokens[position] if position < len(tokens) else ""

    def take() -> str:
        nonlocal position
        position += 1
        return tokens[position - 1] if position <= len(tokens) else ""

    if not tokens:
        return EVERYTHING
    while True:
        if peek() == "!":
            take()
            requirements.append(Requirement(_key(take()), "!exists"))
        else:
            key = _key(take())
            match peek():
                case "=" | "==" | "!=" as operator:
                    take()
                    value = "" if peek() in ("", ",") else take()
                    requirements.append(
                        Requirement(key, "notin" if operator == "!=" else "in", frozenset((_value(value),)))
                    )
                case "in" | "notin" as operator:
                    take()
                    requirements.append(Requirement(key, operator, _value_list(take, peek)))
                case ">" | "<" as operator:
                    take()
                    bound = take()
                    if not re.fullmatch(r"[+-]?\d+", bound):
                        raise ValueError(f"for 'Gt', 'Lt' operators, the value must be an integer: {bound!r}")
                    requirements.append(Requirement(key, "gt" if operator == ">" else "lt", frozenset((bound,))))
                case _:
                    requirements.append(Requirement(key, "exists"))
        if not peek():
            return LabelSelector(tuple(requirements))
        if (separator := take()) != ",":
            raise ValueError(f"unable to parse requirement: found '{separator}', expected: ',' or 'end of string'")
        if not peek():
            raise ValueError("unable to parse requirement: found '', expected: identifier after ','")


def _tokens(text: str) -> list[str]:
    tokens, position, text = [], 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"unable to parse requirement: {text!r}")
        tokens.append(match.group(1) or match.group(2))
        position = match.end()
    return tokens


def _value_list(take: Callable[[], str], peek: Callable[[], str]) -> frozenset[str]:
    if (found := take()) != "(":
        raise ValueError(f"found '{found}' expected: '('")
    values: set[str] = set()
    while True:
        values.add("" if peek() in (",", ")") else _value(take()))
        match take():
            case ")":
                return frozenset(values)
            case ",":
                continue
            case found:
                raise ValueError(f"found '{found}', expected: ',' or ')'")


def _key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if not key or not _NAME.fullmatch(name) or len(name) > 63:
        raise ValueError(
            f"unable to parse requirement: <nil>: Invalid value: {key!r}: not a valid label key".replace("'", '"')
        )
    if slash and (not _PREFIX.fullmatch(prefix) or len(prefix) > 253):
        raise ValueError(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": prefix part is not a DNS subdomain'
        )
    return key


def _value(value: str) -> str:
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        raise ValueError(f'unable to parse requirement: values[0][]: Invalid value: "{value}": not a valid label value')
    return value


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!exists", "Gt": "gt", "Lt": "lt"}


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector | None:
    """A plain LabelSelector object (matchLabels, matchExpressions). None selects nothing and gives None."""
    if selector is None:
        return None
    requirements = [
        Requirement(key, "in", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            raise ValueError(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        requirements.append(Requirement(expression["key"], operator, frozenset(expression.get("values") or ())))
    return LabelSelector(tuple(requirements))


def matches_label_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a plain LabelSelector selects these labels: absent selects nothing, empty selects everything."""
    parsed = from_label_selector(selector)
    return parsed is not None and parsed.matches(labels)


@lru_cache(maxsize=1024)
def parse_field_selector(text: str) -> tuple[tuple[str, str, bool], ...]:
    """`metadata.name=x,status.phase!=Running` as (field, value, must be equal)."""
    terms = []
    for term in re.split(r"(?<!\\),", text) if text else ():
        for operator in ("!=", "==", "="):
            field, found, value = term.partition(operator)
            if found:
                terms.append((field, re.sub(r"\\([,=\\])", r"\1", value), operator != "!="))
                break
        else:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{term}'")
    return tuple(terms)
