"""Checks that several kinds share: names, labels, ports, numbers, resource names and amounts, with Kubernetes' texts.

A check returns the errors found, mostly none; paths are built only where something may be wrong.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable
from typing import Any

from drakit.api import formats
from drakit.api.errors import Errors, FieldError
from drakit.api.quantity import Quantity, QuantityError

__all__ = [
    "dns_label",
    "immutable",
    "is_extended_resource",
    "may_overcommit",
    "non_negative",
    "one_of",
    "port_number",
    "quantity",
    "subdomain",
]

MAX_INT32 = 2147483647
FILE_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"

_PORT_NAME = re.compile(r"[-a-z0-9]+", re.ASCII).fullmatch
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII).fullmatch


def dns_label(value: str, path: str) -> Errors:
    return [FieldError.invalid(path, value, text) for text in formats.dns_label(value)]


def subdomain(value: str, path: str) -> Errors:
    return [FieldError.invalid(path, value, text) for text in formats.dns_subdomain(value)]


def qualified_name(value: str, path: str) -> Errors:
    return [FieldError.invalid(path, value, text) for text in formats.label_key(value)]


def one_of(value: str | None, supported: Iterable[str], path: str) -> Errors:
    """A word that must be given and known; `supported` in the order in which Kubernetes lists them."""
    known = tuple(supported)
    if not value:
        return [FieldError.required(path)]
    return [] if value in known else [FieldError.not_supported(path, value, known)]


def non_negative(value: int | None, path: str) -> Errors:
    if value is not None and value < 0:
        return [FieldError.invalid(path, value, "must be greater than or equal to 0")]
    return []


def positive(value: int | None, path: str) -> Errors:
    if value is not None and value <= 0:
        return [FieldError.invalid(path, value, "must be greater than zero")]
    return []


def immutable(new: Any, old: Any, path: str) -> Errors:
    return [] if new == old else [FieldError.invalid(path, new, "field is immutable")]


def ip_address(value: str, path: str) -> Errors:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return [FieldError.invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def cidr(value: str, path: str) -> Errors:
    try:
        ipaddress.ip_interface(value if "/" in value else "")
    except ValueError:
        return [FieldError.invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")]
    return []


def port_number(value: int, path: str) -> Errors:
    if 1 <= value <= 65535:
        return []
    return [FieldError.invalid(path, value, "must be between 1 and 65535, inclusive")]


def port_name(name: str, path: str) -> Errors:
    texts = []
    if len(name) > 15:
        texts.append("must be no more than 15 characters")
    if not _PORT_NAME(name):
        texts.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in name):
        texts.append("must contain at least one letter (a-z)")
    if "--" in name:
        texts.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        texts.append("must not begin or end with a hyphen")
    return [FieldError.invalid(path, name, text) for text in texts]


def port_number_or_name(value: int | str, path: str) -> Errors:
    return port_name(value, path) if isinstance(value, str) else port_number(value, path)


def config_key(key: str, path: str) -> Errors:
    """A key of a ConfigMap or Secret: it becomes a file name."""
    texts = []
    if len(key) > 253:
        texts.append("must be no more than 253 characters")
    if not _CONFIG_KEY(key):
        texts.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
            "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if key == ".":
        texts.append("must not be '.'")
    elif key == "..":
        texts.append("must not be '..'")
    elif key.startswith(".."):
        texts.append("must not start with '..'")
    return [FieldError.invalid(path, key, text) for text in texts]


# Resources: names and amounts

_CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_OBJECT_COUNTS = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD_RESOURCES = (
    _CONTAINER_RESOURCES
    | _OBJECT_COUNTS
    | {f"{use}.{name}" for use in ("requests", "limits") for name in _CONTAINER_RESOURCES}
    | {"storage", "requests.storage"}
)


@functools.lru_cache(maxsize=4096)
def quantity(text: str) -> Quantity:
    return Quantity.parse(text)


def is_huge_page(name: str) -> bool:
    return name.startswith("hugepages-")


def is_native_resource(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def may_overcommit(name: str) -> bool:
    """Whether the limit may be higher than the request."""
    return is_native_resource(name) and not is_huge_page(name)


@functools.lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    return (
        not is_native_resource(name) and not name.startswith("requests.") and not formats.label_key(f"requests.{name}")
    )


@functools.lru_cache(maxsize=4096)
def _container_resource_texts(name: str) -> tuple[str, ...]:
    texts = list(formats.label_key(name))
    plain = "/" not in name
    if not texts and plain and name not in _STANDARD_RESOURCES and not is_huge_page(name):
        texts.append("must be a standard resource type or fully qualified")
    if plain:
        if name not in _CONTAINER_RESOURCES and not is_huge_page(name):
            texts.append("must be a standard resource for containers")
    elif not is_native_resource(name) and not is_extended_resource(name):
        texts.append("doesn't follow extended resource name standard")
    return tuple(texts)


def resource_name(name: str, path: str) -> Errors:
    """The name of any resource: a standard one, or one with a prefix."""
    errors = qualified_name(name, path)
    if not errors and "/" not in name and name not in _STANDARD_RESOURCES and not is_huge_page(name):
        errors.append(FieldError.invalid(path, name, "must be a standard resource type or fully qualified"))
    return errors


def quota_resource_name(name: str, path: str) -> Errors:
    errors = resource_name(name, path)
    known = name in _STANDARD_RESOURCES - {"storage"} or name.startswith(("hugepages-", "requests.hugepages-"))
    if "/" not in name and not known:
        errors.append(FieldError.invalid(path, name, "must be a standard resource for quota"))
    return errors


def container_resource_name(name: str, path: str) -> Errors:
    return [FieldError.invalid(path, name, text) for text in _container_resource_texts(name)]


def resource_value(name: str, amount: str, path: str) -> Errors:
    errors: Errors = []
    try:
        value = quantity(amount)
    except QuantityError as error:
        return [FieldError.invalid(path, amount, str(error))]
    if value.sign < 0:
        errors.append(FieldError.invalid(path, amount, "must be greater than or equal to 0"))
    if (name in _OBJECT_COUNTS or is_extended_resource(name)) and value.milli_value() % 1000:
        errors.append(FieldError.invalid(path, amount, "must be an integer"))
    return errors
