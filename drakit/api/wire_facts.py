"""How each field of the API types of Kubernetes 1.37 travels: what lightkube's models do not say.

One line per model, `module.Type field:form …`, continued by two spaces. Forms: `s` string, `b` bool, `i` int32, `l` int64, `f` float,
`q` Quantity, `t` Time, `T` MicroTime, `x` IntOrString, `y` bytes, `R` any JSON, else the name of a type (of this module, or
`module.Type`). Before it: `*` optional, so that a zero is kept; `[]` a list; `{}` or `{Key}` a map. `'name` is the Go name of a scalar
type, for messages. After it: `!` written even when empty; `~` a struct or time left out when empty; `^Type` the field is embedded
from that Go type. Read by `api.wire`.
"""

FACTS = """
admissionregistration_v1.AuditAnnotation key:s! valueExpression:s!
admissionregistration_v1.ExpressionWarning fieldRef:s! warning:s!
admissionregistration_v1.MatchCondition name:s! expression:s!
admissionregistration_v1.MatchResources namespaceSelector:*meta_v1.LabelSelector objectSelector:*meta_v1.LabelSelector
  resourceRules:[]NamedRuleWithOperations excludeResourceRules:[]NamedRuleWithOperations
  matchPolicy:*s'v1.MatchPolicyType
admissionregistration_v1.NamedRuleWithOperations resourceNames:[]s operations:[]s'v1.OperationType^RuleWithOperations
  apiGroups:[]s^RuleWithOperations.Rule apiVersions:[]s^RuleWithOperations.Rule resources:[]s^RuleWithOperations.Rule
  scope:*s'v1.ScopeType^RuleWithOperations.Rule
admissionregistration_v1.ParamKind apiVersion:s kind:s
admissionregistration_v1.ParamRef name:s namespace:s selector:*meta_v1.LabelSelector
  parameterNotFoundAction:*s'v1.ParameterNotFoundActionType
admissionregistration_v1.TypeChecking expressionWarnings:[]ExpressionWarning
admissionregistration_v1.ValidatingAdmissionPolicy apiVersion:s kind:s metadata:meta_v1.ObjectMeta
  spec:ValidatingAdmissionPolicySpec status:ValidatingAdmissionPolicyStatus
admissionregistration_v1.ValidatingAdmissionPolicyBinding apiVersion:s kind:s metadata:meta_v1.ObjectMeta
  spec:ValidatingAdmissionPolicyBindingSpec
admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec policyName:s paramRef:*ParamRef
  matchResources:*MatchResources validationActions:[]s'v1.ValidationAction
admissionregistration_v1.ValidatingAdmissionPolicySpec paramKind:*ParamKind matchConstraints:*MatchResources
  validations:[]Validation failurePolicy:*s'v1.FailurePolicyType auditAnnotations:[]AuditAnnotation
  matchConditions:[]MatchCondition variables:[]Variable
admissionregistration_v1.ValidatingAdmissionPolicyStatus observedGeneration:l typeChecking:*TypeChecking
  conditions:[]meta_v1.Condition
admissionregistration_v1.Validation expression:s! message:s reason:*s'v1.StatusReason messageExpression:s
admissionregistration_v1.Variable name:s! expression:s!
apps_v1.ControllerRevision apiVersion:s kind:s metadata:meta_v1.ObjectMeta data:R! revision:l!
apps_v1.DaemonSet apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DaemonSetSpec status:DaemonSetStatus
apps_v1.DaemonSetCondition type:s'v1.DaemonSetConditionType! status:s'v1.ConditionStatus! lastTransitionTime:t
  reason:s message:s
apps_v1.DaemonSetSpec selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec!
  updateStrategy:DaemonSetUpdateStrategy minReadySeconds:i revisionHistoryLimit:*i
apps_v1.DaemonSetStatus currentNumberScheduled:i! numberMisscheduled:i! desiredNumberScheduled:i! numberReady:i!
  observedGeneration:l updatedNumberScheduled:i numberAvailable:i numberUnavailable:i collisionCount:*i
  conditions:[]DaemonSetCondition
apps_v1.DaemonSetUpdateStrategy type:s'v1.DaemonSetUpdateStrategyType rollingUpdate:*RollingUpdateDaemonSet
apps_v1.Deployment apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeploymentSpec status:DeploymentStatus
apps_v1.DeploymentCondition type:s'v1.DeploymentConditionType! status:s'v1.ConditionStatus! lastUpdateTime:t
  lastTransitionTime:t reason:s message:s
apps_v1.DeploymentSpec replicas:*i selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec!
  strategy:DeploymentStrategy minReadySeconds:i revisionHistoryLimit:*i paused:b progressDeadlineSeconds:*i
apps_v1.DeploymentStatus observedGeneration:l replicas:i updatedReplicas:i readyReplicas:i availableReplicas:i
  unavailableReplicas:i terminatingReplicas:*i conditions:[]DeploymentCondition collisionCount:*i
apps_v1.DeploymentStrategy type:s'v1.DeploymentStrategyType rollingUpdate:*RollingUpdateDeployment
apps_v1.ReplicaSet apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus
apps_v1.ReplicaSetCondition type:s'v1.ReplicaSetConditionType! status:s'v1.ConditionStatus! lastTransitionTime:t
  reason:s message:s
apps_v1.ReplicaSetSpec replicas:*i minReadySeconds:i selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec
apps_v1.ReplicaSetStatus replicas:i! fullyLabeledReplicas:i readyReplicas:i availableReplicas:i terminatingReplicas:*i
  observedGeneration:l conditions:[]ReplicaSetCondition
apps_v1.RollingUpdateDaemonSet maxUnavailable:*x maxSurge:*x
apps_v1.RollingUpdateDeployment maxUnavailable:*x maxSurge:*x
apps_v1.RollingUpdateStatefulSetStrategy partition:*i maxUnavailable:*x
apps_v1.StatefulSet apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus
apps_v1.StatefulSetCondition type:s'v1.StatefulSetConditionType! status:s'v1.ConditionStatus! lastTransitionTime:t
  reason:s message:s
apps_v1.StatefulSetOrdinals start:i!
apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted:s'v1.PersistentVolumeClaimRetentionPolicyType
  whenScaled:s'v1.PersistentVolumeClaimRetentionPolicyType
apps_v1.StatefulSetSpec replicas:*i selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec!
  volumeClaimTemplates:[]core_v1.PersistentVolumeClaim serviceName:s! podManagementPolicy:s'v1.PodManagementPolicyType
  updateStrategy:StatefulSetUpdateStrategy revisionHistoryLimit:*i minReadySeconds:i
  persistentVolumeClaimRetentionPolicy:*StatefulSetPersistentVolumeClaimRetentionPolicy ordinals:*StatefulSetOrdinals
apps_v1.StatefulSetStatus observedGeneration:l replicas:i! readyReplicas:i currentReplicas:i updatedReplicas:i
  currentRevision:s updateRevision:s collisionCount:*i conditions:[]StatefulSetCondition availableReplicas:i!
apps_v1.StatefulSetUpdateStrategy type:s'v1.StatefulSetUpdateStrategyType
  rollingUpdate:*RollingUpdateStatefulSetStrategy
authentication_v1.BoundObjectReference kind:s apiVersion:s name:s uid:s'types.UID
authentication_v1.SelfSubjectReview apiVersion:s kind:s metadata:meta_v1.ObjectMeta status:SelfSubjectReviewStatus
authentication_v1.SelfSubjectReviewStatus userInfo:UserInfo
authentication_v1.TokenRequest apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:TokenRequestSpec!
  status:TokenRequestStatus
authentication_v1.TokenRequestSpec audiences:[]s! expirationSeconds:*l! boundObjectRef:*BoundObjectReference!
  attestations:{}[]s
authentication_v1.TokenRequestStatus token:s! expirationTimestamp:t!
authentication_v1.TokenReview apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:TokenReviewSpec!
  status:TokenReviewStatus
authentication_v1.TokenReviewSpec token:s audiences:[]s
authentication_v1.TokenReviewStatus authenticated:b user:UserInfo audiences:[]s error:s
authentication_v1.UserInfo username:s uid:s groups:[]s extra:{}[]s
authorization_v1.FieldSelectorAttributes rawSelector:s requirements:[]meta_v1.FieldSelectorRequirement
authorization_v1.LabelSelectorAttributes rawSelector:s requirements:[]meta_v1.LabelSelectorRequirement
authorization_v1.LocalSubjectAccessReview apiVersion:s kind:s metadata:meta_v1.ObjectMeta
  spec:SubjectAccessReviewSpec! status:SubjectAccessReviewStatus
authorization_v1.NonResourceAttributes path:s verb:s
authorization_v1.NonResourceRule verbs:[]s! nonResourceURLs:[]s
authorization_v1.ResourceAttributes namespace:s verb:s group:s version:s resource:s subresource:s name:s
  fieldSelector:*FieldSelectorAttributes labelSelector:*LabelSelectorAttributes
authorization_v1.ResourceRule verbs:[]s! apiGroups:[]s resources:[]s resourceNames:[]s
authorization_v1.SelfSubjectAccessReview apiVersion:s kind:s metadata:meta_v1.ObjectMeta
  spec:SelfSubjectAccessReviewSpec! status:SubjectAccessReviewStatus
authorization_v1.SelfSubjectAccessReviewSpec resourceAttributes:*ResourceAttributes
  nonResourceAttributes:*NonResourceAttributes
authorization_v1.SelfSubjectRulesReview apiVersion:s kind:s metadata:meta_v1.ObjectMeta
  spec:SelfSubjectRulesReviewSpec! status:SubjectRulesReviewStatus
authorization_v1.SelfSubjectRulesReviewSpec namespace:s
authorization_v1.SubjectAccessReview apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:SubjectAccessReviewSpec!
  status:SubjectAccessReviewStatus
authorization_v1.SubjectAccessReviewSpec resourceAttributes:*ResourceAttributes
  nonResourceAttributes:*NonResourceAttributes user:s groups:[]s extra:{}[]s uid:s
authorization_v1.SubjectAccessReviewStatus allowed:b! denied:b reason:s evaluationError:s
authorization_v1.SubjectRulesReviewStatus resourceRules:[]ResourceRule! nonResourceRules:[]NonResourceRule!
  incomplete:b! evaluationError:s
autoscaling_v1.Scale apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ScaleSpec status:ScaleStatus
autoscaling_v1.ScaleSpec replicas:i
autoscaling_v1.ScaleStatus replicas:i! selector:s
batch_v1.Job apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:JobSpec status:JobStatus
batch_v1.JobCondition type:s'v1.JobConditionType! status:s'v1.ConditionStatus! lastProbeTime:t lastTransitionTime:t
  reason:s message:s
batch_v1.JobSchedulingConfiguration schedulingPolicy:*scheduling_v1alpha3.WorkloadPodGroupSchedulingPolicy
  schedulingConstraints:*scheduling_v1alpha3.WorkloadPodGroupSchedulingConstraints
  disruptionMode:*scheduling_v1alpha3.WorkloadPodGroupDisruptionMode
  resourceClaims:[]scheduling_v1alpha3.WorkloadPodGroupResourceClaim
batch_v1.JobSpec parallelism:*i completions:*i activeDeadlineSeconds:*l podFailurePolicy:*PodFailurePolicy
  successPolicy:*SuccessPolicy backoffLimit:*i backoffLimitPerIndex:*i maxFailedIndexes:*i
  selector:*meta_v1.LabelSelector manualSelector:*b template:core_v1.PodTemplateSpec! ttlSecondsAfterFinished:*i
  completionMode:*s'v1.CompletionMode suspend:*b podReplacementPolicy:*s'v1.PodReplacementPolicy managedBy:*s
  scheduling:*JobSchedulingConfiguration
batch_v1.JobStatus conditions:[]JobCondition startTime:*t completionTime:*t active:i succeeded:i failed:i
  terminating:*i completedIndexes:s failedIndexes:*s uncountedTerminatedPods:*UncountedTerminatedPods ready:*i
batch_v1.PodFailurePolicy rules:[]PodFailurePolicyRule!
batch_v1.PodFailurePolicyOnExitCodesRequirement containerName:*s operator:s'v1.PodFailurePolicyOnExitCodesOperator!
  values:[]i!
batch_v1.PodFailurePolicyOnPodConditionsPattern type:s'v1.PodConditionType! status:s'v1.ConditionStatus!
batch_v1.PodFailurePolicyRule action:s'v1.PodFailurePolicyAction! onExitCodes:*PodFailurePolicyOnExitCodesRequirement
  onPodConditions:[]PodFailurePolicyOnPodConditionsPattern
batch_v1.SuccessPolicy rules:[]SuccessPolicyRule!
batch_v1.SuccessPolicyRule succeededIndexes:*s succeededCount:*i
batch_v1.UncountedTerminatedPods succeeded:[]s'types.UID failed:[]s'types.UID
coordination_v1.Lease apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:LeaseSpec
coordination_v1.LeaseSpec holderIdentity:*s leaseDurationSeconds:*i acquireTime:*T renewTime:*T leaseTransitions:*i
  strategy:*s'v1.CoordinatedLeaseStrategy preferredHolder:*s
core_v1.AWSElasticBlockStoreVolumeSource volumeID:s! fsType:s partition:i readOnly:b
core_v1.Affinity nodeAffinity:*NodeAffinity podAffinity:*PodAffinity podAntiAffinity:*PodAntiAffinity
core_v1.AppArmorProfile type:s'v1.AppArmorProfileType! localhostProfile:*s
core_v1.AttachedVolume name:s'v1.UniqueVolumeName! devicePath:s!
core_v1.AzureDiskVolumeSource diskName:s! diskURI:s! cachingMode:*s'v1.AzureDataDiskCachingMode fsType:*s readOnly:*b
  kind:*s'v1.AzureDataDiskKind
core_v1.AzureFileVolumeSource secretName:s! shareName:s! readOnly:b
core_v1.Binding apiVersion:s kind:s metadata:meta_v1.ObjectMeta target:ObjectReference!
core_v1.CSIVolumeSource driver:s! readOnly:*b fsType:*s volumeAttributes:{}s
  nodePublishSecretRef:*LocalObjectReference
core_v1.Capabilities add:[]s'v1.Capability drop:[]s'v1.Capability
core_v1.CephFSVolumeSource monitors:[]s! path:s user:s secretFile:s secretRef:*LocalObjectReference readOnly:b
core_v1.CinderVolumeSource volumeID:s! fsType:s readOnly:b secretRef:*LocalObjectReference
core_v1.ClientIPConfig timeoutSeconds:*i
core_v1.ClusterTrustBundleProjection name:*s signerName:*s labelSelector:*meta_v1.LabelSelector optional:*b path:s!
  user:*l
core_v1.ConfigMap apiVersion:s kind:s metadata:meta_v1.ObjectMeta immutable:*b data:{}s binaryData:{}y
core_v1.ConfigMapEnvSource name:s^LocalObjectReference optional:*b
core_v1.ConfigMapKeySelector name:s^LocalObjectReference key:s! optional:*b
core_v1.ConfigMapNodeConfigSource namespace:s! name:s! uid:s'types.UID resourceVersion:s kubeletConfigKey:s!
core_v1.ConfigMapProjection name:s^LocalObjectReference items:[]KeyToPath optional:*b
core_v1.ConfigMapVolumeSource name:s^LocalObjectReference items:[]KeyToPath defaultMode:*i optional:*b defaultUser:*l
core_v1.Container name:s! image:s command:[]s args:[]s workingDir:s ports:[]ContainerPort envFrom:[]EnvFromSource
  env:[]EnvVar resources:ResourceRequirements resizePolicy:[]ContainerResizePolicy
  restartPolicy:*s'v1.ContainerRestartPolicy restartPolicyRules:[]ContainerRestartRule volumeMounts:[]VolumeMount
  volumeDevices:[]VolumeDevice livenessProbe:*Probe readinessProbe:*Probe startupProbe:*Probe lifecycle:*Lifecycle
  terminationMessagePath:s terminationMessagePolicy:s'v1.TerminationMessagePolicy imagePullPolicy:s'v1.PullPolicy
  securityContext:*SecurityContext stdin:b stdinOnce:b tty:b
core_v1.ContainerExtendedResourceRequest containerName:s! resourceName:s! requestName:s!
core_v1.ContainerImage names:[]s! sizeBytes:l
core_v1.ContainerPort name:s hostPort:i containerPort:i! protocol:s'v1.Protocol hostIP:s
core_v1.ContainerResizePolicy resourceName:s'v1.ResourceName! restartPolicy:s'v1.ResourceResizeRestartPolicy!
core_v1.ContainerRestartRule action:s'v1.ContainerRestartRuleAction exitCodes:*ContainerRestartRuleOnExitCodes
core_v1.ContainerRestartRuleOnExitCodes operator:s'v1.ContainerRestartRuleOnExitCodesOperator values:[]i
core_v1.ContainerState waiting:*ContainerStateWaiting running:*ContainerStateRunning
  terminated:*ContainerStateTerminated
core_v1.ContainerStateRunning startedAt:t
core_v1.ContainerStateTerminated exitCode:i! signal:i reason:s message:s startedAt:t finishedAt:t containerID:s
core_v1.ContainerStateWaiting reason:s message:s
core_v1.ContainerStatus name:s! state:ContainerState lastState:ContainerState ready:b! restartCount:i! image:s!
  imageID:s! containerID:s started:*b allocatedResources:{ResourceName}q resources:*ResourceRequirements
  volumeMounts:[]VolumeMountStatus user:*ContainerUser allocatedResourcesStatus:[]ResourceStatus
  stopSignal:*s'v1.Signal
core_v1.ContainerUser linux:*LinuxContainerUser
core_v1.DaemonEndpoint Port:i!
core_v1.DownwardAPIProjection items:[]DownwardAPIVolumeFile
core_v1.DownwardAPIVolumeFile path:s! fieldRef:*ObjectFieldSelector resourceFieldRef:*ResourceFieldSelector mode:*i
  user:*l
core_v1.DownwardAPIVolumeSource items:[]DownwardAPIVolumeFile defaultMode:*i defaultUser:*l
core_v1.EmptyDirVolumeSource medium:s'v1.StorageMedium sizeLimit:*q mode:*i
core_v1.EndpointAddress ip:s! hostname:s nodeName:*s targetRef:*ObjectReference
core_v1.EndpointPort name:s port:i! protocol:s'v1.Protocol appProtocol:*s
core_v1.EndpointSubset addresses:[]EndpointAddress notReadyAddresses:[]EndpointAddress ports:[]EndpointPort
core_v1.Endpoints apiVersion:s kind:s metadata:meta_v1.ObjectMeta subsets:[]EndpointSubset
core_v1.EnvFromSource prefix:s configMapRef:*ConfigMapEnvSource secretRef:*SecretEnvSource
core_v1.EnvVar name:s! value:s valueFrom:*EnvVarSource
core_v1.EnvVarSource fieldRef:*ObjectFieldSelector resourceFieldRef:*ResourceFieldSelector
  configMapKeyRef:*ConfigMapKeySelector secretKeyRef:*SecretKeySelector fileKeyRef:*FileKeySelector
core_v1.EphemeralContainer name:s!^EphemeralContainerCommon image:s^EphemeralContainerCommon
  command:[]s^EphemeralContainerCommon args:[]s^EphemeralContainerCommon workingDir:s^EphemeralContainerCommon
  ports:[]ContainerPort^EphemeralContainerCommon envFrom:[]EnvFromSource^EphemeralContainerCommon
  env:[]EnvVar^EphemeralContainerCommon resources:ResourceRequirements^EphemeralContainerCommon
  resizePolicy:[]ContainerResizePolicy^EphemeralContainerCommon
  restartPolicy:*s'v1.ContainerRestartPolicy^EphemeralContainerCommon
  restartPolicyRules:[]ContainerRestartRule^EphemeralContainerCommon
  volumeMounts:[]VolumeMount^EphemeralContainerCommon volumeDevices:[]VolumeDevice^EphemeralContainerCommon
  livenessProbe:*Probe^EphemeralContainerCommon readinessProbe:*Probe^EphemeralContainerCommon
  startupProbe:*Probe^EphemeralContainerCommon lifecycle:*Lifecycle^EphemeralContainerCommon
  terminationMessagePath:s^EphemeralContainerCommon
  terminationMessagePolicy:s'v1.TerminationMessagePolicy^EphemeralContainerCommon
  imagePullPolicy:s'v1.PullPolicy^EphemeralContainerCommon securityContext:*SecurityContext^EphemeralContainerCommon
  stdin:b^EphemeralContainerCommon stdinOnce:b^EphemeralContainerCommon tty:b^EphemeralContainerCommon
  targetContainerName:s
core_v1.EphemeralVolumeSource volumeClaimTemplate:*PersistentVolumeClaimTemplate
core_v1.Event apiVersion:s kind:s metadata:meta_v1.ObjectMeta! involvedObject:ObjectReference! reason:s message:s
  source:EventSource firstTimestamp:t lastTimestamp:t count:i type:s eventTime:T series:*EventSeries action:s
  related:*ObjectReference reportingComponent:s! reportingInstance:s!
core_v1.EventSeries count:i lastObservedTime:T
core_v1.EventSource component:s host:s
core_v1.EvictionResponder name:s! priority:*i!
core_v1.ExecAction command:[]s
core_v1.FCVolumeSource targetWWNs:[]s lun:*i fsType:s readOnly:b wwids:[]s
core_v1.FileKeySelector volumeName:s! path:s! key:s! optional:*b
core_v1.FlexVolumeSource driver:s! fsType:s secretRef:*LocalObjectReference readOnly:b options:{}s
core_v1.FlockerVolumeSource datasetName:s datasetUUID:s
core_v1.GCEPersistentDiskVolumeSource pdName:s! fsType:s partition:i readOnly:b
core_v1.GRPCAction port:i! service:*s! mode:*s'v1.GRPCProbeMode
core_v1.GitRepoVolumeSource repository:s! revision:s directory:s
core_v1.GlusterfsVolumeSource endpoints:s! path:s! readOnly:b
core_v1.HTTPGetAction path:s port:x! host:s scheme:s'v1.URIScheme httpHeaders:[]HTTPHeader protocol:*s'v1.HTTPProtocol
core_v1.HTTPHeader name:s! value:s!
core_v1.HostAlias ip:s! hostnames:[]s
core_v1.HostIP ip:s!
core_v1.HostPathVolumeSource path:s! type:*s'v1.HostPathType
core_v1.ISCSIVolumeSource targetPortal:s! iqn:s! lun:i! iscsiInterface:s fsType:s readOnly:b portals:[]s
  chapAuthDiscovery:b chapAuthSession:b secretRef:*LocalObjectReference initiatorName:*s
core_v1.ImageVolumeSource reference:s pullPolicy:s'v1.PullPolicy
core_v1.ImageVolumeStatus imageRef:s
core_v1.KeyToPath key:s! path:s! mode:*i user:*l
core_v1.Lifecycle postStart:*LifecycleHandler preStop:*LifecycleHandler stopSignal:*s'v1.Signal
core_v1.LifecycleHandler exec:*ExecAction httpGet:*HTTPGetAction tcpSocket:*TCPSocketAction sleep:*SleepAction
core_v1.LimitRange apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:LimitRangeSpec
core_v1.LimitRangeItem type:s'v1.LimitType! max:{ResourceName}q min:{ResourceName}q default:{ResourceName}q
  defaultRequest:{ResourceName}q maxLimitRequestRatio:{ResourceName}q
core_v1.LimitRangeSpec limits:[]LimitRangeItem!
core_v1.LinuxContainerUser uid:l! gid:l! supplementalGroups:[]l
core_v1.LoadBalancerIngress ip:s hostname:s ipMode:*s'v1.LoadBalancerIPMode ports:[]PortStatus
core_v1.LoadBalancerStatus ingress:[]LoadBalancerIngress
core_v1.LocalObjectReference name:s
core_v1.ModifyVolumeStatus targetVolumeAttributesClassName:s status:s'v1.PersistentVolumeClaimModifyVolumeStatus!
core_v1.NFSVolumeSource server:s! path:s! readOnly:b
core_v1.Namespace apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:NamespaceSpec status:NamespaceStatus
core_v1.NamespaceCondition type:s'v1.NamespaceConditionType! status:s'v1.ConditionStatus! lastTransitionTime:t
  reason:s message:s
core_v1.NamespaceSpec finalizers:[]s'v1.FinalizerName
core_v1.NamespaceStatus phase:s'v1.NamespacePhase conditions:[]NamespaceCondition
core_v1.Node apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:NodeSpec status:NodeStatus
core_v1.NodeAddress type:s'v1.NodeAddressType! address:s!
core_v1.NodeAffinity requiredDuringSchedulingIgnoredDuringExecution:*NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm
core_v1.NodeAllocatableMappedResources name:s'v1.ResourceName! quantity:*q!
core_v1.NodeAllocatableOverheadResources name:s'v1.ResourceName! perPod:*q perContainer:*q
core_v1.NodeAllocatableResourceClaimStatus resourceClaimName:s! containers:[]s
  mapping:[]NodeAllocatableMappedResources overhead:[]NodeAllocatableOverheadResources
core_v1.NodeCondition type:s'v1.NodeConditionType! status:s'v1.ConditionStatus! lastHeartbeatTime:t
  lastTransitionTime:t reason:s message:s
core_v1.NodeConfigSource configMap:*ConfigMapNodeConfigSource
core_v1.NodeConfigStatus assigned:*NodeConfigSource active:*NodeConfigSource lastKnownGood:*NodeConfigSource error:s
core_v1.NodeDaemonEndpoints kubeletEndpoint:DaemonEndpoint
core_v1.NodeFeatures supplementalGroupsPolicy:*b
core_v1.NodePodPreemptionPolicy disableResizePreemption:[]s
core_v1.NodeRuntimeHandler name:s! features:*NodeRuntimeHandlerFeatures
core_v1.NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:*b userNamespaces:*b
core_v1.NodeSelector nodeSelectorTerms:[]NodeSelectorTerm!
core_v1.NodeSelectorRequirement key:s! operator:s'v1.NodeSelectorOperator! values:[]s
core_v1.NodeSelectorTerm matchExpressions:[]NodeSelectorRequirement matchFields:[]NodeSelectorRequirement
core_v1.NodeSpec podCIDR:s podCIDRs:[]s providerID:s unschedulable:b taints:[]Taint configSource:*NodeConfigSource
  externalID:s podPreemptionPolicy:*NodePodPreemptionPolicy
core_v1.NodeStatus capacity:{ResourceName}q allocatable:{ResourceName}q phase:s'v1.NodePhase
  conditions:[]NodeCondition addresses:[]NodeAddress daemonEndpoints:NodeDaemonEndpoints nodeInfo:NodeSystemInfo
  images:[]ContainerImage volumesInUse:[]s'v1.UniqueVolumeName volumesAttached:[]AttachedVolume
  config:*NodeConfigStatus runtimeHandlers:[]NodeRuntimeHandler features:*NodeFeatures declaredFeatures:[]s
core_v1.NodeSwapStatus capacity:*l
core_v1.NodeSystemInfo machineID:s! systemUUID:s! bootID:s! kernelVersion:s! osImage:s! containerRuntimeVersion:s!
  kubeletVersion:s! kubeProxyVersion:s! operatingSystem:s! architecture:s! swap:*NodeSwapStatus
  runningInUserNamespace:*b
core_v1.ObjectFieldSelector apiVersion:s fieldPath:s!
core_v1.ObjectReference kind:s namespace:s name:s uid:s'types.UID apiVersion:s resourceVersion:s fieldPath:s
core_v1.PersistentVolumeClaim apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:PersistentVolumeClaimSpec
  status:PersistentVolumeClaimStatus
core_v1.PersistentVolumeClaimCondition type:s'v1.PersistentVolumeClaimConditionType! status:s'v1.ConditionStatus!
  lastProbeTime:t lastTransitionTime:t reason:s message:s
core_v1.PersistentVolumeClaimSpec accessModes:[]s'v1.PersistentVolumeAccessMode selector:*meta_v1.LabelSelector
  resources:VolumeResourceRequirements volumeName:s storageClassName:*s volumeMode:*s'v1.PersistentVolumeMode
  dataSource:*TypedLocalObjectReference dataSourceRef:*TypedObjectReference volumeAttributesClassName:*s
core_v1.PersistentVolumeClaimStatus phase:s'v1.PersistentVolumeClaimPhase
  accessModes:[]s'v1.PersistentVolumeAccessMode capacity:{ResourceName}q conditions:[]PersistentVolumeClaimCondition
  allocatedResources:{ResourceName}q allocatedResourceStatuses:{ResourceName}s'v1.ClaimResourceStatus
  currentVolumeAttributesClassName:*s modifyVolumeStatus:*ModifyVolumeStatus healthStatus:*VolumeHealthStatus
core_v1.PersistentVolumeClaimTemplate metadata:meta_v1.ObjectMeta spec:PersistentVolumeClaimSpec!
core_v1.PersistentVolumeClaimVolumeSource claimName:s! readOnly:b
core_v1.PhotonPersistentDiskVolumeSource pdID:s! fsType:s
core_v1.Pod apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:PodSpec status:PodStatus
core_v1.PodAffinity requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
core_v1.PodAffinityTerm labelSelector:*meta_v1.LabelSelector namespaces:[]s topologyKey:s!
  namespaceSelector:*meta_v1.LabelSelector matchLabelKeys:[]s mismatchLabelKeys:[]s
core_v1.PodAntiAffinity requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
core_v1.PodCertificateProjection signerName:s keyType:s maxExpirationSeconds:*i credentialBundlePath:s keyPath:s
  certificateChainPath:s userAnnotations:{}s user:*l
core_v1.PodCondition type:s'v1.PodConditionType! observedGeneration:l status:s'v1.ConditionStatus! lastProbeTime:t
  lastTransitionTime:t reason:s message:s
core_v1.PodDNSConfig nameservers:[]s searches:[]s options:[]PodDNSConfigOption
core_v1.PodDNSConfigOption name:s value:*s
core_v1.PodExtendedResourceClaimStatus requestMappings:[]ContainerExtendedResourceRequest! resourceClaimName:s!
core_v1.PodIP ip:s!
core_v1.PodOS name:s'v1.OSName!
core_v1.PodReadinessGate conditionType:s'v1.PodConditionType!
core_v1.PodResourceClaim name:s! resourceClaimName:*s resourceClaimTemplateName:*s
core_v1.PodResourceClaimStatus name:s! resourceClaimName:*s
core_v1.PodSchedulingGate name:s!
core_v1.PodSchedulingGroup podGroupName:*s
core_v1.PodSecurityContext seLinuxOptions:*SELinuxOptions windowsOptions:*WindowsSecurityContextOptions runAsUser:*l
  runAsGroup:*l runAsNonRoot:*b supplementalGroups:[]l supplementalGroupsPolicy:*s'v1.SupplementalGroupsPolicy
  fsGroup:*l sysctls:[]Sysctl fsGroupChangePolicy:*s'v1.PodFSGroupChangePolicy seccompProfile:*SeccompProfile
  appArmorProfile:*AppArmorProfile seLinuxChangePolicy:*s'v1.PodSELinuxChangePolicy
core_v1.PodSpec volumes:[]Volume initContainers:[]Container containers:[]Container!
  ephemeralContainers:[]EphemeralContainer restartPolicy:s'v1.RestartPolicy terminationGracePeriodSeconds:*l
  activeDeadlineSeconds:*l dnsPolicy:s'v1.DNSPolicy nodeSelector:{}s serviceAccountName:s serviceAccount:s
  automountServiceAccountToken:*b nodeName:s hostNetwork:b hostPID:b hostIPC:b shareProcessNamespace:*b
  securityContext:*PodSecurityContext imagePullSecrets:[]LocalObjectReference hostname:s subdomain:s
  affinity:*Affinity schedulerName:s tolerations:[]Toleration hostAliases:[]HostAlias priorityClassName:s priority:*i
  dnsConfig:*PodDNSConfig readinessGates:[]PodReadinessGate runtimeClassName:*s enableServiceLinks:*b
  preemptionPolicy:*s'v1.PreemptionPolicy overhead:{ResourceName}q
  topologySpreadConstraints:[]TopologySpreadConstraint setHostnameAsFQDN:*b os:*PodOS hostUsers:*b
  schedulingGates:[]PodSchedulingGate resourceClaims:[]PodResourceClaim resources:*ResourceRequirements
  hostnameOverride:*s schedulingGroup:*PodSchedulingGroup evictionResponders:[]EvictionResponder
core_v1.PodStatus observedGeneration:l phase:s'v1.PodPhase conditions:[]PodCondition message:s reason:s
  nominatedNodeName:s hostIP:s hostIPs:[]HostIP podIP:s podIPs:[]PodIP startTime:*t
  initContainerStatuses:[]ContainerStatus containerStatuses:[]ContainerStatus qosClass:s'v1.PodQOSClass
  ephemeralContainerStatuses:[]ContainerStatus resize:s'v1.PodResizeStatus
  resourceClaimStatuses:[]PodResourceClaimStatus extendedResourceClaimStatus:*PodExtendedResourceClaimStatus
  allocatedResources:{ResourceName}q resources:*ResourceRequirements
  nodeAllocatableResourceClaimStatuses:[]NodeAllocatableResourceClaimStatus volumeHealth:[]PodVolumeHealth
core_v1.PodTemplateSpec metadata:meta_v1.ObjectMeta spec:PodSpec
core_v1.PodVolumeHealth name:s! healthConditions:[]VolumeHealthCondition lastTransitionTime:t
core_v1.PortStatus port:i! protocol:s'v1.Protocol! error:*s
core_v1.PortworxVolumeSource volumeID:s! fsType:s readOnly:b
core_v1.PreferredSchedulingTerm weight:i! preference:NodeSelectorTerm!
core_v1.Probe exec:*ExecAction^ProbeHandler httpGet:*HTTPGetAction^ProbeHandler
  tcpSocket:*TCPSocketAction^ProbeHandler grpc:*GRPCAction^ProbeHandler initialDelaySeconds:i timeoutSeconds:i
  periodSeconds:i successThreshold:i failureThreshold:i terminationGracePeriodSeconds:*l
core_v1.ProjectedVolumeSource sources:[]VolumeProjection! defaultMode:*i defaultUser:*l
core_v1.QuobyteVolumeSource registry:s! volume:s! readOnly:b user:s group:s tenant:s
core_v1.RBDVolumeSource monitors:[]s! image:s! fsType:s pool:s user:s keyring:s secretRef:*LocalObjectReference
  readOnly:b
core_v1.ResourceClaim name:s! request:s
core_v1.ResourceFieldSelector containerName:s resource:s! divisor:q
core_v1.ResourceHealth resourceID:s'v1.ResourceID! health:s'v1.ResourceHealthStatus message:*s
core_v1.ResourceQuota apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceQuotaSpec
  status:ResourceQuotaStatus
core_v1.ResourceQuotaSpec hard:{ResourceName}q scopes:[]s'v1.ResourceQuotaScope scopeSelector:*ScopeSelector
core_v1.ResourceQuotaStatus hard:{ResourceName}q used:{ResourceName}q
core_v1.ResourceRequirements limits:{ResourceName}q requests:{ResourceName}q claims:[]ResourceClaim
core_v1.ResourceStatus name:s'v1.ResourceName! resources:[]ResourceHealth
core_v1.SELinuxOptions user:s role:s type:s level:s
core_v1.ScaleIOVolumeSource gateway:s! system:s! secretRef:*LocalObjectReference! sslEnabled:b protectionDomain:s
  storagePool:s storageMode:s volumeName:s fsType:s readOnly:b
core_v1.ScopeSelector matchExpressions:[]ScopedResourceSelectorRequirement
core_v1.ScopedResourceSelectorRequirement scopeName:s'v1.ResourceQuotaScope! operator:s'v1.ScopeSelectorOperator!
  values:[]s
core_v1.SeccompProfile type:s'v1.SeccompProfileType! localhostProfile:*s
core_v1.Secret apiVersion:s kind:s metadata:meta_v1.ObjectMeta immutable:*b data:{}y stringData:{}s
  type:s'v1.SecretType
core_v1.SecretEnvSource name:s^LocalObjectReference optional:*b
core_v1.SecretKeySelector name:s^LocalObjectReference key:s! optional:*b
core_v1.SecretProjection name:s^LocalObjectReference items:[]KeyToPath optional:*b
core_v1.SecretVolumeSource secretName:s items:[]KeyToPath defaultMode:*i optional:*b defaultUser:*l
core_v1.SecurityContext capabilities:*Capabilities privileged:*b seLinuxOptions:*SELinuxOptions
  windowsOptions:*WindowsSecurityContextOptions runAsUser:*l runAsGroup:*l runAsNonRoot:*b readOnlyRootFilesystem:*b
  allowPrivilegeEscalation:*b procMount:*s'v1.ProcMountType seccompProfile:*SeccompProfile
  appArmorProfile:*AppArmorProfile
core_v1.Service apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ServiceSpec status:ServiceStatus
core_v1.ServiceAccount apiVersion:s kind:s metadata:meta_v1.ObjectMeta secrets:[]ObjectReference
  imagePullSecrets:[]LocalObjectReference automountServiceAccountToken:*b
core_v1.ServiceAccountTokenProjection audience:s expirationSeconds:*l path:s! user:*l
core_v1.ServicePort name:s protocol:s'v1.Protocol appProtocol:*s port:i! targetPort:x nodePort:i
core_v1.ServiceSpec ports:[]ServicePort selector:{}s clusterIP:s clusterIPs:[]s type:s'v1.ServiceType externalIPs:[]s
  sessionAffinity:s'v1.ServiceAffinity loadBalancerIP:s loadBalancerSourceRanges:[]s externalName:s
  externalTrafficPolicy:s'v1.ServiceExternalTrafficPolicy healthCheckNodePort:i publishNotReadyAddresses:b
  sessionAffinityConfig:*SessionAffinityConfig ipFamilies:[]s'v1.IPFamily ipFamilyPolicy:*s'v1.IPFamilyPolicy
  allocateLoadBalancerNodePorts:*b loadBalancerClass:*s internalTrafficPolicy:*s'v1.ServiceInternalTrafficPolicy
  trafficDistribution:*s
core_v1.ServiceStatus loadBalancer:LoadBalancerStatus conditions:[]meta_v1.Condition
core_v1.SessionAffinityConfig clientIP:*ClientIPConfig
core_v1.SleepAction seconds:l!
core_v1.StorageOSVolumeSource volumeName:s volumeNamespace:s fsType:s readOnly:b secretRef:*LocalObjectReference
core_v1.Sysctl name:s! value:s!
core_v1.TCPSocketAction port:x! host:s
core_v1.Taint key:s! value:s effect:s'v1.TaintEffect! timeAdded:*t
core_v1.Toleration key:s operator:s'v1.TolerationOperator value:s effect:s'v1.TaintEffect tolerationSeconds:*l
core_v1.TopologySpreadConstraint maxSkew:i! topologyKey:s! whenUnsatisfiable:s'v1.UnsatisfiableConstraintAction!
  labelSelector:*meta_v1.LabelSelector minDomains:*i nodeAffinityPolicy:*s'v1.NodeInclusionPolicy
  nodeTaintsPolicy:*s'v1.NodeInclusionPolicy matchLabelKeys:[]s
core_v1.TypedLocalObjectReference apiGroup:*s! kind:s! name:s!
core_v1.TypedObjectReference apiGroup:*s! kind:s! name:s! namespace:*s
core_v1.Volume name:s! hostPath:*HostPathVolumeSource^VolumeSource emptyDir:*EmptyDirVolumeSource^VolumeSource
  gcePersistentDisk:*GCEPersistentDiskVolumeSource^VolumeSource
  awsElasticBlockStore:*AWSElasticBlockStoreVolumeSource^VolumeSource gitRepo:*GitRepoVolumeSource^VolumeSource
  secret:*SecretVolumeSource^VolumeSource nfs:*NFSVolumeSource^VolumeSource iscsi:*ISCSIVolumeSource^VolumeSource
  glusterfs:*GlusterfsVolumeSource^VolumeSource persistentVolumeClaim:*PersistentVolumeClaimVolumeSource^VolumeSource
  rbd:*RBDVolumeSource^VolumeSource flexVolume:*FlexVolumeSource^VolumeSource cinder:*CinderVolumeSource^VolumeSource
  cephfs:*CephFSVolumeSource^VolumeSource flocker:*FlockerVolumeSource^VolumeSource
  downwardAPI:*DownwardAPIVolumeSource^VolumeSource fc:*FCVolumeSource^VolumeSource
  azureFile:*AzureFileVolumeSource^VolumeSource configMap:*ConfigMapVolumeSource^VolumeSource
  vsphereVolume:*VsphereVirtualDiskVolumeSource^VolumeSource quobyte:*QuobyteVolumeSource^VolumeSource
  azureDisk:*AzureDiskVolumeSource^VolumeSource photonPersistentDisk:*PhotonPersistentDiskVolumeSource^VolumeSource
  projected:*ProjectedVolumeSource^VolumeSource portworxVolume:*PortworxVolumeSource^VolumeSource
  scaleIO:*ScaleIOVolumeSource^VolumeSource storageos:*StorageOSVolumeSource^VolumeSource
  csi:*CSIVolumeSource^VolumeSource ephemeral:*EphemeralVolumeSource^VolumeSource
  image:*ImageVolumeSource^VolumeSource
core_v1.VolumeDevice name:s! devicePath:s!
core_v1.VolumeHealthCondition status:s'v1.VolumeHealthStatusType! reason:s! message:s
core_v1.VolumeHealthStatus healthConditions:[]VolumeHealthCondition lastTransitionTime:t
core_v1.VolumeMount name:s! readOnly:b recursiveReadOnly:*s'v1.RecursiveReadOnlyMode mountPath:s! subPath:s
  mountPropagation:*s'v1.MountPropagationMode subPathExpr:s bindMountOptions:[]s
core_v1.VolumeMountStatus name:s! mountPath:s! readOnly:b recursiveReadOnly:*s'v1.RecursiveReadOnlyMode
  volumeStatus:*VolumeStatus
core_v1.VolumeProjection secret:*SecretProjection downwardAPI:*DownwardAPIProjection configMap:*ConfigMapProjection
  serviceAccountToken:*ServiceAccountTokenProjection clusterTrustBundle:*ClusterTrustBundleProjection
  podCertificate:*PodCertificateProjection
core_v1.VolumeResourceRequirements limits:{ResourceName}q requests:{ResourceName}q
core_v1.VolumeStatus image:*ImageVolumeStatus
core_v1.VsphereVirtualDiskVolumeSource volumePath:s! fsType:s storagePolicyName:s storagePolicyID:s
core_v1.WeightedPodAffinityTerm weight:i! podAffinityTerm:PodAffinityTerm!
core_v1.WindowsSecurityContextOptions gmsaCredentialSpecName:*s gmsaCredentialSpec:*s runAsUserName:*s hostProcess:*b
events_v1.Event apiVersion:s kind:s metadata:meta_v1.ObjectMeta! eventTime:T! series:*EventSeries
  reportingController:s reportingInstance:s action:s reason:s regarding:core_v1.ObjectReference
  related:*core_v1.ObjectReference note:s type:s deprecatedSource:core_v1.EventSource deprecatedFirstTimestamp:t
  deprecatedLastTimestamp:t deprecatedCount:i
events_v1.EventSeries count:i! lastObservedTime:T!
meta_v1.Condition type:s! status:s'v1.ConditionStatus! observedGeneration:l lastTransitionTime:t! reason:s! message:s!
meta_v1.DeleteOptions apiVersion:s kind:s gracePeriodSeconds:*l preconditions:*Preconditions orphanDependents:*b
  propagationPolicy:*s'v1.DeletionPropagation dryRun:[]s ignoreStoreReadErrorWithClusterBreakingPotential:*b
meta_v1.FieldSelectorRequirement key:s! operator:s'v1.FieldSelectorOperator! values:[]s
meta_v1.LabelSelector matchLabels:{}s matchExpressions:[]LabelSelectorRequirement
meta_v1.LabelSelectorRequirement key:s! operator:s'v1.LabelSelectorOperator! values:[]s
meta_v1.ListMeta selfLink:s resourceVersion:s continue:s remainingItemCount:*l shardInfo:*ShardInfo
meta_v1.ManagedFieldsEntry manager:s operation:s'v1.ManagedFieldsOperationType apiVersion:s time:*t fieldsType:s
  fieldsV1:*R subresource:s
meta_v1.ObjectMeta name:s generateName:s namespace:s selfLink:s uid:s'types.UID resourceVersion:s generation:l
  creationTimestamp:t~ deletionTimestamp:*t deletionGracePeriodSeconds:*l labels:{}s annotations:{}s
  ownerReferences:[]OwnerReference finalizers:[]s managedFields:[]ManagedFieldsEntry
meta_v1.OwnerReference apiVersion:s! kind:s! name:s! uid:s'types.UID! controller:*b blockOwnerDeletion:*b
meta_v1.Preconditions uid:*s'types.UID resourceVersion:*s
meta_v1.ShardInfo selector:s!
meta_v1.Status apiVersion:s kind:s metadata:ListMeta status:s message:s reason:s'v1.StatusReason
  details:*StatusDetails code:i
meta_v1.StatusCause reason:s'v1.CauseType message:s field:s
meta_v1.StatusDetails name:s group:s kind:s uid:s'types.UID causes:[]StatusCause retryAfterSeconds:i
policy_v1.Eviction apiVersion:s kind:s metadata:meta_v1.ObjectMeta deleteOptions:*meta_v1.DeleteOptions
policy_v1.PodDisruptionBudget apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:PodDisruptionBudgetSpec
  status:PodDisruptionBudgetStatus
policy_v1.PodDisruptionBudgetSpec minAvailable:*x selector:*meta_v1.LabelSelector maxUnavailable:*x
  unhealthyPodEvictionPolicy:*s'v1.UnhealthyPodEvictionPolicyType
policy_v1.PodDisruptionBudgetStatus observedGeneration:l disruptedPods:{}t disruptionsAllowed:i! currentHealthy:i!
  desiredHealthy:i! expectedPods:i! conditions:[]meta_v1.Condition
rbac_v1.AggregationRule clusterRoleSelectors:[]meta_v1.LabelSelector
rbac_v1.ClusterRole apiVersion:s kind:s metadata:meta_v1.ObjectMeta rules:[]PolicyRule!
  aggregationRule:*AggregationRule
rbac_v1.ClusterRoleBinding apiVersion:s kind:s metadata:meta_v1.ObjectMeta subjects:[]Subject roleRef:RoleRef!
rbac_v1.PolicyRule verbs:[]s! apiGroups:[]s resources:[]s resourceNames:[]s nonResourceURLs:[]s
rbac_v1.Role apiVersion:s kind:s metadata:meta_v1.ObjectMeta rules:[]PolicyRule!
rbac_v1.RoleBinding apiVersion:s kind:s metadata:meta_v1.ObjectMeta subjects:[]Subject roleRef:RoleRef!
rbac_v1.RoleRef apiGroup:s! kind:s! name:s!
rbac_v1.Subject kind:s! apiGroup:s name:s! namespace:s
resource_v1.AllocatedDeviceStatus driver:s! pool:s! device:s! shareID:*s conditions:[]meta_v1.Condition! data:*R
  networkData:*NetworkDeviceData
resource_v1.AllocationResult devices:DeviceAllocationResult nodeSelector:*core_v1.NodeSelector allocationTimestamp:*t
resource_v1.CELDeviceSelector expression:s!
resource_v1.CapacityRequestPolicy default:*q! validValues:[]q validRange:*CapacityRequestPolicyRange
resource_v1.CapacityRequestPolicyRange min:*q max:*q step:*q
resource_v1.CapacityRequirements requests:{QualifiedName}q
resource_v1.Counter value:q!
resource_v1.CounterSet name:s! counters:{}Counter
resource_v1.Device name:s! attributes:{QualifiedName}DeviceAttribute capacity:{QualifiedName}DeviceCapacity
  consumesCounters:[]DeviceCounterConsumption nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  taints:[]DeviceTaint bindsToNode:*b bindingConditions:[]s bindingFailureConditions:[]s allowMultipleAllocations:*b
  nodeAllocatableResources:{v1.ResourceName}NodeAllocatableResource
resource_v1.DeviceAllocationConfiguration source:s'v1.AllocationConfigSource! requests:[]s
  opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1.DeviceAllocationResult results:[]DeviceRequestAllocationResult config:[]DeviceAllocationConfiguration
resource_v1.DeviceAttribute int:*l bool:*b string:*s version:*s ints:[]l bools:[]b strings:[]s versions:[]s
resource_v1.DeviceCapacity value:q! requestPolicy:*CapacityRequestPolicy
resource_v1.DeviceClaim requests:[]DeviceRequest! constraints:[]DeviceConstraint config:[]DeviceClaimConfiguration
resource_v1.DeviceClaimConfiguration requests:[]s opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1.DeviceClass apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeviceClassSpec!
resource_v1.DeviceClassConfiguration opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1.DeviceClassSpec selectors:[]DeviceSelector config:[]DeviceClassConfiguration extendedResourceName:*s
resource_v1.DeviceConstraint requests:[]s matchAttribute:*s'v1.FullyQualifiedName
  distinctAttribute:*s'v1.FullyQualifiedName
resource_v1.DeviceCounterConsumption counterSet:s! counters:{}Counter compatibilityGroups:[]s
resource_v1.DeviceDerivedAttribute name:s'v1.FullyQualifiedName! expression:s!
resource_v1.DeviceRequest name:s! exactly:*ExactDeviceRequest firstAvailable:[]DeviceSubRequest
resource_v1.DeviceRequestAllocationResult request:s! driver:s! pool:s! device:s! adminAccess:*b
  tolerations:[]DeviceToleration bindingConditions:[]s bindingFailureConditions:[]s shareID:*s'types.UID
  consumedCapacity:{QualifiedName}q skipNodeOperations:[]s'v1.SkipNodeOperation
resource_v1.DeviceSelector cel:*CELDeviceSelector
resource_v1.DeviceSubRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'v1.DeviceAllocationMode count:l tolerations:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1.DeviceTaint key:s! value:s effect:s'v1.DeviceTaintEffect! timeAdded:*t
resource_v1.DeviceTaintRule apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeviceTaintRuleSpec!
  status:DeviceTaintRuleStatus
resource_v1.DeviceTaintRuleSpec deviceSelector:*DeviceTaintSelector taint:DeviceTaint
resource_v1.DeviceTaintRuleStatus conditions:[]meta_v1.Condition
resource_v1.DeviceTaintSelector driver:*s pool:*s device:*s
resource_v1.DeviceToleration key:s operator:s'v1.DeviceTolerationOperator value:s effect:s'v1.DeviceTaintEffect
  tolerationSeconds:*l
resource_v1.ExactDeviceRequest deviceClassName:s! selectors:[]DeviceSelector allocationMode:s'v1.DeviceAllocationMode
  count:l adminAccess:*b tolerations:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1.NetworkDeviceData interfaceName:s ips:[]s hardwareAddress:s
resource_v1.NodeAllocatableMapping capacityKey:*s'v1.QualifiedName capacityMultiplier:*q deviceMultiplier:*q
resource_v1.NodeAllocatableOverhead perPod:*q perContainer:*q
resource_v1.NodeAllocatableResource mapping:*NodeAllocatableMapping overhead:*NodeAllocatableOverhead
resource_v1.OpaqueDeviceConfiguration driver:s! parameters:R!
resource_v1.ResourceClaim apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
  status:ResourceClaimStatus
resource_v1.ResourceClaimConsumerReference apiGroup:s resource:s! name:s! uid:s'types.UID!
resource_v1.ResourceClaimSpec devices:DeviceClaim!
resource_v1.ResourceClaimStatus allocation:*AllocationResult reservedFor:[]ResourceClaimConsumerReference
  devices:[]AllocatedDeviceStatus
resource_v1.ResourceClaimTemplate apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceClaimTemplateSpec!
resource_v1.ResourceClaimTemplateSpec metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
resource_v1.ResourcePool name:s! generation:l! resourceSliceCount:l!
resource_v1.ResourceSlice apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceSliceSpec!
resource_v1.ResourceSliceSpec driver:s! pool:ResourcePool! nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  devices:[]Device perDeviceNodeSelection:*b sharedCounters:[]CounterSet
  partitionTypeAttribute:*s'v1.FullyQualifiedName skipNodeOperations:[]s'v1.SkipNodeOperation
resource_v1alpha3.DeviceTaint key:s! value:s effect:s'v1alpha3.DeviceTaintEffect! timeAdded:*t
resource_v1alpha3.DeviceTaintRule apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeviceTaintRuleSpec!
  status:DeviceTaintRuleStatus
resource_v1alpha3.DeviceTaintRuleSpec deviceSelector:*DeviceTaintSelector taint:DeviceTaint
resource_v1alpha3.DeviceTaintRuleStatus conditions:[]meta_v1.Condition
resource_v1alpha3.DeviceTaintSelector driver:*s pool:*s device:*s
resource_v1alpha3.PartitionTypeStatus attribute:s type:s total:*i allocatable:*i
resource_v1alpha3.PoolStatus driver:s poolName:s generation:l! resourceSliceCount:*i totalDevices:*i
  allocatedDevices:*i availableDevices:*i unavailableDevices:*i nodeName:*s validationError:*s
  partitionSummary:[]PartitionTypeStatus shareableSummary:*ShareableSummaryStatus
resource_v1alpha3.ResourcePoolStatusRequest apiVersion:s kind:s metadata:meta_v1.ObjectMeta
  spec:ResourcePoolStatusRequestSpec! status:*ResourcePoolStatusRequestStatus
resource_v1alpha3.ResourcePoolStatusRequestSpec driver:s! poolName:*s limit:*i defaultPartitionTypeAttribute:*s
resource_v1alpha3.ResourcePoolStatusRequestStatus poolCount:*i pools:[]PoolStatus conditions:[]meta_v1.Condition
resource_v1alpha3.ShareableCapacityStatus name:s total:*q consumed:*q available:*q
resource_v1alpha3.ShareableSummaryStatus fullyAvailableDevices:*i partiallyAvailableDevices:*i
  capacity:[]ShareableCapacityStatus
resource_v1beta1.AllocatedDeviceStatus driver:s! pool:s! device:s! shareID:*s conditions:[]meta_v1.Condition! data:*R
  networkData:*NetworkDeviceData
resource_v1beta1.AllocationResult devices:DeviceAllocationResult nodeSelector:*core_v1.NodeSelector
  allocationTimestamp:*t
resource_v1beta1.BasicDevice attributes:{QualifiedName}DeviceAttribute capacity:{QualifiedName}DeviceCapacity
  consumesCounters:[]DeviceCounterConsumption nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  taints:[]DeviceTaint bindsToNode:*b bindingConditions:[]s bindingFailureConditions:[]s allowMultipleAllocations:*b
  nodeAllocatableResources:{v1.ResourceName}NodeAllocatableResource
resource_v1beta1.CELDeviceSelector expression:s!
resource_v1beta1.CapacityRequestPolicy default:*q! validValues:[]q validRange:*CapacityRequestPolicyRange
resource_v1beta1.CapacityRequestPolicyRange min:*q max:*q step:*q
resource_v1beta1.CapacityRequirements requests:{QualifiedName}q
resource_v1beta1.Counter value:q!
resource_v1beta1.CounterSet name:s! counters:{}Counter
resource_v1beta1.Device name:s! basic:*BasicDevice
resource_v1beta1.DeviceAllocationConfiguration source:s'v1beta1.AllocationConfigSource! requests:[]s
  opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1beta1.DeviceAllocationResult results:[]DeviceRequestAllocationResult config:[]DeviceAllocationConfiguration
resource_v1beta1.DeviceAttribute int:*l bool:*b string:*s version:*s ints:[]l bools:[]b strings:[]s versions:[]s
resource_v1beta1.DeviceCapacity value:q! requestPolicy:*CapacityRequestPolicy
resource_v1beta1.DeviceClaim requests:[]DeviceRequest! constraints:[]DeviceConstraint
  config:[]DeviceClaimConfiguration
resource_v1beta1.DeviceClaimConfiguration requests:[]s opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1beta1.DeviceClass apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeviceClassSpec!
resource_v1beta1.DeviceClassConfiguration opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1beta1.DeviceClassSpec selectors:[]DeviceSelector config:[]DeviceClassConfiguration extendedResourceName:*s
resource_v1beta1.DeviceConstraint requests:[]s matchAttribute:*s'v1beta1.FullyQualifiedName
  distinctAttribute:*s'v1beta1.FullyQualifiedName
resource_v1beta1.DeviceCounterConsumption counterSet:s! counters:{}Counter compatibilityGroups:[]s
resource_v1beta1.DeviceDerivedAttribute name:s'v1beta1.FullyQualifiedName! expression:s!
resource_v1beta1.DeviceRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'v1beta1.DeviceAllocationMode count:l adminAccess:*b firstAvailable:[]DeviceSubRequest
  tolerations:[]DeviceToleration capacity:*CapacityRequirements derivedAttributes:[]DeviceDerivedAttribute
resource_v1beta1.DeviceRequestAllocationResult request:s! driver:s! pool:s! device:s! adminAccess:*b
  tolerations:[]DeviceToleration bindingConditions:[]s bindingFailureConditions:[]s shareID:*s'types.UID
  consumedCapacity:{QualifiedName}q skipNodeOperations:[]s'v1beta1.SkipNodeOperation
resource_v1beta1.DeviceSelector cel:*CELDeviceSelector
resource_v1beta1.DeviceSubRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'v1beta1.DeviceAllocationMode count:l tolerations:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1beta1.DeviceTaint key:s! value:s effect:s'v1beta1.DeviceTaintEffect! timeAdded:*t
resource_v1beta1.DeviceToleration key:s operator:s'v1beta1.DeviceTolerationOperator value:s
  effect:s'v1beta1.DeviceTaintEffect tolerationSeconds:*l
resource_v1beta1.NetworkDeviceData interfaceName:s ips:[]s hardwareAddress:s
resource_v1beta1.NodeAllocatableMapping capacityKey:*s'v1beta1.QualifiedName capacityMultiplier:*q deviceMultiplier:*q
resource_v1beta1.NodeAllocatableOverhead perPod:*q perContainer:*q
resource_v1beta1.NodeAllocatableResource mapping:*NodeAllocatableMapping overhead:*NodeAllocatableOverhead
resource_v1beta1.OpaqueDeviceConfiguration driver:s! parameters:R!
resource_v1beta1.ResourceClaim apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
  status:ResourceClaimStatus
resource_v1beta1.ResourceClaimConsumerReference apiGroup:s resource:s! name:s! uid:s'types.UID!
resource_v1beta1.ResourceClaimSpec devices:DeviceClaim!
resource_v1beta1.ResourceClaimStatus allocation:*AllocationResult reservedFor:[]ResourceClaimConsumerReference
  devices:[]AllocatedDeviceStatus
resource_v1beta1.ResourceClaimTemplate apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceClaimTemplateSpec!
resource_v1beta1.ResourceClaimTemplateSpec metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
resource_v1beta1.ResourcePool name:s! generation:l! resourceSliceCount:l!
resource_v1beta1.ResourceSlice apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceSliceSpec!
resource_v1beta1.ResourceSliceSpec driver:s! pool:ResourcePool! nodeName:s nodeSelector:*core_v1.NodeSelector
  allNodes:b devices:[]Device perDeviceNodeSelection:*b sharedCounters:[]CounterSet
  partitionTypeAttribute:*s'v1beta1.FullyQualifiedName skipNodeOperations:[]s'v1beta1.SkipNodeOperation
resource_v1beta2.AllocatedDeviceStatus driver:s! pool:s! device:s! shareID:*s conditions:[]meta_v1.Condition! data:*R
  networkData:*NetworkDeviceData
resource_v1beta2.AllocationResult devices:DeviceAllocationResult nodeSelector:*core_v1.NodeSelector
  allocationTimestamp:*t
resource_v1beta2.CELDeviceSelector expression:s!
resource_v1beta2.CapacityRequestPolicy default:*q! validValues:[]q validRange:*CapacityRequestPolicyRange
resource_v1beta2.CapacityRequestPolicyRange min:*q max:*q step:*q
resource_v1beta2.CapacityRequirements requests:{QualifiedName}q
resource_v1beta2.Counter value:q!
resource_v1beta2.CounterSet name:s! counters:{}Counter
resource_v1beta2.Device name:s! attributes:{QualifiedName}DeviceAttribute capacity:{QualifiedName}DeviceCapacity
  consumesCounters:[]DeviceCounterConsumption nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  taints:[]DeviceTaint bindsToNode:*b bindingConditions:[]s bindingFailureConditions:[]s allowMultipleAllocations:*b
  nodeAllocatableResources:{v1.ResourceName}NodeAllocatableResource
resource_v1beta2.DeviceAllocationConfiguration source:s'v1beta2.AllocationConfigSource! requests:[]s
  opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1beta2.DeviceAllocationResult results:[]DeviceRequestAllocationResult config:[]DeviceAllocationConfiguration
resource_v1beta2.DeviceAttribute int:*l bool:*b string:*s version:*s ints:[]l bools:[]b strings:[]s versions:[]s
resource_v1beta2.DeviceCapacity value:q! requestPolicy:*CapacityRequestPolicy
resource_v1beta2.DeviceClaim requests:[]DeviceRequest! constraints:[]DeviceConstraint
  config:[]DeviceClaimConfiguration
resource_v1beta2.DeviceClaimConfiguration requests:[]s opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1beta2.DeviceClass apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeviceClassSpec!
resource_v1beta2.DeviceClassConfiguration opaque:*OpaqueDeviceConfiguration^DeviceConfiguration
resource_v1beta2.DeviceClassSpec selectors:[]DeviceSelector config:[]DeviceClassConfiguration extendedResourceName:*s
resource_v1beta2.DeviceConstraint requests:[]s matchAttribute:*s'v1beta2.FullyQualifiedName
  distinctAttribute:*s'v1beta2.FullyQualifiedName
resource_v1beta2.DeviceCounterConsumption counterSet:s! counters:{}Counter compatibilityGroups:[]s
resource_v1beta2.DeviceDerivedAttribute name:s'v1beta2.FullyQualifiedName! expression:s!
resource_v1beta2.DeviceRequest name:s! exactly:*ExactDeviceRequest firstAvailable:[]DeviceSubRequest
resource_v1beta2.DeviceRequestAllocationResult request:s! driver:s! pool:s! device:s! adminAccess:*b
  tolerations:[]DeviceToleration bindingConditions:[]s bindingFailureConditions:[]s shareID:*s'types.UID
  consumedCapacity:{QualifiedName}q skipNodeOperations:[]s'v1beta2.SkipNodeOperation
resource_v1beta2.DeviceSelector cel:*CELDeviceSelector
resource_v1beta2.DeviceSubRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'v1beta2.DeviceAllocationMode count:l tolerations:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1beta2.DeviceTaint key:s! value:s effect:s'v1beta2.DeviceTaintEffect! timeAdded:*t
resource_v1beta2.DeviceTaintRule apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:DeviceTaintRuleSpec!
  status:DeviceTaintRuleStatus
resource_v1beta2.DeviceTaintRuleSpec deviceSelector:*DeviceTaintSelector taint:DeviceTaint
resource_v1beta2.DeviceTaintRuleStatus conditions:[]meta_v1.Condition
resource_v1beta2.DeviceTaintSelector driver:*s pool:*s device:*s
resource_v1beta2.DeviceToleration key:s operator:s'v1beta2.DeviceTolerationOperator value:s
  effect:s'v1beta2.DeviceTaintEffect tolerationSeconds:*l
resource_v1beta2.ExactDeviceRequest deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'v1beta2.DeviceAllocationMode count:l adminAccess:*b tolerations:[]DeviceToleration
  capacity:*CapacityRequirements derivedAttributes:[]DeviceDerivedAttribute
resource_v1beta2.NetworkDeviceData interfaceName:s ips:[]s hardwareAddress:s
resource_v1beta2.NodeAllocatableMapping capacityKey:*s'v1beta2.QualifiedName capacityMultiplier:*q deviceMultiplier:*q
resource_v1beta2.NodeAllocatableOverhead perPod:*q perContainer:*q
resource_v1beta2.NodeAllocatableResource mapping:*NodeAllocatableMapping overhead:*NodeAllocatableOverhead
resource_v1beta2.OpaqueDeviceConfiguration driver:s! parameters:R!
resource_v1beta2.ResourceClaim apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
  status:ResourceClaimStatus
resource_v1beta2.ResourceClaimConsumerReference apiGroup:s resource:s! name:s! uid:s'types.UID!
resource_v1beta2.ResourceClaimSpec devices:DeviceClaim!
resource_v1beta2.ResourceClaimStatus allocation:*AllocationResult reservedFor:[]ResourceClaimConsumerReference
  devices:[]AllocatedDeviceStatus
resource_v1beta2.ResourceClaimTemplate apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceClaimTemplateSpec!
resource_v1beta2.ResourceClaimTemplateSpec metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
resource_v1beta2.ResourcePool name:s! generation:l! resourceSliceCount:l!
resource_v1beta2.ResourceSlice apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:ResourceSliceSpec!
resource_v1beta2.ResourceSliceSpec driver:s! pool:ResourcePool! nodeName:*s nodeSelector:*core_v1.NodeSelector
  allNodes:*b devices:[]Device perDeviceNodeSelection:*b sharedCounters:[]CounterSet
  partitionTypeAttribute:*s'v1beta2.FullyQualifiedName skipNodeOperations:[]s'v1beta2.SkipNodeOperation
scheduling_v1.PriorityClass apiVersion:s kind:s metadata:meta_v1.ObjectMeta value:i! globalDefault:b description:s
  preemptionPolicy:*s'v1.PreemptionPolicy
scheduling_v1alpha3.CompositeDisruptionMode single:*SingleCompositeDisruptionMode all:*AllCompositeDisruptionMode
scheduling_v1alpha3.CompositeGangSchedulingPolicy minGroupCount:i!
scheduling_v1alpha3.CompositePodGroup apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:CompositePodGroupSpec!
  status:CompositePodGroupStatus
scheduling_v1alpha3.CompositePodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1alpha3.CompositePodGroupSchedulingPolicy basic:*CompositeBasicSchedulingPolicy
  gang:*CompositeGangSchedulingPolicy
scheduling_v1alpha3.CompositePodGroupSpec parentCompositePodGroupName:*s workloadRef:*WorkloadReference!
  schedulingPolicy:CompositePodGroupSchedulingPolicy! schedulingConstraints:*CompositePodGroupSchedulingConstraints
  disruptionMode:*CompositeDisruptionMode priorityClassName:s priority:*i
  preemptionPolicy:*s'v1alpha3.PreemptionPolicy
scheduling_v1alpha3.CompositePodGroupStatus conditions:[]meta_v1.Condition
scheduling_v1alpha3.CompositePodGroupTemplate name:s! schedulingPolicy:CompositePodGroupSchedulingPolicy!
  schedulingConstraints:*CompositePodGroupSchedulingConstraints disruptionMode:*CompositeDisruptionMode
  priorityClassName:s priority:*i preemptionPolicy:*s'v1alpha3.PreemptionPolicy podGroupTemplates:[]PodGroupTemplate
  compositePodGroupTemplates:[]CompositePodGroupTemplate
scheduling_v1alpha3.DisruptionMode single:*SingleDisruptionMode all:*AllDisruptionMode
scheduling_v1alpha3.GangSchedulingPolicy minCount:i!
scheduling_v1alpha3.PodGroup apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:PodGroupSpec! status:PodGroupStatus
scheduling_v1alpha3.PodGroupResourceClaim name:s! resourceClaimName:*s resourceClaimTemplateName:*s
scheduling_v1alpha3.PodGroupResourceClaimStatus name:s! resourceClaimName:*s
scheduling_v1alpha3.PodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1alpha3.PodGroupSchedulingPolicy basic:*BasicSchedulingPolicy gang:*GangSchedulingPolicy
scheduling_v1alpha3.PodGroupSpec parentCompositePodGroupName:*s workloadRef:*WorkloadReference
  schedulingPolicy:PodGroupSchedulingPolicy! schedulingConstraints:*PodGroupSchedulingConstraints
  resourceClaims:[]PodGroupResourceClaim disruptionMode:*DisruptionMode priorityClassName:s priority:*i
  preemptionPolicy:*s'v1alpha3.PreemptionPolicy
scheduling_v1alpha3.PodGroupStatus conditions:[]meta_v1.Condition resourceClaimStatuses:[]PodGroupResourceClaimStatus
scheduling_v1alpha3.PodGroupTemplate name:s! schedulingPolicy:PodGroupSchedulingPolicy!
  schedulingConstraints:*PodGroupSchedulingConstraints! resourceClaims:[]PodGroupResourceClaim
  disruptionMode:*DisruptionMode priorityClassName:s priority:*i preemptionPolicy:*s'v1alpha3.PreemptionPolicy
scheduling_v1alpha3.TopologyConstraint key:s!
scheduling_v1alpha3.TypedLocalObjectReference apiGroup:s kind:s! name:s!
scheduling_v1alpha3.Workload apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:WorkloadSpec!
scheduling_v1alpha3.WorkloadPodGroupDisruptionMode single:*WorkloadPodGroupSingleDisruptionMode
  all:*WorkloadPodGroupAllDisruptionMode
scheduling_v1alpha3.WorkloadPodGroupGangSchedulingPolicy minCount:*i
scheduling_v1alpha3.WorkloadPodGroupResourceClaim name:s! resourceClaimName:*s resourceClaimTemplateName:*s
scheduling_v1alpha3.WorkloadPodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1alpha3.WorkloadPodGroupSchedulingPolicy basic:*WorkloadPodGroupBasicSchedulingPolicy
  gang:*WorkloadPodGroupGangSchedulingPolicy
scheduling_v1alpha3.WorkloadReference workloadName:s! templateName:s!
scheduling_v1alpha3.WorkloadSpec controllerRef:*TypedLocalObjectReference podGroupTemplates:[]PodGroupTemplate!
  compositePodGroupTemplates:[]CompositePodGroupTemplate
scheduling_v1beta1.CompositeDisruptionMode single:*SingleCompositeDisruptionMode all:*AllCompositeDisruptionMode
scheduling_v1beta1.CompositeGangSchedulingPolicy minGroupCount:i!
scheduling_v1beta1.CompositePodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1beta1.CompositePodGroupSchedulingPolicy basic:*CompositeBasicSchedulingPolicy
  gang:*CompositeGangSchedulingPolicy
scheduling_v1beta1.CompositePodGroupTemplate name:s! schedulingPolicy:CompositePodGroupSchedulingPolicy!
  schedulingConstraints:*CompositePodGroupSchedulingConstraints disruptionMode:*CompositeDisruptionMode
  priorityClassName:s priority:*i preemptionPolicy:*s'v1beta1.PreemptionPolicy podGroupTemplates:[]PodGroupTemplate
  compositePodGroupTemplates:[]CompositePodGroupTemplate
scheduling_v1beta1.DisruptionMode single:*SingleDisruptionMode all:*AllDisruptionMode
scheduling_v1beta1.GangSchedulingPolicy minCount:i!
scheduling_v1beta1.PodGroup apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:PodGroupSpec! status:PodGroupStatus
scheduling_v1beta1.PodGroupResourceClaim name:s! resourceClaimName:*s resourceClaimTemplateName:*s
scheduling_v1beta1.PodGroupResourceClaimStatus name:s! resourceClaimName:*s
scheduling_v1beta1.PodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1beta1.PodGroupSchedulingPolicy basic:*BasicSchedulingPolicy gang:*GangSchedulingPolicy
scheduling_v1beta1.PodGroupSpec parentCompositePodGroupName:*s workloadRef:*WorkloadReference
  schedulingPolicy:PodGroupSchedulingPolicy! schedulingConstraints:*PodGroupSchedulingConstraints
  resourceClaims:[]PodGroupResourceClaim disruptionMode:*DisruptionMode priorityClassName:s priority:*i
  preemptionPolicy:*s'v1beta1.PreemptionPolicy
scheduling_v1beta1.PodGroupStatus conditions:[]meta_v1.Condition resourceClaimStatuses:[]PodGroupResourceClaimStatus
scheduling_v1beta1.PodGroupTemplate name:s! schedulingPolicy:PodGroupSchedulingPolicy!
  schedulingConstraints:*PodGroupSchedulingConstraints! resourceClaims:[]PodGroupResourceClaim
  disruptionMode:*DisruptionMode priorityClassName:s priority:*i preemptionPolicy:*s'v1beta1.PreemptionPolicy
scheduling_v1beta1.TopologyConstraint key:s!
scheduling_v1beta1.TypedLocalObjectReference apiGroup:s kind:s! name:s!
scheduling_v1beta1.Workload apiVersion:s kind:s metadata:meta_v1.ObjectMeta spec:WorkloadSpec!
scheduling_v1beta1.WorkloadReference workloadName:s! templateName:s!
scheduling_v1beta1.WorkloadSpec controllerRef:*TypedLocalObjectReference podGroupTemplates:[]PodGroupTemplate!
  compositePodGroupTemplates:[]CompositePodGroupTemplate
"""
