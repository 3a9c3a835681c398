"""What Kubernetes fills in for pods and pod templates (SetDefaults_* of core/v1). Changes the plain object in place."""

from __future__ import annotations

import functools
import re
from typing import Any

from drakit.api.kind import Object
from drakit.api.quantity import Quantity

__all__ = ["default_pod", "default_pod_template", "round_resources"]

_MODE_VOLUMES = ("secret", "configMap", "downwardAPI", "projected")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("postStart", "preStop")
_PROBE_NUMBERS = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
# Defaults of volume kinds that hardly anybody uses, but whose defaults are part of the stored object.
_VOLUME_DEFAULTS: dict[str, tuple[tuple[str, Any], ...]] = {
    "hostPath": (("type", ""),),
    "iscsi": (("iscsiInterface", "default"),),
    "rbd": (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")),
    "scaleIO": (("storageMode", "ThinProvisioned"), ("fsType", "xfs")),
    "azureDisk": (("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("readOnly", False), ("kind", "Shared")),
}


def default_pod(pod: Object) -> None:
    spec = pod.get("spec")
    if spec is None:
        return
    _default_spec(spec)
    grace = spec["terminationGracePeriodSeconds"]
    if grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in _containers(spec, "containers", "initContainers"):
        resources = container.get("resources")
        if resources and resources.get("limits"):
            requests = resources["requests"] = resources.get("requests") or {}
            for name, amount in resources["limits"].items():
                requests.setdefault(name, amount)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("hostNetwork"):
        for container in _containers(spec, "containers", "initContainers"):
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)
    status = pod.get("status")
    if status:
        _default_status(status)


def default_pod_template(owner: Object) -> None:
    """The template in the spec of a Deployment, Job and the like."""
    template = (owner.get("spec") or {}).get("template")
    if template is not None and template.get("spec") is not None:
        _default_spec(template["spec"])


def round_resources(amounts: Object | None) -> None:
    """Amounts finer than a thousandth are rounded up, as Kubernetes keeps them."""
    if not amounts:
        return
    for name, amount in amounts.items():
        if isinstance(amount, str) and amount.endswith(("n", "u")):
            amounts[name] = str(Quantity.milli(Quantity.parse(amount).milli_value()))


def _containers(spec: Object, *names: str) -> list[Object]:
    return [container for name in names for container in spec.get(name) or ()]


def _default_status(status: Object) -> None:
    ip, ips = status.get("podIP"), status.get("podIPs")
    if ip and (not ips or ips[0].get("ip") != ip):
        status["podIPs"] = [{"ip": ip}]
    elif ips and not ip:
        status["podIP"] = ips[0].get("ip", "")


def _default_spec(spec: Object) -> None:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    for container in _containers(spec, "containers", "initContainers", "ephemeralContainers"):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    if spec.get("overhead"):
        round_resources(spec["overhead"])
    if spec.get("resources"):
        round_resources(spec["resources"].get("limits"))
        round_resources(spec["resources"].get("requests"))


def _default_container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.get("resources")
    if resources:
        round_resources(resources.get("limits"))
        round_resources(resources.get("requests"))
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom")
        if source:
            _default_field_ref(source)
            if source.get("fileKeyRef") and source["fileKeyRef"].get("optional") is None:
                source["fileKeyRef"]["optional"] = False
    for name in _PROBES:
        if container.get(name) is not None:
            _default_probe(container[name])
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for name in _HANDLERS:
            _default_http(lifecycle.get(name) or {})


def _default_probe(probe: Object) -> None:
    for name, number in _PROBE_NUMBERS:
        if not probe.get(name):
            probe[name] = number
    _default_http(probe)
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http(handler: Object) -> None:
    action = handler.get("httpGet")
    if action is not None:
        if not action.get("path"):
            action["path"] = "/"
        if not action.get("scheme"):
            action["scheme"] = "HTTP"


def _default_field_ref(holder: Object) -> None:
    ref = holder.get("fieldRef")
    if ref is not None and not ref.get("apiVersion"):
        ref["apiVersion"] = "v1"


def _default_volume(volume: Object) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
        return
    for name in _MODE_VOLUMES:
        source = volume.get(name)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = 420
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_field_ref(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
        certificate = source.get("podCertificate")
        if certificate is not None and certificate.get("maxExpirationSeconds") is None:
            certificate["maxExpirationSeconds"] = 86400
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _default_field_ref(item)
    for name, fields in _VOLUME_DEFAULTS.items():
        source = volume.get(name)
        if source is not None:
            for field, value in fields:
                if source.get(field) is None or (value and source[field] == ""):
                    source[field] = value
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference") or "")
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if claim and claim.get("spec") is not None and not claim["spec"].get("volumeMode"):
        claim["spec"]["volumeMode"] = "Filesystem"


_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = "(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)"
_IMAGE = re.compile(
    rf"(?:(?:{_HOST}(?:\.{_HOST})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?{_COMPONENT}(?:/{_COMPONENT})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
).fullmatch


@functools.lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """Always for the tag latest, which an image without tag and digest has; a name that cannot be read has no tag."""
    match = _IMAGE(image)
    if match is None:
        return "IfNotPresent"
    return "Always" if (match["tag"] or ("" if match["digest"] else "latest")) == "latest" else "IfNotPresent"
