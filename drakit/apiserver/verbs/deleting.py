"""delete and deletecollection: preconditions, grace, finalizers, propagation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from drakit.api.errors import FieldError, StatusError
from drakit.api.times import timestamp
from drakit.apiserver.call import Answer, Call, Listing, check_dry_run
from drakit.apiserver.context import Context, admission_attributes
from drakit.apiserver.selection import parse_selection
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs.decoding import read_value
from drakit.apiserver.verbs.writing import ready_to_go

__all__ = ["DeleteOptions", "check_preconditions", "delete", "delete_collection", "delete_stored", "read_options"]

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_LONGEST_GRACE = 100 * 365 * 24 * 3600  # beyond that the calendar ends
ORPHANS = "Orphan"
_POLICIES = ("Foreground", "Background", ORPHANS)
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    grace: int | None = None
    policy: str = ""  # Foreground Background Orphan
    uid: str = ""
    version: str = ""  # resourceVersion precondition
    dry_run: bool = False


def read_options(call: Call) -> DeleteOptions:
    """From the body if there is one, else from the query."""
    raw: Plain = {}
    if call.has_body():
        value, _ = read_value(call, "DeleteOptions")
        if value is not None and not isinstance(value, dict):
            raise StatusError.bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
        raw = value or {}
        if raw.get("kind") not in (None, "", "DeleteOptions"):
            text = f'"{raw.get("kind")}" is not a DeleteOptions: a DELETE takes no other body'
            raise StatusError.bad_request(text)
    elif call.query:
        raw = _query_options(call.query)
    return _checked(raw)


def _query_options(query: Mapping[str, Any]) -> Plain:
    raw: Plain = {}
    if found := query.get("gracePeriodSeconds"):
        try:
            raw["gracePeriodSeconds"] = int(found[0])
        except ValueError:
            raise StatusError.bad_request(f'strconv.ParseInt: parsing "{found[0]}": invalid syntax') from None
    if found := query.get("propagationPolicy"):
        raw["propagationPolicy"] = found[0]
    if found := query.get("orphanDependents"):
        raw["orphanDependents"] = found[0].lower() not in ("false", "0")
    if found := query.get("dryRun"):
        raw["dryRun"] = list(found)
    return raw


def _checked(raw: Plain) -> DeleteOptions:
    errors: list[FieldError] = []
    policy, orphan = raw.get("propagationPolicy"), raw.get("orphanDependents")
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(FieldError.invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in _POLICIES:
        errors.append(FieldError.not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    dry = raw.get("dryRun")
    dry_run = check_dry_run(dry if isinstance(dry, list) else None, errors)
    if errors:
        raise StatusError.invalid("meta.k8s.io", "DeleteOptions", "", errors)
    grace = raw.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise StatusError.bad_request("DeleteOptions.gracePeriodSeconds must be an integer")
    if grace is not None:
        grace = min(grace, _LONGEST_GRACE)
    conditions = raw.get("preconditions") or {}
    if not isinstance(conditions, dict):
        raise StatusError.bad_request("DeleteOptions.preconditions must be an object")
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        grace, policy or "", str(conditions.get("uid") or ""), str(conditions.get("resourceVersion") or ""), dry_run
    )


def _warn_of_orphans(call: Call, options: DeleteOptions) -> None:
    if call.kind.default_propagation == ORPHANS and not options.policy:
        call.warnings.append(_PODS_STAY)


def delete(ctx: Context, call: Call) -> Answer:
    options = read_options(call)
    _warn_of_orphans(call, options)
    if call.name in call.kind.undeletable:
        raise StatusError.forbidden(call.kind.group, call.kind.plural, call.name, call.kind.undeletable[call.name])
    stored = ctx.collection(call.kind).objects.get(call.key)
    if stored is None:
        raise call.not_found()
    return delete_stored(ctx, call, stored, options)


def delete_stored(ctx: Context, call: Call, stored: Stored, options: DeleteOptions) -> Answer:
    check_preconditions(call, stored, options)
    dry_run = options.dry_run or "All" in call.query.get("dryRun", ())
    attributes = admission_attributes(call, "DELETE", None, stored.obj, dry_run=dry_run)
    ctx.admit(attributes)
    ctx.validate(attributes)
    marked = _marked(ctx, call, stored, options)
    collection = ctx.collection(call.kind)
    if marked is None:  # already on its way, nothing new
        return Answer(200, stored=stored, version=stored.version)
    # An object without grace and finalizers goes as it was: no mark in the final state.
    gone = ready_to_go(marked)
    final = stored.obj if gone and not _graceful(stored) else marked
    if dry_run:
        return _answer(call, Stored(stored.kind, stored.key, final, stored.version), gone=gone)
    if not gone:
        if marked == stored.obj:
            return Answer(200, stored=stored, version=stored.version)
        new = ctx.store.put(collection, stored.key, marked, stored)
        return Answer(200, stored=new, version=new.version)
    return _answer(call, ctx.store.remove(collection, stored, final), gone=True)


def _answer(call: Call, stored: Stored, *, gone: bool) -> Answer:
    kind = call.kind
    if gone and call.version in kind.delete_returns_status:
        details = {"name": call.name, "group": kind.group, "kind": kind.plural, "uid": stored.obj["metadata"]["uid"]}
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {name: value for name, value in details.items() if value},
        }
        return Answer(200, value=status, version=stored.version)
    return Answer(200, stored=stored, version=stored.version)


def check_preconditions(call: Call, stored: Stored, options: DeleteOptions) -> None:
    kind, uid = call.kind, stored.obj["metadata"].get("uid", "")
    group = (kind.stored_as or kind).group
    named = kind.plural if kind.plural == "namespaces" else kind.kind  # namespaces have a check of their own
    if options.uid and options.uid != uid:
        text = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
        raise StatusError.conflict(group, named, call.name, text)
    if options.version and options.version != str(stored.version):
        text = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({stored.version}). The object might have been modified"
        )
        raise StatusError.conflict(group, named, call.name, text)


def _graceful(stored: Stored) -> bool:
    """Pods are told to stop first."""
    return stored.kind.plural == "pods" and not stored.kind.group


def _marked(ctx: Context, call: Call, stored: Stored, options: DeleteOptions) -> Plain | None:
    """The object as deletion leaves it: marked, with the finalizer that the propagation needs. None: nothing to do."""
    meta = stored.obj["metadata"]
    new_meta = {**meta}
    deleting, left = bool(meta.get("deletionTimestamp")), meta.get("deletionGracePeriodSeconds") or 0
    if deleting and left:
        if options.grace is None or _positive(options.grace) >= left:
            return None  # it is being ended; finalizers too are decided by the first request
        _shorten(ctx, new_meta, _positive(options.grace))
    elif not deleting:
        grace = _pod_grace(stored.obj, options.grace) if _graceful(stored) else 0
        new_meta["deletionTimestamp"] = timestamp(ctx.clock.now() + timedelta(seconds=grace))
        new_meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            new_meta["generation"] = meta["generation"] + 1
    default = stored.kind.default_propagation
    policy = "" if default is None else options.policy or ("" if _says_propagation(meta) else default)
    finalizers = _finalizers(meta.get("finalizers") or [], policy)
    if finalizers:
        new_meta["finalizers"] = finalizers
    else:
        new_meta.pop("finalizers", None)
    if new_meta == meta and not ready_to_go(stored.obj):
        return None
    marked = {**stored.obj, "metadata": new_meta}
    if stored.kind.plural == "namespaces" and not stored.kind.group:
        new_meta.pop("deletionGracePeriodSeconds", None)
        marked["status"] = {**(stored.obj.get("status") or {}), "phase": "Terminating"}
    return marked


def _shorten(ctx: Context, meta: Plain, grace: int) -> None:
    """Less time counts from the first request; once that is over, a second is left to whoever ends the pod."""
    now = ctx.clock.now().replace(microsecond=0)
    asked = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=meta["deletionGracePeriodSeconds"])
    end = asked + timedelta(seconds=grace)
    if end < now:
        end, grace = now, min(grace, 1)
    meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = timestamp(end), grace


def _pod_grace(pod: Plain, asked: int | None) -> int:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    grace = asked
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds")
        grace = 30 if grace is None else grace
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        grace = 0
    return _positive(min(int(grace), _LONGEST_GRACE))


def _positive(grace: int) -> int:
    return 1 if grace < 0 else grace


def _says_propagation(meta: Plain) -> bool:
    """Finalizers that are there decide what happens to dependents where the request does not."""
    return not {FOREGROUND, ORPHAN}.isdisjoint(meta.get("finalizers") or ())


def _finalizers(present: list[str], policy: str) -> list[str]:
    if not policy:
        return present
    kept = [name for name in present if name not in (FOREGROUND, ORPHAN)]
    if policy == "Foreground":
        kept.append(FOREGROUND)
    elif policy == "Orphan":
        kept.append(ORPHAN)
    return kept


def delete_collection(ctx: Context, call: Call) -> Answer:
    options = read_options(call)
    _warn_of_orphans(call, options)
    selection = parse_selection(call.kind, call.version, call.option("labelSelector"), call.option("fieldSelector"))
    collection = ctx.collection(call.kind)
    deleted: list[Stored] = []
    version = ctx.store.read_version(collection)
    for stored in list(collection.select(call.namespace)):
        if not selection.matches(stored.obj):
            continue
        one = _for_item(call, stored)
        answer = delete_stored(ctx, one, stored, options)
        version = max(version, answer.version)
        deleted.append(stored)  # as it was found
    return Answer(200, listing=Listing(deleted, version), version=version)


def _for_item(call: Call, stored: Stored) -> Call:
    meta = stored.obj["metadata"]
    return Call(
        "deletecollection", call.kind, call.version, meta.get("namespace", ""), meta["name"], "", call.query, call.user,
        agent=call.agent, warnings=call.warnings,
    )  # fmt: skip
