"""The kubelet's plugin protocols as tables: registration, DRA v1 and v1beta1, device health v1 and v1alpha1."""

from __future__ import annotations

from drakit.driver import wire

__all__ = ["DRA", "DRA_PLUGIN", "HEALTH", "REGISTRATION"]

DRA_PLUGIN = "DRAPlugin"  # the registration type of a DRA driver

REGISTRATION = wire.build(
    "pluginregistration",
    {
        "InfoRequest": "",
        "PluginInfo": "type:1 name:2 endpoint:3 supported_versions:4:[]string",
        "RegistrationStatus": "plugin_registered:1:bool error:2",
        "RegistrationStatusResponse": "",
    },
    services={
        "Registration": {
            "GetInfo": "InfoRequest PluginInfo",
            "NotifyRegistrationStatus": "RegistrationStatus RegistrationStatusResponse",
        }
    },
)


def _dra(version: str) -> wire.Protocol:
    share = " share_id:5:?string" if version == "v1" else ""
    return wire.build(
        f"k8s.io.kubelet.pkg.apis.dra.{version}",
        {
            "Claim": "namespace:1 uid:2 name:3",
            "Device": "request_names:1:[]string pool_name:2 device_name:3 cdi_device_ids:4:[]string" + share,
            "NodePrepareResourcesRequest": "claims:1:[]Claim",
            "NodePrepareResourceResponse": "devices:1:[]Device error:2",
            "NodePrepareResourcesResponse": "claims:1:{string=NodePrepareResourceResponse}",
            "NodeUnprepareResourcesRequest": "claims:1:[]Claim",
            "NodeUnprepareResourceResponse": "error:1",
            "NodeUnprepareResourcesResponse": "claims:1:{string=NodeUnprepareResourceResponse}",
        },
        services={
            "DRAPlugin": {
                "NodePrepareResources": "NodePrepareResourcesRequest NodePrepareResourcesResponse",
                "NodeUnprepareResources": "NodeUnprepareResourcesRequest NodeUnprepareResourcesResponse",
            }
        },
    )


def _health(version: str) -> wire.Protocol:
    return wire.build(
        version,
        {
            "DeviceIdentifier": "pool_name:1 device_name:2",
            "DeviceHealth": "device:1:DeviceIdentifier health:2:HealthStatus last_updated_time:3:int64 "
            "health_check_timeout_seconds:4:int64 message:5",
            "NodeWatchResourcesRequest": "",
            "NodeWatchResourcesResponse": "devices:1:[]DeviceHealth",
        },
        services={
            "DRAResourceHealth": {"NodeWatchResources": "NodeWatchResourcesRequest stream NodeWatchResourcesResponse"}
        },
        enums={"HealthStatus": "UNKNOWN HEALTHY UNHEALTHY"},
    )


# By the short name that a plugin lists in supported_versions, newest first: the order in which both sides prefer them.
DRA = {"v1.DRAPlugin": _dra("v1"), "v1beta1.DRAPlugin": _dra("v1beta1")}
HEALTH = {"v1.DRAResourceHealth": _health("v1"), "v1alpha1.DRAResourceHealth": _health("v1alpha1")}
