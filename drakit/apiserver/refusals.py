"""How authorization and admission say no: Kubernetes' words around a reason."""

from __future__ import annotations

from drakit.api.errors import StatusError
from drakit.apiserver.auth import AdmissionAttributes, Attributes


def forbidden(attributes: AdmissionAttributes, reason: str) -> StatusError:
    """403 by an admission plugin: `pods "x" is forbidden: <reason>`."""
    request = attributes.request
    meta = (attributes.object or {}).get("metadata") or {}
    name = request.name or str(meta.get("name") or meta.get("generateName") or "Unknown")
    return StatusError.forbidden(request.group, request.resource, name, reason)


def denied(attributes: Attributes, reason: str = "") -> StatusError:
    """403 by authorization: `pods "x" is forbidden: User "u" cannot get resource …`."""
    text = f'User "{attributes.user.name}" {attributes.describe()}'
    if reason:
        text = f"{text}: {reason}"
    return StatusError.forbidden(attributes.group, attributes.resource, attributes.name, text)
