"""What is wrong with the volumes of a pod. The kinds that people write by hand are checked inside, the rest by count."""

from __future__ import annotations

from collections.abc import Callable

from drakit.api import selector_validation
from drakit.api.errors import Errors, FieldError
from drakit.api.kind import Object
from drakit.api.kinds import checks
from drakit.api.kinds.container_validation import descending_path

__all__ = ["validate_claim_spec", "validate_volumes"]

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


# The order in which Kubernetes looks: the first source found is the volume's, the others are too many.
_ORDER = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)


def validate_volumes(volumes: list[Object] | None, path: str) -> tuple[frozenset[str], Errors]:
    """The names of the good volumes (a mount of a bad one is reported as well, as in Kubernetes), and the errors."""
    errors: Errors = []
    names: set[str] = set()
    for position, volume in enumerate(volumes or ()):
        at = f"{path}[{position}]"
        name = volume.get("name") or ""
        found = _source(volume, at)
        if not name:
            found.append(FieldError.required(f"{at}.name"))
        else:
            found += checks.dns_label(name, f"{at}.name")
        if name in names:
            found.append(FieldError.duplicate(f"{at}.name", name))
        if found:
            errors += found
        else:
            names.add(name)
    return frozenset(names), errors


def _source(volume: Object, at: str) -> Errors:
    given = [name for name in _ORDER if volume.get(name) is not None]
    if not given:
        return [FieldError.required(at, "must specify a volume type")]
    errors = [FieldError.forbidden(f"{at}.{name}", "may not specify more than 1 volume type") for name in given[1:]]
    check = _CHECKS.get(given[0])
    if check is not None:
        errors = check(volume[given[0]], f"{at}.{given[0]}") + errors
    return errors


def _empty_dir(source: Object, at: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and checks.quantity(limit).sign < 0:
        return [FieldError.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")]
    return []


def _host_path(source: Object, at: str) -> Errors:
    path = source.get("path") or ""
    if not path:
        return [FieldError.required(f"{at}.path")]
    errors: Errors = []
    if ".." in path.split("/"):
        errors.append(FieldError.invalid(f"{at}.path", path, "must not contain '..'"))
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(FieldError.not_supported(f"{at}.type", kind, _HOST_PATH_TYPES))
    return errors


def _mode(source: Object, at: str, name: str = "defaultMode") -> Errors:
    mode = source.get(name)
    if mode is not None and not 0 <= mode <= 0o777:
        return [FieldError.invalid(f"{at}.{name}", mode, checks.FILE_MODE_TEXT)]
    return []


def _items(source: Object, at: str) -> Errors:
    errors: Errors = []
    for position, item in enumerate(source.get("items") or ()):
        here = f"{at}.items[{position}]"
        if not item.get("key"):
            errors.append(FieldError.required(f"{here}.key"))
        if not item.get("path"):
            errors.append(FieldError.required(f"{here}.path"))
        else:
            errors += descending_path(item["path"], f"{here}.path")
        errors += _mode(item, here, "mode")
    return errors


def _secret(source: Object, at: str) -> Errors:
    errors: Errors = [] if source.get("secretName") else [FieldError.required(f"{at}.secretName")]
    return errors + _mode(source, at) + _items(source, at)


def _config_map(source: Object, at: str) -> Errors:
    errors: Errors = [] if source.get("name") else [FieldError.required(f"{at}.name")]
    return errors + _mode(source, at) + _items(source, at)


def _downward_api(source: Object, at: str) -> Errors:
    errors = _mode(source, at)
    for position, item in enumerate(source.get("items") or ()):
        here = f"{at}.items[{position}]"
        if not item.get("path"):
            errors.append(FieldError.required(f"{here}.path"))
        else:
            errors += descending_path(item["path"], f"{here}.path")
        if item.get("fieldRef") is None and item.get("resourceFieldRef") is None:
            errors.append(FieldError.required(at, "one of fieldRef and resourceFieldRef is required"))
    return errors


def _projected(source: Object, at: str) -> Errors:
    errors = _mode(source, at)
    for position, part in enumerate(source.get("sources") or ()):
        here = f"{at}.sources[{position}]"
        given = [name for name, value in part.items() if value is not None]
        for name in given[1:]:
            errors.append(FieldError.forbidden(f"{here}.{name}", "may not specify more than 1 volume type per source"))
        token = part.get("serviceAccountToken")
        if token is not None:
            seconds = token.get("expirationSeconds")
            if seconds is not None and seconds < 600:
                text = "may not specify a duration less than 10 minutes"
                errors.append(FieldError.invalid(f"{here}.serviceAccountToken.expirationSeconds", seconds, text))
            if not token.get("path"):
                errors.append(FieldError.required(f"{here}.serviceAccountToken.path"))
    return errors


def _claim(source: Object, at: str) -> Errors:
    return [] if source.get("claimName") else [FieldError.required(f"{at}.claimName")]


_CHECKS: dict[str, Callable[[Object, str], Errors]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "configMap": _config_map,
    "downwardAPI": _downward_api,
    "projected": _projected,
    "persistentVolumeClaim": _claim,
}

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def validate_claim_spec(spec: Object, path: str) -> Errors:
    """What every claim must say: how it is used, and how much it asks for."""
    modes = spec.get("accessModes") or ()
    errors = [] if modes else [FieldError.required(f"{path}.accessModes", "at least 1 access mode is required")]
    errors += selector_validation.label_selector(spec.get("selector"), f"{path}.selector")
    errors += [
        FieldError.not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
        for mode in modes
        if mode not in _ACCESS_MODES
    ]
    if "ReadWriteOncePod" in modes and set(modes) & set(_ACCESS_MODES[:3]):
        text = "may not use ReadWriteOncePod with other access modes"
        errors.append(FieldError.forbidden(f"{path}.accessModes", text))
    amount = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    at = f"{path}.resources[storage]"
    if amount is None:
        errors.append(FieldError.required(at))
    elif checks.quantity(amount).sign <= 0:
        errors.append(FieldError.invalid(at, str(checks.quantity(amount)), "must be greater than zero"))
    if spec.get("storageClassName"):
        errors += checks.subdomain(spec["storageClassName"], f"{path}.storageClassName")
    if spec.get("volumeMode") not in (None, "Block", "Filesystem"):
        errors.append(FieldError.not_supported(f"{path}.volumeMode", spec["volumeMode"], ("Block", "Filesystem")))
    return errors
