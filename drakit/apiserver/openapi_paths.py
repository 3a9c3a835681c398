"""The paths of OpenAPI documents: which operations a kind has, with their parameters and bodies.

kubectl looks here whether PATCH knows dryRun and fieldValidation before it sends them.
"""

from __future__ import annotations

from drakit.api.kind import Kind
from drakit.apiserver.openapi_schemas import Schemas, list_model
from drakit.apiserver.stored import Plain

__all__ = ["paths"]

_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_TEXT, _FLAG, _NUMBER = "string", "boolean", "integer"
_PRETTY = ("pretty", _TEXT, "If 'true', the answer is indented.")
_DRY_RUN = ("dryRun", _TEXT, "'All' goes through every step of the write but stores nothing.")
_MANAGER = ("fieldManager", _TEXT, "The name of the actor that makes these changes; required for apply.")
_VALIDATION = (
    "fieldValidation",
    _TEXT,
    "What to do about unknown and duplicate fields: Ignore drops them, Warn (the default) says so in a Warning header, "
    "Strict refuses the request.",
)
_FORCE = ("force", _FLAG, "Take over fields that other managers own; for apply only.")
_DELETE = (
    _DRY_RUN,
    ("gracePeriodSeconds", _NUMBER, "Seconds before the object is deleted; 0 is at once."),
    ("orphanDependents", _FLAG, "Deprecated: use propagationPolicy."),
    ("propagationPolicy", _TEXT, "What happens to dependents: Orphan, Background or Foreground."),
)
_LIST = (
    ("allowWatchBookmarks", _FLAG, "Ask for BOOKMARK events while watching."),
    ("continue", _TEXT, "The token of the previous page."),
    ("fieldSelector", _TEXT, "Restricts the list by fields."),
    ("labelSelector", _TEXT, "Restricts the list by labels."),
    ("limit", _NUMBER, "The largest number of items in one answer."),
    ("resourceVersion", _TEXT, "The version to read from; see resourceVersionMatch."),
    ("resourceVersionMatch", _TEXT, "How resourceVersion is applied: Exact or NotOlderThan."),
    ("sendInitialEvents", _FLAG, "Begin a watch with the objects that exist."),
    ("timeoutSeconds", _NUMBER, "Ends the call after so many seconds."),
    ("watch", _FLAG, "Answer with a stream of changes instead of a list."),
)
_WRITE = (_DRY_RUN, _MANAGER, _VALIDATION)


def paths(kind: Kind, version: str, schemas: Schemas) -> Plain:
    """The path items of one kind in one version."""
    return _Paths(kind, version, schemas).items()


class _Paths:
    def __init__(self, kind: Kind, version: str, schemas: Schemas) -> None:
        self.kind, self.version, self.schemas = kind, version, schemas
        model = kind.models[version]
        module = model.__module__.rpartition(".")[2]
        self.object = schemas.ref(f"{module}.{model.__name__}")
        self.list = schemas.ref(list_model(model)) if "list" in kind.verbs else {}
        self.v3 = schemas.version == 3

    def items(self) -> Plain:
        kind = self.kind
        base = f"/apis/{kind.group}/{self.version}" if kind.group else f"/api/{self.version}"
        collection = f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{base}/{kind.plural}"
        found: Plain = {collection: self._collection()}
        if kind.namespaced and "list" in kind.verbs:
            found[f"{base}/{kind.plural}"] = {
                "get": self._list("ForAllNamespaces"),
                "parameters": [self._query(_PRETTY)],
            }
        if "get" in kind.verbs:
            found[f"{collection}/{{name}}"] = self._item()
            if "status" in kind.subresources:
                found[f"{collection}/{{name}}/status"] = self._item("status")
        return found

    def _collection(self) -> Plain:
        verbs = self.kind.verbs
        item: Plain = {}
        if "list" in verbs:
            item["get"] = self._list()
        if "create" in verbs:
            item["post"] = self._operation(
                "post", _WRITE, body=self.object, answers={"201": self.object, "200": self.object}
            )
        if "deletecollection" in verbs:
            options = self.schemas.ref("meta_v1.DeleteOptions")
            status = self.schemas.ref("meta_v1.Status")
            query = (*_DELETE, *_LIST[1:])
            item["delete"] = self._operation(
                "deletecollection", query, body=options, optional=True, answers={"200": status}
            )
        return {**item, "parameters": self._common(name=False)}

    def _item(self, subresource: str = "") -> Plain:
        verbs = self.kind.subresources[subresource] if subresource else self.kind.verbs
        item: Plain = {}
        if "get" in verbs:
            item["get"] = self._operation("get", (), answers={"200": self.object}, subresource=subresource)
        if "update" in verbs:
            answers = {"200": self.object, "201": self.object}
            item["put"] = self._operation("put", _WRITE, body=self.object, answers=answers, subresource=subresource)
        if "patch" in verbs:
            item["patch"] = self._patch(subresource)
        if "delete" in verbs and not subresource:
            options = self.schemas.ref("meta_v1.DeleteOptions")
            status = self.schemas.ref("meta_v1.Status")
            item["delete"] = self._operation("delete", _DELETE, body=options, optional=True, answers={"200": status})
        return {**item, "parameters": self._common(name=True)}

    def _list(self, suffix: str = "") -> Plain:
        return self._operation("list", _LIST, answers={"200": self.list}, suffix=suffix)

    def _patch(self, subresource: str) -> Plain:
        answers = {"200": self.object, "201": self.object}
        query = (_DRY_RUN, _MANAGER, _VALIDATION, _FORCE)
        body = self.schemas.named("patch")
        return self._operation(
            "patch", query, body=body, answers=answers, subresource=subresource, consumes=_PATCH_TYPES
        )

    def _operation(
        self,
        action: str,
        query: tuple[tuple[str, str, str], ...],
        *,
        answers: dict[str, Plain],
        body: Plain | None = None,
        optional: bool = False,
        subresource: str = "",
        suffix: str = "",
        consumes: tuple[str, ...] = ("application/json", "application/yaml"),
    ) -> Plain:
        parameters = [self._query(parameter) for parameter in query]
        operation: Plain = {"operationId": self._operation_id(action, subresource) + suffix}
        if not self.v3:
            operation |= {"consumes": list(consumes), "produces": ["application/json", "application/yaml"]}
        if body is not None:
            if self.v3:
                content = {media: {"schema": body} for media in consumes}
                operation["requestBody"] = {"content": content, "required": not optional}
            else:
                parameters = [{"in": "body", "name": "body", "required": not optional, "schema": body}, *parameters]
        operation["parameters"] = parameters
        operation["responses"] = {code: self._response(answer) for code, answer in answers.items()}
        operation["responses"]["401"] = {"description": "Unauthorized"}
        operation["x-kubernetes-action"] = action
        gvk = {"group": self.kind.group, "kind": self.kind.kind, "version": self.version}
        operation["x-kubernetes-group-version-kind"] = gvk
        return operation

    def _operation_id(self, action: str, subresource: str) -> str:
        group = self.kind.group.partition(".")[0].capitalize() or "Core"
        verb = {"post": "create", "get": "read", "put": "replace", "deletecollection": "deleteCollection"}.get(
            action, action
        )
        scope = "Namespaced" if self.kind.namespaced else ""
        return f"{verb}{group}{self.version.capitalize()}{scope}{self.kind.kind}{subresource.capitalize()}"

    def _response(self, answer: Plain) -> Plain:
        if self.v3:
            return {"description": "OK", "content": {"application/json": {"schema": answer}}}
        return {"description": "OK", "schema": answer}

    def _common(self, *, name: bool) -> list[Plain]:
        parameters = []
        if name:
            parameters.append(self._path("name", f"name of the {self.kind.kind}"))
        if self.kind.namespaced:
            parameters.append(self._path("namespace", "object name and auth scope, such as for teams and projects"))
        return [*parameters, self._query(_PRETTY)]

    def _path(self, name: str, description: str) -> Plain:
        return self._parameter(name, _TEXT, description, where="path") | {"required": True}

    def _query(self, parameter: tuple[str, str, str]) -> Plain:
        return self._parameter(*parameter, where="query")

    def _parameter(self, name: str, kind: str, description: str, *, where: str) -> Plain:
        common: Plain = {"name": name, "in": where, "description": description}
        shape = {"type": kind, "uniqueItems": True}
        return {**common, "schema": shape} if self.v3 else {**common, **shape}
