"""How a workload replaces its pods: what may be said about updates, with Kubernetes' texts."""

from __future__ import annotations

import re

from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object
from drakit.api.kinds import checks

__all__ = ["daemon_set_strategy", "deployment_strategy", "stateful_set_strategy"]


def deployment_strategy(strategy: Object, path: str) -> Errors:
    if strategy.get("type") == "Recreate":
        if strategy.get("rollingUpdate") is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [FieldError.forbidden(f"{path}.rollingUpdate", text)]
    if strategy.get("type") == "RollingUpdate":
        return _rolling_pods(strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate")
    shown = _internal(strategy, maxUnavailable=0, maxSurge=0)
    return [FieldError.not_supported(path, shown, ("Recreate", "RollingUpdate"))]


def daemon_set_strategy(strategy: Object, path: str) -> Errors:
    if strategy.get("type") == "RollingUpdate":
        return _rolling_daemons(strategy.get("rollingUpdate") or {}, f"{path}.rollingUpdate")
    if strategy.get("type") == "OnDelete":
        return []
    shown = _internal(strategy, maxUnavailable=0, maxSurge=0)
    return [FieldError.not_supported(path, shown, ("RollingUpdate", "OnDelete"))]


def stateful_set_strategy(strategy: Object, path: str, *, recreates: bool) -> Errors:
    known = ("RollingUpdate", "OnDelete", *(("Recreate",) if recreates else ()))
    if strategy.get("type") not in known:
        words = "'RollingUpdate', 'OnDelete', or 'Recreate'" if recreates else "'RollingUpdate' or 'OnDelete'"
        shown = _internal(strategy, partition=0, maxUnavailable=None)
        return [FieldError.invalid(path, shown, f"must be {words}")]
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        return []
    if strategy["type"] != "RollingUpdate":
        rolling = _internal_rolling(strategy, partition=0, maxUnavailable=None)
        text = "only allowed for updateStrategy 'RollingUpdate'"
        return [FieldError.invalid(f"{path}.rollingUpdate", rolling, text)]
    errors = checks.non_negative(rolling.get("partition"), f"{path}.rollingUpdate.partition")
    limit, at = rolling.get("maxUnavailable"), f"{path}.rollingUpdate.maxUnavailable"
    if limit is not None:
        errors += _count_or_percent(limit, at)
        if not _amount(limit):
            errors.append(FieldError.invalid(at, limit, "cannot be 0"))
        errors += _at_most_all(limit, at)
    return errors


def _internal(strategy: Object, **zeros: int | None) -> Object:
    """As Kubernetes prints it: the internal object, by Go's field names. `zeros`: what fields of `rollingUpdate` are without a value."""
    return {"Type": strategy.get("type") or "", "RollingUpdate": _internal_rolling(strategy, **zeros)}


def _internal_rolling(strategy: Object, **zeros: int | None) -> Object | None:
    rolling = strategy.get("rollingUpdate")
    if rolling is None:
        return None
    given = {name: rolling.get(name) for name in zeros}
    return {name[0].upper() + name[1:]: zeros[name] if value is None else value for name, value in given.items()}


def _rolling_pods(rolling: Object, path: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = _count_or_percent(unavailable, f"{path}.maxUnavailable") + _count_or_percent(surge, f"{path}.maxSurge")
    if not _amount(unavailable) and not _amount(surge):
        errors.append(FieldError.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + _at_most_all(unavailable, f"{path}.maxUnavailable")


def _rolling_daemons(rolling: Object, path: str) -> Errors:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = [
        error
        for check in (_count_or_percent, _at_most_all)
        for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge))
        for error in check(value, f"{path}.{name}")
    ]
    if _amount(unavailable) and _amount(surge):
        text = "may not be set when maxUnavailable is non-zero"
        errors.append(FieldError.invalid(f"{path}.maxSurge", surge, text))
    elif not _amount(unavailable) and not _amount(surge):
        errors.append(FieldError.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


_PERCENT = re.compile(r"[0-9]+%", re.ASCII).fullmatch
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII).fullmatch


def _amount(value: int | str) -> int:
    """A number or a percentage; 0 for what is neither, as Go reads it."""
    if isinstance(value, int):
        return value
    text = value.removesuffix("%")
    return _digits(text) if _WHOLE(text) and (text == value or _PERCENT(value)) else 0


def _digits(text: str) -> int:
    """As large as a count can sensibly be, however many digits there are."""
    return int(text) if len(text) <= 18 else 10**18


def _count_or_percent(value: int | str, path: str) -> Errors:
    if isinstance(value, int):
        return checks.non_negative(value, path)
    if _PERCENT(value):
        return []
    text = (
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
        "validation is '[0-9]+%')"
    )
    return [FieldError.invalid(path, value, text)]


def _at_most_all(value: int | str, path: str) -> Errors:
    if isinstance(value, str) and _PERCENT(value) and _amount(value) > 100:
        return [FieldError.invalid(path, value, "must not be greater than 100%")]
    return []
