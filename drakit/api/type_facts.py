"""What a field of an API type of Kubernetes 1.37 is, how it travels and how it merges: what lightkube's models do not say.

One line per type, `module.Type word …`, continued by two spaces; `api.types` reads it. A table in one piece, hence its length.

- `field:form`: forms are `s` string, `b` bool, `i` int32, `l` int64, `f` float, `q` Quantity, `t` Time, `T` MicroTime, `x` IntOrString,
  `y` bytes, `R` any JSON, else the name of a type (of this module, or `module.Type`). Before it: `*` optional, so that a zero is kept; `[]`
  a list; `{}` or `{Key}` a map. After it: `'name` Go's name of a scalar type, for messages (of this version, or `version.name`);
  `!` written even when empty; `~` a struct or time left out when empty.
- Behind that, after `+`: `map[keys]`, `set` a list's type (none: atomic); `atomic` an atomic map or struct; `merge[key]`, `retainKeys`,
  `merge/retainKeys[key]` the patch strategy; `=json` the default.
- `field#7`: its protobuf number where that is not one more than the number before.
- `^Type`: the fields from here to the next `^` are embedded from that Go type, in protobuf a message of its own; `^` ends that.
- `TypeMeta`: `apiVersion:s kind:s`, which have no number. `atomic`: the whole struct merges as one value.

A line `module base` says that types of that module without a line are those of the other. `TypeList` is made from `Type`.
Sources: the Go types of k8s.io/api, their listType, patchStrategy and default markers, and generated.proto.
"""

TYPES = """
resource_v1alpha3 resource_v1
resource_v1beta1 resource_v1
resource_v1beta2 resource_v1
scheduling_v1alpha3 scheduling_v1beta1
admissionregistration_v1.AuditAnnotation key:s! valueExpression:s!
admissionregistration_v1.ExpressionWarning fieldRef#2:s! warning:s!
admissionregistration_v1.MatchCondition name:s! expression:s!
admissionregistration_v1.MatchResources atomic namespaceSelector:*meta_v1.LabelSelector
  objectSelector:*meta_v1.LabelSelector resourceRules:[]NamedRuleWithOperations
  excludeResourceRules:[]NamedRuleWithOperations matchPolicy#7:*s'MatchPolicyType
admissionregistration_v1.NamedRuleWithOperations atomic resourceNames:[]s ^RuleWithOperations
  operations:[]s'OperationType ^RuleWithOperations.Rule apiGroups:[]s apiVersions:[]s resources:[]s scope:*s'ScopeType
admissionregistration_v1.ParamKind atomic apiVersion:s kind:s
admissionregistration_v1.ParamRef atomic name:s namespace:s selector:*meta_v1.LabelSelector
  parameterNotFoundAction:*s'ParameterNotFoundActionType
admissionregistration_v1.TypeChecking expressionWarnings:[]ExpressionWarning
admissionregistration_v1.ValidatingAdmissionPolicy TypeMeta metadata:meta_v1.ObjectMeta
  spec:ValidatingAdmissionPolicySpec status:ValidatingAdmissionPolicyStatus
admissionregistration_v1.ValidatingAdmissionPolicyBinding TypeMeta metadata:meta_v1.ObjectMeta
  spec:ValidatingAdmissionPolicyBindingSpec
admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec policyName:s paramRef:*ParamRef
  matchResources:*MatchResources validationActions:[]s'ValidationAction+set
admissionregistration_v1.ValidatingAdmissionPolicySpec paramKind:*ParamKind matchConstraints:*MatchResources
  validations:[]Validation failurePolicy:*s'FailurePolicyType auditAnnotations:[]AuditAnnotation
  matchConditions:[]MatchCondition+map[name]+merge[name] variables:[]Variable+map[name]+merge[name]
admissionregistration_v1.ValidatingAdmissionPolicyStatus observedGeneration:l typeChecking:*TypeChecking
  conditions:[]meta_v1.Condition+map[type]
admissionregistration_v1.Validation expression:s! message:s reason:*s'StatusReason messageExpression:s
admissionregistration_v1.Variable atomic name:s! expression:s!
apps_v1.ControllerRevision TypeMeta metadata:meta_v1.ObjectMeta data:R! revision:l!
apps_v1.DaemonSet TypeMeta metadata:meta_v1.ObjectMeta spec:DaemonSetSpec status:DaemonSetStatus
apps_v1.DaemonSetCondition type:s'DaemonSetConditionType! status:s'ConditionStatus! lastTransitionTime:t reason:s
  message:s
apps_v1.DaemonSetSpec selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec!
  updateStrategy:DaemonSetUpdateStrategy minReadySeconds:i revisionHistoryLimit#6:*i
apps_v1.DaemonSetStatus currentNumberScheduled:i! numberMisscheduled:i! desiredNumberScheduled:i! numberReady:i!
  observedGeneration:l updatedNumberScheduled:i numberAvailable:i numberUnavailable:i collisionCount:*i
  conditions:[]DaemonSetCondition+map[type]+merge[type]
apps_v1.DaemonSetUpdateStrategy type:s'DaemonSetUpdateStrategyType rollingUpdate:*RollingUpdateDaemonSet
apps_v1.Deployment TypeMeta metadata:meta_v1.ObjectMeta spec:DeploymentSpec status:DeploymentStatus
apps_v1.DeploymentCondition type:s'DeploymentConditionType! status:s'ConditionStatus! lastUpdateTime#6:t
  lastTransitionTime:t reason#4:s message:s
apps_v1.DeploymentSpec replicas:*i selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec!
  strategy:DeploymentStrategy+retainKeys minReadySeconds:i revisionHistoryLimit:*i paused:b
  progressDeadlineSeconds#9:*i
apps_v1.DeploymentStatus observedGeneration:l replicas:i updatedReplicas:i readyReplicas#7:i availableReplicas#4:i
  unavailableReplicas:i terminatingReplicas#9:*i conditions#6:[]DeploymentCondition+map[type]+merge[type]
  collisionCount#8:*i
apps_v1.DeploymentStrategy type:s'DeploymentStrategyType rollingUpdate:*RollingUpdateDeployment
apps_v1.ReplicaSet TypeMeta metadata:meta_v1.ObjectMeta spec:ReplicaSetSpec status:ReplicaSetStatus
apps_v1.ReplicaSetCondition type:s'ReplicaSetConditionType! status:s'ConditionStatus! lastTransitionTime:t reason:s
  message:s
apps_v1.ReplicaSetSpec replicas:*i minReadySeconds#4:i selector#2:*meta_v1.LabelSelector!
  template:core_v1.PodTemplateSpec
apps_v1.ReplicaSetStatus replicas:i! fullyLabeledReplicas:i readyReplicas#4:i availableReplicas:i
  terminatingReplicas#7:*i observedGeneration#3:l conditions#6:[]ReplicaSetCondition+map[type]+merge[type]
apps_v1.RollingUpdateDaemonSet maxUnavailable:*x maxSurge:*x
apps_v1.RollingUpdateDeployment maxUnavailable:*x maxSurge:*x
apps_v1.RollingUpdateStatefulSetStrategy partition:*i maxUnavailable:*x
apps_v1.StatefulSet TypeMeta metadata:meta_v1.ObjectMeta spec:StatefulSetSpec status:StatefulSetStatus
apps_v1.StatefulSetCondition type:s'StatefulSetConditionType! status:s'ConditionStatus! lastTransitionTime:t reason:s
  message:s
apps_v1.StatefulSetOrdinals start:i!
apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted:s'PersistentVolumeClaimRetentionPolicyType
  whenScaled:s'PersistentVolumeClaimRetentionPolicyType
apps_v1.StatefulSetSpec replicas:*i selector:*meta_v1.LabelSelector! template:core_v1.PodTemplateSpec!
  volumeClaimTemplates:[]core_v1.PersistentVolumeClaim serviceName:s! podManagementPolicy:s'PodManagementPolicyType
  updateStrategy:StatefulSetUpdateStrategy revisionHistoryLimit:*i minReadySeconds:i
  persistentVolumeClaimRetentionPolicy:*StatefulSetPersistentVolumeClaimRetentionPolicy ordinals:*StatefulSetOrdinals
apps_v1.StatefulSetStatus observedGeneration:l replicas:i! readyReplicas:i currentReplicas:i updatedReplicas:i
  currentRevision:s updateRevision:s collisionCount#9:*i conditions:[]StatefulSetCondition+map[type]+merge[type]
  availableReplicas:i!
apps_v1.StatefulSetUpdateStrategy type:s'StatefulSetUpdateStrategyType rollingUpdate:*RollingUpdateStatefulSetStrategy
authentication_v1.BoundObjectReference kind:s apiVersion:s name:s uid:s'types.UID
authentication_v1.SelfSubjectReview TypeMeta metadata:meta_v1.ObjectMeta status:SelfSubjectReviewStatus
authentication_v1.SelfSubjectReviewStatus userInfo:UserInfo
authentication_v1.TokenRequest TypeMeta metadata:meta_v1.ObjectMeta spec:TokenRequestSpec! status:TokenRequestStatus
authentication_v1.TokenRequestSpec audiences:[]s! expirationSeconds#4:*l! boundObjectRef#3:*BoundObjectReference!
  attestations#5:{}[]s
authentication_v1.TokenRequestStatus token:s! expirationTimestamp:t!
authentication_v1.TokenReview TypeMeta metadata:meta_v1.ObjectMeta spec:TokenReviewSpec! status:TokenReviewStatus
authentication_v1.TokenReviewSpec token:s audiences:[]s
authentication_v1.TokenReviewStatus authenticated:b user:UserInfo audiences#4:[]s error#3:s
authentication_v1.UserInfo username:s uid:s groups:[]s extra:{}[]s
authorization_v1.FieldSelectorAttributes rawSelector:s requirements:[]meta_v1.FieldSelectorRequirement
authorization_v1.LabelSelectorAttributes rawSelector:s requirements:[]meta_v1.LabelSelectorRequirement
authorization_v1.LocalSubjectAccessReview TypeMeta metadata:meta_v1.ObjectMeta spec:SubjectAccessReviewSpec!
  status:SubjectAccessReviewStatus
authorization_v1.NonResourceAttributes path:s verb:s
authorization_v1.NonResourceRule verbs:[]s! nonResourceURLs:[]s
authorization_v1.ResourceAttributes namespace:s verb:s group:s version:s resource:s subresource:s name:s
  fieldSelector:*FieldSelectorAttributes labelSelector:*LabelSelectorAttributes
authorization_v1.ResourceRule verbs:[]s! apiGroups:[]s resources:[]s resourceNames:[]s
authorization_v1.SelfSubjectAccessReview TypeMeta metadata:meta_v1.ObjectMeta spec:SelfSubjectAccessReviewSpec!
  status:SubjectAccessReviewStatus
authorization_v1.SelfSubjectAccessReviewSpec resourceAttributes:*ResourceAttributes
  nonResourceAttributes:*NonResourceAttributes
authorization_v1.SelfSubjectRulesReview TypeMeta metadata:meta_v1.ObjectMeta spec:SelfSubjectRulesReviewSpec!
  status:SubjectRulesReviewStatus
authorization_v1.SelfSubjectRulesReviewSpec namespace:s
authorization_v1.SubjectAccessReview TypeMeta metadata:meta_v1.ObjectMeta spec:SubjectAccessReviewSpec!
  status:SubjectAccessReviewStatus
authorization_v1.SubjectAccessReviewSpec resourceAttributes:*ResourceAttributes
  nonResourceAttributes:*NonResourceAttributes user:s groups:[]s extra:{}[]s uid:s
authorization_v1.SubjectAccessReviewStatus allowed:b! denied#4:b reason#2:s evaluationError:s
authorization_v1.SubjectRulesReviewStatus resourceRules:[]ResourceRule! nonResourceRules:[]NonResourceRule!
  incomplete:b! evaluationError:s
autoscaling_v1.Scale TypeMeta metadata:meta_v1.ObjectMeta spec:ScaleSpec status:ScaleStatus
autoscaling_v1.ScaleSpec replicas:i
autoscaling_v1.ScaleStatus replicas:i! selector:s
batch_v1.Job TypeMeta metadata:meta_v1.ObjectMeta spec:JobSpec status:JobStatus
batch_v1.JobCondition type:s'JobConditionType! status:s'ConditionStatus! lastProbeTime:t lastTransitionTime:t reason:s
  message:s
batch_v1.JobSchedulingConfiguration schedulingPolicy:*scheduling_v1alpha3.WorkloadPodGroupSchedulingPolicy
  schedulingConstraints:*scheduling_v1alpha3.WorkloadPodGroupSchedulingConstraints
  disruptionMode:*scheduling_v1alpha3.WorkloadPodGroupDisruptionMode
  resourceClaims:[]scheduling_v1alpha3.WorkloadPodGroupResourceClaim+map[name]+merge[name]
batch_v1.JobSpec parallelism:*i completions:*i activeDeadlineSeconds:*l podFailurePolicy#11:*PodFailurePolicy
  successPolicy#16:*SuccessPolicy backoffLimit#7:*i backoffLimitPerIndex#12:*i maxFailedIndexes:*i
  selector#4:*meta_v1.LabelSelector manualSelector:*b template:core_v1.PodTemplateSpec! ttlSecondsAfterFinished#8:*i
  completionMode:*s'CompletionMode suspend:*b podReplacementPolicy#14:*s'PodReplacementPolicy managedBy:*s
  scheduling#17:*JobSchedulingConfiguration
batch_v1.JobStatus conditions:[]JobCondition+merge[type] startTime:*t completionTime:*t active:i succeeded:i failed:i
  terminating#11:*i completedIndexes#7:s failedIndexes#10:*s uncountedTerminatedPods#8:*UncountedTerminatedPods
  ready:*i
batch_v1.PodFailurePolicy rules:[]PodFailurePolicyRule!
batch_v1.PodFailurePolicyOnExitCodesRequirement containerName:*s operator:s'PodFailurePolicyOnExitCodesOperator!
  values:[]i!+set
batch_v1.PodFailurePolicyOnPodConditionsPattern type:s'PodConditionType! status:s'ConditionStatus!
batch_v1.PodFailurePolicyRule action:s'PodFailurePolicyAction! onExitCodes:*PodFailurePolicyOnExitCodesRequirement
  onPodConditions:[]PodFailurePolicyOnPodConditionsPattern
batch_v1.SuccessPolicy rules:[]SuccessPolicyRule!
batch_v1.SuccessPolicyRule succeededIndexes:*s succeededCount:*i
batch_v1.UncountedTerminatedPods succeeded:[]s'types.UID+set failed:[]s'types.UID+set
coordination_v1.Lease TypeMeta metadata:meta_v1.ObjectMeta spec:LeaseSpec
coordination_v1.LeaseSpec holderIdentity:*s leaseDurationSeconds:*i acquireTime:*T renewTime:*T leaseTransitions:*i
  strategy:*s'CoordinatedLeaseStrategy preferredHolder:*s
core_v1.AWSElasticBlockStoreVolumeSource volumeID:s! fsType:s partition:i readOnly:b
core_v1.Affinity nodeAffinity:*NodeAffinity podAffinity:*PodAffinity podAntiAffinity:*PodAntiAffinity
core_v1.AppArmorProfile type:s'AppArmorProfileType! localhostProfile:*s
core_v1.AttachedVolume name:s'UniqueVolumeName! devicePath:s!
core_v1.AzureDiskVolumeSource diskName:s! diskURI:s! cachingMode:*s'AzureDataDiskCachingMode+="ReadWrite"
  fsType:*s+="ext4" readOnly:*b kind:*s'AzureDataDiskKind+="Shared"
core_v1.AzureFileVolumeSource secretName:s! shareName:s! readOnly:b
core_v1.Binding TypeMeta metadata:meta_v1.ObjectMeta target:ObjectReference!
core_v1.CSIVolumeSource driver:s! readOnly:*b fsType:*s volumeAttributes:{}s
  nodePublishSecretRef:*LocalObjectReference
core_v1.Capabilities add:[]s'Capability drop:[]s'Capability
core_v1.CephFSVolumeSource monitors:[]s! path:s user:s secretFile:s secretRef:*LocalObjectReference readOnly:b
core_v1.CinderVolumeSource volumeID:s! fsType:s readOnly:b secretRef:*LocalObjectReference
core_v1.ClientIPConfig timeoutSeconds:*i
core_v1.ClusterTrustBundleProjection name:*s signerName:*s labelSelector:*meta_v1.LabelSelector optional#5:*b
  path#4:s! user#6:*l
core_v1.ConfigMap TypeMeta metadata:meta_v1.ObjectMeta immutable#4:*b data#2:{}s binaryData:{}y
core_v1.ConfigMapEnvSource ^LocalObjectReference name:s ^ optional:*b
core_v1.ConfigMapKeySelector atomic ^LocalObjectReference name:s ^ key:s! optional:*b
core_v1.ConfigMapNodeConfigSource namespace:s! name:s! uid:s'types.UID resourceVersion:s kubeletConfigKey:s!
core_v1.ConfigMapProjection ^LocalObjectReference name:s ^ items:[]KeyToPath optional#4:*b
core_v1.ConfigMapVolumeSource ^LocalObjectReference name:s ^ items:[]KeyToPath defaultMode:*i optional:*b
  defaultUser:*l
core_v1.Container name:s! image:s command:[]s args:[]s workingDir:s
  ports:[]ContainerPort+map[containerPort,protocol]+merge[containerPort] envFrom#19:[]EnvFromSource
  env#7:[]EnvVar+map[name]+merge[name] resources:ResourceRequirements resizePolicy#23:[]ContainerResizePolicy
  restartPolicy:*s'ContainerRestartPolicy restartPolicyRules:[]ContainerRestartRule
  volumeMounts#9:[]VolumeMount+map[mountPath]+merge[mountPath]
  volumeDevices#21:[]VolumeDevice+map[devicePath]+merge[devicePath] livenessProbe#10:*Probe readinessProbe:*Probe
  startupProbe#22:*Probe lifecycle#12:*Lifecycle terminationMessagePath:s
  terminationMessagePolicy#20:s'TerminationMessagePolicy imagePullPolicy#14:s'PullPolicy
  securityContext:*SecurityContext stdin:b stdinOnce:b tty:b
core_v1.ContainerExtendedResourceRequest containerName:s! resourceName:s! requestName:s!
core_v1.ContainerImage names:[]s! sizeBytes:l
core_v1.ContainerPort name:s hostPort:i containerPort:i! protocol:s'Protocol+="TCP" hostIP:s
core_v1.ContainerResizePolicy resourceName:s'ResourceName! restartPolicy:s'ResourceResizeRestartPolicy!
core_v1.ContainerRestartRule action:s'ContainerRestartRuleAction exitCodes:*ContainerRestartRuleOnExitCodes
core_v1.ContainerRestartRuleOnExitCodes operator:s'ContainerRestartRuleOnExitCodesOperator values:[]i+set
core_v1.ContainerState waiting:*ContainerStateWaiting running:*ContainerStateRunning
  terminated:*ContainerStateTerminated
core_v1.ContainerStateRunning startedAt:t
core_v1.ContainerStateTerminated exitCode:i! signal:i reason:s message:s startedAt:t finishedAt:t containerID:s
core_v1.ContainerStateWaiting reason:s message:s
core_v1.ContainerStatus name:s! state:ContainerState lastState:ContainerState ready:b! restartCount:i! image:s!
  imageID:s! containerID:s started:*b allocatedResources:{ResourceName}q resources:*ResourceRequirements
  volumeMounts:[]VolumeMountStatus+map[mountPath]+merge[mountPath] user:*ContainerUser
  allocatedResourcesStatus:[]ResourceStatus+map[name]+merge[name] stopSignal:*s'Signal
core_v1.ContainerUser linux:*LinuxContainerUser
core_v1.DaemonEndpoint Port:i!
core_v1.DownwardAPIProjection items:[]DownwardAPIVolumeFile
core_v1.DownwardAPIVolumeFile path:s! fieldRef:*ObjectFieldSelector resourceFieldRef:*ResourceFieldSelector mode:*i
  user:*l
core_v1.DownwardAPIVolumeSource items:[]DownwardAPIVolumeFile defaultMode:*i defaultUser:*l
core_v1.EmptyDirVolumeSource medium:s'StorageMedium sizeLimit:*q mode:*i
core_v1.EndpointAddress atomic ip:s! hostname#3:s nodeName:*s targetRef#2:*ObjectReference
core_v1.EndpointPort atomic name:s port:i! protocol:s'Protocol appProtocol:*s
core_v1.EndpointSubset addresses:[]EndpointAddress notReadyAddresses:[]EndpointAddress ports:[]EndpointPort
core_v1.Endpoints TypeMeta metadata:meta_v1.ObjectMeta subsets:[]EndpointSubset
core_v1.EnvFromSource prefix:s configMapRef:*ConfigMapEnvSource secretRef:*SecretEnvSource
core_v1.EnvVar name:s! value:s valueFrom:*EnvVarSource
core_v1.EnvVarSource fieldRef:*ObjectFieldSelector resourceFieldRef:*ResourceFieldSelector
  configMapKeyRef:*ConfigMapKeySelector secretKeyRef:*SecretKeySelector fileKeyRef:*FileKeySelector
core_v1.EphemeralContainer ^EphemeralContainerCommon name:s! image:s command:[]s args:[]s workingDir:s
  ports:[]ContainerPort+map[containerPort,protocol]+merge[containerPort] envFrom#19:[]EnvFromSource
  env#7:[]EnvVar+map[name]+merge[name] resources:ResourceRequirements resizePolicy#23:[]ContainerResizePolicy
  restartPolicy:*s'ContainerRestartPolicy restartPolicyRules:[]ContainerRestartRule
  volumeMounts#9:[]VolumeMount+map[mountPath]+merge[mountPath]
  volumeDevices#21:[]VolumeDevice+map[devicePath]+merge[devicePath] livenessProbe#10:*Probe readinessProbe:*Probe
  startupProbe#22:*Probe lifecycle#12:*Lifecycle terminationMessagePath:s
  terminationMessagePolicy#20:s'TerminationMessagePolicy imagePullPolicy#14:s'PullPolicy
  securityContext:*SecurityContext stdin:b stdinOnce:b tty:b ^ targetContainerName:s
core_v1.EphemeralVolumeSource volumeClaimTemplate:*PersistentVolumeClaimTemplate
core_v1.Event TypeMeta metadata:meta_v1.ObjectMeta! involvedObject:ObjectReference! reason:s message:s
  source:EventSource firstTimestamp:t lastTimestamp:t count:i type:s eventTime:T series:*EventSeries action:s
  related:*ObjectReference reportingComponent:s! reportingInstance:s!
core_v1.EventSeries count:i lastObservedTime:T
core_v1.EventSource component:s host:s
core_v1.EvictionResponder atomic name:s! priority:*i!
core_v1.ExecAction command:[]s
core_v1.FCVolumeSource targetWWNs:[]s lun:*i fsType:s readOnly:b wwids:[]s
core_v1.FileKeySelector atomic volumeName:s! path:s! key:s! optional:*b
core_v1.FlexVolumeSource driver:s! fsType:s secretRef:*LocalObjectReference readOnly:b options:{}s
core_v1.FlockerVolumeSource datasetName:s datasetUUID:s
core_v1.GCEPersistentDiskVolumeSource pdName:s! fsType:s partition:i readOnly:b
core_v1.GRPCAction port:i! service:*s! mode:*s'GRPCProbeMode
core_v1.GitRepoVolumeSource repository:s! revision:s directory:s
core_v1.GlusterfsVolumeSource endpoints:s! path:s! readOnly:b
core_v1.HTTPGetAction path:s port:x! host:s scheme:s'URIScheme httpHeaders:[]HTTPHeader protocol:*s'HTTPProtocol
core_v1.HTTPHeader name:s! value:s!
core_v1.HostAlias ip:s! hostnames:[]s
core_v1.HostIP ip:s!
core_v1.HostPathVolumeSource path:s! type:*s'HostPathType
core_v1.ISCSIVolumeSource targetPortal:s! iqn:s! lun:i! iscsiInterface:s+="default" fsType:s readOnly:b portals:[]s
  chapAuthDiscovery:b chapAuthSession#11:b secretRef#10:*LocalObjectReference initiatorName#12:*s
core_v1.ImageVolumeSource reference:s pullPolicy:s'PullPolicy
core_v1.ImageVolumeStatus imageRef:s
core_v1.KeyToPath key:s! path:s! mode:*i user:*l
core_v1.Lifecycle postStart:*LifecycleHandler preStop:*LifecycleHandler stopSignal:*s'Signal
core_v1.LifecycleHandler exec:*ExecAction httpGet:*HTTPGetAction tcpSocket:*TCPSocketAction sleep:*SleepAction
core_v1.LimitRange TypeMeta metadata:meta_v1.ObjectMeta spec:LimitRangeSpec
core_v1.LimitRangeItem type:s'LimitType! max:{ResourceName}q min:{ResourceName}q default:{ResourceName}q
  defaultRequest:{ResourceName}q maxLimitRequestRatio:{ResourceName}q
core_v1.LimitRangeSpec limits:[]LimitRangeItem!
core_v1.LinuxContainerUser uid:l! gid:l! supplementalGroups:[]l
core_v1.LoadBalancerIngress ip:s hostname:s ipMode:*s'LoadBalancerIPMode ports:[]PortStatus
core_v1.LoadBalancerStatus ingress:[]LoadBalancerIngress
core_v1.LocalObjectReference atomic name:s
core_v1.ModifyVolumeStatus targetVolumeAttributesClassName:s status:s'PersistentVolumeClaimModifyVolumeStatus!
core_v1.NFSVolumeSource server:s! path:s! readOnly:b
core_v1.Namespace TypeMeta metadata:meta_v1.ObjectMeta spec:NamespaceSpec status:NamespaceStatus
core_v1.NamespaceCondition type:s'NamespaceConditionType! status:s'ConditionStatus! lastTransitionTime#4:t reason:s
  message:s
core_v1.NamespaceSpec finalizers:[]s'FinalizerName
core_v1.NamespaceStatus phase:s'NamespacePhase conditions:[]NamespaceCondition+map[type]+merge[type]
core_v1.Node TypeMeta metadata:meta_v1.ObjectMeta spec:NodeSpec status:NodeStatus
core_v1.NodeAddress type:s'NodeAddressType! address:s!
core_v1.NodeAffinity requiredDuringSchedulingIgnoredDuringExecution:*NodeSelector
  preferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm
core_v1.NodeAllocatableMappedResources name:s'ResourceName! quantity:*q!
core_v1.NodeAllocatableOverheadResources name:s'ResourceName! perPod:*q perContainer:*q
core_v1.NodeAllocatableResourceClaimStatus resourceClaimName:s! containers:[]s+set
  mapping#4:[]NodeAllocatableMappedResources+map[name]+merge[name]
  overhead:[]NodeAllocatableOverheadResources+map[name]+merge[name]
core_v1.NodeCondition type:s'NodeConditionType! status:s'ConditionStatus! lastHeartbeatTime:t lastTransitionTime:t
  reason:s message:s
core_v1.NodeConfigSource configMap#2:*ConfigMapNodeConfigSource
core_v1.NodeConfigStatus assigned:*NodeConfigSource active:*NodeConfigSource lastKnownGood:*NodeConfigSource error:s
core_v1.NodeDaemonEndpoints kubeletEndpoint:DaemonEndpoint
core_v1.NodeFeatures supplementalGroupsPolicy:*b
core_v1.NodePodPreemptionPolicy disableResizePreemption:[]s+set
core_v1.NodeRuntimeHandler name:s! features:*NodeRuntimeHandlerFeatures
core_v1.NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:*b userNamespaces:*b
core_v1.NodeSelector atomic nodeSelectorTerms:[]NodeSelectorTerm!
core_v1.NodeSelectorRequirement key:s! operator:s'NodeSelectorOperator! values:[]s
core_v1.NodeSelectorTerm atomic matchExpressions:[]NodeSelectorRequirement matchFields:[]NodeSelectorRequirement
core_v1.NodeSpec podCIDR:s podCIDRs#7:[]s+set+merge providerID#3:s unschedulable:b taints:[]Taint
  configSource:*NodeConfigSource externalID#2:s podPreemptionPolicy#8:*NodePodPreemptionPolicy
core_v1.NodeStatus capacity:{ResourceName}q allocatable:{ResourceName}q phase:s'NodePhase
  conditions:[]NodeCondition+map[type]+merge[type] addresses:[]NodeAddress+map[type]+merge[type]
  daemonEndpoints:NodeDaemonEndpoints nodeInfo:NodeSystemInfo images:[]ContainerImage
  volumesInUse:[]s'UniqueVolumeName volumesAttached:[]AttachedVolume config:*NodeConfigStatus
  runtimeHandlers:[]NodeRuntimeHandler features:*NodeFeatures declaredFeatures:[]s
core_v1.NodeSwapStatus capacity:*l
core_v1.NodeSystemInfo machineID:s! systemUUID:s! bootID:s! kernelVersion:s! osImage:s! containerRuntimeVersion:s!
  kubeletVersion:s! kubeProxyVersion:s! operatingSystem:s! architecture:s! swap:*NodeSwapStatus
  runningInUserNamespace:*b
core_v1.ObjectFieldSelector atomic apiVersion:s fieldPath:s!
core_v1.ObjectReference atomic kind:s namespace:s name:s uid:s'types.UID apiVersion:s resourceVersion:s fieldPath:s
core_v1.PersistentVolumeClaim TypeMeta metadata:meta_v1.ObjectMeta spec:PersistentVolumeClaimSpec
  status:PersistentVolumeClaimStatus
core_v1.PersistentVolumeClaimCondition type:s'PersistentVolumeClaimConditionType! status:s'ConditionStatus!
  lastProbeTime:t lastTransitionTime:t reason:s message:s
core_v1.PersistentVolumeClaimSpec accessModes:[]s'PersistentVolumeAccessMode selector#4:*meta_v1.LabelSelector
  resources#2:VolumeResourceRequirements volumeName:s storageClassName#5:*s volumeMode:*s'PersistentVolumeMode
  dataSource:*TypedLocalObjectReference dataSourceRef:*TypedObjectReference volumeAttributesClassName:*s
core_v1.PersistentVolumeClaimStatus phase:s'PersistentVolumeClaimPhase accessModes:[]s'PersistentVolumeAccessMode
  capacity:{ResourceName}q conditions:[]PersistentVolumeClaimCondition+map[type]+merge[type]
  allocatedResources:{ResourceName}q allocatedResourceStatuses#7:{ResourceName}s'ClaimResourceStatus+granular
  currentVolumeAttributesClassName:*s modifyVolumeStatus:*ModifyVolumeStatus healthStatus:*VolumeHealthStatus
core_v1.PersistentVolumeClaimTemplate metadata:meta_v1.ObjectMeta spec:PersistentVolumeClaimSpec!
core_v1.PersistentVolumeClaimVolumeSource claimName:s! readOnly:b
core_v1.PhotonPersistentDiskVolumeSource pdID:s! fsType:s
core_v1.Pod TypeMeta metadata:meta_v1.ObjectMeta spec:PodSpec status:PodStatus
core_v1.PodAffinity requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
core_v1.PodAffinityTerm labelSelector:*meta_v1.LabelSelector namespaces:[]s topologyKey:s!
  namespaceSelector:*meta_v1.LabelSelector matchLabelKeys:[]s mismatchLabelKeys:[]s
core_v1.PodAntiAffinity requiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
  preferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm
core_v1.PodCertificateProjection signerName:s keyType:s maxExpirationSeconds:*i credentialBundlePath:s keyPath:s
  certificateChainPath:s userAnnotations:{}s user:*l
core_v1.PodCondition type:s'PodConditionType! observedGeneration#7:l status#2:s'ConditionStatus! lastProbeTime:t
  lastTransitionTime:t reason:s message:s
core_v1.PodDNSConfig nameservers:[]s searches:[]s options:[]PodDNSConfigOption
core_v1.PodDNSConfigOption name:s value:*s
core_v1.PodExtendedResourceClaimStatus requestMappings:[]ContainerExtendedResourceRequest! resourceClaimName:s!
core_v1.PodIP ip:s!
core_v1.PodOS name:s'OSName!
core_v1.PodReadinessGate conditionType:s'PodConditionType!
core_v1.PodResourceClaim name:s! resourceClaimName#3:*s resourceClaimTemplateName:*s
core_v1.PodResourceClaimStatus name:s! resourceClaimName:*s
core_v1.PodSchedulingGate name:s!
core_v1.PodSchedulingGroup podGroupName:*s
core_v1.PodSecurityContext seLinuxOptions:*SELinuxOptions windowsOptions#8:*WindowsSecurityContextOptions
  runAsUser#2:*l runAsGroup#6:*l runAsNonRoot#3:*b supplementalGroups:[]l
  supplementalGroupsPolicy#12:*s'SupplementalGroupsPolicy fsGroup#5:*l sysctls#7:[]Sysctl
  fsGroupChangePolicy#9:*s'PodFSGroupChangePolicy seccompProfile:*SeccompProfile appArmorProfile:*AppArmorProfile
  seLinuxChangePolicy#13:*s'PodSELinuxChangePolicy
core_v1.PodSpec volumes:[]Volume+map[name]+merge/retainKeys[name] initContainers#20:[]Container+map[name]+merge[name]
  containers#2:[]Container!+map[name]+merge[name] ephemeralContainers#34:[]EphemeralContainer+map[name]+merge[name]
  restartPolicy#3:s'RestartPolicy terminationGracePeriodSeconds:*l activeDeadlineSeconds:*l dnsPolicy:s'DNSPolicy
  nodeSelector:{}s+atomic serviceAccountName:s serviceAccount:s automountServiceAccountToken#21:*b nodeName#10:s
  hostNetwork:b hostPID:b hostIPC:b shareProcessNamespace#27:*b securityContext#14:*PodSecurityContext
  imagePullSecrets:[]LocalObjectReference+map[name]+merge[name] hostname:s subdomain:s affinity:*Affinity
  schedulerName:s tolerations#22:[]Toleration hostAliases:[]HostAlias+map[ip]+merge[ip] priorityClassName:s
  priority:*i dnsConfig:*PodDNSConfig readinessGates#28:[]PodReadinessGate runtimeClassName:*s enableServiceLinks:*b
  preemptionPolicy:*s'PreemptionPolicy overhead:{ResourceName}q
  topologySpreadConstraints:[]TopologySpreadConstraint+map[topologyKey,whenUnsatisfiable]+merge[topologyKey]
  setHostnameAsFQDN#35:*b os:*PodOS hostUsers:*b schedulingGates:[]PodSchedulingGate+map[name]+merge[name]
  resourceClaims:[]PodResourceClaim+map[name]+merge/retainKeys[name] resources:*ResourceRequirements
  hostnameOverride:*s schedulingGroup#43:*PodSchedulingGroup
  evictionResponders:[]EvictionResponder+map[name]+merge[name]
core_v1.PodStatus observedGeneration#17:l phase#1:s'PodPhase conditions:[]PodCondition+map[type]+merge[type] message:s
  reason:s nominatedNodeName#11:s hostIP#5:s hostIPs#16:[]HostIP+merge[ip] podIP#6:s
  podIPs#12:[]PodIP+map[ip]+merge[ip] startTime#7:*t initContainerStatuses#10:[]ContainerStatus
  containerStatuses#8:[]ContainerStatus qosClass:s'PodQOSClass ephemeralContainerStatuses#13:[]ContainerStatus
  resize:s'PodResizeStatus resourceClaimStatuses:[]PodResourceClaimStatus+map[name]+merge/retainKeys[name]
  extendedResourceClaimStatus#18:*PodExtendedResourceClaimStatus allocatedResources:{ResourceName}q
  resources:*ResourceRequirements
  nodeAllocatableResourceClaimStatuses:[]NodeAllocatableResourceClaimStatus+map[resourceClaimName]+merge[resourceClaimName]
  volumeHealth:[]PodVolumeHealth+map[name]
core_v1.PodTemplateSpec metadata:meta_v1.ObjectMeta spec:PodSpec
core_v1.PodVolumeHealth name:s! healthConditions:[]VolumeHealthCondition+map[status,reason]+merge[status]
  lastTransitionTime:t
core_v1.PortStatus port:i! protocol:s'Protocol! error:*s
core_v1.PortworxVolumeSource volumeID:s! fsType:s readOnly:b
core_v1.PreferredSchedulingTerm weight:i! preference:NodeSelectorTerm!
core_v1.Probe ^ProbeHandler exec:*ExecAction httpGet:*HTTPGetAction tcpSocket:*TCPSocketAction grpc:*GRPCAction ^
  initialDelaySeconds:i timeoutSeconds:i periodSeconds:i successThreshold:i failureThreshold:i
  terminationGracePeriodSeconds:*l
core_v1.ProjectedVolumeSource sources:[]VolumeProjection! defaultMode:*i defaultUser:*l
core_v1.QuobyteVolumeSource registry:s! volume:s! readOnly:b user:s group:s tenant:s
core_v1.RBDVolumeSource monitors:[]s! image:s! fsType:s pool:s+="rbd" user:s+="admin" keyring:s+="/etc/ceph/keyring"
  secretRef:*LocalObjectReference readOnly:b
core_v1.ResourceClaim name:s! request:s
core_v1.ResourceFieldSelector atomic containerName:s resource:s! divisor:q
core_v1.ResourceHealth resourceID:s'ResourceID! health:s'ResourceHealthStatus message#6:*s
core_v1.ResourceQuota TypeMeta metadata:meta_v1.ObjectMeta spec:ResourceQuotaSpec status:ResourceQuotaStatus
core_v1.ResourceQuotaSpec hard:{ResourceName}q scopes:[]s'ResourceQuotaScope scopeSelector:*ScopeSelector
core_v1.ResourceQuotaStatus hard:{ResourceName}q used:{ResourceName}q
core_v1.ResourceRequirements limits:{ResourceName}q requests:{ResourceName}q claims:[]ResourceClaim+map[name]
core_v1.ResourceStatus name:s'ResourceName! resources:[]ResourceHealth+map[resourceID]
core_v1.SELinuxOptions user:s role:s type:s level:s
core_v1.ScaleIOVolumeSource gateway:s! system:s! secretRef:*LocalObjectReference! sslEnabled:b protectionDomain:s
  storagePool:s storageMode:s+="ThinProvisioned" volumeName:s fsType:s+="xfs" readOnly:b
core_v1.ScopeSelector atomic matchExpressions:[]ScopedResourceSelectorRequirement
core_v1.ScopedResourceSelectorRequirement scopeName:s'ResourceQuotaScope! operator:s'ScopeSelectorOperator! values:[]s
core_v1.SeccompProfile type:s'SeccompProfileType! localhostProfile:*s
core_v1.Secret TypeMeta metadata:meta_v1.ObjectMeta immutable#5:*b data#2:{}y stringData#4:{}s type#3:s'SecretType
core_v1.SecretEnvSource ^LocalObjectReference name:s ^ optional:*b
core_v1.SecretKeySelector atomic ^LocalObjectReference name:s ^ key:s! optional:*b
core_v1.SecretProjection ^LocalObjectReference name:s ^ items:[]KeyToPath optional#4:*b
core_v1.SecretVolumeSource secretName:s items:[]KeyToPath defaultMode:*i optional:*b defaultUser:*l
core_v1.SecurityContext capabilities:*Capabilities privileged:*b seLinuxOptions:*SELinuxOptions
  windowsOptions#10:*WindowsSecurityContextOptions runAsUser#4:*l runAsGroup#8:*l runAsNonRoot#5:*b
  readOnlyRootFilesystem:*b allowPrivilegeEscalation:*b procMount#9:*s'ProcMountType seccompProfile#11:*SeccompProfile
  appArmorProfile:*AppArmorProfile
core_v1.Service TypeMeta metadata:meta_v1.ObjectMeta spec:ServiceSpec status:ServiceStatus
core_v1.ServiceAccount TypeMeta metadata:meta_v1.ObjectMeta secrets:[]ObjectReference+map[name]+merge[name]
  imagePullSecrets:[]LocalObjectReference automountServiceAccountToken:*b
core_v1.ServiceAccountTokenProjection audience:s expirationSeconds:*l path:s! user:*l
core_v1.ServicePort name:s protocol:s'Protocol+="TCP" appProtocol#6:*s port#3:i! targetPort:x nodePort:i
core_v1.ServiceSpec ports:[]ServicePort+map[port,protocol]+merge[port] selector:{}s+atomic clusterIP:s
  clusterIPs#18:[]s type#4:s'ServiceType externalIPs:[]s sessionAffinity#7:s'ServiceAffinity loadBalancerIP:s
  loadBalancerSourceRanges:[]s externalName:s externalTrafficPolicy:s'ServiceExternalTrafficPolicy
  healthCheckNodePort:i publishNotReadyAddresses:b sessionAffinityConfig:*SessionAffinityConfig
  ipFamilies#19:[]s'IPFamily ipFamilyPolicy#17:*s'IPFamilyPolicy allocateLoadBalancerNodePorts#20:*b
  loadBalancerClass:*s internalTrafficPolicy:*s'ServiceInternalTrafficPolicy trafficDistribution:*s
core_v1.ServiceStatus loadBalancer:LoadBalancerStatus conditions:[]meta_v1.Condition+map[type]+merge[type]
core_v1.SessionAffinityConfig clientIP:*ClientIPConfig
core_v1.SleepAction seconds:l!
core_v1.StorageOSVolumeSource volumeName:s volumeNamespace:s fsType:s readOnly:b secretRef:*LocalObjectReference
core_v1.Sysctl name:s! value:s!
core_v1.TCPSocketAction port:x! host:s
core_v1.Taint key:s! value:s effect:s'TaintEffect! timeAdded:*t
core_v1.Toleration key:s operator:s'TolerationOperator value:s effect:s'TaintEffect tolerationSeconds:*l
core_v1.TopologySpreadConstraint maxSkew:i! topologyKey:s! whenUnsatisfiable:s'UnsatisfiableConstraintAction!
  labelSelector:*meta_v1.LabelSelector minDomains:*i nodeAffinityPolicy:*s'NodeInclusionPolicy
  nodeTaintsPolicy:*s'NodeInclusionPolicy matchLabelKeys:[]s
core_v1.TypedLocalObjectReference atomic apiGroup:*s! kind:s! name:s!
core_v1.TypedObjectReference apiGroup:*s! kind:s! name:s! namespace:*s
core_v1.Volume name:s! ^VolumeSource hostPath:*HostPathVolumeSource emptyDir:*EmptyDirVolumeSource
  gcePersistentDisk:*GCEPersistentDiskVolumeSource awsElasticBlockStore:*AWSElasticBlockStoreVolumeSource
  gitRepo:*GitRepoVolumeSource secret:*SecretVolumeSource nfs:*NFSVolumeSource iscsi:*ISCSIVolumeSource
  glusterfs:*GlusterfsVolumeSource persistentVolumeClaim:*PersistentVolumeClaimVolumeSource rbd:*RBDVolumeSource
  flexVolume:*FlexVolumeSource cinder:*CinderVolumeSource cephfs:*CephFSVolumeSource flocker:*FlockerVolumeSource
  downwardAPI:*DownwardAPIVolumeSource fc:*FCVolumeSource azureFile:*AzureFileVolumeSource
  configMap:*ConfigMapVolumeSource vsphereVolume:*VsphereVirtualDiskVolumeSource quobyte:*QuobyteVolumeSource
  azureDisk:*AzureDiskVolumeSource photonPersistentDisk:*PhotonPersistentDiskVolumeSource
  projected#26:*ProjectedVolumeSource portworxVolume#24:*PortworxVolumeSource scaleIO:*ScaleIOVolumeSource
  storageos#27:*StorageOSVolumeSource csi:*CSIVolumeSource ephemeral:*EphemeralVolumeSource image:*ImageVolumeSource
core_v1.VolumeDevice name:s! devicePath:s!
core_v1.VolumeHealthCondition status:s'VolumeHealthStatusType! reason:s! message:s
core_v1.VolumeHealthStatus healthConditions:[]VolumeHealthCondition+map[status,reason]+merge[status]
  lastTransitionTime:t
core_v1.VolumeMount name:s! readOnly:b recursiveReadOnly#7:*s'RecursiveReadOnlyMode mountPath#3:s! subPath:s
  mountPropagation:*s'MountPropagationMode subPathExpr:s bindMountOptions#8:[]s+set
core_v1.VolumeMountStatus name:s! mountPath:s! readOnly:b recursiveReadOnly:*s'RecursiveReadOnlyMode
  volumeStatus:*VolumeStatus
core_v1.VolumeProjection secret:*SecretProjection downwardAPI:*DownwardAPIProjection configMap:*ConfigMapProjection
  serviceAccountToken:*ServiceAccountTokenProjection clusterTrustBundle:*ClusterTrustBundleProjection
  podCertificate:*PodCertificateProjection
core_v1.VolumeResourceRequirements limits:{ResourceName}q requests:{ResourceName}q
core_v1.VolumeStatus image:*ImageVolumeStatus
core_v1.VsphereVirtualDiskVolumeSource volumePath:s! fsType:s storagePolicyName:s storagePolicyID:s
core_v1.WeightedPodAffinityTerm weight:i! podAffinityTerm:PodAffinityTerm!
core_v1.WindowsSecurityContextOptions gmsaCredentialSpecName:*s gmsaCredentialSpec:*s runAsUserName:*s hostProcess:*b
events_v1.Event TypeMeta metadata:meta_v1.ObjectMeta! eventTime:T! series:*EventSeries reportingController:s
  reportingInstance:s action:s reason:s regarding:core_v1.ObjectReference related:*core_v1.ObjectReference note:s
  type:s deprecatedSource:core_v1.EventSource deprecatedFirstTimestamp:t deprecatedLastTimestamp:t deprecatedCount:i
events_v1.EventSeries count:i! lastObservedTime:T!
meta_v1.Condition type:s! status:s'ConditionStatus! observedGeneration:l lastTransitionTime:t! reason:s! message:s!
meta_v1.DeleteOptions TypeMeta gracePeriodSeconds:*l preconditions:*Preconditions orphanDependents:*b
  propagationPolicy:*s'DeletionPropagation dryRun:[]s ignoreStoreReadErrorWithClusterBreakingPotential:*b
meta_v1.FieldSelectorRequirement key:s! operator:s'FieldSelectorOperator! values:[]s
meta_v1.LabelSelector atomic matchLabels:{}s matchExpressions:[]LabelSelectorRequirement
meta_v1.LabelSelectorRequirement key:s! operator:s'LabelSelectorOperator! values:[]s
meta_v1.ListMeta selfLink:s resourceVersion:s continue:s remainingItemCount:*l shardInfo:*ShardInfo
meta_v1.ManagedFieldsEntry manager:s operation:s'ManagedFieldsOperationType apiVersion:s time:*t fieldsType#6:s
  fieldsV1:*R subresource:s
meta_v1.ObjectMeta name:s generateName:s namespace:s selfLink:s uid:s'types.UID resourceVersion:s generation:l
  creationTimestamp:t~ deletionTimestamp:*t deletionGracePeriodSeconds:*l labels:{}s annotations:{}s
  ownerReferences:[]OwnerReference+map[uid]+merge[uid] finalizers:[]s+set+merge managedFields#17:[]ManagedFieldsEntry
meta_v1.OwnerReference atomic apiVersion#5:s! kind#1:s! name#3:s! uid:s'types.UID! controller#6:*b
  blockOwnerDeletion:*b
meta_v1.Preconditions uid:*s'types.UID resourceVersion:*s
meta_v1.ShardInfo selector:s!
meta_v1.Status TypeMeta metadata:ListMeta status:s message:s reason:s'StatusReason details:*StatusDetails code:i
meta_v1.StatusCause reason:s'CauseType message:s field:s
meta_v1.StatusDetails name:s group:s kind:s uid#6:s'types.UID causes#4:[]StatusCause retryAfterSeconds:i
policy_v1.Eviction TypeMeta metadata:meta_v1.ObjectMeta deleteOptions:*meta_v1.DeleteOptions
policy_v1.PodDisruptionBudget TypeMeta metadata:meta_v1.ObjectMeta spec:PodDisruptionBudgetSpec
  status:PodDisruptionBudgetStatus
policy_v1.PodDisruptionBudgetSpec minAvailable:*x selector:*meta_v1.LabelSelector maxUnavailable:*x
  unhealthyPodEvictionPolicy:*s'UnhealthyPodEvictionPolicyType
policy_v1.PodDisruptionBudgetStatus observedGeneration:l disruptedPods:{}t disruptionsAllowed:i! currentHealthy:i!
  desiredHealthy:i! expectedPods:i! conditions:[]meta_v1.Condition+map[type]+merge[type]
rbac_v1.AggregationRule clusterRoleSelectors:[]meta_v1.LabelSelector
rbac_v1.ClusterRole TypeMeta metadata:meta_v1.ObjectMeta rules:[]PolicyRule! aggregationRule:*AggregationRule
rbac_v1.ClusterRoleBinding TypeMeta metadata:meta_v1.ObjectMeta subjects:[]Subject roleRef:RoleRef!
rbac_v1.PolicyRule verbs:[]s! apiGroups:[]s resources:[]s resourceNames:[]s nonResourceURLs:[]s
rbac_v1.Role TypeMeta metadata:meta_v1.ObjectMeta rules:[]PolicyRule!
rbac_v1.RoleBinding TypeMeta metadata:meta_v1.ObjectMeta subjects:[]Subject roleRef:RoleRef!
rbac_v1.RoleRef atomic apiGroup:s! kind:s! name:s!
rbac_v1.Subject atomic kind:s! apiGroup:s name:s! namespace:s
resource_v1.AllocatedDeviceStatus driver:s! pool:s! device:s! shareID#7:*s conditions#4:[]meta_v1.Condition!+map[type]
  data:*R networkData:*NetworkDeviceData
resource_v1.AllocationResult devices:DeviceAllocationResult nodeSelector#3:*core_v1.NodeSelector
  allocationTimestamp#5:*t
resource_v1.CELDeviceSelector expression:s!
resource_v1.CapacityRequestPolicy default:*q! validValues#3:[]q validRange:*CapacityRequestPolicyRange
resource_v1.CapacityRequestPolicyRange min:*q max:*q step:*q
resource_v1.CapacityRequirements requests:{QualifiedName}q
resource_v1.Counter value:q!
resource_v1.CounterSet name:s! counters:{}Counter
resource_v1.Device name:s! attributes:{QualifiedName}DeviceAttribute capacity:{QualifiedName}DeviceCapacity
  consumesCounters:[]DeviceCounterConsumption nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  taints:[]DeviceTaint bindsToNode:*b bindingConditions:[]s bindingFailureConditions:[]s allowMultipleAllocations:*b
  nodeAllocatableResources#14:{v1.ResourceName}NodeAllocatableResource
resource_v1.DeviceAllocationConfiguration source:s'AllocationConfigSource! requests:[]s ^DeviceConfiguration
  opaque:*OpaqueDeviceConfiguration
resource_v1.DeviceAllocationResult results:[]DeviceRequestAllocationResult config:[]DeviceAllocationConfiguration
resource_v1.DeviceAttribute int#2:*l bool:*b string:*s version:*s ints:[]l bools:[]b strings:[]s versions:[]s
resource_v1.DeviceCapacity value:q! requestPolicy:*CapacityRequestPolicy
resource_v1.DeviceClaim requests:[]DeviceRequest! constraints:[]DeviceConstraint config:[]DeviceClaimConfiguration
resource_v1.DeviceClaimConfiguration requests:[]s ^DeviceConfiguration opaque:*OpaqueDeviceConfiguration
resource_v1.DeviceClass TypeMeta metadata:meta_v1.ObjectMeta spec:DeviceClassSpec!
resource_v1.DeviceClassConfiguration ^DeviceConfiguration opaque:*OpaqueDeviceConfiguration
resource_v1.DeviceClassSpec selectors:[]DeviceSelector config:[]DeviceClassConfiguration extendedResourceName#4:*s
resource_v1.DeviceConstraint requests:[]s matchAttribute:*s'FullyQualifiedName distinctAttribute:*s'FullyQualifiedName
resource_v1.DeviceCounterConsumption counterSet:s! counters:{}Counter compatibilityGroups:[]s
resource_v1.DeviceDerivedAttribute name:s'FullyQualifiedName! expression:s!
resource_v1.DeviceRequest name:s! exactly:*ExactDeviceRequest firstAvailable:[]DeviceSubRequest
resource_v1.DeviceRequestAllocationResult request:s! driver:s! pool:s! device:s! adminAccess:*b
  tolerations:[]DeviceToleration bindingConditions:[]s bindingFailureConditions:[]s shareID:*s'types.UID
  consumedCapacity:{QualifiedName}q skipNodeOperations:[]s'SkipNodeOperation+set
resource_v1.DeviceSelector cel:*CELDeviceSelector
resource_v1.DeviceSubRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'DeviceAllocationMode count:l tolerations:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1.DeviceTaint key:s! value:s effect:s'DeviceTaintEffect! timeAdded:*t
resource_v1.DeviceTaintRule TypeMeta metadata:meta_v1.ObjectMeta spec:DeviceTaintRuleSpec!
  status:DeviceTaintRuleStatus
resource_v1.DeviceTaintRuleSpec deviceSelector:*DeviceTaintSelector taint:DeviceTaint
resource_v1.DeviceTaintRuleStatus conditions:[]meta_v1.Condition+map[type]+merge[type]
resource_v1.DeviceTaintSelector driver#2:*s pool:*s device:*s
resource_v1.DeviceToleration key:s operator:s'DeviceTolerationOperator+="Equal" value:s effect:s'DeviceTaintEffect
  tolerationSeconds:*l
resource_v1.ExactDeviceRequest deviceClassName:s! selectors:[]DeviceSelector allocationMode:s'DeviceAllocationMode
  count:l adminAccess:*b tolerations:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1.NetworkDeviceData interfaceName:s ips:[]s hardwareAddress:s
resource_v1.NodeAllocatableMapping capacityKey:*s'QualifiedName capacityMultiplier:*q deviceMultiplier:*q
resource_v1.NodeAllocatableOverhead perPod:*q perContainer:*q
resource_v1.NodeAllocatableResource mapping#3:*NodeAllocatableMapping overhead:*NodeAllocatableOverhead
resource_v1.OpaqueDeviceConfiguration driver:s! parameters:R!
resource_v1.ResourceClaim TypeMeta metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec! status:ResourceClaimStatus
resource_v1.ResourceClaimConsumerReference apiGroup:s resource#3:s! name:s! uid:s'types.UID!
resource_v1.ResourceClaimSpec devices:DeviceClaim!
resource_v1.ResourceClaimStatus allocation:*AllocationResult
  reservedFor:[]ResourceClaimConsumerReference+map[uid]+merge[uid]
  devices#4:[]AllocatedDeviceStatus+map[driver,device,pool,shareID]
resource_v1.ResourceClaimTemplate TypeMeta metadata:meta_v1.ObjectMeta spec:ResourceClaimTemplateSpec!
resource_v1.ResourceClaimTemplateSpec metadata:meta_v1.ObjectMeta spec:ResourceClaimSpec!
resource_v1.ResourcePool name:s! generation:l! resourceSliceCount:l!
resource_v1.ResourceSlice TypeMeta metadata:meta_v1.ObjectMeta spec:ResourceSliceSpec!
resource_v1.ResourceSliceSpec driver:s! pool:ResourcePool! nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  devices:[]Device perDeviceNodeSelection:*b sharedCounters:[]CounterSet partitionTypeAttribute:*s'FullyQualifiedName
  skipNodeOperations:[]s'SkipNodeOperation+set
resource_v1alpha3.PartitionTypeStatus attribute#4:s type#1:s total:*i allocatable:*i
resource_v1alpha3.PoolStatus driver:s poolName:s generation#9:l! resourceSliceCount#8:*i totalDevices#4:*i
  allocatedDevices:*i availableDevices:*i unavailableDevices:*i nodeName#3:*s validationError#10:*s
  partitionSummary:[]PartitionTypeStatus shareableSummary#13:*ShareableSummaryStatus
resource_v1alpha3.ResourcePoolStatusRequest TypeMeta metadata:meta_v1.ObjectMeta spec:ResourcePoolStatusRequestSpec!
  status:*ResourcePoolStatusRequestStatus
resource_v1alpha3.ResourcePoolStatusRequestSpec driver:s! poolName:*s limit:*i+=100 defaultPartitionTypeAttribute:*s
resource_v1alpha3.ResourcePoolStatusRequestStatus poolCount#6:*i pools#2:[]PoolStatus
  conditions:[]meta_v1.Condition+map[type]+merge[type]
resource_v1alpha3.ShareableCapacityStatus name:s total:*q consumed:*q available:*q
resource_v1alpha3.ShareableSummaryStatus fullyAvailableDevices:*i partiallyAvailableDevices:*i
  capacity:[]ShareableCapacityStatus
resource_v1beta1.BasicDevice attributes:{QualifiedName}DeviceAttribute capacity:{QualifiedName}DeviceCapacity
  consumesCounters:[]DeviceCounterConsumption nodeName:*s nodeSelector:*core_v1.NodeSelector allNodes:*b
  taints:[]DeviceTaint bindsToNode:*b bindingConditions:[]s bindingFailureConditions:[]s allowMultipleAllocations:*b
  nodeAllocatableResources#14:{v1.ResourceName}NodeAllocatableResource
resource_v1beta1.Device name:s! basic:*BasicDevice
resource_v1beta1.DeviceRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'DeviceAllocationMode count:l adminAccess:*b firstAvailable:[]DeviceSubRequest
  tolerations:[]DeviceToleration capacity:*CapacityRequirements derivedAttributes:[]DeviceDerivedAttribute
resource_v1beta1.DeviceSubRequest name:s! deviceClassName:s! selectors:[]DeviceSelector
  allocationMode:s'DeviceAllocationMode count:l tolerations#7:[]DeviceToleration capacity:*CapacityRequirements
  derivedAttributes:[]DeviceDerivedAttribute
resource_v1beta1.ResourceSliceSpec driver:s! pool:ResourcePool! nodeName:s nodeSelector:*core_v1.NodeSelector
  allNodes:b devices:[]Device perDeviceNodeSelection:*b sharedCounters:[]CounterSet
  partitionTypeAttribute:*s'FullyQualifiedName skipNodeOperations:[]s'SkipNodeOperation+set
scheduling_v1.PriorityClass TypeMeta metadata:meta_v1.ObjectMeta value:i! globalDefault:b description:s
  preemptionPolicy:*s'PreemptionPolicy
scheduling_v1alpha3.CompositePodGroup TypeMeta metadata:meta_v1.ObjectMeta spec:CompositePodGroupSpec!
  status:CompositePodGroupStatus
scheduling_v1alpha3.CompositePodGroupSpec parentCompositePodGroupName:*s workloadRef:*WorkloadReference!
  schedulingPolicy:CompositePodGroupSchedulingPolicy! schedulingConstraints:*CompositePodGroupSchedulingConstraints
  disruptionMode:*CompositeDisruptionMode+={"single":{}} priorityClassName:s priority:*i
  preemptionPolicy:*s'PreemptionPolicy
scheduling_v1alpha3.CompositePodGroupStatus conditions:[]meta_v1.Condition+map[type]+merge[type]
scheduling_v1alpha3.WorkloadPodGroupAllDisruptionMode
scheduling_v1alpha3.WorkloadPodGroupBasicSchedulingPolicy
scheduling_v1alpha3.WorkloadPodGroupDisruptionMode single:*WorkloadPodGroupSingleDisruptionMode
  all:*WorkloadPodGroupAllDisruptionMode
scheduling_v1alpha3.WorkloadPodGroupGangSchedulingPolicy minCount:*i
scheduling_v1alpha3.WorkloadPodGroupResourceClaim name:s! resourceClaimName:*s resourceClaimTemplateName:*s
scheduling_v1alpha3.WorkloadPodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1alpha3.WorkloadPodGroupSchedulingPolicy basic:*WorkloadPodGroupBasicSchedulingPolicy
  gang:*WorkloadPodGroupGangSchedulingPolicy
scheduling_v1alpha3.WorkloadPodGroupSingleDisruptionMode
scheduling_v1beta1.AllCompositeDisruptionMode
scheduling_v1beta1.AllDisruptionMode
scheduling_v1beta1.BasicSchedulingPolicy
scheduling_v1beta1.CompositeBasicSchedulingPolicy
scheduling_v1beta1.CompositeDisruptionMode single:*SingleCompositeDisruptionMode all:*AllCompositeDisruptionMode
scheduling_v1beta1.CompositeGangSchedulingPolicy minGroupCount:i!
scheduling_v1beta1.CompositePodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1beta1.CompositePodGroupSchedulingPolicy basic:*CompositeBasicSchedulingPolicy
  gang:*CompositeGangSchedulingPolicy
scheduling_v1beta1.CompositePodGroupTemplate name:s! schedulingPolicy:CompositePodGroupSchedulingPolicy!
  schedulingConstraints:*CompositePodGroupSchedulingConstraints disruptionMode:*CompositeDisruptionMode
  priorityClassName:s priority:*i preemptionPolicy:*s'PreemptionPolicy podGroupTemplates:[]PodGroupTemplate+map[name]
  compositePodGroupTemplates:[]CompositePodGroupTemplate+map[name]
scheduling_v1beta1.DisruptionMode single:*SingleDisruptionMode all:*AllDisruptionMode
scheduling_v1beta1.GangSchedulingPolicy minCount:i!
scheduling_v1beta1.PodGroup TypeMeta metadata:meta_v1.ObjectMeta spec:PodGroupSpec! status:PodGroupStatus
scheduling_v1beta1.PodGroupResourceClaim name:s! resourceClaimName:*s resourceClaimTemplateName:*s
scheduling_v1beta1.PodGroupResourceClaimStatus name:s! resourceClaimName:*s
scheduling_v1beta1.PodGroupSchedulingConstraints topology:[]TopologyConstraint
scheduling_v1beta1.PodGroupSchedulingPolicy basic:*BasicSchedulingPolicy gang:*GangSchedulingPolicy
scheduling_v1beta1.PodGroupSpec parentCompositePodGroupName:*s workloadRef:*WorkloadReference
  schedulingPolicy:PodGroupSchedulingPolicy! schedulingConstraints:*PodGroupSchedulingConstraints
  resourceClaims:[]PodGroupResourceClaim+map[name]+merge/retainKeys[name]
  disruptionMode:*DisruptionMode+={"single":{}} priorityClassName:s priority:*i preemptionPolicy:*s'PreemptionPolicy
scheduling_v1beta1.PodGroupStatus conditions:[]meta_v1.Condition+map[type]+merge[type]
  resourceClaimStatuses:[]PodGroupResourceClaimStatus+map[name]+merge/retainKeys[name]
scheduling_v1beta1.PodGroupTemplate name:s! schedulingPolicy:PodGroupSchedulingPolicy!
  schedulingConstraints:*PodGroupSchedulingConstraints!
  resourceClaims:[]PodGroupResourceClaim+map[name]+merge/retainKeys[name] disruptionMode:*DisruptionMode
  priorityClassName:s priority:*i preemptionPolicy:*s'PreemptionPolicy
scheduling_v1beta1.SingleCompositeDisruptionMode
scheduling_v1beta1.SingleDisruptionMode
scheduling_v1beta1.TopologyConstraint key:s!
scheduling_v1beta1.TypedLocalObjectReference apiGroup:s kind:s! name:s!
scheduling_v1beta1.Workload TypeMeta metadata:meta_v1.ObjectMeta spec:WorkloadSpec!
scheduling_v1beta1.WorkloadReference workloadName:s! templateName:s!
scheduling_v1beta1.WorkloadSpec controllerRef:*TypedLocalObjectReference
  podGroupTemplates:[]PodGroupTemplate!+map[name] compositePodGroupTemplates:[]CompositePodGroupTemplate+map[name]
"""
