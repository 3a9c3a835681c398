"""How authorization and admission say no: Kubernetes' words around a reason."""

from __future__ import annotations

from drakit.api.errors import StatusError
from drakit.apiserver.auth import AdmissionAttributes, Attributes


def qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def forbidden(attributes: AdmissionAttributes, reason: str) -> StatusError:
    """403 by an admission plugin: `pods "x" is forbidden: <reason>`."""
    request = attributes.request
    meta = (attributes.object or {}).get("metadata") or {}
    name = request.name or str(meta.get("name") or meta.get("generateName") or "Unknown")
    what = qualified(request.group, request.resource)
    return StatusError(
        403,
        "Forbidden",
        f'{what} "{name}" is forbidden: {reason}',
        {"name": name, "group": request.group, "kind": request.resource},
    )


def denied(attributes: Attributes, reason: str = "") -> StatusError:
    """403 by authorization: `pods "x" is forbidden: User "u" cannot get resource …`."""
    text = f'User "{attributes.user.name}" {attributes.describe()}'
    if reason:
        text = f"{text}: {reason}"
    if not attributes.resource:
        return StatusError(403, "Forbidden", f"forbidden: {text}", {})
    what = qualified(attributes.group, attributes.resource)
    named = f' "{attributes.name}"' if attributes.name else ""
    return StatusError(
        403,
        "Forbidden",
        f"{what}{named} is forbidden: {text}",
        {"name": attributes.name, "group": attributes.group, "kind": attributes.resource},
    )
