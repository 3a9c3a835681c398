"""Device taint eviction: pods leave devices with NoExecute taints when their tolerations are over; rules report on it.

Level-driven: a pod's key computes from the caches whether and when it has to go. Claims and rules are indexed by device, pool and
driver, so a rule or slice costs in proportion to the claims it touches, and a claim to the rules for its devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lightkube.models.core_v1 import Pod
from lightkube.models.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice

from drakit.client import resource_of
from drakit.controllers import claim_decisions as claims
from drakit.controllers import device_taint_decisions as decisions
from drakit.controllers.device_taint_decisions import Eviction, RuleCounts
from drakit.controllers.loop import Context, ControlLoop
from drakit.controllers.objects import (
    Plain,
    bound_at,
    condition,
    deleting,
    format_time,
    key_of,
    name,
    namespace,
    parse_time,
    spec,
    status,
    uid,
)
from drakit.controllers.pods import evict_pod
from drakit.controllers.rates import TokenBucket

__all__ = ["DeviceTaintController"]

RULES = resource_of(DeviceTaintRule)
_WORKERS = 8
_STATUS_PERIOD = 10.0
_PER_SECOND, _BURST = 100.0, 500  # evictions; a wrong rule must leave time to be taken back
# Of pods that came when their time was over already. They found no other devices; made anew they come again, and would keep the
# cluster busy for ever. Kubernetes is as slow: three requests for each, of 20 a second.
_PER_SECOND_AGAIN, _BURST_AGAIN = 7.0, 50
_LATENCIES = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class DeviceTaintController:
    name = "device-taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        self._client, self._clock = context.client, context.clock
        self._recorder = context.recorder(self.name)
        self.loop = ControlLoop("device_taint_eviction", self.reconcile, context, workers=_WORKERS)
        self._bucket = TokenBucket(context.clock, _PER_SECOND, _BURST)
        self._slow_bucket = TokenBucket(context.clock, _PER_SECOND_AGAIN, _BURST_AGAIN)
        self._waiting: dict[str, _Waiting] = {}  # by pod key
        # Of each pool with NoExecute taints the generation that was last seen to count.
        self._newest: dict[str, int] = {}
        self._evicted: Counter[str] = Counter()  # by rule UID
        self._deletions = context.metrics.counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "Total number of Pods deleted by DeviceTaintEvictionController",
        )
        self._latency = context.metrics.histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a device taint effect has been activated and a Pod's deletion",
            _LATENCIES,
        )
        informers = context.informers
        self._pods, self._claims = informers.plain(Pod), informers.plain(ResourceClaim)
        self._slices, self._rules = informers.plain(ResourceSlice), informers.plain(DeviceTaintRule)
        self._pods.add_index("group", claims.group_keys, fixed=True)
        self._claims.add_index("device", decisions.claim_keys)
        self._slices.add_index("pool", decisions.slice_keys)
        self._slices.add_index("tainted", _tainted_values)
        rules_on = context.gates.enabled("DRADeviceTaintRules")
        self._rules.add_index(
            "evicting", lambda rule: ("yes", decisions.selector_key(rule)) if rules_on and _evicts(rule) else ()
        )
        self._rules.add_index("uid", lambda rule: (uid(rule),), fixed=True)
        self._pods.add_handler(self._pod_added, self._pod_changed, self._pod_removed)
        self._claims.add_handler(self._claim_changed, self._claim_updated, self._claim_removed)
        self._slices.add_handler(
            lambda new: self._slice_changed(None, new), self._slice_changed, lambda old: self._slice_changed(old, None)
        )
        if rules_on:
            self._rules.add_handler(self._rule_changed, self._rule_updated, self._rule_removed)

    async def run(self) -> None:
        await self.loop.run()

    # What makes work.

    def _pod_added(self, pod: Plain) -> None:
        if spec(pod).get("resourceClaims") and spec(pod).get("nodeName") and self._eviction(pod) is not None:
            self.loop.add(f"pod:{key_of(pod)}")

    def _pod_changed(self, old: Plain, new: Plain) -> None:
        if (spec(old).get("nodeName"), status(old).get("resourceClaimStatuses")) != (
            spec(new).get("nodeName"),
            status(new).get("resourceClaimStatuses"),
        ):
            self._pod_added(new)

    def _pod_removed(self, pod: Plain) -> None:
        self._forget(key_of(pod))

    def _claim_changed(self, claim: Plain) -> None:
        if self._claim_eviction(claim) is not None:
            self._enqueue_consumers(claim)

    def _claim_updated(self, old: Plain, new: Plain) -> None:
        if status(old) != status(new):
            self._claim_removed(old)
            self._claim_changed(new)

    def _claim_removed(self, claim: Plain) -> None:
        for pod in self._consumers(claim) if self._waiting else ():
            if key_of(pod) in self._waiting:
                self.loop.add(f"pod:{key_of(pod)}")

    def _enqueue_consumers(self, claim: Plain) -> None:
        for pod in self._consumers(claim):
            self.loop.add(f"pod:{key_of(pod)}")

    def _consumers(self, claim: Plain) -> Iterable[Plain]:
        for entry in status(claim).get("reservedFor") or ():
            key = f"{namespace(claim)}/{entry['name']}"
            if entry["resource"] == "pods":
                pod = self._pods.get(key)
                if pod is not None and uid(pod) == entry["uid"]:
                    yield pod
            elif entry["resource"] == "podgroups":
                yield from self._pods.by_index("group", key)

    def _slice_changed(self, old: Plain | None, new: Plain | None) -> None:
        before, after = (_tainted(each) if each is not None else [] for each in (old, new))
        devices = {device for device, _ in (*before, *after)} if before != after else set()
        for pool in {_pool(each) for each in (old, new) if each is not None}:
            # Another generation that counts brings taints in other slices into force, or out of it.
            tainted = self._slices.by_index("tainted", pool)
            newest = max(map(_generation, self._slices.by_index("pool", pool))) if tainted else None
            if newest != self._newest.pop(pool, None):
                devices.update(device for each in tainted for device, _ in _tainted(each))
            if newest is not None:
                self._newest[pool] = newest
        for device in sorted(devices):
            for claim in self._claims.by_index("device", device):
                self._enqueue_consumers(claim)

    def _rule_changed(self, rule: Plain) -> None:
        self.loop.add(f"rule:{name(rule)}")
        if _evicts(rule):
            self._enqueue_selected(rule)

    def _rule_updated(self, old: Plain, new: Plain) -> None:
        if spec(old) != spec(new):
            if _evicts(old):
                self._enqueue_selected(old)
            self._rule_changed(new)

    def _rule_removed(self, rule: Plain) -> None:
        self._evicted.pop(uid(rule), None)
        if _evicts(rule):
            self._enqueue_selected(rule)

    def _enqueue_selected(self, rule: Plain) -> None:
        for claim in self._selected(rule):
            self._enqueue_consumers(claim)

    def _selected(self, rule: Plain) -> Iterable[Plain]:
        """Claims with a device of the rule."""
        key = decisions.selector_key(rule)
        for claim in self._claims.by_index("device", key) if key else ():
            if any(decisions.rule_matches(rule, device) for device in decisions.devices_of(claim)):
                yield claim

    # Decisions from the caches.

    def _claim_eviction(self, claim: Plain, extra: Plain | None = None) -> Eviction | None:
        quiet = not self._rules.index_count("evicting", "yes") and not self._slices.index_count("tainted", "yes")
        if quiet and extra is None:
            return None  # the usual case, asked for every change of every claim

        def rules_for(device: Plain) -> Iterator[Plain]:
            for key in decisions.device_keys(device):
                yield from self._rules.by_index("evicting", key)
            if extra is not None:
                yield extra

        return decisions.claim_eviction(claim, rules_for, self._slices_with)

    def _slices_with(self, device: Plain) -> list[Plain]:
        """The slices of the newest generation in which the device has a NoExecute taint."""
        pool = f"{device['driver']}/{device['pool']}"
        found = self._slices.by_index("tainted", f"{pool}/{device['device']}")
        if not found:
            return []
        newest = max(map(_generation, self._slices.by_index("pool", pool)))
        return [each for each in found if _generation(each) == newest]

    def _eviction(self, pod: Plain, extra: Plain | None = None) -> Eviction | None:
        """When the pod has to go, over all its claims; `extra` is a rule to be imagined."""
        if not spec(pod).get("nodeName"):
            return None
        found: list[Eviction | None] = []
        for entry in spec(pod).get("resourceClaims") or ():
            claim_name = claims.claim_of_entry(pod, entry)
            claim = self._claims.get(f"{namespace(pod)}/{claim_name}") if claim_name else None
            if claim is None or not claims.reserved_for(claim, pod):
                continue
            if entry.get("resourceClaimTemplateName") and not claims.is_for(pod, claim):
                continue
            found.append(self._claim_eviction(claim, extra))
        return decisions.earliest(found)

    # Reconciling.

    async def reconcile(self, key: str) -> float | None:
        kind, _, object_key = key.partition(":")
        if kind == "rule":
            return await self._reconcile_rule(object_key)
        pod = self._pods.get(object_key)
        return await self._reconcile_pod(pod) if pod is not None else None

    async def _reconcile_pod(self, pod: Plain) -> float | None:
        key = key_of(pod)
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.done:
            return None  # the cache has still to learn of it
        eviction = self._eviction(pod)
        if eviction is None:
            if waiting is not None:
                self._forget(key)
                self._recorder.event(pod, "Normal", "DeviceTaintManagerEviction", "Cancelling deletion")
            return None
        if waiting is None:
            waiting = self._waiting[key] = _Waiting()
        wait = (eviction.at - self._clock.now()).total_seconds()
        if wait > 0:
            self._tell_rules(eviction)
            return wait
        if deleting(pod):
            waiting.done = True
            return None
        now = self._clock.monotonic()
        if waiting.turn is None:
            since = bound_at(pod)
            waiting.bucket = self._slow_bucket if since is not None and since > eviction.at else self._bucket
            waiting.turn = now + waiting.bucket.reserve()
        if waiting.turn > now:
            return waiting.turn - now
        await self._evict(pod, eviction)
        waiting.done = True
        return None

    def _forget(self, key: str) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None and waiting.bucket is not None and (waiting.turn or 0.0) > self._clock.monotonic():
            waiting.bucket.give_back()

    async def _evict(self, pod: Plain, eviction: Eviction) -> None:
        now = self._clock.now()
        if not await evict_pod(
            self._client,
            pod,
            "DeletionByDeviceTaintManager",
            "Device Taint manager: deleting due to NoExecute taint",
            format_time(now),
            generation=False,
        ):
            return  # gone by itself
        self._recorder.event(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        self._deletions.inc()
        self._latency.observe(max(0.0, (now - eviction.at).total_seconds()))
        self._evicted.update(eviction.rules)
        self._tell_rules(eviction)

    def _tell_rules(self, eviction: Eviction) -> None:
        """Their status shows it a little later, when more may have happened."""
        for rule_uid in eviction.rules:
            for rule in self._rules.by_index("uid", rule_uid):
                self.loop.add_after(f"rule:{name(rule)}", _STATUS_PERIOD)

    async def _reconcile_rule(self, rule_name: str) -> float | None:
        rule = self._rules.get(rule_name)
        if rule is None:
            return None
        known = condition(rule, decisions.CONDITION)
        now = self._clock.now()
        effect = str((spec(rule).get("taint") or {}).get("effect") or "")
        if known is not None and known.get("observedGeneration") == rule["metadata"].get("generation", 0):
            if effect == "None":
                return None  # counted once per spec
            left = _STATUS_PERIOD - (now - parse_time(known["lastTransitionTime"])).total_seconds()
            if left > 0:
                return left
        counts = self._count(rule, effect)
        new = decisions.rule_condition(rule, counts, now)
        if known is None or {**known, "lastTransitionTime": ""} != {**new, "lastTransitionTime": ""}:
            # Strategic: conditions of others, perhaps just written, stay.
            patch = {"metadata": {"uid": uid(rule)}, "status": {"conditions": [new]}}
            self._rules.observe(
                await self._client.patch_plain(
                    RULES, rule_name, patch, kind="strategic", subresource="status", field_manager=self.name
                )
            )
        return _STATUS_PERIOD if counts.pods and effect == "NoExecute" else None

    def _count(self, rule: Plain, effect: str) -> RuleCounts:
        evicted = self._evicted[uid(rule)]
        if effect == "NoExecute":
            pods = self._pending(rule, None)
            return RuleCounts(len(pods), len({namespace(pod) for pod in pods}), evicted=evicted)
        if effect != "None":
            return RuleCounts(evicted=evicted)
        imagined = {**rule, "spec": {**spec(rule), "taint": {**spec(rule)["taint"], "effect": "NoExecute"}}}
        pods = self._pending(rule, imagined)
        published = sum(
            decisions.rule_matches(
                rule, {"driver": spec(each)["driver"], "pool": spec(each)["pool"]["name"], "device": device["name"]}
            )
            for each in self._newest_slices(decisions.selector_key(rule, ("pool", "driver")))
            for device in spec(each).get("devices") or ()
        )
        allocated = sum(
            decisions.rule_matches(rule, device)
            for claim in self._selected(rule)
            for device in decisions.devices_of(claim)
        )
        return RuleCounts(len(pods), len({namespace(pod) for pod in pods}), published, allocated, evicted)

    def _pending(self, rule: Plain, imagined: Plain | None) -> list[Plain]:
        """Pods that the rule (or what it would be) makes leave."""
        found: dict[str, Plain] = {}
        for claim in self._selected(rule):
            for pod in self._consumers(claim):
                waiting = self._waiting.get(key_of(pod))
                gone = deleting(pod) or (waiting is not None and waiting.done)
                eviction = self._eviction(pod, imagined) if not gone else None
                if eviction is not None and uid(rule) in eviction.rules:
                    found[uid(pod)] = pod
        return [*found.values()]

    def _newest_slices(self, selected: str) -> Iterable[Plain]:
        """Of the pools in question (see `selector_key`) the slices that count."""
        found = self._slices.by_index("pool", selected)
        newest: dict[str, int] = {}
        for each in found:
            newest[_pool(each)] = max(newest.get(_pool(each), 0), _generation(each))
        return (each for each in found if _generation(each) == newest[_pool(each)])


def _evicts(rule: Plain) -> bool:
    return bool((spec(rule).get("taint") or {}).get("effect") == "NoExecute")


@dataclass(slots=True)
class _Waiting:
    """A pod that has to go."""

    turn: float | None = None  # when its time has come: the moment at which the rate of evictions lets it go
    bucket: TokenBucket | None = None  # which rate that is
    done: bool = False


def _tainted(slice_: Plain) -> list[tuple[str, Plain]]:
    """NoExecute taints, each with `driver/pool/device`."""
    return [
        (f"{_pool(slice_)}/{device['name']}", taint)
        for device in spec(slice_).get("devices") or ()
        for taint in device.get("taints") or ()
        if taint.get("effect") == "NoExecute"
    ]


def _pool(slice_: Plain) -> str:
    return f"{spec(slice_)['driver']}/{spec(slice_)['pool']['name']}"


def _generation(slice_: Plain) -> int:
    return int(spec(slice_)["pool"].get("generation") or 0)


def _tainted_values(slice_: Plain) -> Iterable[str]:
    tainted = _tainted(slice_)
    return {"yes", _pool(slice_), *(device for device, _ in tainted)} if tainted else ()
