"""Names that the kinds of resource.k8s.io share: drivers, pools, devices, attributes, requests.

Where Kubernetes declares a rule with the type, its words differ from the older check's: `declared` functions have those.
"""

from __future__ import annotations

from drakit.api import formats
from drakit.api.errors import FieldError

__all__ = [
    "class_name",
    "declared_class_name",
    "declared_driver_name",
    "declared_fully_qualified_name",
    "declared_label_key",
    "declared_pool_name",
    "declared_short_name",
    "driver_name",
    "extended_resource_name",
    "label_key",
    "label_value",
    "pool_name",
    "qualified_name",
    "short_name",
]

MAX_DOMAIN = 63
MAX_ID = 32


def _each(path: str, value: str, details: list[str]) -> list[FieldError]:
    return [FieldError.invalid(path, value, detail) for detail in details] if details else []


def _declared(errors: list[FieldError]) -> list[FieldError]:
    return [error.as_declared() for error in errors] if errors else errors


def short_name(name: str, path: str) -> list[FieldError]:
    """A DNS label: devices, requests, counters."""
    return _each(path, name, formats.dns_label(name))


def declared_short_name(name: str, path: str) -> list[FieldError]:
    return _declared(_each(path, name, formats.dns_label(name, formats.BYTES)))


def class_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [FieldError.required(path)]
    return _each(path, name, formats.dns_subdomain(name))


def declared_class_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [FieldError.required(path).as_declared()]
    return _declared(_each(path, name, formats.dns_subdomain(name, formats.BYTES)))


def driver_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [FieldError.required(path)]
    errors = [FieldError.too_long(path, MAX_DOMAIN)] if formats.length(name) > MAX_DOMAIN else []
    return errors + _each(path, name, formats.dns_subdomain(name.lower()))


def declared_driver_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [FieldError.required(path).as_declared()]
    errors = _each(path, name, formats.dns_subdomain_caseless(name))
    if len(name) > MAX_DOMAIN:
        errors.append(FieldError.too_long(path, MAX_DOMAIN, unit="character"))
    return _declared(errors)


def pool_name(name: str, path: str) -> list[FieldError]:
    """One or more DNS subdomains joined by slashes."""
    if not name:
        return [FieldError.required(path)]
    errors = [FieldError.too_long(path, 253)] if formats.length(name) > 253 else []
    for part in name.split("/"):
        errors += _each(path, part, formats.dns_subdomain(part))
    return errors


def declared_pool_name(name: str, path: str, *, optional: bool = False) -> list[FieldError]:
    """`optional` where absence is allowed: "" is then a name, and a wrong one."""
    if not name and not optional:
        return [FieldError.required(path).as_declared()]
    errors = [FieldError.too_long(path, 253)] if formats.length(name) > 253 else []
    for position, part in enumerate(name.split("/")):
        if not part:
            errors.append(FieldError.invalid(path, name, f"segment {position}: must not be empty"))
            continue
        details = formats.dns_subdomain(part, formats.BYTES)
        errors += _each(path, part, [f"segment {position}: {detail}" for detail in details])
    return _declared(errors)


def qualified_name(name: str, path: str) -> list[FieldError]:
    """The key of an attribute or capacity: id or domain/id. Names with more slashes pass, as in Kubernetes."""
    parts = name.split("/")
    if len(parts) == 1:
        return _identifier(name, path)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    errors = driver_name(domain, path) if domain else [FieldError.invalid(path, "", "the domain must not be empty")]
    if identifier:
        return errors + _identifier(identifier, path)
    return [*errors, FieldError.invalid(path, "", "the name must not be empty")]


def declared_fully_qualified_name(name: str, path: str) -> list[FieldError]:
    """An attribute named with its domain."""
    parts = name.split("/")
    errors: list[FieldError] = []
    if len(parts) == 1:
        errors += _identifier(name, path)
    elif len(parts) == 2:
        errors += _declared_domain(parts[0], path)
        errors += _identifier(parts[1], path) if parts[1] else [FieldError.invalid(path, "", "name must not be empty")]
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(FieldError.invalid(path, name, detail))
    return _declared(errors)


def _declared_domain(domain: str, path: str) -> list[FieldError]:
    if not domain:
        return [FieldError.invalid(path, "", "prefix must not be empty")]
    errors = [FieldError.too_long(path, MAX_DOMAIN)] if formats.length(domain) > MAX_DOMAIN else []
    details = formats.dns_subdomain(domain, formats.BYTES)
    return errors + _each(path, domain, [f"prefix: {detail}" for detail in details])


def _identifier(name: str, path: str) -> list[FieldError]:
    errors = [FieldError.too_long(path, MAX_ID)] if formats.length(name) > MAX_ID else []
    return errors + _each(path, name, formats.c_identifier(name))


def label_key(name: str, path: str) -> list[FieldError]:
    return _each(path, name, formats.label_key(name))


def declared_label_key(name: str, path: str) -> list[FieldError]:
    return _declared(label_key(name, path))


def label_value(value: str, path: str) -> list[FieldError]:
    return _each(path, value, formats.label_value(value))


def extended_resource_name(name: str, path: str) -> list[FieldError]:
    """The name under which a DeviceClass offers its devices as an extended resource."""
    details = []
    if "/" not in name:
        details.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        details.append('must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        details.append('must not have "requests." prefix')
    details += formats.label_key("requests." + name)
    return _declared(_each(path, name, details))
