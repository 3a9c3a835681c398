"""The agent's metrics, under the kubelet's names."""

from __future__ import annotations

from drakit.metrics import Registry

__all__ = ["NodeMetrics"]

_SECONDS = tuple(0.1 * (400 ** (i / 14)) for i in range(15))  # 0.1 s to 40 s, exponential, as in the kubelet


class NodeMetrics(Registry):
    """Those that several parts of the agent count; `Claims` adds its own."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.histogram(
            "dra_operations_duration_seconds",
            "Latency of PrepareResources and UnprepareResources.",
            _SECONDS,
            ("operation_name", "is_error"),
        )
        self.grpc = self.histogram(
            "dra_grpc_operations_duration_seconds",
            "Duration of the DRA gRPC calls.",
            _SECONDS,
            ("driver_name", "method_name", "grpc_status_code"),
        )
        self.prepare_skips = self.counter(
            "dra_node_prepare_skips_total", "NodePrepareResources calls skipped.", ("driver_name",)
        )
        self.unprepare_skips = self.counter(
            "dra_node_unprepare_skips_total", "NodeUnprepareResources calls skipped.", ("driver_name",)
        )
        self.pod_resources = {
            method: self.counter(
                f"kubelet_pod_resources_endpoint_requests_{method}",
                f"Pod resources {method} requests.",
                ("server_api_version",),
            )
            for method in ("list", "get", "get_allocatable")
        }
        self.pod_resources_total = self.counter(
            "kubelet_pod_resources_endpoint_requests_total", "Pod resources requests.", ("server_api_version",)
        )
