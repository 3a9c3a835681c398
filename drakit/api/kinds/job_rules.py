"""What the parts of a Job's spec must be: limits of Indexed Jobs, pod failure policies, success policies, the manager's name
(pkg/apis/batch/validation). Indexes are written `0-3,5`."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from drakit.api.errors import OMITTED, Errors, FieldError, go_quote
from drakit.api.kind import Object
from drakit.api.kinds import checks

__all__ = ["indexed_limits", "indexes", "managed_by", "overlap", "pod_failure_policy", "success_policy"]

_MANY = 100_000  # completions that make narrower limits
_FEW = 10_000
_RULES = 20
_EXIT_CODES = 255
_SUCCEEDED_INDEXES = 64 * 1024
_MANAGER = 63
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_path = re.compile(_PATH, re.ASCII).fullmatch
_is_number = re.compile(r"[-+]?[0-9]+", re.ASCII).fullmatch


def managed_by(value: str, path: str) -> Errors:
    host, _, rest = value.partition("/")
    errors: Errors = []
    if not value:
        errors.append(FieldError.required(path))
    elif not host or not rest:
        errors.append(FieldError.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += checks.subdomain(host, path)
        if not _is_path(rest):
            errors.append(FieldError.invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH}')"))
    if len(value.encode()) > _MANAGER:
        errors.append(FieldError.too_long(path, _MANAGER))
    return errors


def indexed_limits(spec: Object) -> Errors:
    """So that the lists of indexes in the status stay short enough."""
    errors: Errors = []
    completions, parallelism, failed = (spec.get(name) for name in ("completions", "parallelism", "maxFailedIndexes"))
    per_index = spec.get("backoffLimitPerIndex") is not None

    def check(name: str, value: int | None, limit: int | None, text: str) -> None:
        if value is not None and limit is not None and value > limit:
            errors.append(FieldError.invalid(f"spec.{name}", value, f"must be less than or equal to {text}"))

    check("parallelism", parallelism, _MANY, f"{_MANY} when completion mode is Indexed")
    check("maxFailedIndexes", failed, completions, "completions")
    check("maxFailedIndexes", failed, _MANY, str(_MANY))
    if completions is not None and completions > _MANY and per_index:
        if failed is None:
            text = f"must be specified when completions is above {_MANY}"
            errors.append(FieldError.required("spec.maxFailedIndexes", text))
        text = f"{_FEW} when completions are above {_MANY} and used with backoff limit per index"
        check("parallelism", parallelism, _FEW, text)
        check("maxFailedIndexes", failed, _FEW, text)
    return errors


# Pod failure policy.


def pod_failure_policy(spec: Object) -> Errors:
    path = "spec.podFailurePolicy.rules"
    rules = spec["podFailurePolicy"].get("rules") or []
    errors = [FieldError.too_many(path, len(rules), _RULES)] if len(rules) > _RULES else []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {each.get("name") for kind in ("containers", "initContainers") for each in pod.get(kind) or ()}
    per_index = spec.get("backoffLimitPerIndex") is not None
    for position, rule in enumerate(rules):
        errors += _failure_rule(rule, f"{path}[{position}]", containers, per_index)
    return errors


def _failure_rule(rule: Object, path: str, containers: set[Any], per_index: bool) -> Errors:
    action, codes, patterns = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions") or []
    errors: Errors = []
    if action == "FailIndex":
        if not per_index:
            errors.append(FieldError.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    else:
        errors += _word(action, _ACTIONS, f"{path}.action")
    if codes is not None:
        errors += _exit_codes(codes, f"{path}.onExitCodes", containers)
    if len(patterns) > _RULES:
        errors.append(FieldError.too_many(f"{path}.onPodConditions", len(patterns), _RULES))
    for position, pattern in enumerate(patterns):
        at = f"{path}.onPodConditions[{position}]"
        errors += checks.qualified_name(pattern.get("type") or "", f"{at}.type")
        errors += _word(pattern.get("status"), _STATUSES, f"{at}.status")
    if codes is not None and patterns:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        errors.append(FieldError.invalid(path, OMITTED, text))
    if codes is None and not patterns:
        text = "specifying one of OnExitCodes and OnPodConditions is required"
        errors.append(FieldError.invalid(path, OMITTED, text))
    return errors


def _word(value: str | None, known: tuple[str, ...], path: str) -> Errors:
    if not value:
        return [FieldError.required(path, f"valid values: [{' '.join(map(go_quote, known))}]")]
    return [] if value in known else [FieldError.not_supported(path, value, known)]


def _exit_codes(rule: Object, path: str, containers: set[Any]) -> Errors:
    errors = _word(rule.get("operator"), _OPERATORS, f"{path}.operator")
    name, values = rule.get("containerName"), rule.get("values") or []
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(FieldError.invalid(f"{path}.containerName", name, text))
    if not values:
        errors.append(FieldError.invalid(f"{path}.values", rule.get("values"), "at least one value is required"))
    elif len(values) > _EXIT_CODES:
        errors.append(FieldError.too_many(f"{path}.values", len(values), _EXIT_CODES))
    seen: set[int] = set()
    for position, value in enumerate(values):
        at = f"{path}.values[{position}]"
        if rule.get("operator") == "In" and value == 0:
            errors.append(FieldError.invalid(at, value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(FieldError.duplicate(at, value))
        seen.add(value)
    if any(first > second for first, second in pairwise(values)):
        errors.append(FieldError.invalid(f"{path}.values", values, "must be ordered"))
    return errors


# Success policy.


def success_policy(spec: Object) -> Errors:
    path = "spec.successPolicy.rules"
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions") or 0
    errors: Errors = []
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        errors.append(FieldError.required(path, text))
    if len(rules) > _RULES:
        errors.append(FieldError.too_many(path, len(rules), _RULES))
    for position, rule in enumerate(rules):
        errors += _success_rule(rule, f"{path}[{position}]", completions)
    return errors


def _success_rule(rule: Object, path: str, completions: int) -> Errors:
    count, written = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: Errors = []
    if count is None and written is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(FieldError.required(path, text))
    total = 0
    if written is not None:
        at = f"{path}.succeededIndexes"
        if len(written) > _SUCCEEDED_INDEXES:
            errors.append(FieldError.too_long(at, _SUCCEEDED_INDEXES))
        try:
            total = sum(last - first + 1 for first, last in indexes(written, completions))
        except ValueError as error:
            errors.append(FieldError.invalid(at, written, f"error parsing succeededIndexes: {error}"))
    if count is not None:
        at = f"{path}.succeededCount"
        errors += checks.non_negative(count, at)
        if count > completions:
            text = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(FieldError.invalid(at, count, text))
        if written is not None and count > total:
            about = "the number of indexes in the specified succeededIndexes field"
            errors.append(FieldError.invalid(at, count, f"must be less than or equal to {total} ({about})"))
    return errors


# Indexes.


def indexes(text: str, completions: int) -> list[tuple[int, int]]:
    """First and last of each interval; ValueError when they are not increasing numbers below `completions`."""
    result: list[tuple[int, int]] = []
    for fragment in text.split(",") if text else ():
        interval = _interval(fragment, completions)
        if result and result[-1][1] >= interval[0]:
            raise ValueError(f"non-increasing order, previous: {result[-1][1]}, current: {interval[0]}")
        result.append(interval)
    return result


def _interval(fragment: str, completions: int) -> tuple[int, int]:
    parts = fragment.split("-")
    if len(parts) > 2:
        quoted = go_quote(fragment)
        raise ValueError(
            f"the fragment {quoted} violates the requirement that an index interval can have at most two parts separated by '-'"
        )
    numbers = []
    for part in parts:
        if not _is_number(part):
            raise ValueError(f"cannot convert string to integer for index: {go_quote(part)}")
        if int(part) >= completions:
            raise ValueError(f"too large index: {go_quote(part)}")
        numbers.append(int(part))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]


def overlap(completed: str, failed: str, completions: int) -> int | None:
    """The first index that both lists have; what cannot be read is left out."""
    mine, theirs = _readable(completed, completions), _readable(failed, completions)
    place = other = 0
    while place < len(mine) and other < len(theirs):
        (first, last), (low, high) = mine[place], theirs[other]
        if first <= high and low <= last:
            return max(first, low)
        if first <= low:
            place += 1
        else:
            other += 1
    return None


def _readable(text: str, completions: int) -> list[tuple[int, int]]:
    result = []
    for fragment in text.split(",") if text else ():
        try:
            result.append(_interval(fragment, completions))
        except ValueError:
            continue
    return result
