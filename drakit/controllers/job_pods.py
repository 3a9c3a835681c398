"""The pods of a Job: how they are made, and which indexes have one."""

from __future__ import annotations

from dataclasses import dataclass, field

from drakit.controllers import job_decisions as decisions
from drakit.controllers.job_indexes import Indexes
from drakit.controllers.objects import Plain, name, spec
from drakit.controllers.pods import COMPLETION_INDEX, JOB_FINALIZER, pod_from_template

__all__ = ["Placement", "new_pod"]


@dataclass(slots=True)
class Placement:
    """What spares an indexed Job to look at all its pods for each that changes."""

    completions: int
    start: int = 0  # every index below has a pod or a result
    check: bool = True  # an index may have two pods, or a pod none that counts
    done: Indexes = field(default_factory=Indexes)  # as the status has it

    def free(self, index: int | None) -> None:
        """A pod of the index is gone, or has ended with nothing that counts."""
        if index is not None and index not in self.done:
            self.start = min(self.start, index)


def new_pod(job: Plain, index: int | None = None, failed_before: Plain | None = None) -> Plain:
    """`failed_before`: the pod of the index that failed last, whose counts of failures go on."""
    template = spec(job)["template"]
    metadata = template.get("metadata") or {}
    kept = [entry for entry in metadata.get("finalizers") or () if entry != JOB_FINALIZER]
    body = pod_from_template(template, job, finalizers=[*kept, JOB_FINALIZER])
    if index is None:
        return body
    annotations = {**(metadata.get("annotations") or {}), COMPLETION_INDEX: str(index)}
    if spec(job).get("backoffLimitPerIndex") is not None:
        annotations.update(decisions.counts_handed_on(job, failed_before))
    body["metadata"].update(
        annotations=annotations,
        labels={**(metadata.get("labels") or {}), COMPLETION_INDEX: str(index)},
        generateName=f"{name(job)[: 63 - len(str(index)) - 7]}-{index}-",
    )
    body["spec"] = _with_index(body["spec"], f"{name(job)}-{index}")
    return body


def _with_index(pod_spec: Plain, hostname: str) -> Plain:
    variable = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
    }

    def with_variable(container: Plain) -> Plain:
        known = container.get("env") or []
        if any(entry["name"] == variable["name"] for entry in known):
            return container
        return {**container, "env": [*known, variable]}

    changed = {
        field: [with_variable(container) for container in pod_spec[field]]
        for field in ("containers", "initContainers")
        if pod_spec.get(field)
    }
    return {**pod_spec, **changed, "hostname": hostname}
