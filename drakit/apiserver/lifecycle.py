"""Namespaces as the place of other objects: nothing is created in one that is missing or on its way out.

The NamespaceLifecycle admission plugin of Kubernetes, and the namespaces that every cluster starts with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drakit.api.errors import StatusError
from drakit.api.registry import Kind
from drakit.apiserver.auth import Admission, AdmissionAttributes
from drakit.apiserver.refusals import forbidden

__all__ = ["INITIAL_NAMESPACES", "NamespaceLifecycle"]

INITIAL_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_IMMORTAL = frozenset({"default", "kube-public", "kube-system"})


class NamespaceLifecycle(Admission):
    def __init__(self, namespace: Callable[[str], dict[str, Any] | None]) -> None:
        self._namespace = namespace

    def concerns(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation == "CREATE" or (kind.plural == "namespaces" and not kind.group)

    def admit(self, attributes: AdmissionAttributes) -> None:
        request = attributes.request
        if request.resource == "namespaces" and not request.group:
            if attributes.operation == "DELETE" and request.name in _IMMORTAL:
                raise forbidden(attributes, "this namespace may not be deleted")
            return
        if not request.namespace or attributes.operation != "CREATE":
            return
        namespace = self._namespace(request.namespace)
        if namespace is None:
            raise StatusError.not_found("", "namespaces", request.namespace)
        if (namespace.get("status") or {}).get("phase") == "Terminating" or "deletionTimestamp" in namespace[
            "metadata"
        ]:
            if request.group == "authorization.k8s.io":
                return
            raise _terminating(attributes, request.namespace)


def _terminating(attributes: AdmissionAttributes, namespace: str) -> StatusError:
    error = forbidden(
        attributes, f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    return StatusError(error.code, error.reason, error.message, {**error.details, "causes": [cause]})
