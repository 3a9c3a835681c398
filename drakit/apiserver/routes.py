"""From a path to a resource: `/apis/G/V/namespaces/NS/plural/name/subresource`, and which methods it takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from drakit.api.errors import StatusError
from drakit.api.registry import Kind, Version

__all__ = ["Route", "Routes", "verb_of"]

_ITEM_VERBS = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "POST": "create", "DELETE": "deletecollection"}
_SUBRESOURCE_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


class Route(NamedTuple):
    kind: Kind
    version: Version
    namespace: str
    name: str
    subresource: str
    rest: str = ""  # what follows the subresource: a proxied path


class Routes:
    """The resources that this server offers, by group, version and plural."""

    def __init__(self, kinds: Iterable[tuple[Kind, tuple[Version, ...]]]) -> None:
        self._resources: dict[tuple[str, str, str], tuple[Kind, Version]] = {}
        self.groups: set[str] = set()
        for kind, versions in kinds:
            self.groups.add(kind.group)
            for version in versions:
                self._resources[kind.group, version.name, kind.plural] = (kind, version)

    def resource(self, group: str, version: str, plural: str) -> tuple[Kind, Version]:
        found = self._resources.get((group, version, plural))
        if found is None:
            raise StatusError.no_such_path()
        return found

    def parse(self, path: str) -> Route | None:
        """None when the path is not one of a resource of a group that we have; StatusError 404 when it ought to be."""
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        if group not in self.groups or (parts[0] == "apis" and not group):
            return None
        namespace = ""
        # /namespaces/NS/status and /finalize belong to the namespace itself.
        if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
            namespace, rest = rest[1], rest[2:]
        kind, served = self.resource(group, version, rest[0])
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if bool(namespace) != kind.namespaced and not (kind.namespaced and not name):
            raise StatusError.no_such_path()
        if (len(rest) > 1 and not name) or (subresource and subresource not in kind.subresources):
            raise StatusError.no_such_path()
        if len(rest) > 3 and subresource != "proxy":
            raise StatusError.no_such_path()
        return Route(kind, served, namespace, name, subresource, "/".join(rest[3:]))


def requested(method: str, path: str) -> dict[str, str] | None:
    """What a path asks for by its form alone, whether or not we have it: verb, group, version, resource, … None for other paths.

    Rights come before existence: whoever may not look does not learn what there is."""
    parts = [part for part in path.split("/") if part]
    if len(parts) < 3 or parts[0] not in ("api", "apis") or (parts[0] == "apis" and len(parts) < 4):
        return None
    group, parts = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    version, parts, namespace = parts[0], parts[1:], ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in ("status", "finalize"):
            parts = parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    verbs = _ITEM_VERBS | {"POST": "create"} if name else _COLLECTION_VERBS | {"PUT": "update", "PATCH": "patch"}
    asked = {"verb": verbs.get(method, ""), "group": group, "version": version, "resource": resource}
    return {**asked, "namespace": namespace, "name": name, "subresource": subresource}


def verb_of(method: str, route: Route, *, watch: bool) -> str:
    """The API verb of a request; StatusError 405 when the resource does not take the method."""
    kind = route.kind
    if route.subresource:
        verb = _SUBRESOURCE_VERBS.get(method)
        if verb not in kind.subresources[route.subresource]:
            raise not_allowed()
        return verb or ""
    if route.name:
        verb = _ITEM_VERBS.get(method)
    else:
        verb = _COLLECTION_VERBS.get(method)
        if verb != "list" and kind.namespaced and not route.namespace:
            raise not_allowed()  # across namespaces one can only look
        if verb == "list" and watch:
            verb = "watch"
    if verb not in kind.verbs:
        raise not_allowed()
    return verb or ""


def not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
