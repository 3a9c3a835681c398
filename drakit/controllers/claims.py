"""The ResourceClaim controller: claims from templates, reservations, deallocation, deletion (reference/controllers.md §1).

On the hot path of every pod with a claim it costs one create and one status patch. Decisions are in `claim_decisions`; here are the caches,
the events that make work, and the writes. Writes of a claim carry its resourceVersion: if anything changed meanwhile, the key comes again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimTemplate
from lightkube.models.scheduling_v1beta1 import PodGroup

from drakit.api.errors import StatusError, go_quote
from drakit.client import Informer, resource_of
from drakit.controllers import claim_decisions as decisions
from drakit.controllers.claim_decisions import ClaimPlan
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    controller_of,
    deleting,
    finalizers,
    key_of,
    name,
    namespace,
    spec,
    status,
    uid,
    version,
)

__all__ = ["ClaimController"]

PODS, CLAIMS, POD_GROUPS = resource_of(Pod), resource_of(ResourceClaim), resource_of(PodGroup)
FIELD_MANAGER = "ResourceClaimController"
_WORKERS = 50
_SUSPECT_SECONDS = 30.0
_UNSEEN_CONSUMER = 5.0  # seconds until a reservation for a consumer that the cache does not know is looked at again
_REMEMBERED_UIDS = 5000  # consumers seen to be deleted: their reservations go without asking the server


class ClaimController:
    name = "resourceclaim-controller"

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._recorder = context.recorder("resource_claim")
        self._grouped = context.gates.enabled("GenericWorkload")  # pods may be members of PodGroups
        self._groups_on = context.gates.enabled("DRAWorkloadResourceClaims")  # which may have claims
        self.loop = ControlLoop("resource_claim", self.reconcile, context, workers=_WORKERS)
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._releasing: set[str] = set()  # UIDs of claims whose finalizer goes once their allocation has gone
        self._suspects: dict[str, int] = {}  # UIDs of claims found with a finalizer for nothing, and their version then
        self._started = False
        informers = context.informers
        self._pods = informers.plain(Pod)
        self._claims = informers.plain(ResourceClaim)
        self._templates = informers.plain(ResourceClaimTemplate)
        self._groups: Informer[Plain] | None = informers.plain(PodGroup) if self._grouped else None
        self._pods.add_index("claim", decisions.claims_awaited)
        self._pods.add_index("template", decisions.templates_used, fixed=True)
        if self._groups is not None and self._groups_on:
            self._groups.add_index("claim", decisions.claims_awaited)
            self._groups.add_index("template", decisions.templates_used)
        self._pods.add_index("group", decisions.group_keys, fixed=True)
        self._claims.add_index("consumer", _consumer)
        self._create_total = context.metrics.counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status, admin access and owner",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )
        context.metrics.gauge(
            "dynamic_resource_allocation_resource_claims",
            "Number of ResourceClaims, categorized by allocation status, admin access, and source",
            ("allocated", "admin_access", "source"),
            read=self._count_claims,
        )
        self._pods.add_handler(self._pod_changed, lambda _, pod: self._pod_changed(pod), self._consumer_removed)
        self._claims.add_handler(self._claim_changed, lambda _, claim: self._claim_changed(claim), self._claim_removed)
        self._templates.add_handler(self._template_changed, lambda _, template: self._template_changed(template))
        if self._groups is not None:
            self._groups.add_handler(self._group_added)
            if self._groups_on:
                self._groups.add_handler(
                    self._group_changed, lambda _, group: self._group_changed(group), self._consumer_removed
                )

    async def run(self) -> None:
        self._started = True
        await self.loop.run()

    # What makes work.

    def _pod_changed(self, pod: Plain) -> None:
        if not spec(pod).get("resourceClaims") and not status(pod).get("extendedResourceClaimStatus"):
            return
        if decisions.pod_done(pod):
            self._enqueue_claims_of(pod)
        if self._needs_work(pod):
            self.loop.add(f"pod:{key_of(pod)}")
        self._enqueue_twins(uid(pod))

    def _group_added(self, group: Plain) -> None:
        """Its pods get no claims before it is there to tell which of them are its own."""
        for pod in self._pods.by_index("group", key_of(group)):
            self._pod_changed(pod)

    def _group_changed(self, group: Plain) -> None:
        if spec(group).get("resourceClaims"):
            if self._needs_work(group):
                self.loop.add(f"podgroup:{key_of(group)}")
            self._enqueue_twins(uid(group))
            for pod in self._pods.by_index("group", key_of(group)):
                self._pod_changed(pod)

    def _consumer_removed(self, consumer: Plain) -> None:
        if spec(consumer).get("resourceClaims") or status(consumer).get("extendedResourceClaimStatus"):
            self._deleted[uid(consumer)] = None
            if len(self._deleted) > _REMEMBERED_UIDS:
                self._deleted.popitem(last=False)
            self._enqueue_claims_of(consumer)

    def _claim_changed(self, claim: Plain) -> None:
        if not self._decide(claim).nothing or uid(claim) in self._releasing:
            self.loop.add(f"claim:{key_of(claim)}")
        if not self._started and decisions.protected_for_nothing(claim):
            # A predecessor may have died between deallocating and removing the finalizer, or a scheduler is about to allocate: wait.
            self._suspects[uid(claim)] = version(claim)
            self.loop.add_after(f"claim:{key_of(claim)}", _SUSPECT_SECONDS)
        for owner_uid in _consumer(claim):
            self._enqueue_twins(owner_uid)
        self._enqueue_users(key_of(claim))

    def _claim_removed(self, claim: Plain) -> None:
        self._releasing.discard(uid(claim))
        self._suspects.pop(uid(claim), None)
        self._enqueue_users(key_of(claim))

    def _template_changed(self, template: Plain) -> None:
        for pod in self._pods.by_index("template", key_of(template)):
            self._pod_changed(pod)
        if self._groups is not None and self._groups_on:
            for group in self._groups.by_index("template", key_of(template)):
                self._group_changed(group)

    def _enqueue_users(self, claim_key: str) -> None:
        for pod in self._pods.by_index("claim", claim_key):
            if self._needs_work(pod):
                self.loop.add(f"pod:{key_of(pod)}")
        if self._groups is not None and self._groups_on:
            for group in self._groups.by_index("claim", claim_key):
                self._group_changed(group)

    def _enqueue_claims_of(self, consumer: Plain) -> None:
        for key in decisions.claims_used(consumer):
            self.loop.add(f"claim:{key}")
        for key in self._claims.index_keys("consumer", uid(consumer)):  # made, but not yet recorded in the status
            self.loop.add(f"claim:{key}")

    def _enqueue_twins(self, consumer_uid: str) -> None:
        """Of several claims of a pod or group those that are too many: which ones shows when all that belongs to them is known."""
        if self._claims.index_count("consumer", consumer_uid) > 1:
            for claim in self._claims.by_index("consumer", consumer_uid):
                if self._made_twice(claim):
                    self.loop.add(f"claim:{key_of(claim)}")

    def _needs_work(self, consumer: Plain) -> bool:
        """A claim has to be made, or (the pod bypassed the scheduler) reserved.

        A pod that is done gets no new claim for the one it lost.
        """
        if deleting(consumer) or (consumer["kind"] == "Pod" and decisions.pod_done(consumer)):
            return False
        scheduled = consumer["kind"] == "Pod" and bool(spec(consumer).get("nodeName"))
        for entry in spec(consumer).get("resourceClaims") or ():
            claim_name = decisions.claim_of_entry(consumer, entry)
            if claim_name == "":
                return True
            if claim_name is None:
                continue
            claim = self._claims.get(f"{namespace(consumer)}/{claim_name}")
            if claim is None:
                if entry.get("resourceClaimTemplateName"):
                    return True
                continue
            if scheduled and _reservable(claim, entry, consumer):
                return True
        return False

    # Reconciling.

    async def reconcile(self, key: str) -> float | None:
        kind, _, object_key = key.partition(":")
        if kind == "claim":
            await self._reconcile_claim(object_key)
        elif kind == "pod":
            pod = self._pods.get(object_key)
            if pod is not None and not deleting(pod) and not decisions.pod_done(pod):
                await self._reconcile_pod(pod)
        elif self._groups is not None:
            group = self._groups.get(object_key)
            if group is not None and not deleting(group):
                await self._make_claims(group, None)
        return None

    async def _reconcile_pod(self, pod: Plain) -> None:
        group: Plain | None = None
        group_name = decisions.group_of(pod)
        if group_name:
            if self._groups is None:
                return  # nobody can tell what of its claims are the group's
            group = self._groups.get(f"{namespace(pod)}/{group_name}")
            if group is None:
                raise StatusError.not_found("scheduling.k8s.io", "podgroup", group_name)
        pod = await self._make_claims(pod, group)
        if not spec(pod).get("nodeName"):
            return  # the scheduler reserves
        for entry in spec(pod).get("resourceClaims") or ():
            claim_name = decisions.claim_of_entry(pod, entry)
            claim = self._claims.get(f"{namespace(pod)}/{claim_name}") if claim_name else None
            if claim is not None and _reservable(claim, entry, pod):
                consumer = group if group is not None and decisions.binds_to_group(entry, group) else pod
                if consumer is group and not self._groups_on:
                    continue
                reserved = [*(status(claim).get("reservedFor") or ()), decisions.reservation(consumer)]
                await self._patch_claim(claim, {"status": {"reservedFor": reserved}}, "status")

    async def _make_claims(self, consumer: Plain, group: Plain | None) -> Plain:
        """Make what is missing, record the names in the status; returns the consumer as it is then."""
        made: dict[str, str] = {}
        for entry in spec(consumer).get("resourceClaims") or ():
            try:
                claim_name = await self._make_claim(consumer, entry, group)
            except _Refused as error:
                self._recorder.event(
                    consumer,
                    "Warning",
                    "FailedResourceClaimCreation",
                    f"{consumer['kind']}ResourceClaim {entry['name']}: {error}",
                )
                if error.final:
                    return consumer
                raise StatusError(error.code, "FailedResourceClaimCreation", f"{entry['name']}: {error}") from error
            if claim_name:
                made[entry["name"]] = claim_name
        if not made:
            return consumer
        pods = consumer["kind"] == "Pod"
        patch = {
            "metadata": {"uid": uid(consumer)},
            "status": {"resourceClaimStatuses": decisions.with_names(consumer, made)},
        }
        patched = await self._client.patch_plain(
            PODS if pods else POD_GROUPS,
            name(consumer),
            patch,
            namespace=namespace(consumer),
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
        informer = self._pods if pods else self._groups
        assert informer is not None
        informer.observe(patched)
        return patched

    async def _make_claim(self, consumer: Plain, entry: Plain, group: Plain | None) -> str:
        """The name of a claim that has to be recorded; "" when there is nothing to record."""
        claim_name = decisions.claim_of_entry(consumer, entry)
        template_name = entry.get("resourceClaimTemplateName")
        if not template_name or claim_name is None:
            return ""
        if claim_name and await self._exists_for(consumer, claim_name):
            return ""
        if decisions.binds_to_group(entry, group):
            assert group is not None
            if not self._groups_on:
                text = (
                    f"claim {entry['name']} is a PodGroup claim but the DRAWorkloadResourceClaims feature is disabled"
                )
                raise _Refused(403, text, final=True)
            found = self._made_before(group, entry["name"])
            return name(found) if found is not None else ""  # the group's own reconcile makes it
        found = self._made_before(consumer, entry["name"])
        if found is not None:
            return name(found)
        template = self._templates.get(f"{namespace(consumer)}/{template_name}")
        if template is None:
            quoted = go_quote(template_name)
            raise _Refused(
                404, f"resource claim template {quoted}: resourceclaimtemplate.resource.k8s.io {quoted} not found"
            )
        body = decisions.new_claim(consumer, entry["name"], template)
        try:
            created = await self._client.create_plain(CLAIMS, body)
        except StatusError as error:
            self._create_total.inc("failure", *decisions.metric_labels(body))
            raise _Refused(error.code, f"create ResourceClaim : {error}") from error
        self._create_total.inc("success", *decisions.metric_labels(created))
        self._claims.observe(created)
        return name(created)

    async def _exists_for(self, consumer: Plain, claim_name: str) -> bool:
        claim = self._claims.get(f"{namespace(consumer)}/{claim_name}")
        if claim is None:
            try:
                claim = await self._client.get_plain(CLAIMS, claim_name, namespace=namespace(consumer))
            except StatusError as error:
                if error.code != 404:
                    raise
                return False
        return decisions.is_for(consumer, claim)

    def _made_before(self, consumer: Plain, entry: str) -> Plain | None:
        """A claim made by an earlier attempt that did not get to record its name."""
        for claim in self._claims.by_index("consumer", uid(consumer)):
            if (claim["metadata"].get("annotations") or {}).get(decisions.POD_CLAIM_NAME) == entry and not deleting(
                claim
            ):
                return claim
        return None

    async def _reconcile_claim(self, key: str) -> None:
        claim = self._claims.get(key)
        if claim is None:
            return
        plan = self._decide(claim)
        if plan.ask:
            answers = {entry["uid"]: await self._lives(namespace(claim), entry) for entry in plan.ask}
            if any(answers.values()):
                # The cache has still to learn of a consumer. If a broken watch makes it miss the consumer's whole life, no
                # event will tell of its end: look again.
                self.loop.add_after(f"claim:{key}", _UNSEEN_CONSUMER)
            plan = decisions.decide_claim(
                claim,
                lambda entry: answers.get(entry["uid"], self._present(claim, entry)),
                self._pods.get,
                self._made_twice,
            )
        if plan.nothing and decisions.protected_for_nothing(claim) and self._may_unprotect(claim):
            plan = ClaimPlan(unprotect=True)
        await self._carry_out(claim, plan)

    def _may_unprotect(self, claim: Plain) -> bool:
        """We (or a predecessor, long ago) have deallocated the claim and did not get to the finalizer."""
        return uid(claim) in self._releasing or self._suspects.pop(uid(claim), None) == version(claim)

    def _decide(self, claim: Plain) -> ClaimPlan:
        return decisions.decide_claim(
            claim, lambda entry: self._present(claim, entry), self._pods.get, self._made_twice
        )

    def _made_twice(self, claim: Plain) -> bool:
        """The pod or group that it was made for has another one: the answer to a create got lost, and it was made again."""
        owner = controller_of(claim)
        entry = (claim["metadata"].get("annotations") or {}).get(decisions.POD_CLAIM_NAME)
        if owner is None or not entry or status(claim).get("allocation") is not None:
            return False
        consumers = self._pods if owner["kind"] == "Pod" else self._groups
        consumer = consumers.get(f"{namespace(claim)}/{owner['name']}") if consumers is not None else None
        used = decisions.claim_of_entry(consumer, {"name": entry}) if consumer is not None else None
        if consumer is None or uid(consumer) != owner["uid"] or not used or used == name(claim):
            return False
        other = self._claims.get(f"{namespace(claim)}/{used}")
        return other is not None and not deleting(other) and decisions.is_for(consumer, other)

    async def _carry_out(self, claim: Plain, plan: ClaimPlan) -> None:
        change: Plain = {}
        if plan.reserved is not None:
            change["reservedFor"] = plan.reserved or None
        if plan.deallocate:
            change["allocation"] = None
        if plan.unprotect:
            self._releasing.add(
                uid(claim)
            )  # remembered until both writes are done: the first may succeed and its answer get lost
        if change:
            claim = await self._patch_claim(claim, {"status": change}, "status")
        if plan.unprotect:
            kept = [finalizer for finalizer in finalizers(claim) if finalizer != decisions.FINALIZER]
            claim = await self._patch_claim(claim, {"metadata": {"finalizers": kept or None}})
            self._releasing.discard(uid(claim))
        if plan.delete:
            answer = await self._client.delete(CLAIMS, name(claim), namespace=namespace(claim), uid=uid(claim))
            self._claims.observe_deleted(key_of(claim), uid(claim), answer)

    async def _patch_claim(self, claim: Plain, patch: Plain, subresource: str = "") -> Plain:
        metadata = {**patch.get("metadata", {}), "resourceVersion": str(version(claim)), "uid": uid(claim)}
        patched = await self._client.patch_plain(
            CLAIMS, name(claim), {**patch, "metadata": metadata}, namespace=namespace(claim), subresource=subresource
        )
        if deleting(patched) and not finalizers(patched):
            self._claims.observe_deleted(
                key_of(claim), uid(claim), {}
            )  # the last finalizer is gone, and the claim with it
        else:
            self._claims.observe(patched)
        return patched

    # Consumers of reservations.

    def _present(self, claim: Plain, entry: Plain) -> bool | None:
        if entry["uid"] in self._deleted:
            return False
        consumers = self._consumers(entry)
        if consumers is None:
            return True  # unknown kinds keep their reservation
        consumer = consumers.get(f"{namespace(claim)}/{entry['name']}")
        if consumer is None:
            return None
        if uid(consumer) != entry["uid"]:
            return False
        return consumer["kind"] != "Pod" or not decisions.pod_done(consumer)

    def _consumers(self, entry: Plain) -> Informer[Plain] | None:
        group, resource = entry.get("apiGroup") or "", entry["resource"]
        if group == "" and resource == "pods":
            return self._pods
        return self._groups if self._groups_on and group == "scheduling.k8s.io" and resource == "podgroups" else None

    async def _lives(self, in_namespace: str, entry: Plain) -> bool:
        """The cache may be behind, and freeing the devices of a pod that is just being scheduled would be bad: ask the server."""
        resource = PODS if entry["resource"] == "pods" else POD_GROUPS
        try:
            consumer = await self._client.get_plain(resource, entry["name"], namespace=in_namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return bool(uid(consumer) == entry["uid"])

    def _count_claims(self) -> Counter[tuple[str, ...]]:
        return Counter(_gauge_labels(claim) for claim in self._claims.list())


class _Refused(Exception):
    """A claim that cannot be made now, or with these feature gates never; the text goes into an event."""

    def __init__(self, code: int, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.code, self.final = code, final


def _consumer(claim: Plain) -> Iterable[str]:
    owner = controller_of(claim)
    return (owner["uid"],) if owner is not None else ()


def _reservable(claim: Plain, entry: Plain, pod: Plain) -> bool:
    """Allocated, the pod's to use, and not yet reserved for it."""
    if status(claim).get("allocation") is None or decisions.reserved_for(claim, pod):
        return False
    return not entry.get("resourceClaimTemplateName") or decisions.is_for(pod, claim)


def _gauge_labels(claim: Plain) -> tuple[str, str, str]:
    annotations = claim["metadata"].get("annotations") or {}
    source = ""
    if annotations.get(decisions.EXTENDED_RESOURCE_CLAIM) == "true":
        source = "extended_resource"
    elif annotations.get(decisions.POD_CLAIM_NAME):
        source = "resource_claim_template"
    allocated = "true" if status(claim).get("allocation") is not None else "false"
    return allocated, decisions.metric_labels(claim)[0], source
