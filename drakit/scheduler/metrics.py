"""The scheduler's metrics, under kube-scheduler's names; a scheduler has one profile, called like itself."""

from __future__ import annotations

from collections.abc import Iterable

from lightkube.models.resource_v1 import ResourceClaim

from drakit.metrics import Registry, exponential
from drakit.scheduler.claims import results_of
from drakit.scheduler.hints import NO_NODES
from drakit.scheduler.nodes import Nodes
from drakit.scheduler.queue import SchedulingQueue, Waiting

__all__ = ["SchedulerMetrics"]

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
_MANY_ATTEMPTS = 15  # more are shown together


class SchedulerMetrics:
    def __init__(self, profile: str, queue: SchedulingQueue, nodes: Nodes) -> None:
        self.registry = registry = Registry()
        self._profile = profile
        self._declare_attempts()
        self._declare_claims()
        registry.gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type: active, backoff, unschedulable, gated.",
            ("queue",),
            read=lambda: {(name,): number for name, number in queue.counts().items()},
        )
        registry.gauge(
            "scheduler_unschedulable_pods",
            "Number of unschedulable pods by the plugins that rejected them; a pod counts once for each.",
            ("plugin", "profile"),
            read=lambda: {(p, profile): number for p, number in queue.rejections().items() if p != NO_NODES},
        )
        registry.gauge(
            "scheduler_cache_size",
            "Number of nodes and pods (those on nodes, assumed ones included) in the scheduler's memory.",
            ("type",),
            read=lambda: {("nodes",): len(nodes), ("pods",): len(nodes.placed)},
        )

    def _declare_attempts(self) -> None:
        registry, by_result = self.registry, ("result", "profile")
        milliseconds = exponential(0.001, 2, 15)
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total", "Number of attempts to schedule pods, by the result.", by_result
        )
        self._latency = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (decision and binding).",
            milliseconds,
            by_result,
        )
        self.decisions = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Time to decide on one pod.", milliseconds
        )
        self._sli = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the time when a pod may be scheduled until it is, over all attempts.",
            exponential(0.01, 2, 20),
            ("attempts",),
        )
        self._attempts_needed = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            exponential(1, 2, 5),
        )
        self.preemption_attempts = registry.counter(
            "scheduler_preemption_attempts_total", "Searches for pods whose end would make room."
        )
        self.preemption_victims = registry.histogram(
            "scheduler_preemption_victims", "Number of pods chosen to make room for one.", exponential(1, 2, 7)
        )

    def _declare_claims(self) -> None:
        registry, labels = self.registry, ("profile", "driver", "status")
        self._conditions = registry.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocated devices with binding conditions, per driver and scheduling attempt.",
            labels,
        )
        self._conditions_wait = registry.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for binding conditions.",
            exponential(0.1, 2, 14),
            labels,
        )
        self._claim_creates = registry.counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests, categorized by creation status, admin access and owner",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
        )

    def attempted(self, result: str, waiting: Waiting, now: float) -> None:
        """An attempt ended."""
        self._attempts.inc(result, self._profile)
        self._latency.observe(now - waiting.began, result, self._profile)
        if result == SCHEDULED:
            attempts = waiting.attempts
            label = str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
            self._sli.observe(now - waiting.admitted, label)
            self._attempts_needed.observe(attempts)

    def waited(self, claims: Iterable[ResourceClaim], status: str, seconds: float) -> None:
        """A pod waited for its devices' binding conditions: success, failure, timeout or error."""
        for claim in claims:
            for result in results_of(claim):
                self._conditions_wait.observe(seconds, self._profile, result.driver, status)
                if result.bindingConditions:
                    self._conditions.inc(self._profile, result.driver, status)

    def claim_created(self, *, success: bool) -> None:
        """The claim of a pod that asks for extended resources."""
        self._claim_creates.inc("success" if success else "failure", "false", "", "Pod")
