"""pods/eviction: delete a pod, if the PodDisruptionBudget that covers it can spare one now.

Nothing else runs between looking and writing, so there are no conflicts to retry. Preconditions are looked at first: a request that
fails on them spends nothing of the budget (upstream has spent by then).
"""

from __future__ import annotations

from dataclasses import replace

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.api.selectors import matches_label_selector
from drakit.api.times import timestamp
from drakit.apiserver.call import Answer, Call, check_write_options
from drakit.apiserver.context import Context, admission_attributes, internal_without_reason
from drakit.apiserver.stored import Plain, Stored
from drakit.apiserver.verbs.decoding import read_kind
from drakit.apiserver.verbs.deleting import DeleteOptions, check_preconditions, delete_stored
from drakit.apiserver.verbs.pods import SUCCESS, live_pod, metadata_of

__all__ = ["evict"]

MAX_UNCONFIRMED = 2000  # evictions that the disruption controller has not seen through yet
SOON = 10  # seconds until a client asks again


def evict(ctx: Context, call: Call) -> Answer:
    """POST pods/NAME/eviction."""
    dry_run, _ = check_write_options(call, "CreateOptions")
    eviction = read_kind(call, "Eviction")
    name = metadata_of(eviction).get("name")
    if name != call.name:
        raise StatusError.bad_request("name in URL does not match name in Eviction object")
    options = _options(eviction, dry_run=dry_run)
    pod = live_pod(ctx, call)
    attributes = admission_attributes(call, "CREATE", eviction, pod.obj, dry_run=options.dry_run)
    ctx.admit(attributes)
    ctx.validate(attributes)
    as_delete = Call("delete", call.kind, call.version, call.namespace, call.name, "", {}, call.user, agent=call.agent)
    check_preconditions(as_delete, pod, options)
    budget = None if _skips_budgets(pod.obj) else _budget(ctx, call, pod.obj)
    if not options.dry_run:
        if budget is not None:
            _spend(ctx, budget, pod.obj)
        pod = _mark_disrupted(ctx, as_delete, pod)
        options = replace(options, version="")  # looked at above; the mark has moved it
    answer = delete_stored(ctx, as_delete, pod, options)
    return Answer(201, value=SUCCESS, version=answer.version)


def _options(eviction: Plain, *, dry_run: bool) -> DeleteOptions:
    raw = eviction.get("deleteOptions")
    raw = raw if isinstance(raw, dict) else {}
    conditions = raw.get("preconditions") or {}
    return DeleteOptions(
        raw.get("gracePeriodSeconds"), str(raw.get("propagationPolicy") or ""), str(conditions.get("uid") or ""),
        str(conditions.get("resourceVersion") or ""), dry_run or bool(raw.get("dryRun")),
    )  # fmt: skip


def _skips_budgets(pod: Plain) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _budget(ctx: Context, call: Call, pod: Plain) -> Stored | None:
    """The budget to take one disruption from; raises when there is none to take."""
    kind = registry.by_resource("policy", "poddisruptionbudgets")
    if kind is None:
        return None
    labels = pod["metadata"].get("labels") or {}
    found = [
        stored
        for stored in ctx.collection(kind).select(call.namespace)
        if matches_label_selector((stored.obj.get("spec") or {}).get("selector"), labels)
    ]
    if not found:
        return None
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise internal_without_reason(text)
    budget = found[0].obj
    if not _ready(pod) and _spares_unhealthy(budget):
        return None
    _check_allowed(budget)
    return found[0]


def _ready(pod: Plain) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _spares_unhealthy(budget: Plain) -> bool:
    """Whether a pod that is not ready, and so not counted as healthy, may go without being asked for."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy") or 0
    return 0 < desired <= (status.get("currentHealthy") or 0)


def _check_allowed(budget: Plain) -> None:
    status, meta = budget.get("status") or {}, budget["metadata"]
    name, allowed = meta["name"], status.get("disruptionsAllowed") or 0
    not_now = f"The disruption budget {name} does not allow evicting pods currently"
    if (status.get("observedGeneration") or 0) < (meta.get("generation") or 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", SOON)
    if allowed < 0:
        raise _never(name, "pdb disruptions allowed is negative", f"{not_now}: pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > MAX_UNCONFIRMED:
        cause = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _never(name, cause, f"{not_now}: too many pending evictions not confirmed by PDB controller")
    if allowed == 0:
        raise _too_many(_why_not(status, name, not_now))


def _why_not(status: Plain, name: str, not_now: str) -> str:
    conditions = status.get("conditions") or ()
    refused: Plain = next(
        (c for c in conditions if c.get("type") == "DisruptionAllowed" and c.get("status") == "False"), {}
    )
    reason, message = refused.get("reason"), refused.get("message")
    healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    if message and reason == "SyncFailed":
        return f"{not_now} because it failed sync: {message}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    return f"{not_now} ({reason}): {message}" if message else not_now


def _too_many(cause: str, retry_after: int = 0) -> StatusError:
    """Without seconds to wait the client decides itself when to ask again; with them kubectl waits before it says anything."""
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    details: Plain = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", text, details)


def _never(name: str, cause: str, message: str) -> StatusError:
    error = StatusError.forbidden("policy", "poddisruptionbudget", name, cause)
    details = {**error.details, "causes": [{"reason": "DisruptionBudget", "message": message}]}
    return StatusError(error.code, error.reason, error.message, details)


def _spend(ctx: Context, stored: Stored, pod: Plain) -> None:
    status = {**(stored.obj.get("status") or {})}
    now = timestamp(ctx.clock.now())
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
    if status["disruptionsAllowed"] == 0:
        status["conditions"] = [_used_up(item, now) for item in status.get("conditions") or ()]
    new = {**stored.obj, "metadata": {**stored.obj["metadata"]}, "status": status}
    ctx.store.put(ctx.store.collection(stored.kind), stored.key, new, stored)


def _used_up(condition: Plain, now: str) -> Plain:
    if condition.get("type") != "DisruptionAllowed" or condition.get("status") == "False":
        return condition
    return {**condition, "status": "False", "reason": "InsufficientPods", "message": "", "lastTransitionTime": now}


def _mark_disrupted(ctx: Context, call: Call, pod: Stored) -> Stored:
    status = {**(pod.obj.get("status") or {})}
    conditions = [*(status.get("conditions") or ())]
    at = next((i for i, item in enumerate(conditions) if item.get("type") == "DisruptionTarget"), len(conditions))
    known: Plain = conditions[at] if at < len(conditions) else {}
    since = known.get("lastTransitionTime") if known.get("status") == "True" else None
    condition: Plain = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": since or timestamp(ctx.clock.now()),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    if known.get("observedGeneration"):  # as every write of a pod's status keeps it
        condition["observedGeneration"] = known["observedGeneration"]
    conditions[at : at + 1] = [condition]
    status["conditions"] = conditions
    new = {**pod.obj, "metadata": {**pod.obj["metadata"]}, "status": status}
    return ctx.store.put(ctx.collection(call.kind), pod.key, new, pod)
