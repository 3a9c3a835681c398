"""metadata: names, labels, annotations, owners, finalizers, and what an update may not change. The same for every kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from drakit.api import formats
from drakit.api.errors import FieldError, go_json
from drakit.api.kind import Object

__all__ = [
    "restrict_to_status",
    "same_content",
    "status_only",
    "validate",
    "validate_annotations",
    "validate_conditions",
    "validate_kube_finalizer",
    "validate_labels",
    "validate_path_segment",
    "validate_template",
    "validate_update",
    "without_repeated_owners",
]

NameCheck = Callable[[str, bool], Sequence[str]]

_MAX_ANNOTATIONS = 256 * 1024
_MAX_MANAGER = 128
_ENOUGH = 1000  # errors in one map; more help nobody
_IMMUTABLE = "field is immutable"
_NEGATIVE = "must be greater than or equal to 0"


def validate(
    meta: Object, *, namespaced: bool, name: NameCheck | None, path: str = "metadata", known_finalizers: bool = True
) -> list[FieldError]:
    """What is wrong with metadata in itself. `name` checks object names; None accepts any segment of a path."""
    errors: list[FieldError] = []
    check = name or formats.path_segment
    generate = meta.get("generateName")
    if generate:
        errors += [FieldError.invalid(f"{path}.generateName", generate, text) for text in check(generate, True)]
    own = meta.get("name")
    if own:
        errors += [FieldError.invalid(f"{path}.name", own, text) for text in check(own, False)]
    else:
        errors.append(FieldError.required(f"{path}.name", "name or generateName is required"))
    errors += _validate_namespace(meta.get("namespace"), namespaced, f"{path}.namespace")
    if (meta.get("generation") or 0) < 0:
        errors.append(FieldError.invalid(f"{path}.generation", meta["generation"], _NEGATIVE))
    errors += _validate_content(meta, path, finalizers=True)
    if known_finalizers:
        for position, finalizer in enumerate(meta.get("finalizers") or ()):
            errors += validate_kube_finalizer(finalizer, f"{path}.finalizers[{position}]")
    return errors


def same_content(new: Object, old: Object) -> bool:
    """Whether all that `validate` looks at is as it was: then it was found good when the old object was stored."""
    get = new.get
    for name in _CONTENT:
        value, before = get(name), old.get(name)
        if value is not before and value != before:
            return False
    return "managedFields" not in new


_CONTENT = (
    "name",
    "generateName",
    "namespace",
    "generation",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)


def _validate_namespace(namespace: str | None, namespaced: bool, path: str) -> list[FieldError]:
    if not namespaced:
        return [FieldError.forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [FieldError.required(path)]
    return [FieldError.invalid(path, namespace, text) for text in formats.dns_label(namespace)]


def _validate_content(meta: Object, path: str, *, finalizers: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if meta.get("labels"):
        errors += validate_labels(meta["labels"], f"{path}.labels")
    if meta.get("annotations"):
        errors += validate_annotations(meta["annotations"], f"{path}.annotations")
    if meta.get("ownerReferences"):
        errors += _validate_owners(meta["ownerReferences"], f"{path}.ownerReferences")
    if finalizers and meta.get("finalizers"):
        errors += _validate_finalizers(meta["finalizers"], f"{path}.finalizers")
    if meta.get("managedFields"):
        errors += _validate_managed_fields(meta["managedFields"], f"{path}.managedFields")
    return errors


def validate_labels(labels: dict[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        if len(errors) > _ENOUGH:
            break
        errors += [FieldError.invalid(path, key, text) for text in formats.label_key(key)]
        errors += [FieldError.invalid(path, value, text) for text in formats.label_value(value)]
    return errors


def validate_annotations(annotations: dict[str, str], path: str) -> list[FieldError]:
    bad = (FieldError.invalid(path, key, text) for key in annotations for text in formats.label_key(key.lower()))
    errors = list(islice(bad, _ENOUGH))
    if sum(formats.length(key) + formats.length(value) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        errors.append(FieldError.too_long(path, _MAX_ANNOTATIONS))
    return errors


def _validate_owners(owners: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for position, owner in enumerate(owners):
        errors += _validate_owner(owner, f"{path}[{position}]")
        if not owner.get("controller"):
            continue
        name = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller:
            detail = 'Only one reference can have Controller set to true. Found "true" in references for '
            errors.append(FieldError.invalid(path, _ordered_owners(owners), f"{detail}{controller} and {name}"))
        else:
            controller = name
    return errors


def without_repeated_owners(meta: Object) -> list[str]:
    """Takes owners that are named twice, word for word, out of metadata; returns the warning that Kubernetes gives."""
    owners = meta.get("ownerReferences") or []
    if len(owners) < 2:
        return []
    kept: list[Object] = []
    repeated: list[str] = []
    seen: dict[str, list[Object]] = {}
    for owner in owners:
        alike = seen.setdefault(owner.get("uid") or "", [])
        if owner in alike:
            repeated.append(owner.get("uid") or "")
            continue
        alike.append(owner)
        kept.append(owner)
    if not repeated:
        return []
    meta["ownerReferences"] = kept
    return [
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
        "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(dict.fromkeys(repeated))
    ]


def _ordered_owners(owners: list[Object]) -> list[Object]:
    names = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return [{name: owner[name] for name in names if name in owner} for owner in owners]


def _validate_owner(owner: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    version = owner.get("apiVersion") or ""
    if not version:
        errors.append(FieldError.required(f"{path}.apiVersion", "must not be empty"))
    elif version.count("/") > 1 or not version.rpartition("/")[2]:
        errors.append(FieldError.invalid(f"{path}.apiVersion", version, "must be <group>/<version> or <version>"))
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            errors.append(FieldError.required(f"{path}.{name}", "must not be empty"))
    if version == "v1" and owner.get("kind") == "Event":
        errors.append(
            FieldError.invalid(path, _ordered_owners([owner])[0], "/v1, Kind=Event is disallowed from being an owner")
        )
    return errors


def _validate_finalizers(finalizers: list[str], path: str) -> list[FieldError]:
    errors = [FieldError.invalid(path, name, text) for name in finalizers for text in formats.label_key(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(FieldError.invalid(path, finalizers, detail))
    return errors


def validate_kube_finalizer(name: str, path: str) -> list[FieldError]:
    """Finalizers without a domain are Kubernetes' own."""
    if "/" in name or name in ("kubernetes", "orphan", "foregroundDeletion"):
        return []
    return [FieldError.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")]


def _validate_managed_fields(entries: list[Object], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, entry in enumerate(entries):
        here = f"{path}[{position}]"
        operation = entry.get("operation") or ""
        if not operation:
            errors.append(FieldError.required(f"{here}.operation", "must not be empty"))
        elif operation not in ("Apply", "Update"):
            errors.append(FieldError.not_supported(f"{here}.operation", operation, ("Apply", "Update")))
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            errors.append(FieldError.invalid(f"{here}.fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager") or "", f"{here}.manager")
        if formats.length(entry.get("subresource") or "") > 256:
            errors.append(FieldError.too_long(f"{here}.subresource", 256))
    return errors


def validate_field_manager(manager: str, path: str = "fieldManager") -> list[FieldError]:
    errors = [FieldError.too_long(path, _MAX_MANAGER)] if formats.length(manager) > _MAX_MANAGER else []
    position = 0
    for char in manager:
        if not char.isprintable():
            detail = f"invalid character U+{ord(char):04X} (at position {position})"
            errors.append(FieldError.invalid(path, manager, detail))
        position += formats.length(char)
    return errors


def validate_path_segment(meta: Object) -> list[FieldError]:
    name = meta.get("name") or ""
    return [FieldError.invalid("metadata.name", name, text) for text in formats.path_segment(name)]


def validate_template(meta: Object, path: str) -> list[FieldError]:
    """metadata of a template: labels and annotations, nothing else."""
    errors: list[FieldError] = []
    if meta.get("annotations"):
        errors += validate_annotations(meta["annotations"], f"{path}.annotations")
    if meta.get("labels"):
        errors += validate_labels(meta["labels"], f"{path}.labels")
    # Go walks the fields of its struct and makes their paths from the names it finds there: UID becomes uID.
    errors += [
        FieldError.forbidden(f"{path}.{'uID' if name == 'uid' else name}", "cannot be set")
        for name in _TEMPLATE_FORBIDDEN
        if meta.get(name) not in (None, "", 0, [], {})
    ]
    return errors


_TEMPLATE_FORBIDDEN = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


def validate_update(
    new: Object, old: Object, path: str = "metadata", *, content_checked: bool = False
) -> list[FieldError]:
    """What an update may not do to metadata."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            listed = "[]string{" + ", ".join(go_json(name) for name in added) + "}"
            detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
            errors.append(FieldError.forbidden(f"{path}.finalizers", detail))
    if not new.get("resourceVersion"):
        errors.append(FieldError.invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    if (new.get("generation") or 0) < (old.get("generation") or 0):
        errors.append(FieldError.invalid(f"{path}.generation", new.get("generation") or 0, "must not be decremented"))
    for name in ("name", "namespace", "uid"):
        if (new.get(name) or "") != (old.get(name) or ""):
            errors.append(FieldError.invalid(f"{path}.{name}", new.get(name) or "", _IMMUTABLE))
    for name in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(name) != old.get(name):
            errors.append(FieldError.invalid(f"{path}.{name}", new.get(name), _IMMUTABLE))
    return errors if content_checked else errors + _validate_content(new, path, finalizers=False)


def status_only(new: Object, old: Object) -> Object:
    """old with the status of new: what a write to the status subresource means. managedFields are new's."""
    meta = {name: value for name, value in new["metadata"].items() if name not in _STATUS_KEEPS}
    meta.update((name, old["metadata"][name]) for name in _STATUS_KEEPS if name in old["metadata"])
    result = {**old, "metadata": meta}
    if "status" in new:
        result["status"] = new["status"]
    else:
        result.pop("status", None)
    return result


def restrict_to_status(new: Object, old: Object) -> None:
    """The same in place: all that remains of new is its status (and managedFields)."""
    result = status_only(new, old)
    new.clear()
    new.update(result)


_STATUS_KEEPS = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def validate_conditions(conditions: list[Object], path: str) -> list[FieldError]:
    """A list of metav1.Condition."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, condition in enumerate(conditions):
        here = f"{path}[{position}]"
        kind = condition.get("type") or ""
        if kind in seen:
            errors.append(FieldError.duplicate(here, kind))
        seen.add(kind)
        errors += _validate_condition(condition, here)
    return errors


def _validate_condition(condition: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, status, reason = (condition.get(name) or "" for name in ("type", "status", "reason"))
    if not kind:
        errors.append(FieldError.required(f"{path}.type", "is required"))
    else:
        errors += [FieldError.invalid(f"{path}.type", kind, text) for text in formats.label_key(kind)]
    if not status:
        errors.append(FieldError.required(f"{path}.status"))
    elif status not in ("False", "True", "Unknown"):
        errors.append(FieldError.not_supported(f"{path}.status", status, ("False", "True", "Unknown")))
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        errors.append(
            FieldError.invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero")
        )
    if not condition.get("lastTransitionTime"):
        errors.append(FieldError.required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(FieldError.required(f"{path}.reason"))
    else:
        errors += [FieldError.invalid(f"{path}.reason", reason, text) for text in formats.condition_reason(reason)]
        if formats.length(reason) > 1024:
            errors.append(FieldError.too_long(f"{path}.reason", 1024))
    if formats.length(condition.get("message") or "") > 32 * 1024:
        errors.append(FieldError.too_long(f"{path}.message", 32 * 1024))
    return errors
