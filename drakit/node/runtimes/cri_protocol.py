"""CRI v1 as a table: only the calls and fields that the agent uses (field numbers are the protocol)."""

from __future__ import annotations

from drakit.driver import wire

__all__ = ["CRI"]

_ID = "container_id:1"
_MESSAGES = {
    "VersionRequest": "version:1",
    "VersionResponse": "version:1 runtime_name:2 runtime_version:3 runtime_api_version:4",
    "StatusRequest": "verbose:1:bool",
    "StatusResponse": "status:1:RuntimeStatus info:2:{string=string}",
    "RuntimeStatus": "conditions:1:[]RuntimeCondition",
    "RuntimeCondition": "type:1 status:2:bool reason:3 message:4",
    "Int64Value": "value:1:int64",
    "NamespaceOption": "network:1:NamespaceMode pid:2:NamespaceMode ipc:3:NamespaceMode target_id:4",
    "PodSandboxMetadata": "name:1 uid:2 namespace:3 attempt:4:uint32",
    "LinuxSandboxSecurityContext": "namespace_options:1:NamespaceOption run_as_user:3:Int64Value privileged:6:bool",
    "LinuxPodSandboxConfig": "cgroup_parent:1 security_context:2:LinuxSandboxSecurityContext",
    "PodSandboxConfig": "metadata:1:PodSandboxMetadata hostname:2 log_directory:3 labels:6:{string=string} "
    "annotations:7:{string=string} linux:8:LinuxPodSandboxConfig",
    "RunPodSandboxRequest": "config:1:PodSandboxConfig runtime_handler:2",
    "RunPodSandboxResponse": "pod_sandbox_id:1",
    "StopPodSandboxRequest": "pod_sandbox_id:1",
    "StopPodSandboxResponse": "",
    "RemovePodSandboxRequest": "pod_sandbox_id:1",
    "RemovePodSandboxResponse": "",
    "PodSandboxStatusRequest": "pod_sandbox_id:1 verbose:2:bool",
    "PodSandboxStatusResponse": "status:1:PodSandboxStatus",
    "PodSandboxStatus": "id:1 metadata:2:PodSandboxMetadata state:3:int32 created_at:4:int64 network:5:PodSandboxNetworkStatus",
    "PodSandboxNetworkStatus": "ip:1",
    "PodSandboxFilter": "id:1 label_selector:3:{string=string}",
    "ListPodSandboxRequest": "filter:1:PodSandboxFilter",
    "ListPodSandboxResponse": "items:1:[]PodSandbox",
    "PodSandbox": "id:1 metadata:2:PodSandboxMetadata state:3:int32 created_at:4:int64 labels:5:{string=string}",
    "ImageSpec": "image:1 annotations:2:{string=string} user_specified_image:18",
    "ContainerMetadata": "name:1 attempt:2:uint32",
    "KeyValue": "key:1 value:2:bytes",
    "Mount": "container_path:1 host_path:2 readonly:3:bool selinux_relabel:4:bool propagation:5:MountPropagation",
    "Device": "container_path:1 host_path:2 permissions:3",
    "CDIDevice": "name:1",
    "Capability": "add_capabilities:1:[]string drop_capabilities:2:[]string",
    "LinuxContainerResources": "cpu_period:1:int64 cpu_quota:2:int64 cpu_shares:3:int64 memory_limit_in_bytes:4:int64 "
    "oom_score_adj:5:int64",
    "LinuxContainerSecurityContext": "capabilities:1:Capability privileged:2:bool namespace_options:3:NamespaceOption "
    "run_as_user:5:Int64Value readonly_rootfs:7:bool supplemental_groups:8:[]int64 no_new_privs:11:bool run_as_group:12:Int64Value",
    "LinuxContainerConfig": "resources:1:LinuxContainerResources security_context:2:LinuxContainerSecurityContext",
    "ContainerConfig": "metadata:1:ContainerMetadata image:2:ImageSpec command:3:[]string args:4:[]string working_dir:5 "
    "envs:6:[]KeyValue mounts:7:[]Mount devices:8:[]Device labels:9:{string=string} annotations:10:{string=string} log_path:11 "
    "stdin:12:bool stdin_once:13:bool tty:14:bool linux:15:LinuxContainerConfig CDI_devices:17:[]CDIDevice",
    "CreateContainerRequest": "pod_sandbox_id:1 config:2:ContainerConfig sandbox_config:3:PodSandboxConfig",
    "CreateContainerResponse": _ID,
    "StartContainerRequest": _ID,
    "StartContainerResponse": "",
    "StopContainerRequest": _ID + " timeout:2:int64",
    "StopContainerResponse": "",
    "RemoveContainerRequest": _ID,
    "RemoveContainerResponse": "",
    "ContainerFilter": "id:1 pod_sandbox_id:3",
    "ListContainersRequest": "filter:1:ContainerFilter",
    "ListContainersResponse": "containers:1:[]Container",
    "Container": "id:1 pod_sandbox_id:2 metadata:3:ContainerMetadata image:4:ImageSpec image_ref:5 state:6:int32 "
    "created_at:7:int64 labels:8:{string=string}",
    "ContainerStatusRequest": _ID + " verbose:2:bool",
    "ContainerStatusResponse": "status:1:ContainerStatus",
    "ContainerStatus": "id:1 metadata:2:ContainerMetadata state:3:int32 created_at:4:int64 started_at:5:int64 finished_at:6:int64 "
    "exit_code:7:int32 image:8:ImageSpec image_ref:9 reason:10 message:11 labels:12:{string=string} log_path:15",
    "ExecSyncRequest": _ID + " cmd:2:[]string timeout:3:int64",
    "ExecSyncResponse": "stdout:1:bytes stderr:2:bytes exit_code:3:int32",
    "ExecRequest": _ID + " cmd:2:[]string tty:3:bool stdin:4:bool stdout:5:bool stderr:6:bool",
    "ExecResponse": "url:1",
    "AttachRequest": _ID + " stdin:2:bool tty:3:bool stdout:4:bool stderr:5:bool",
    "AttachResponse": "url:1",
    "ImageStatusRequest": "image:1:ImageSpec verbose:2:bool",
    "ImageStatusResponse": "image:1:Image",
    "Image": "id:1 repo_tags:2:[]string repo_digests:3:[]string size:4:uint64",
    "PullImageRequest": "image:1:ImageSpec sandbox_config:3:PodSandboxConfig",
    "PullImageResponse": "image_ref:1",
}
_RUNTIME = (
    "Version", "Status", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox", "CreateContainer",
    "StartContainer", "StopContainer", "RemoveContainer", "ListContainers", "ContainerStatus", "ExecSync", "Exec", "Attach",
)  # fmt: skip

CRI = wire.build(
    "runtime.v1",
    _MESSAGES,
    services={
        "RuntimeService": {name: f"{name}Request {name}Response" for name in _RUNTIME},
        "ImageService": {name: f"{name}Request {name}Response" for name in ("ImageStatus", "PullImage")},
    },
    enums={
        "NamespaceMode": "POD CONTAINER NODE TARGET",
        "MountPropagation": "PROPAGATION_PRIVATE PROPAGATION_HOST_TO_CONTAINER PROPAGATION_BIDIRECTIONAL",
    },
)
