"""The declared rules of scheduling.k8s.io: what PodGroups, CompositePodGroups and Workloads are made of, and the parts that Jobs
use in `spec.scheduling`. Both versions have the same."""

from __future__ import annotations

from drakit.api.declared import Field, Type, at_least, at_most, label_key, long_name, one_of, segment, short_name

__all__ = ["COMPOSITE_SPEC", "JOB_SCHEDULING", "POD_GROUP_SPEC", "POD_GROUP_STATUS", "WORKLOAD_SPEC"]

_HIGHEST_PRIORITY = 1_000_000_000
_MAX_TEMPLATES = 8
_MAX_CLAIMS = 4
_TOPOLOGY = "TopologyAwareWorkloadScheduling"
_COMPOSITE = "CompositePodGroup"


def _name(name: str) -> Field:
    return Field(name, required=True, check=short_name)


_PRIORITY = (
    Field("priorityClassName", optional=True, immutable=True, check=long_name),
    Field("priority", optional=True, pointer=True, immutable=True, check=at_most(_HIGHEST_PRIORITY)),
    Field(
        "preemptionPolicy",
        optional=True,
        pointer=True,
        immutable=True,
        gate="PodGroupPreemptionPolicy",
        check=one_of("Never", "PreemptLowerPriority"),
    ),
)
_MODE = Type(
    (Field("single", optional=True, pointer=True), Field("all", optional=True, pointer=True)), union=("single", "all")
)
_REFERENCE = Type((Field("workloadName", required=True, check=long_name), _name("templateName")))
_TOPOLOGY_KEY = Type((Field("key", required=True, check=label_key),))
_CONSTRAINTS = Type((Field("topology", optional=True, max_items=1, items=True, type=lambda: _TOPOLOGY_KEY),))
_CLAIM = Type(
    (
        _name("name"),
        Field("resourceClaimName", optional=True, pointer=True, check=long_name),
        Field("resourceClaimTemplateName", optional=True, pointer=True, check=long_name),
    ),
    union=("resourceClaimName", "resourceClaimTemplateName"),
)
_CLAIMS = Field(
    "resourceClaims", optional=True, immutable=True, max_items=_MAX_CLAIMS, key="name", items=True, type=lambda: _CLAIM
)


def _policy(count: str) -> Type:
    """basic or gang, chosen for good; how many a gang needs may change."""
    gang = Type((Field(count, required=True, check=at_least(1)),))
    return Type(
        (
            Field("basic", optional=True, pointer=True, immutable=True),
            Field("gang", optional=True, pointer=True, fixed_presence=True, type=lambda: gang),
        ),
        union=("basic", "gang"),
    )


_POLICY = _policy("minCount")
_COMPOSITE_POLICY = _policy("minGroupCount")


def _constraints(*, gate: str = "", if_gated: bool = False) -> Field:
    return Field(
        "schedulingConstraints",
        optional=True,
        pointer=True,
        gate=gate,
        immutable=not if_gated,
        immutable_if_gated=if_gated,
        type=lambda: _CONSTRAINTS,
    )


def _mode(*, required: bool = False) -> Field:
    return Field(
        "disruptionMode", optional=not required, required=required, pointer=True, immutable=True, type=lambda: _MODE
    )


def _parent(gate: str = "") -> Field:
    return Field("parentCompositePodGroupName", optional=True, pointer=True, gate=gate, immutable=True, check=long_name)


def _templates(name: str, of: str, gate: str = "") -> Field:
    return Field(
        name,
        optional=True,
        gate=gate,
        max_items=_MAX_TEMPLATES,
        key="name",
        items=True,
        fixed_items=True,
        type=lambda: _TEMPLATES[of],
    )


_POD_TEMPLATES = _templates("podGroupTemplates", "leaf")
_TEMPLATES = {
    "leaf": Type(
        (
            _name("name"),
            Field("schedulingPolicy", type=lambda: _POLICY),
            _constraints(gate=_TOPOLOGY),
            _CLAIMS,
            _mode(),
            *_PRIORITY,
        )
    ),
    "composite": Type(
        (
            _name("name"),
            Field("schedulingPolicy", type=lambda: _COMPOSITE_POLICY),
            _constraints(),
            _mode(),
            *_PRIORITY,
            _POD_TEMPLATES,
            _templates("compositePodGroupTemplates", "composite"),
        )
    ),
}

POD_GROUP_SPEC = Type(
    (
        _parent(_COMPOSITE),
        Field("workloadRef", optional=True, pointer=True, immutable=True, type=lambda: _REFERENCE),
        Field("schedulingPolicy", type=lambda: _POLICY),
        _constraints(gate=_TOPOLOGY, if_gated=True),
        _CLAIMS,
        _mode(required=True),
        *_PRIORITY,
    )
)
_CLAIM_STATUS = Type(
    (
        Field("name", optional=True),
        Field("resourceClaimName", optional=True, pointer=True, check=long_name),
    )
)
POD_GROUP_STATUS = Type(
    (
        Field(
            "resourceClaimStatuses",
            optional=True,
            max_items=_MAX_CLAIMS,
            key="name",
            items=True,
            type=lambda: _CLAIM_STATUS,
        ),
    )
)
COMPOSITE_SPEC = Type(
    (
        _parent(),
        Field("workloadRef", required=True, pointer=True, immutable=True, type=lambda: _REFERENCE),
        Field("schedulingPolicy", immutable=True, type=lambda: _COMPOSITE_POLICY),
        _constraints(),
        _mode(required=True),
        *_PRIORITY,
    )
)
_CONTROLLER = Type(
    (
        Field("apiGroup", optional=True, check=long_name),
        Field("kind", required=True, check=segment),
        Field("name", required=True, check=segment),
    )
)
WORKLOAD_SPEC = Type(
    (
        Field("controllerRef", optional=True, pointer=True, immutable=True, type=lambda: _CONTROLLER),
        _POD_TEMPLATES,
        _templates("compositePodGroupTemplates", "composite", gate=_COMPOSITE),
    ),
    union=("podGroupTemplates", "compositePodGroupTemplates"),
)

_JOB_GANG = Type((Field("minCount", optional=True, pointer=True, check=at_least(1)),))
_JOB_POLICY = Type(
    (
        Field("basic", optional=True, pointer=True),
        Field("gang", optional=True, pointer=True, type=lambda: _JOB_GANG),
    ),
    union=("basic", "gang"),
)
_JOB_CONFIGURATION = Type(
    (
        Field("schedulingPolicy", optional=True, pointer=True, fixed_presence=True, type=lambda: _JOB_POLICY),
        _constraints(),
        _mode(),
        _CLAIMS,
    )
)
# Of a JobSpec, `scheduling` alone.
JOB_SCHEDULING = Type(
    (
        Field(
            "scheduling",
            optional=True,
            pointer=True,
            gate="WorkloadWithJob",
            fixed_presence=True,
            type=lambda: _JOB_CONFIGURATION,
        ),
    )
)
