"""What can go wrong on a node, by what the agent does about it.

NodeError
├── PrepareError        claims of a pod cannot be prepared or unprepared: an event on the pod, retried
├── PluginError         a driver cannot be registered or called: told to the driver, retried
├── StateError          the agent's own files cannot be trusted: the agent does not start
├── RuntimeFailure      the container runtime refused: a reason in the container's status, retried
│   └── NotSupported    this runtime can never do it: the container stays waiting with the reason
└── VolumeError         a volume or a variable cannot be provided: an event on the pod, retried
"""

from __future__ import annotations


class NodeError(Exception):
    """Base of all."""


class PrepareError(NodeError):
    pass


class PluginError(NodeError):
    pass


class StateError(NodeError):
    pass


class RuntimeFailure(NodeError):
    """`reason` is the one word that stands in a container's waiting or terminated state."""

    def __init__(self, message: str, reason: str = "CreateContainerError") -> None:
        super().__init__(message)
        self.reason = reason


class NotSupported(RuntimeFailure):
    pass


class VolumeError(NodeError):
    pass
