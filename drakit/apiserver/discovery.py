"""What the server offers: groups, versions, resources; one by one (/api/v1, /apis/G/V) or all at once (aggregated).

Pure: made from the kinds and versions that are served. A document is built when first asked for and kept as bytes with its
ETag, since clients ask again and again.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence

import yaml

from drakit.api.errors import StatusError
from drakit.api.kind import Kind, Version
from drakit.apiserver.stored import Plain

__all__ = ["Answer", "Discovery", "storage_version_hash"]

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_JSON, _YAML = "application/json", "application/yaml"
_NOT_ACCEPTABLE = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
# Where Kubernetes 1.37 stores another version than we do: the hash is the one that its clients know.
_STORED_UPSTREAM = {
    ("resource.k8s.io", "DeviceTaintRule"): "v1beta2",
}
# What a subresource takes or gives where that is not the kind itself: (group, version, kind).
_SUBRESOURCE_KINDS = {
    "attach": ("", "", "PodAttachOptions"),
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "", "PodExecOptions"),
    "portforward": ("", "", "PodPortForwardOptions"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class Discovery:
    def __init__(self, served: Sequence[tuple[Kind, tuple[Version, ...]]]) -> None:
        self._served = served
        self._cache: dict[tuple[str, str], Answer] = {}

    def handles(self, path: str) -> bool:
        """Whether the path is one of discovery: /api, /apis and what stands right below them."""
        return self._document(path.rstrip("/"), "") is not None

    def any_method(self, path: str) -> bool:
        """The lists of groups and versions answer whatever the method is; those of resources only GET."""
        path = path.rstrip("/")
        return path in ("/api", "/apis") or (path.count("/") == 2 and path.startswith("/apis/"))

    def handle(self, path: str, accept: str = "", if_none_match: str = "") -> Answer | None:
        """The answer to GET path; None when discovery knows no such path. Raises StatusError (406, 404)."""
        path = path.rstrip("/")
        if path not in ("/api", "/apis") and self._document(path, "") is None:
            return None
        form = _form(accept, aggregated=path in ("/api", "/apis"))
        answer = self._cache.get((path, form))
        if answer is None:
            answer = self._cache[path, form] = _encoded(self._document(path, form), form)
        if if_none_match and if_none_match == answer.headers.get("ETag"):
            return Answer(304, answer.content_type, b"", answer.headers)
        return answer

    # -- documents -----------------------------------------------------------------------------------------------

    def _document(self, path: str, form: str) -> Plain | None:
        parts = path.split("/")[1:]
        match parts:
            case ["api"]:
                return self._aggregated(core=True) if form == _AGGREGATED else self._api_versions()
            case ["apis"]:
                return self._aggregated(core=False) if form == _AGGREGATED else self._group_list()
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["apis", group, version] if group in self._groups():
                return self._resource_list(group, version)
        return None

    def _groups(self) -> list[str]:
        return [group for group in dict.fromkeys(kind.group for kind, _ in self._served) if group]

    def _versions(self, group: str) -> list[str]:
        names = {version.name for kind, versions in self._served if kind.group == group for version in versions}
        return sorted(names, key=_version_order)

    @staticmethod
    def _api_versions() -> Plain:
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}

    def _group_list(self) -> Plain:
        groups = [self._group(group) for group in self._groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, group: str) -> Plain:
        versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in self._versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _kinds(self, group: str, version: str) -> list[Kind]:
        found = [
            kind
            for kind, versions in self._served
            if kind.group == group and any(served.name == version for served in versions)
        ]
        return sorted(found, key=lambda kind: kind.plural)

    def _resource_list(self, group: str, version: str) -> Plain | None:
        kinds = self._kinds(group, version)
        if not kinds:
            return None
        document: Plain = {"kind": "APIResourceList"}
        if group:
            document["apiVersion"] = "v1"
        document["groupVersion"] = f"{group}/{version}" if group else version
        document["resources"] = [entry for kind in kinds for entry in _resources(kind)]
        return document

    def _aggregated(self, *, core: bool) -> Plain:
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_resource(kind) for kind in self._kinds(group, version)],
                        "freshness": "Current",
                    }
                    for version in self._versions(group)
                ],
            }
            for group in ([""] if core else self._groups())
        ]
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def storage_version_hash(kind: Kind) -> str:
    """Tells clients when the stored version of a resource has changed; Kubernetes' own hash of group, version and kind."""
    stored = kind.stored_as or kind
    version = _STORED_UPSTREAM.get((stored.group, stored.kind), stored.storage_version)
    text = f"{stored.group}/{version}/{stored.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _resources(kind: Kind) -> list[Plain]:
    entry: Plain = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "list" in kind.verbs:
        entry["storageVersionHash"] = storage_version_hash(kind)
    entries = [entry]
    for name, verbs in sorted(kind.subresources.items()):
        group, version, gives = _subresource_kind(kind, name)
        part: Plain = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if group:
            part |= {"group": group, "version": version}
        entries.append({**part, "kind": gives, "verbs": sorted(verbs)})
    return entries


def _subresource_kind(kind: Kind, name: str) -> tuple[str, str, str]:
    if name == "proxy":
        return "", "", f"{kind.kind}ProxyOptions"
    return _SUBRESOURCE_KINDS.get(name, ("", "", kind.kind))


def _aggregated_resource(kind: Kind) -> Plain:
    entry: Plain = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    parts = []
    for name, verbs in sorted(kind.subresources.items()):
        group, version, gives = _subresource_kind(kind, name)
        response = {"group": group, "version": version, "kind": gives}
        parts.append({"subresource": name, "responseKind": response, "verbs": sorted(verbs)})
    if parts:
        entry["subresources"] = parts
    return entry


def _version_order(name: str) -> tuple[int, int, int]:
    """v2 before v1 before v1beta2 before v1beta1 before v1alpha3."""
    for rank, word in enumerate(("alpha", "beta")):
        if word in name:
            major, _, minor = name[1:].partition(word)
            return (2 - rank, -int(major), -int(minor or 0))
    return (0, -int(name[1:]), 0)


def _form(accept: str, *, aggregated: bool) -> str:
    """The media type of the answer: clauses of the Accept header are tried in order."""
    if not accept:
        return _JSON
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters if part)
        wants = given.get("as")
        if media in (_JSON, "*/*", "application/*", "application/vnd.kubernetes.protobuf") and not wants:
            return _JSON
        if media == _YAML and not wants:
            return _YAML
        known = given.get("g") == "apidiscovery.k8s.io" and given.get("v") == "v2"
        if media == _JSON and wants == "APIGroupDiscoveryList" and known and aggregated:
            return _AGGREGATED
    raise StatusError(406, "NotAcceptable", _NOT_ACCEPTABLE)


def _encoded(document: Plain | None, form: str) -> Answer:
    if form == _YAML:
        body = yaml.safe_dump(document, sort_keys=False).encode()
    else:
        body = json.dumps(document, separators=(",", ":")).encode() + b"\n"
    headers = {"Vary": "Accept"}
    if form == _AGGREGATED:
        headers["ETag"] = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    return Answer(200, form, body, headers)
