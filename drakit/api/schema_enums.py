"""Which words the fields of the API types of Kubernetes 1.37 know, for OpenAPI: `kubectl explain` and editors list them.

One line per set, continued by two spaces: the words, then the fields that take them, `module.Type.field`; `resource_*` stands
for each version of the group, '' for the empty word, SIGNAL for all signals. What validation accepts is up to the kinds.
Source: the `+enum` types of k8s.io/api.
"""

from __future__ import annotations

import functools

__all__ = ["by_model", "of"]

_SIGNALS = """
ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMAX-1 RTMAX-10 RTMAX-11 RTMAX-12 RTMAX-13
RTMAX-14 RTMAX-2 RTMAX-3 RTMAX-4 RTMAX-5 RTMAX-6 RTMAX-7 RTMAX-8 RTMAX-9 RTMIN RTMIN+1 RTMIN+10 RTMIN+11 RTMIN+12 RTMIN+13
RTMIN+14 RTMIN+15 RTMIN+2 RTMIN+3 RTMIN+4 RTMIN+5 RTMIN+6 RTMIN+7 RTMIN+8 RTMIN+9 SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU
URG USR1 USR2 VTALRM WINCH XCPU XFSZ
"""

_ENUMS = """
Equivalent|Exact admissionregistration_v1.MatchResources.matchPolicy
*|CONNECT|CREATE|DELETE|UPDATE admissionregistration_v1.NamedRuleWithOperations.operations
*|Cluster|Namespaced admissionregistration_v1.NamedRuleWithOperations.scope
Audit|Deny|Warn admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec.validationActions
Fail|Ignore admissionregistration_v1.ValidatingAdmissionPolicySpec.failurePolicy
OnDelete|RollingUpdate apps_v1.DaemonSetUpdateStrategy.type
Recreate|RollingUpdate apps_v1.DeploymentStrategy.type
OrderedReady|Parallel apps_v1.StatefulSetSpec.podManagementPolicy
OnDelete|Recreate|RollingUpdate apps_v1.StatefulSetUpdateStrategy.type
Indexed|NonIndexed batch_v1.JobSpec.completionMode
Failed|TerminatingOrFailed batch_v1.JobSpec.podReplacementPolicy
In|NotIn batch_v1.PodFailurePolicyOnExitCodesRequirement.operator
Count|FailIndex|FailJob|Ignore batch_v1.PodFailurePolicyRule.action
Localhost|RuntimeDefault|Unconfined core_v1.AppArmorProfile.type core_v1.SeccompProfile.type
None|ReadOnly|ReadWrite core_v1.AzureDiskVolumeSource.cachingMode
Dedicated|Managed|Shared core_v1.AzureDiskVolumeSource.kind
Always|IfNotPresent|Never core_v1.Container.imagePullPolicy core_v1.EphemeralContainer.imagePullPolicy
  core_v1.ImageVolumeSource.pullPolicy
FallbackToLogsOnError|File core_v1.Container.terminationMessagePolicy core_v1.EphemeralContainer.terminationMessagePolicy
SCTP|TCP|UDP core_v1.ContainerPort.protocol core_v1.EndpointPort.protocol core_v1.PortStatus.protocol core_v1.ServicePort.protocol
SIGNAL core_v1.ContainerStatus.stopSignal core_v1.Lifecycle.stopSignal
Plaintext|TLS core_v1.GRPCAction.mode
HTTP1|HTTP2 core_v1.HTTPGetAction.protocol
HTTP|HTTPS core_v1.HTTPGetAction.scheme
''|BlockDevice|CharDevice|Directory|DirectoryOrCreate|File|FileOrCreate|Socket core_v1.HostPathVolumeSource.type
InProgress|Infeasible|Pending core_v1.ModifyVolumeStatus.status
Active|Terminating core_v1.NamespaceStatus.phase
DoesNotExist|Exists|Gt|In|Lt|NotIn core_v1.NodeSelectorRequirement.operator
Pending|Running|Terminated core_v1.NodeStatus.phase
ReadOnlyMany|ReadWriteMany|ReadWriteOnce|ReadWriteOncePod core_v1.PersistentVolumeClaimSpec.accessModes
  core_v1.PersistentVolumeClaimStatus.accessModes
Block|Filesystem core_v1.PersistentVolumeClaimSpec.volumeMode
Bound|Lost|Pending core_v1.PersistentVolumeClaimStatus.phase
Always|OnRootMismatch core_v1.PodSecurityContext.fsGroupChangePolicy
Merge|Strict core_v1.PodSecurityContext.supplementalGroupsPolicy
ClusterFirst|ClusterFirstWithHostNet|Default|None core_v1.PodSpec.dnsPolicy
Never|PreemptLowerPriority core_v1.PodSpec.preemptionPolicy scheduling_v1.PriorityClass.preemptionPolicy
Always|Never|OnFailure core_v1.PodSpec.restartPolicy
Failed|Pending|Running|Succeeded|Unknown core_v1.PodStatus.phase
BestEffort|Burstable|Guaranteed core_v1.PodStatus.qosClass
BestEffort|CrossNamespacePodAffinity|NotBestEffort|NotTerminating|PriorityClass|Terminating|VolumeAttributesClass
  core_v1.ResourceQuotaSpec.scopes core_v1.ScopedResourceSelectorRequirement.scopeName
DoesNotExist|Exists|In|NotIn core_v1.ScopedResourceSelectorRequirement.operator
Default|Unmasked core_v1.SecurityContext.procMount
Cluster|Local core_v1.ServiceSpec.externalTrafficPolicy core_v1.ServiceSpec.internalTrafficPolicy
''|IPv4|IPv6 core_v1.ServiceSpec.ipFamilies
PreferDualStack|RequireDualStack|SingleStack core_v1.ServiceSpec.ipFamilyPolicy
ClientIP|None core_v1.ServiceSpec.sessionAffinity
ClusterIP|ExternalName|LoadBalancer|NodePort core_v1.ServiceSpec.type
NoExecute|NoSchedule|PreferNoSchedule core_v1.Taint.effect core_v1.Toleration.effect
Equal|Exists|Gt|Lt core_v1.Toleration.operator
Honor|Ignore core_v1.TopologySpreadConstraint.nodeAffinityPolicy core_v1.TopologySpreadConstraint.nodeTaintsPolicy
DoNotSchedule|ScheduleAnyway core_v1.TopologySpreadConstraint.whenUnsatisfiable
DataLoss|Degraded|Inaccessible core_v1.VolumeHealthCondition.status
Bidirectional|HostToContainer|None core_v1.VolumeMount.mountPropagation
AlwaysAllow|IfHealthyBudget policy_v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy
FromClaim|FromClass resource_*.DeviceAllocationConfiguration.source
All|ExactCount resource_*.DeviceRequest.allocationMode resource_*.DeviceSubRequest.allocationMode
  resource_*.ExactDeviceRequest.allocationMode
*|NodePrepareResources|NodeUnprepareResources resource_*.DeviceRequestAllocationResult.skipNodeOperations
  resource_*.ResourceSliceSpec.skipNodeOperations
NoExecute|NoSchedule|None resource_*.DeviceTaint.effect resource_*.DeviceToleration.effect
Equal|Exists resource_*.DeviceToleration.operator
"""


def of(model: str) -> dict[str, list[str]]:
    """The words of the fields of `module.Class` that have such: {field: words}."""
    if model.startswith("resource_"):
        model = f"resource_*.{model.partition('.')[2]}"
    return by_model().get(model, {})


@functools.cache
def by_model() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for line in _ENUMS.replace("\n  ", " ").strip().splitlines():
        words, *fields = line.split(" ")
        if words == "SIGNAL":
            known = [f"SIG{name}" for name in _SIGNALS.split()]
        else:
            known = ["" if word == "''" else word for word in words.split("|")]
        for field in fields:
            model, _, name = field.rpartition(".")
            found.setdefault(model, {})[name] = known
    return found
