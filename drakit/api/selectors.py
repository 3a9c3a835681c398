"""Label and field selectors: the text form of queries and the LabelSelector object, parsed once and matched often.

Errors are ValueError with Kubernetes' texts; callers turn them into 400 or field errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_KEY = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|\(|\)|,|<|>)|([^\s,()=!<>]+))")
_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_BINARY = {"in", "notin", "=", "==", "!=", ">", "<"}


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
    return LabelSelector(tuple(_LabelParser(text).requirements())) if text else EVERYTHING


class _LabelParser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while match := _TOKEN.match(text, position):
            self.tokens.append(match.group(1) or match.group(2))
            position = match.end()
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        word = self.peek()
        self.position += 1
        return word

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while word := self.peek():
            if not _is_word(word) and word != "!":
                raise ValueError(f"found '{word}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self.requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            word = self.take()
            if not word:
                break
            if word != ",":
                raise ValueError(f"found '{word}', expected: ',' or 'end of string'")
            after = self.peek()
            if not _is_word(after) and after != "!":
                raise ValueError(f"found '{after}', expected: identifier after ','")
        return found

    def requirement(self) -> Requirement:
        word = self.take()
        absent = word == "!"
        if absent:
            word = self.take()
        if not _is_word(word):
            raise ValueError(f"found '{word}', expected: identifier")
        if not _KEY.fullmatch(word):
            raise ValueError(f'<nil>: Invalid value: "{word}": {_NAME_RULE}')
        if absent:
            return Requirement(word, "!exists")
        if self.peek() in ("", ","):
            return Requirement(word, "exists")
        operator = self.take()
        if operator not in _BINARY:
            raise ValueError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self.value_set() if operator in ("in", "notin") else frozenset((self.exact_value(),))
        return self.checked(word, operator, values)

    def checked(self, key: str, operator: str, values: frozenset[str]) -> Requirement:
        for value in sorted(values):
            if not _VALUE.fullmatch(value):
                raise ValueError(f'<nil>: Invalid value: "{value}": {_VALUE_RULE}')
        if operator in (">", "<"):
            value = next(iter(values))
            if not re.fullmatch(r"[-+]?\d+", value):
                rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise ValueError(f'values[0]: Invalid value: "{value}": {rule}')
            return Requirement(key, "gt" if operator == ">" else "lt", values)
        return Requirement(key, {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator), values)

    def exact_value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        word = self.take()
        if not _is_word(word):
            raise ValueError(f"found '{word}', expected: identifier")
        return word

    def value_set(self) -> frozenset[str]:
        if (word := self.take()) != "(":
            raise ValueError(f"found '{word}' expected: '('")
        values: set[str] = set()
        expecting = True
        while True:
            word = self.take()
            if word == ")":
                if expecting:
                    values.add("")
                return frozenset(values)
            if word == ",":
                if expecting:
                    values.add("")
                expecting = True
            elif _is_word(word) and expecting:
                values.add(word)
                expecting = False
            else:
                wanted = "',', or identifier" if expecting else "',' or ')'"
                raise ValueError(f"found '{word}', expected: {wanted}")


def _is_word(word: str) -> bool:
    return bool(word) and word not in ("!", "=", "==", "!=", ",", "(", ")", "<", ">")


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


_TEXTS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}"}


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A plain LabelSelector object in the form that `-l` takes; empty when it selects everything."""
    if not selector:
        return ""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for item in selector.get("matchExpressions") or ():
        text = _TEXTS.get(item.get("operator", ""), "!{key}")
        key = item.get("key", "")
        terms.append((key, text.format(key=key, values=",".join(sorted(item.get("values") or ())))))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def go_selector_text(selector: Mapping[str, Any]) -> str:
    """A plain LabelSelector as Go prints the message, which some texts show."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{t['key']},Operator:{t['operator']},Values:[{' '.join(t.get('values') or ())}],}},"
        for t in selector.get("matchExpressions") or ()
    )
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"


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
