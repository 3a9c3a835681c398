"""Feature gates: the names, stages, defaults and dependencies of Kubernetes 1.37.

The table below is the whole set, so that a `--feature-gates` line written for Kubernetes works here unchanged; most gates
decide nothing in drakit. A set of gates is a value: what one process runs with is passed to whatever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["GATES", "FeatureGates", "Gate", "GateError"]


class GateError(ValueError):
    """A feature gate setting that cannot be used; the text is what Kubernetes prints."""


@dataclass(frozen=True, slots=True)
class Gate:
    name: str
    stage: str  # alpha, beta, ga, deprecated
    default: bool
    locked: bool
    needs: tuple[str, ...]


# name, stage, default, whether it is locked, what it needs. DynamicResourceAllocation is locked upstream; here it may be
# switched off, because a cluster without DRA is something the project has to be able to show.
_TABLE = """
APIResponseCompression beta on
APIServerIdentity beta on
APIServerWebhookAuthenticationToken alpha off
APIServingWithRoutine alpha off
AggregatedDiscoveryRemoveBetaType deprecated on locked
AllowDNSOnlyNodeCSR deprecated off
AllowInsecureKubeletCertificateSigningRequests deprecated off
AllowOverwriteTerminationGracePeriodSeconds deprecated off locked
AllowParsingUserUIDFromCertAuth beta on
AllowServiceExternalIPs ga on
AllowUnsafeMalformedObjectDeletion beta on
AtomicWriteVolumeUserFields alpha off
AuthorizePodWebsocketUpgradeCreatePermission beta on
CBORServingAndStorage alpha off
CPUManagerPolicyAlphaOptions alpha off
CPUManagerPolicyBetaOptions beta on
CPUManagerPolicyOptions ga on locked
CRIListStreaming alpha off
CSIServiceAccountTokenSecrets ga on locked
CSIVolumeHealth alpha off
ChangeContainerStatusOnKubeletRestart deprecated off
ClearingNominatedNodeNameAfterBinding beta on
ClusterTrustBundle ga on
ClusterTrustBundleProjection ga on needs ClusterTrustBundle
CompositePodGroup alpha off needs GenericWorkload,TopologyAwareWorkloadScheduling
ConcurrentWatchObjectDecode beta on
ConsistentListFromCacheSkipTimeoutFallback alpha off
ConstrainedImpersonation beta on
ContainerCheckpoint beta on
ContainerRestartRules beta on
ContainerStopSignals alpha off
CoordinatedLeaderElection beta off
CrossNamespaceVolumeDataSource alpha off
CustomCPUCFSQuotaPeriod ga on
DRAAdminAccess ga on locked needs DynamicResourceAllocation
DRAConsumableCapacity beta on needs DynamicResourceAllocation
DRADerivedAttributes alpha off needs DynamicResourceAllocation
DRADeviceBindingConditions beta on needs DynamicResourceAllocation,DRAResourceClaimDeviceStatus
DRADeviceCompatibilityGroups alpha off needs DynamicResourceAllocation,DRAPartitionableDevices
DRADeviceTaintRules ga on needs DRADeviceTaints
DRADeviceTaints ga on needs DynamicResourceAllocation
DRAExtendedResource ga on locked needs DynamicResourceAllocation
DRAFractionalCapacityRange beta off needs DRAConsumableCapacity
DRAListTypeAttributes alpha off needs DynamicResourceAllocation
DRANodeAllocatableResources alpha off needs DynamicResourceAllocation
DRAOptionalNodeOperations alpha off needs DynamicResourceAllocation,NodeDeclaredFeatures
DRAPartitionableDevices beta on needs DynamicResourceAllocation
DRAPartitionableDevicesType alpha off needs DynamicResourceAllocation,DRAPartitionableDevices,DRAResourcePoolStatus
DRAPrioritizedList ga on locked needs DynamicResourceAllocation
DRAResourceClaimDeviceStatus ga on locked
DRAResourceClaimGranularStatusAuthorization beta on needs DynamicResourceAllocation,DRAResourceClaimDeviceStatus
DRAResourcePoolStatus alpha off needs DynamicResourceAllocation
DRASchedulerFilterTimeout beta on needs DynamicResourceAllocation
DRAWorkloadResourceClaims beta off needs DynamicResourceAllocation,GenericWorkload
DeclarativeValidation ga on locked
DeclarativeValidationBeta beta on needs DeclarativeValidation
DeclarativeValidationTakeover deprecated off locked needs DeclarativeValidation
DefaultPodSysctls alpha off
DeploymentReplicaSetTerminatingReplicas beta on
DetectCacheInconsistency beta on
DisableAllocatorDualWrite ga on locked needs MultiCIDRServiceAllocator
DisableCPUQuotaWithExclusiveCPUs deprecated on locked
DisableNodeKubeProxyVersion deprecated on locked
DynamicResourceAllocation ga on
EmptyDirVolumeMode alpha off
EnvFiles beta on
EtcdRangeStream beta on
EventedPLEG alpha off needs PLEGOnDemandRelist
EvictionRequestAPI alpha off
ExcludeAdmissionWebhookVirtualResources beta on
ExecProbeTimeout ga on locked
ExtendWebSocketsToKubelet beta on needs NodeDeclaredFeatures
ExternalServiceAccountTokenSigner ga on locked
GRPCContainerProbeTLS alpha off
GenericWorkload beta off
GitRepoVolumeDriver deprecated off locked
GracefulNodeShutdown beta on
GracefulNodeShutdownBasedOnPodPriority beta on needs GracefulNodeShutdown
H2CContainerProbe alpha off needs NodeDeclaredFeatures
HPAConfigurableTolerance ga on locked
HPAGeneration beta on
HPAOptimizedSelectorStore beta on
HPAScaleToZero beta on
HostnameOverride ga on locked
HugepageAwareEviction beta on
ImageMaximumGCAge ga on locked
ImageVolume ga on locked
ImageVolumeWithDigest alpha off needs ImageVolume
InPlacePodLevelResourcesVerticalScaling beta on needs InPlacePodVerticalScaling,PodLevelResources,NodeDeclaredFeatures
InPlacePodVerticalScaling ga on locked
InPlacePodVerticalScalingExclusiveCPUs alpha off needs InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory alpha off needs InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers ga on locked needs InPlacePodVerticalScaling,NodeDeclaredFeatures
InPlacePodVerticalScalingMemoryBackedVolumes alpha off needs InPlacePodVerticalScaling,NodeDeclaredFeatures
InPlacePodVerticalScalingSchedulerPreemption alpha off needs InPlacePodVerticalScaling
InterPodAffinityHostnameFastPath alpha off
JobManagedBy ga on locked
KMSv1 deprecated off
KubeProxyIPVS deprecated on
KubeProxyNFTablesLocalhostNodePorts alpha off
KubeletAllocatedPodsEndpoint alpha off needs InPlacePodVerticalScaling
KubeletCgroupDriverFromCRI ga on locked
KubeletCrashLoopBackOffMax beta on
KubeletEnsureSecretPulledImages beta on
KubeletFineGrainedAuthz ga on locked
KubeletInUserNamespace beta on
KubeletPSI ga on locked
KubeletPodResourcesDynamicResources ga on locked
KubeletPodResourcesGet ga on locked
KubeletPodResourcesListUseActivePods deprecated on
KubeletRegistrationGetOnExistsOnly deprecated off
KubeletSeparateDiskGC beta on
KubeletServiceAccountTokenForCredentialProviders beta on
KubeletTracing ga on locked
ListFromCacheSnapshot beta on
LocalStorageCapacityIsolationFSQuotaMonitoring beta off
ManifestBasedAdmissionControlConfig beta on
MatchLabelKeysInPodAffinity ga on locked
MatchLabelKeysInPodTopologySpread beta on
MatchLabelKeysInPodTopologySpreadSelectorMerge beta on needs MatchLabelKeysInPodTopologySpread
MaxUnavailableStatefulSet beta on
MemoryQoS beta on
MultiCIDRServiceAllocator ga on locked
MutableCSINodeAllocatableCount ga on locked
MutablePVNodeAffinity alpha off
MutablePodResourcesForSuspendedJobs beta on
MutableSchedulingDirectivesForSuspendedJobs beta on
MutatingAdmissionPolicy ga on
NFTablesNetlink beta on
NFTablesProxyMode ga on locked
NodeControllerLeaseCircuitBreaker beta on
NodeDeclaredFeatures ga on locked
NodeInclusionPolicyInPodTopologySpread ga on locked
NodeLifecycleConditions alpha off
NodeLogQuery ga on locked
NodeSwap ga on locked
NominatedNodeNameForExpectation beta on
OpenAPIEnums beta on
OpportunisticBatching beta on
PLEGOnDemandRelist ga on locked
PersistentVolumeClaimUnusedSinceTime beta on
PodAndContainerStatsFromCRI beta off
PodCertificateRequest ga on
PodDeletionCost beta on
PodGroupPreemptionPolicy alpha off needs GenericWorkload
PodLevelResourceManagers beta off needs PodLevelResources
PodLevelResources beta on
PodLevelResourcesFixDefaulting beta on needs PodLevelResources
PodLevelResourcesFixKubeletQOSClass beta on needs PodLevelResources
PodLogsQuerySplitStreams alpha off
PodObservedGenerationTracking ga on locked
PodReadyToStartContainersCondition ga on locked
PodSchedulingReadiness ga on locked
PodTopologyLabelsAdmission beta on
PodsAPI beta on
PortForwardWebsockets beta on
PreferSameTrafficDistribution ga on locked
ProcMountType ga on locked needs UserNamespacesSupport
QOSReserved alpha off
RecoverVolumeExpansionFailure ga on locked
RecursiveReadOnlyMounts ga on locked
ReduceDefaultCrashLoopBackOffDecay alpha off
RelaxedEnvironmentVariableValidation ga on locked
RelaxedServiceNameValidation ga on locked
ReloadKubeletClientCAFile beta on
ReloadKubeletServerCertificateFile beta on
RemoteRequestHeaderUID beta on
ResourceHealthStatus beta on needs DynamicResourceAllocation
ResourceHealthStatusMessage beta on needs ResourceHealthStatus
RestartAllContainersOnContainerExits beta on needs ContainerRestartRules,NodeDeclaredFeatures
RotateKubeletServerCertificate beta on
RuntimeClassInImageCriApi alpha off
SELinuxChangePolicy ga on locked
SELinuxMount ga on
SELinuxMountReadWriteOncePod ga on locked
SchedulerAsyncAPICalls beta off
SchedulerAsyncPreemption beta on
SchedulerPopFromBackoffQ beta on
SchedulerPreQueueingHints alpha off
SeparateCacheWatchRPC deprecated off locked
SeparateTaintEvictionController ga on locked
ServiceAccountNodeAudienceRestriction beta on
ServiceAccountTokenJTI ga on locked
ServiceAccountTokenNodeBinding ga on locked needs ServiceAccountTokenNodeBindingValidation
ServiceAccountTokenNodeBindingValidation ga on locked
ServiceAccountTokenPodNodeInfo ga on locked
ServiceCIDRStatusFieldWiping deprecated on
ShardedListAndWatch alpha off
SizeBasedListCostEstimate beta on
StaleControllerConsistencyDaemonSet beta on
StaleControllerConsistencyHPA beta on
StaleControllerConsistencyJob beta on
StaleControllerConsistencyReplicaSet beta on
StaleControllerConsistencyStatefulSet beta on
StatefulSetRecreateStrategy alpha off
StatefulSetSemanticRevisionComparison beta on
StorageCapacityScoring beta on
StorageNamespaceIndex deprecated on
StorageVersionAPI alpha off needs APIServerIdentity
StorageVersionHash beta on
StorageVersionMigrator ga on
StrictIPCIDRValidation beta on
StructuredAuthenticationConfigurationEgressSelector beta on
StructuredAuthenticationConfigurationJWKSMetrics beta on
SupplementalGroupsPolicy ga on locked
SystemdWatchdog ga on locked
TaintTolerationComparisonOperators alpha off
TokenRequestServiceAccountUIDValidation beta on
TopologyAwareWorkloadScheduling alpha off needs GenericWorkload
TopologyManagerPolicyAlphaOptions alpha off
TopologyManagerPolicyBetaOptions beta on
TopologyManagerPolicyOptions ga on locked
TranslateStreamCloseWebsocketRequests beta on
UnauthenticatedHTTP2DOSMitigation beta on
UnknownVersionInteroperabilityProxy beta on needs APIServerIdentity
UserNamespacesHostNetworkSupport alpha off needs UserNamespacesSupport,NodeDeclaredFeatures
UserNamespacesSupport ga on locked
VolumeAttributesClass ga on locked
VolumeBindMountOptions alpha off
VolumeLimitScaling beta on
WatchCacheInitializationPostStartHook ga on locked
WatchList beta on
WatchListCompression beta on
WebhookRoundTripLoadBalancing beta on
WinDSR ga on locked
WinOverlay ga on locked
WindowsCPUAndMemoryAffinity alpha off
WindowsGracefulNodeShutdown beta on needs GracefulNodeShutdown
WindowsHostNetwork deprecated off
WorkloadWithJob alpha off needs GenericWorkload
"""

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def _read_table() -> Mapping[str, Gate]:
    gates = {}
    for line in _TABLE.split("\n"):
        words = line.split()
        if not words:
            continue
        needs = words[-1].split(",") if "needs" in words else []
        gates[words[0]] = Gate(words[0], words[1], words[2] == "on", "locked" in words, tuple(needs))
    return gates


GATES: Mapping[str, Gate] = _read_table()


def _parse_bool(name: str, text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise GateError(f'invalid value of {name}={text}, err: strconv.ParseBool: parsing "{text}": invalid syntax')


def _without_needs(enabled: set[str]) -> set[str]:
    """The gates that stay on when those whose needs are off go off too, until nothing changes."""
    while True:
        kept = {name for name in enabled if all(need in enabled for need in GATES[name].needs)}
        if kept == enabled:
            return kept
        enabled = kept


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which gates are on. `settings` is what the user said; everything else has its default."""

    settings: Mapping[str, bool] = field(default_factory=dict)
    on: frozenset[str] = frozenset()

    @classmethod
    def default(cls) -> FeatureGates:
        return _DEFAULT

    @classmethod
    def parse(cls, text: str) -> FeatureGates:
        """From `A=true,B=false`, as `--feature-gates` takes it."""
        settings: dict[str, bool] = {}
        for part in text.split(","):
            if not part.strip():
                continue
            name, equals, value = part.partition("=")
            name = name.strip()
            if not equals:
                raise GateError(f"missing bool value for {name}")
            settings[name] = _parse_bool(name, value.strip())
        return cls.of(settings)

    @classmethod
    def of(cls, settings: Mapping[str, bool]) -> FeatureGates:
        for name, value in settings.items():
            if name in ("AllAlpha", "AllBeta"):
                continue
            gate = GATES.get(name)
            if gate is None:
                raise GateError(f"unrecognized feature gate: {name}")
            if gate.locked and value != gate.default:
                raise GateError(
                    f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {str(gate.default).lower()}"
                )
        enabled = _without_needs({gate.name for gate in GATES.values() if _wanted(gate, settings)})
        for name, value in settings.items():
            if value and name in GATES and name not in enabled:
                missing = [need for need in GATES[name].needs if need not in enabled]
                raise GateError(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")
        return cls(settings=dict(settings), on=frozenset(enabled))

    def enabled(self, name: str) -> bool:
        if name not in GATES:
            raise GateError(f"unrecognized feature gate: {name}")
        return name in self.on

    def __hash__(self) -> int:
        return hash(self.on)

    def __str__(self) -> str:
        return ",".join(f"{name}={str(value).lower()}" for name, value in sorted(self.settings.items()))


def _wanted(gate: Gate, settings: Mapping[str, bool]) -> bool:
    if gate.name in settings:
        return settings[gate.name]
    if gate.stage == "alpha" and "AllAlpha" in settings:
        return settings["AllAlpha"]
    if gate.stage == "beta" and "AllBeta" in settings:
        return settings["AllBeta"]
    return gate.default


_DEFAULT = FeatureGates.of({})
