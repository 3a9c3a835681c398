"""What lightkube's models leave out: how lists and maps of the API types of Kubernetes 1.37 merge, and what maps hold.

One line per type, `module.Type[@atomic] field:facts …`, continued by two spaces. Facts, joined by `+`:
`map[keys]`, `set`, `atomic` the list type (none: atomic) or an atomic map; `merge[key]`, `merge/retainKeys[key]`,
`retainKeys`, `replace` the patch strategy with its merge key; `of[type]` what a map holds (`*`: lists of it);
`long`, `bytes` a scalar's form (integers are 32 bits wide otherwise); `="x"` the default that counts in a list key.
Sources: the listType, listMapKey, mapType, structType, patchStrategy, patchMergeKey and default markers of k8s.io/api.
"""

FACTS = """
admissionregistration_v1.MatchResources@atomic excludeResourceRules:atomic resourceRules:atomic
admissionregistration_v1.NamedRuleWithOperations@atomic apiGroups:atomic apiVersions:atomic operations:atomic
  resourceNames:atomic resources:atomic
admissionregistration_v1.ParamKind@atomic
admissionregistration_v1.ParamRef@atomic
admissionregistration_v1.TypeChecking expressionWarnings:atomic
admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec validationActions:set
admissionregistration_v1.ValidatingAdmissionPolicySpec auditAnnotations:atomic matchConditions:map[name]+merge[name]
  validations:atomic variables:map[name]+merge[name]
admissionregistration_v1.ValidatingAdmissionPolicyStatus conditions:map[type] observedGeneration:long
admissionregistration_v1.Variable@atomic
apps_v1.ControllerRevision revision:long
apps_v1.DaemonSetStatus conditions:map[type]+merge[type] observedGeneration:long
apps_v1.DeploymentSpec strategy:retainKeys
apps_v1.DeploymentStatus conditions:map[type]+merge[type] observedGeneration:long
apps_v1.ReplicaSetStatus conditions:map[type]+merge[type] observedGeneration:long
apps_v1.StatefulSetSpec volumeClaimTemplates:atomic
apps_v1.StatefulSetStatus conditions:map[type]+merge[type] observedGeneration:long
authentication_v1.TokenRequestSpec attestations:of[string*] audiences:atomic expirationSeconds:long
authentication_v1.TokenReviewSpec audiences:atomic
authentication_v1.TokenReviewStatus audiences:atomic
authentication_v1.UserInfo extra:of[string*] groups:atomic
authorization_v1.FieldSelectorAttributes requirements:atomic
authorization_v1.LabelSelectorAttributes requirements:atomic
authorization_v1.NonResourceRule nonResourceURLs:atomic verbs:atomic
authorization_v1.ResourceRule apiGroups:atomic resourceNames:atomic resources:atomic verbs:atomic
authorization_v1.SubjectAccessReviewSpec extra:of[string*] groups:atomic
authorization_v1.SubjectRulesReviewStatus nonResourceRules:atomic resourceRules:atomic
batch_v1.JobSchedulingConfiguration resourceClaims:map[name]+merge[name]
batch_v1.JobSpec activeDeadlineSeconds:long
batch_v1.JobStatus conditions:atomic+merge[type]
batch_v1.PodFailurePolicy rules:atomic
batch_v1.PodFailurePolicyOnExitCodesRequirement values:set
batch_v1.PodFailurePolicyRule onPodConditions:atomic
batch_v1.SuccessPolicy rules:atomic
batch_v1.UncountedTerminatedPods failed:set succeeded:set
core_v1.AzureDiskVolumeSource cachingMode:="ReadWrite" fsType:="ext4" kind:="Shared"
core_v1.CSIVolumeSource volumeAttributes:of[string]
core_v1.Capabilities add:atomic drop:atomic
core_v1.CephFSVolumeSource monitors:atomic
core_v1.ClusterTrustBundleProjection user:long
core_v1.ConfigMap binaryData:of[bytes] data:of[string]
core_v1.ConfigMapKeySelector@atomic
core_v1.ConfigMapProjection items:atomic
core_v1.ConfigMapVolumeSource defaultUser:long items:atomic
core_v1.Container args:atomic command:atomic env:map[name]+merge[name] envFrom:atomic
  ports:map[containerPort,protocol]+merge[containerPort] resizePolicy:atomic restartPolicyRules:atomic
  volumeDevices:map[devicePath]+merge[devicePath] volumeMounts:map[mountPath]+merge[mountPath]
core_v1.ContainerImage names:atomic sizeBytes:long
core_v1.ContainerPort protocol:="TCP"
core_v1.ContainerRestartRuleOnExitCodes values:set
core_v1.ContainerStatus allocatedResources:of[quantity] allocatedResourcesStatus:map[name]+merge[name]
  volumeMounts:map[mountPath]+merge[mountPath]
core_v1.DownwardAPIProjection items:atomic
core_v1.DownwardAPIVolumeFile user:long
core_v1.DownwardAPIVolumeSource defaultUser:long items:atomic
core_v1.EndpointAddress@atomic
core_v1.EndpointPort@atomic
core_v1.EndpointSubset addresses:atomic notReadyAddresses:atomic ports:atomic
core_v1.Endpoints subsets:atomic
core_v1.EphemeralContainer args:atomic command:atomic env:map[name]+merge[name] envFrom:atomic
  ports:map[containerPort,protocol]+merge[containerPort] resizePolicy:atomic restartPolicyRules:atomic
  volumeDevices:map[devicePath]+merge[devicePath] volumeMounts:map[mountPath]+merge[mountPath]
core_v1.EvictionResponder@atomic
core_v1.ExecAction command:atomic
core_v1.FCVolumeSource targetWWNs:atomic wwids:atomic
core_v1.FileKeySelector@atomic
core_v1.FlexVolumeSource options:of[string]
core_v1.HTTPGetAction httpHeaders:atomic
core_v1.HostAlias hostnames:atomic
core_v1.ISCSIVolumeSource iscsiInterface:="default" portals:atomic
core_v1.KeyToPath user:long
core_v1.LimitRangeItem default:of[quantity] defaultRequest:of[quantity] max:of[quantity]
  maxLimitRequestRatio:of[quantity] min:of[quantity]
core_v1.LimitRangeSpec limits:atomic
core_v1.LinuxContainerUser gid:long supplementalGroups:atomic+long uid:long
core_v1.LoadBalancerIngress ports:atomic
core_v1.LoadBalancerStatus ingress:atomic
core_v1.LocalObjectReference@atomic
core_v1.NamespaceSpec finalizers:atomic
core_v1.NamespaceStatus conditions:map[type]+merge[type]
core_v1.NodeAffinity preferredDuringSchedulingIgnoredDuringExecution:atomic
core_v1.NodeAllocatableResourceClaimStatus containers:set mapping:map[name]+merge[name] overhead:map[name]+merge[name]
core_v1.NodePodPreemptionPolicy disableResizePreemption:set
core_v1.NodeSelector@atomic nodeSelectorTerms:atomic
core_v1.NodeSelectorRequirement values:atomic
core_v1.NodeSelectorTerm@atomic matchExpressions:atomic matchFields:atomic
core_v1.NodeSpec podCIDRs:set+merge taints:atomic
core_v1.NodeStatus addresses:map[type]+merge[type] allocatable:of[quantity] capacity:of[quantity]
  conditions:map[type]+merge[type] declaredFeatures:atomic images:atomic runtimeHandlers:atomic volumesAttached:atomic
  volumesInUse:atomic
core_v1.NodeSwapStatus capacity:long
core_v1.ObjectFieldSelector@atomic
core_v1.ObjectReference@atomic
core_v1.PersistentVolumeClaimSpec accessModes:atomic
core_v1.PersistentVolumeClaimStatus accessModes:atomic allocatedResourceStatuses:granular+of[string]
  allocatedResources:of[quantity] capacity:of[quantity] conditions:map[type]+merge[type]
core_v1.PodAffinity preferredDuringSchedulingIgnoredDuringExecution:atomic
  requiredDuringSchedulingIgnoredDuringExecution:atomic
core_v1.PodAffinityTerm matchLabelKeys:atomic mismatchLabelKeys:atomic namespaces:atomic
core_v1.PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution:atomic
  requiredDuringSchedulingIgnoredDuringExecution:atomic
core_v1.PodCertificateProjection user:long userAnnotations:of[string]
core_v1.PodCondition observedGeneration:long
core_v1.PodDNSConfig nameservers:atomic options:atomic searches:atomic
core_v1.PodExtendedResourceClaimStatus requestMappings:atomic
core_v1.PodSecurityContext fsGroup:long runAsGroup:long runAsUser:long supplementalGroups:atomic+long sysctls:atomic
core_v1.PodSpec activeDeadlineSeconds:long containers:map[name]+merge[name] ephemeralContainers:map[name]+merge[name]
  evictionResponders:map[name]+merge[name] hostAliases:map[ip]+merge[ip] imagePullSecrets:map[name]+merge[name]
  initContainers:map[name]+merge[name] nodeSelector:atomic+of[string] overhead:of[quantity] readinessGates:atomic
  resourceClaims:map[name]+merge/retainKeys[name] schedulingGates:map[name]+merge[name]
  terminationGracePeriodSeconds:long tolerations:atomic
  topologySpreadConstraints:map[topologyKey,whenUnsatisfiable]+merge[topologyKey]
  volumes:map[name]+merge/retainKeys[name]
core_v1.PodStatus allocatedResources:of[quantity] conditions:map[type]+merge[type] containerStatuses:atomic
  ephemeralContainerStatuses:atomic hostIPs:atomic+merge[ip] initContainerStatuses:atomic
  nodeAllocatableResourceClaimStatuses:map[resourceClaimName]+merge[resourceClaimName] observedGeneration:long
  podIPs:map[ip]+merge[ip] resourceClaimStatuses:map[name]+merge/retainKeys[name] volumeHealth:map[name]
core_v1.PodVolumeHealth healthConditions:map[status,reason]+merge[status]
core_v1.Probe terminationGracePeriodSeconds:long
core_v1.ProjectedVolumeSource defaultUser:long sources:atomic
core_v1.RBDVolumeSource keyring:="/etc/ceph/keyring" monitors:atomic pool:="rbd" user:="admin"
core_v1.ResourceFieldSelector@atomic
core_v1.ResourceQuotaSpec hard:of[quantity] scopes:atomic
core_v1.ResourceQuotaStatus hard:of[quantity] used:of[quantity]
core_v1.ResourceRequirements claims:map[name] limits:of[quantity] requests:of[quantity]
core_v1.ResourceStatus resources:map[resourceID]
core_v1.ScaleIOVolumeSource fsType:="xfs" storageMode:="ThinProvisioned"
core_v1.ScopeSelector@atomic matchExpressions:atomic
core_v1.ScopedResourceSelectorRequirement values:atomic
core_v1.Secret data:of[bytes] stringData:of[string]
core_v1.SecretKeySelector@atomic
core_v1.SecretProjection items:atomic
core_v1.SecretVolumeSource defaultUser:long items:atomic
core_v1.SecurityContext runAsGroup:long runAsUser:long
core_v1.ServiceAccount imagePullSecrets:atomic secrets:map[name]+merge[name]
core_v1.ServiceAccountTokenProjection expirationSeconds:long user:long
core_v1.ServicePort protocol:="TCP"
core_v1.ServiceSpec clusterIPs:atomic externalIPs:atomic ipFamilies:atomic loadBalancerSourceRanges:atomic
  ports:map[port,protocol]+merge[port] selector:atomic+of[string]
core_v1.ServiceStatus conditions:map[type]+merge[type]
core_v1.SleepAction seconds:long
core_v1.Toleration tolerationSeconds:long
core_v1.TopologySpreadConstraint matchLabelKeys:atomic
core_v1.TypedLocalObjectReference@atomic
core_v1.VolumeHealthStatus healthConditions:map[status,reason]+merge[status]
core_v1.VolumeMount bindMountOptions:set
core_v1.VolumeResourceRequirements limits:of[quantity] requests:of[quantity]
meta_v1.Condition observedGeneration:long
meta_v1.DeleteOptions dryRun:atomic gracePeriodSeconds:long
meta_v1.FieldSelectorRequirement values:atomic
meta_v1.LabelSelector@atomic matchExpressions:atomic matchLabels:of[string]
meta_v1.LabelSelectorRequirement values:atomic
meta_v1.ListMeta remainingItemCount:long
meta_v1.ObjectMeta annotations:of[string] deletionGracePeriodSeconds:long finalizers:set+merge generation:long
  labels:of[string] managedFields:atomic ownerReferences:map[uid]+merge[uid]
meta_v1.OwnerReference@atomic
meta_v1.StatusDetails causes:atomic
policy_v1.PodDisruptionBudgetSpec selector:replace
policy_v1.PodDisruptionBudgetStatus conditions:map[type]+merge[type] disruptedPods:of[time] observedGeneration:long
rbac_v1.AggregationRule clusterRoleSelectors:atomic
rbac_v1.ClusterRole rules:atomic
rbac_v1.ClusterRoleBinding subjects:atomic
rbac_v1.PolicyRule apiGroups:atomic nonResourceURLs:atomic resourceNames:atomic resources:atomic verbs:atomic
rbac_v1.Role rules:atomic
rbac_v1.RoleBinding subjects:atomic
rbac_v1.RoleRef@atomic
rbac_v1.Subject@atomic
resource_v1.AllocatedDeviceStatus conditions:map[type]
resource_v1.CapacityRequestPolicy validValues:atomic
resource_v1.CapacityRequirements requests:of[quantity]
resource_v1.CounterSet counters:of[resource_v1.Counter]
resource_v1.Device attributes:of[resource_v1.DeviceAttribute] bindingConditions:atomic bindingFailureConditions:atomic
  capacity:of[resource_v1.DeviceCapacity] consumesCounters:atomic
  nodeAllocatableResources:of[resource_v1.NodeAllocatableResource] taints:atomic
resource_v1.DeviceAllocationConfiguration requests:atomic
resource_v1.DeviceAllocationResult config:atomic results:atomic
resource_v1.DeviceAttribute bools:atomic int:long ints:atomic+long strings:atomic versions:atomic
resource_v1.DeviceClaim config:atomic constraints:atomic requests:atomic
resource_v1.DeviceClaimConfiguration requests:atomic
resource_v1.DeviceClassSpec config:atomic selectors:atomic
resource_v1.DeviceConstraint requests:atomic
resource_v1.DeviceCounterConsumption compatibilityGroups:atomic counters:of[resource_v1.Counter]
resource_v1.DeviceRequest firstAvailable:atomic
resource_v1.DeviceRequestAllocationResult bindingConditions:atomic bindingFailureConditions:atomic
  consumedCapacity:of[quantity] skipNodeOperations:set tolerations:atomic
resource_v1.DeviceSubRequest count:long derivedAttributes:atomic selectors:atomic tolerations:atomic
resource_v1.DeviceTaintRuleStatus conditions:map[type]+merge[type]
resource_v1.DeviceToleration operator:="Equal" tolerationSeconds:long
resource_v1.ExactDeviceRequest count:long derivedAttributes:atomic selectors:atomic tolerations:atomic
resource_v1.NetworkDeviceData ips:atomic
resource_v1.ResourceClaimStatus devices:map[driver,device,pool,shareID] reservedFor:map[uid]+merge[uid]
resource_v1.ResourcePool generation:long resourceSliceCount:long
resource_v1.ResourceSliceSpec devices:atomic sharedCounters:atomic skipNodeOperations:set
resource_v1alpha3.DeviceTaintRuleStatus conditions:map[type]+merge[type]
resource_v1alpha3.PoolStatus generation:long partitionSummary:atomic
resource_v1alpha3.ResourcePoolStatusRequestSpec limit:=100
resource_v1alpha3.ResourcePoolStatusRequestStatus conditions:map[type]+merge[type] pools:atomic
resource_v1alpha3.ShareableSummaryStatus capacity:atomic
resource_v1beta1.AllocatedDeviceStatus conditions:map[type]
resource_v1beta1.BasicDevice attributes:of[resource_v1beta1.DeviceAttribute] bindingConditions:atomic
  bindingFailureConditions:atomic capacity:of[resource_v1beta1.DeviceCapacity] consumesCounters:atomic
  nodeAllocatableResources:of[resource_v1beta1.NodeAllocatableResource] taints:atomic
resource_v1beta1.CapacityRequestPolicy validValues:atomic
resource_v1beta1.CapacityRequirements requests:of[quantity]
resource_v1beta1.CounterSet counters:of[resource_v1beta1.Counter]
resource_v1beta1.DeviceAllocationConfiguration requests:atomic
resource_v1beta1.DeviceAllocationResult config:atomic results:atomic
resource_v1beta1.DeviceAttribute bools:atomic int:long ints:atomic+long strings:atomic versions:atomic
resource_v1beta1.DeviceClaim config:atomic constraints:atomic requests:atomic
resource_v1beta1.DeviceClaimConfiguration requests:atomic
resource_v1beta1.DeviceClassSpec config:atomic selectors:atomic
resource_v1beta1.DeviceConstraint requests:atomic
resource_v1beta1.DeviceCounterConsumption compatibilityGroups:atomic counters:of[resource_v1beta1.Counter]
resource_v1beta1.DeviceRequest count:long derivedAttributes:atomic firstAvailable:atomic selectors:atomic
  tolerations:atomic
resource_v1beta1.DeviceRequestAllocationResult bindingConditions:atomic bindingFailureConditions:atomic
  consumedCapacity:of[quantity] skipNodeOperations:set tolerations:atomic
resource_v1beta1.DeviceSubRequest count:long derivedAttributes:atomic selectors:atomic tolerations:atomic
resource_v1beta1.DeviceToleration operator:="Equal" tolerationSeconds:long
resource_v1beta1.NetworkDeviceData ips:atomic
resource_v1beta1.ResourceClaimStatus devices:map[driver,device,pool,shareID] reservedFor:map[uid]+merge[uid]
resource_v1beta1.ResourcePool generation:long resourceSliceCount:long
resource_v1beta1.ResourceSliceSpec devices:atomic sharedCounters:atomic skipNodeOperations:set
resource_v1beta2.AllocatedDeviceStatus conditions:map[type]
resource_v1beta2.CapacityRequestPolicy validValues:atomic
resource_v1beta2.CapacityRequirements requests:of[quantity]
resource_v1beta2.CounterSet counters:of[resource_v1beta2.Counter]
resource_v1beta2.Device attributes:of[resource_v1beta2.DeviceAttribute] bindingConditions:atomic
  bindingFailureConditions:atomic capacity:of[resource_v1beta2.DeviceCapacity] consumesCounters:atomic
  nodeAllocatableResources:of[resource_v1beta2.NodeAllocatableResource] taints:atomic
resource_v1beta2.DeviceAllocationConfiguration requests:atomic
resource_v1beta2.DeviceAllocationResult config:atomic results:atomic
resource_v1beta2.DeviceAttribute bools:atomic int:long ints:atomic+long strings:atomic versions:atomic
resource_v1beta2.DeviceClaim config:atomic constraints:atomic requests:atomic
resource_v1beta2.DeviceClaimConfiguration requests:atomic
resource_v1beta2.DeviceClassSpec config:atomic selectors:atomic
resource_v1beta2.DeviceConstraint requests:atomic
resource_v1beta2.DeviceCounterConsumption compatibilityGroups:atomic counters:of[resource_v1beta2.Counter]
resource_v1beta2.DeviceRequest firstAvailable:atomic
resource_v1beta2.DeviceRequestAllocationResult bindingConditions:atomic bindingFailureConditions:atomic
  consumedCapacity:of[quantity] skipNodeOperations:set tolerations:atomic
resource_v1beta2.DeviceSubRequest count:long derivedAttributes:atomic selectors:atomic tolerations:atomic
resource_v1beta2.DeviceTaintRuleStatus conditions:map[type]+merge[type]
resource_v1beta2.DeviceToleration operator:="Equal" tolerationSeconds:long
resource_v1beta2.ExactDeviceRequest count:long derivedAttributes:atomic selectors:atomic tolerations:atomic
resource_v1beta2.NetworkDeviceData ips:atomic
resource_v1beta2.ResourceClaimStatus devices:map[driver,device,pool,shareID] reservedFor:map[uid]+merge[uid]
resource_v1beta2.ResourcePool generation:long resourceSliceCount:long
resource_v1beta2.ResourceSliceSpec devices:atomic sharedCounters:atomic skipNodeOperations:set
scheduling_v1alpha3.CompositePodGroupSchedulingConstraints topology:atomic
scheduling_v1alpha3.CompositePodGroupSpec disruptionMode:={"single":{}}
scheduling_v1alpha3.CompositePodGroupStatus conditions:map[type]+merge[type]
scheduling_v1alpha3.CompositePodGroupTemplate compositePodGroupTemplates:map[name] podGroupTemplates:map[name]
scheduling_v1alpha3.PodGroupSchedulingConstraints topology:atomic
scheduling_v1alpha3.PodGroupSpec disruptionMode:={"single":{}} resourceClaims:map[name]+merge/retainKeys[name]
scheduling_v1alpha3.PodGroupStatus conditions:map[type]+merge[type]
  resourceClaimStatuses:map[name]+merge/retainKeys[name]
scheduling_v1alpha3.PodGroupTemplate resourceClaims:map[name]+merge/retainKeys[name]
scheduling_v1alpha3.WorkloadPodGroupSchedulingConstraints topology:atomic
scheduling_v1alpha3.WorkloadSpec compositePodGroupTemplates:map[name] podGroupTemplates:map[name]
scheduling_v1beta1.CompositePodGroupSchedulingConstraints topology:atomic
scheduling_v1beta1.CompositePodGroupTemplate compositePodGroupTemplates:map[name] podGroupTemplates:map[name]
scheduling_v1beta1.PodGroupSchedulingConstraints topology:atomic
scheduling_v1beta1.PodGroupSpec disruptionMode:={"single":{}} resourceClaims:map[name]+merge/retainKeys[name]
scheduling_v1beta1.PodGroupStatus conditions:map[type]+merge[type]
  resourceClaimStatuses:map[name]+merge/retainKeys[name]
scheduling_v1beta1.PodGroupTemplate resourceClaims:map[name]+merge/retainKeys[name]
scheduling_v1beta1.WorkloadSpec compositePodGroupTemplates:map[name] podGroupTemplates:map[name]
"""
