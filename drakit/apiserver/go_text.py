"""Values as Go prints them: some of Kubernetes' messages show a client's JSON that way."""

from __future__ import annotations

from typing import Any

from drakit.api.errors import go_quote

__all__ = ["plain", "syntax", "type_name"]


def plain(value: Any) -> str:
    """Go's %v of a decoded JSON value."""
    if value is None:
        return "<nil>"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{plain(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(plain(item) for item in value) + "]"
    return value if isinstance(value, str) else _scalar(value)


def syntax(value: Any) -> str:
    """Go's %#v of a decoded JSON value."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, dict):
        return type_name(value) + "{" + ", ".join(f"{go_quote(n)}:{syntax(value[n])}" for n in sorted(value)) + "}"
    if isinstance(value, list):
        return type_name(value) + "{" + ", ".join(syntax(item) for item in value) + "}"
    return go_quote(value) if isinstance(value, str) else _scalar(value)


def type_name(value: Any) -> str:
    names: dict[type, str] = {
        dict: "map[string]interface {}",
        list: "[]interface {}",
        str: "string",
        bool: "bool",
        int: "int64",
        float: "float64",
    }
    return names.get(type(value), "<nil>")


def _scalar(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    short = repr(value)
    if short.endswith(".0"):
        short = short[:-2]
    if "e" not in short and abs(value) >= 1e21:
        return short
    if 1e6 <= abs(value) < 1e21 and "e" not in short:
        digits, _, fraction = short.lstrip("-").partition(".")
        significant = (digits + fraction).rstrip("0")
        mantissa = significant[0] + ("." + significant[1:] if significant[1:] else "")
        short = f"{'-' if value < 0 else ''}{mantissa}e+{len(digits) - 1:02d}"
    return short
