"""The way of a call through the server: may the user do it, which verb is it, what comes back.

Everything here is synchronous: a call changes memory in one turn of the event loop. Waiting (for the disk, for events,
for a node) is left to the doors, HTTP and in-process, which get an Answer or a WatchStart.
"""

from __future__ import annotations

from collections.abc import Callable

from drakit.api.errors import StatusError
from drakit.apiserver.auth import Attributes
from drakit.apiserver.call import Answer, Call
from drakit.apiserver.context import Context
from drakit.apiserver.refusals import denied
from drakit.apiserver.verbs import deleting, evicting, patching, pods, reading, scaling, writing
from drakit.apiserver.verbs.reading import WatchStart

__all__ = ["NODE_SUBRESOURCES", "authorize", "dispatch"]

Verb = Callable[[Context, Call], Answer]
_VERBS: dict[str, Verb] = {
    "get": reading.get,
    "list": reading.list_,
    "create": writing.create,
    "update": writing.update,
    "patch": patching.patch,
    "delete": deleting.delete,
    "deletecollection": deleting.delete_collection,
}
# Handed to the node that runs the pod.
NODE_SUBRESOURCES = frozenset({"log", "exec", "attach", "portforward", "proxy"})
_POD_VERBS: dict[str, Verb] = {"binding": pods.bind, "eviction": evicting.evict}


def authorize(ctx: Context, attributes: Attributes) -> None:
    if ctx.authorizer is None or attributes.user.is_master:
        return
    decision = ctx.authorizer.authorize(attributes)
    if not decision.allowed:
        raise denied(attributes, decision.reason)


def dispatch(ctx: Context, call: Call) -> Answer | WatchStart:
    authorize(ctx, call.question())
    if ctx.special and (special := ctx.special.get((call.kind.group, _resource(call)))) is not None:
        answer: Answer = special(ctx, call)
        return answer
    if call.verb == "watch":
        return reading.watch(ctx, call)
    if call.subresource:
        return _subresource(ctx, call)
    return _VERBS[call.verb](ctx, call)


def _resource(call: Call) -> str:
    return f"{call.kind.plural}/{call.subresource}" if call.subresource else call.kind.plural


def _subresource(ctx: Context, call: Call) -> Answer:
    kind, name = call.kind, call.subresource
    if name == "scale":
        return scaling.scale(ctx, call)
    if kind.plural == "pods" and not kind.group:
        if name in _POD_VERBS:
            return _POD_VERBS[name](ctx, call)
        if name in ("resize", "ephemeralcontainers") and call.verb != "get":
            text = f"pods/{name} is not supported by this server: create a new pod with the values you want"
            raise StatusError(405, "MethodNotAllowed", text, {"name": call.name, "kind": "pods"})
    if kind.plural == "namespaces" and name == "finalize":
        return writing.update(ctx, call)
    return _VERBS[call.verb](ctx, call)
