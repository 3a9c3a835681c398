"""What every namespace gets: the service account `default` and the config map with the cluster's CA that pods mount."""

from __future__ import annotations

from lightkube.models.core_v1 import ConfigMap, Namespace, ServiceAccount

from drakit.api.errors import StatusError
from drakit.client import Plain, Resource, resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import deleting, name, namespace
from drakit.controllers.pods import namespace_terminating

__all__ = ["RootCertificateController", "ServiceAccountController"]

ROOT_CA = "kube-root-ca.crt"
_DESCRIBED = "kubernetes.io/description"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service "
    "IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


class _PerNamespace:
    """One object in each namespace that is not going away, made again when it is deleted."""

    name: str

    def __init__(self, context: Context, model: type[object], wanted: str) -> None:
        self._client = context.client
        self._wanted = wanted
        self.loop = ControlLoop(self.name, self.reconcile, context, workers=1)
        self._resource: Resource = resource_of(model)
        self._namespaces = context.informers.plain(Namespace)
        self._objects = context.informers.plain(model)
        self._namespaces.add_handler(lambda new: self.loop.add(name(new)), lambda _, new: self.loop.add(name(new)))
        self._objects.add_handler(on_update=lambda _, new: self._check(new), on_delete=self._check)

    async def run(self) -> None:
        await self.loop.run()

    def _check(self, obj: Plain) -> None:
        if name(obj) == self._wanted:
            self.loop.add(namespace(obj))

    def _body(self, known: Plain | None) -> Plain | None:
        """The object to write; None when the known one is right."""
        raise NotImplementedError

    async def reconcile(self, key: str) -> float | None:
        space = self._namespaces.get(key)
        if space is None or deleting(space) or (space.get("status") or {}).get("phase") == "Terminating":
            return None
        known = self._objects.get(f"{key}/{self._wanted}")
        body = self._body(known)
        if body is None:
            return None
        body = {**body, "metadata": {**body.get("metadata", {}), "name": self._wanted, "namespace": key}}
        try:
            if known is None:
                self._objects.observe(await self._client.create_plain(self._resource, body))
            else:
                self._objects.observe(await self._client.patch_plain(self._resource, self._wanted, body, namespace=key))
        except StatusError as error:
            # Made by someone else meanwhile, or the namespace is going away. Any other refusal may pass.
            if error.code != 404 and error.reason != "AlreadyExists" and not namespace_terminating(error):
                raise
        return None


class ServiceAccountController(_PerNamespace):
    name = "serviceaccount-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, ServiceAccount, "default")

    def _body(self, known: Plain | None) -> Plain | None:
        return {"apiVersion": "v1", "kind": "ServiceAccount"} if known is None else None


class RootCertificateController(_PerNamespace):
    name = "root-ca-certificate-publisher-controller"

    def __init__(self, context: Context) -> None:
        self._certificate = context.root_ca
        super().__init__(context, ConfigMap, ROOT_CA)

    def _body(self, known: Plain | None) -> Plain | None:
        data: Plain = {"ca.crt": self._certificate}
        if known is not None:
            if known.get("data") == data and (known["metadata"].get("annotations") or {}).get(_DESCRIBED):
                return None
            data = {
                **dict.fromkeys(known.get("data") or ()),
                **data,
            }  # in a merge patch, None takes away what is not ours
        metadata = {"annotations": {_DESCRIBED: _DESCRIPTION}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
