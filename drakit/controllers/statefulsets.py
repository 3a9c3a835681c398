"""StatefulSets: pods with stable names, made and deleted in order, updated from the last to the first (decisions in
`statefulset_decisions`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from lightkube.models.apps_v1 import StatefulSet

from drakit.api.errors import StatusError
from drakit.client import resource_of
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    deleting,
    key_of,
    labels,
    name,
    namespace,
    spec,
    status,
    status_patch,
    uid,
)
from drakit.controllers.pace import AGAIN, Pace
from drakit.controllers.pods import (
    PODS,
    WORKLOAD,
    PodControl,
    adopt_and_release,
    adoptable,
    as_judged,
    follow_children,
    keep_rosters,
    pod_from_template,
    same_pod,
    still_there,
    workload_pods,
)
from drakit.controllers.revisions import REVISION_LABEL, History, template_of
from drakit.controllers.statefulset_claims import VolumeClaims
from drakit.controllers.statefulset_decisions import (
    POD_INDEX_LABEL,
    POD_NAME_LABEL,
    Action,
    Roster,
    Step,
    decide,
    lacking,
    next_status,
    strategy_of,
)

__all__ = ["StatefulSetController"]

STATEFUL_SETS = resource_of(StatefulSet)
_WORKERS = 5
_RECREATES = "StatefulSetRecreateStrategy"


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock, self._gates = context.client, context.clock, context.gates
        self._recorder = context.recorder("statefulset-controller")
        self.loop = ControlLoop("statefulset", self.reconcile, context, workers=_WORKERS)
        self._sets = context.informers.plain(StatefulSet)
        self._pods = workload_pods(context.informers)
        tolerant = self._gates.enabled("StatefulSetSemanticRevisionComparison")
        self._history = History(context.client, context.informers, tolerant=tolerant)
        self._pace = Pace(self._pods, context.clock)
        self._control = PodControl(context.client, self._pods, self._recorder)
        self._claims = VolumeClaims(context.client, self._recorder)
        self._rosters: dict[str, Roster] = {}  # by the set's UID
        self._sets.add_handler(self._changed, lambda _, new: self._changed(new), self._forget)
        keep_rosters(self._pods, self._rosters)
        follow_children(context, self._pods, self._sets, self.loop, same=same_pod)

    async def run(self) -> None:
        await self.loop.run()

    def _changed(self, stateful_set: Plain) -> None:
        self.loop.add(key_of(stateful_set))

    def _forget(self, stateful_set: Plain) -> None:
        self._rosters.pop(uid(stateful_set), None)
        self._claims.forget(stateful_set)
        self._history.forget(stateful_set)

    def _roster(self, stateful_set: Plain) -> Roster:
        known = self._rosters.get(uid(stateful_set))
        if known is None or known.minimum != (spec(stateful_set).get("minReadySeconds") or 0):
            pods = self._pods.by_index(WORKLOAD, uid(stateful_set))
            known = self._rosters[uid(stateful_set)] = Roster(stateful_set, pods)
        return known

    async def reconcile(self, key: str) -> float | None:
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return None
        try:
            return await self._sync(stateful_set)
        finally:
            if not still_there(self._sets, stateful_set):
                self._forget(stateful_set)

    async def _sync(self, stateful_set: Plain) -> float | None:
        roster = self._roster(stateful_set)
        if roster.strangers or adoptable(self._pods, stateful_set, member=roster.may_have):
            await adopt_and_release(self._client, self._pods, stateful_set, STATEFUL_SETS, member=roster.may_have)
        revision = await self._history.current(stateful_set, status(stateful_set).get("collisionCount") or 0)
        update = name(revision)
        known = {name(each): each for each in self._history.of(stateful_set)}
        current = status(stateful_set).get("currentRevision") or update
        if current not in known:
            current = update
        if strategy_of(stateful_set) == "Recreate" and not self._gates.enabled(_RECREATES):
            await self._history.truncate(stateful_set, {current, update, *roster.revisions})
            self._refuse(stateful_set)
        failure: StatusError | None = None
        done = True
        progress = ""
        if not deleting(stateful_set):
            missing = lacking(stateful_set, roster)
            room = self._pace.room(namespace(stateful_set), missing)
            step = decide(stateful_set, roster, current, update, self._clock.now(), self._gates, room=room)
            progress = step.progress
            templates = {True: template_of(revision), False: template_of(known.get(current, revision))}
            try:
                await self._claims.settle(stateful_set, roster)  # before pods go, whose claims may go with them
                done = await self._carry_out(stateful_set, step, templates, {True: update, False: current})
                done = done and room == missing
                if uid(stateful_set) in self._rosters:  # it may have gone meanwhile, and been forgotten
                    await self._claims.settle(stateful_set, roster)
            except StatusError as error:
                failure = error
        await self._write_status(as_judged(self._sets, stateful_set), roster, current, update, progress)
        await self._history.truncate(stateful_set, {current, update, *roster.revisions})
        again = roster.next_look(self._clock.now()) if done else AGAIN
        if failure is not None:
            self.loop.add_after(key_of(stateful_set), again)
            raise failure
        return again

    def _refuse(self, stateful_set: Plain) -> None:
        """The strategy was set while its gate was on."""
        where = f"statefulset {namespace(stateful_set)}/{name(stateful_set)}"
        text = f"{where} uses Recreate strategy but feature gate {_RECREATES} is disabled"
        self._recorder.event(stateful_set, "Warning", "UnknownStrategy", text)
        raise StatusError(500, "InternalError", text)

    async def _carry_out(
        self, stateful_set: Plain, step: Step, templates: dict[bool, Plain], revisions: dict[bool, str]
    ) -> bool:
        """False: something has to wait."""

        async def carry_out(action: Action) -> bool:
            pod = action.pod
            if pod is None:
                body = _pod(stateful_set, templates[action.new], action.ordinal, revisions[action.new])
                return await self._told(stateful_set, "Create", body, self._create(stateful_set, body))
            if action.verb == "delete":
                return await self._told(
                    stateful_set, "Delete", pod, self._control.delete(stateful_set, pod, tell=False)
                )
            return await self._told(stateful_set, "Update", pod, self._name(pod))

        done = True
        for actions in step.rounds:
            answers = await asyncio.gather(*map(carry_out, actions), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                done = done and answer
        return done

    async def _told(self, stateful_set: Plain, verb: str, pod: Plain, doing: Awaitable[bool | None]) -> bool:
        """Do something to a pod, and tell how it went. False: it has to wait."""
        what = f"{verb} Pod {name(pod)} in StatefulSet {name(stateful_set)}"
        try:
            if await doing is False:
                return False
        except StatusError as error:
            if error.reason != "AlreadyExists":
                self._recorder.event(stateful_set, "Warning", f"Failed{verb}", f"{what} failed error: {error}")
            raise
        self._recorder.event(stateful_set, "Normal", f"Successful{verb}", f"{what} successful")
        return True

    async def _create(self, stateful_set: Plain, body: Plain) -> bool:
        if not await self._claims.make(stateful_set, body):
            return False
        await self._control.create(stateful_set, body, tell=False)
        return True

    async def _name(self, pod: Plain) -> None:
        identity = {POD_NAME_LABEL: name(pod), POD_INDEX_LABEL: name(pod).rpartition("-")[2]}
        patch = {"metadata": {"uid": uid(pod), "labels": identity}}
        self._pods.observe(await self._client.patch_plain(PODS, name(pod), patch, namespace=namespace(pod)))

    async def _write_status(
        self, stateful_set: Plain, roster: Roster, current: str, update: str, progress: str
    ) -> None:
        new = next_status(stateful_set, roster, current, update, self._clock.now(), progress)
        patch = status_patch(status(stateful_set), new)
        if patch is not None:
            self._sets.observe(
                await self._client.patch_plain(
                    STATEFUL_SETS, name(stateful_set), patch, namespace=namespace(stateful_set), subresource="status"
                )
            )


def _pod(stateful_set: Plain, template: Plain, ordinal: int, revision: str) -> Plain:
    """The pod of an ordinal: name, host name, labels and volumes are its identity."""
    pod_name = f"{name(stateful_set)}-{ordinal}"
    body = pod_from_template(template, stateful_set)
    body["metadata"]["name"] = pod_name
    body["metadata"]["labels"] = {
        **labels({"metadata": body["metadata"]}),
        POD_NAME_LABEL: pod_name,
        POD_INDEX_LABEL: str(ordinal),
        REVISION_LABEL: revision,
    }
    pod_spec = {**body["spec"], "hostname": pod_name}
    if spec(stateful_set).get("serviceName"):
        pod_spec["subdomain"] = spec(stateful_set)["serviceName"]
    claims = {each["metadata"]["name"] for each in spec(stateful_set).get("volumeClaimTemplates") or ()}
    if claims:
        kept = [volume for volume in pod_spec.get("volumes") or () if volume["name"] not in claims]
        made = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{pod_name}"}} for each in sorted(claims)]
        pod_spec["volumes"] = made + kept
    return {**body, "spec": pod_spec}
