"""`drakit driver new NAME`: a driver to start from, with a test that passes, its RBAC and its DaemonSet."""

from __future__ import annotations

import re
from pathlib import Path

from drakit.driver.errors import DriverError

__all__ = ["create"]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+\Z")


def create(name: str, directory: Path) -> list[Path]:
    """Writes the files of a new driver; refuses to overwrite anything. `name` is the driver's, such as gpu.example.com."""
    if not _NAME.match(name) or len(name) > 63:
        raise DriverError(
            f"{name!r} is not a driver name: a DNS name with a dot of at most 63 characters, such as gpu.example.com"
        )
    label = name.partition(".")[0]
    module = label.replace("-", "_") + "_driver"
    values = {
        "NAME": name,
        "LABEL": label,
        "MODULE": module,
        "CLASS": "".join(p.capitalize() for p in label.split("-")) + "Driver",
    }
    files = {
        f"{module}.py": _DRIVER,
        f"test_{module}.py": _TEST,
        "deploy/rbac.yaml": _RBAC,
        "deploy/daemonset.yaml": _DAEMON_SET,
        "deploy/deviceclass.yaml": _CLASS,
        "Dockerfile": _DOCKERFILE,
        "README.md": _README,
    }
    existing = [p for p in files if (directory / p).exists()]
    if existing:
        raise DriverError(f"{directory / existing[0]} exists already; choose another directory with --directory")
    written = []
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        target.write_text(text)
        written.append(target)
    return written


_DRIVER = '''"""A DRA driver for @NAME@. Run: python -m @MODULE@ (in a pod, or with --kubeconfig)."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from drakit.client import Client
from drakit.client.http import HttpTransport
from drakit.client.kubeconfig import load
from drakit.driver import Claim, ClaimRef, Driver, Health, Plugin, PreparedDevice


class @CLASS@(Driver):
    name = "@NAME@"
    cdi_class = "@LABEL@"

    def discover(self) -> dict[str, dict[str, object]]:
        """The devices of this node. Look at /sys or ask the vendor's library; drakit.driver.attributes reads the standard ones."""
        return {
            f"@LABEL@-{i}": {
                "attributes": {"index": {"int": i}, "model": {"string": "example"}},
                "capacity": {"memory": {"value": "16Gi"}},
            }
            for i in range(4)
        }

    def prepare(self, claim: Claim) -> Sequence[PreparedDevice]:
        """What a container with the device gets: CDI container edits. Called again after restarts; must give the same answer."""
        return [
            PreparedDevice.of(
                result,
                edits={"env": [f"@LABEL@_DEVICE={result.device}".upper()]},
                attributes={"model": {"string": "example"}},
            )
            for result in claim.results
        ]

    def unprepare(self, claim: ClaimRef) -> None:
        """Undo prepare: reset the device, stop helper processes. Must also work for a claim that was never prepared."""

    def health(self) -> list[Health]:
        return []  # one Health(pool, device, "Healthy" | "Unhealthy", message) per device; asked for every 10 s


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig")
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""))
    parser.add_argument("--kubelet-dir", type=Path, default=Path("/var/lib/kubelet"))
    parser.add_argument("--cdi-dir", type=Path, default=Path("/var/run/cdi"))
    args = parser.parse_args()
    client = Client(HttpTransport(load(args.kubeconfig), user_agent="@NAME@"))
    plugin = Plugin(
        @CLASS@(),
        client,
        args.node,
        kubelet_directory=args.kubelet_dir,
        cdi_directory=args.cdi_dir,
        rolling_update_uid=os.environ.get("POD_UID", ""),
    )
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await plugin.start()
    await stopped.wait()
    await plugin.stop()
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
'''

_TEST = '''"""The driver, called as the kubelet calls it; no cluster and no hardware."""

import asyncio

from @MODULE@ import @CLASS@

from drakit.driver.testing import DriverKit


def test_container_gets_the_device() -> None:
    async def scenario() -> None:
        async with DriverKit(@CLASS@()) as kit:
            (published,) = await kit.slices()
            assert len(published["spec"]["devices"]) == 4
            claim = await kit.claim("one", devices=["@LABEL@-0"])
            devices = await kit.prepare(claim)
            assert kit.edits(devices).env == ["@LABEL@_DEVICE=@LABEL@-0".upper()]
            await kit.restart()
            assert await kit.prepare(claim) == devices
            await kit.unprepare(claim)
            assert kit.leftovers() == []

    asyncio.run(scenario())
'''

_RBAC = """# What a node driver may do, and no more; the admission policy keeps it to the slices of its own node.
apiVersion: v1
kind: ServiceAccount
metadata: {name: @LABEL@-dra-driver, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "@NAME@"}
rules:
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims]
  verbs: [get]
- apiGroups: [resource.k8s.io]
  resources: [resourceslices]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/status]
  verbs: [update, patch]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaims/driver]
  resourceNames: ["@NAME@"]
  verbs: ["associated-node:update", "associated-node:patch"]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "@NAME@"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "@NAME@"}
subjects:
- {kind: ServiceAccount, name: @LABEL@-dra-driver, namespace: kube-system}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: resourceslices-@NAME@}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [resource.k8s.io]
      apiVersions: ["*"]
      operations: [CREATE, UPDATE, DELETE]
      resources: [resourceslices]
  matchConditions:
  - name: is-this-driver
    expression: request.userInfo.username == "system:serviceaccount:kube-system:@LABEL@-dra-driver"
  variables:
  - name: userNodeName
    expression: request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0].orValue('')
  - name: objectNodeName
    expression: '(request.operation == "DELETE" ? oldObject : object).spec.?nodeName.orValue("")'
  validations:
  - expression: variables.userNodeName != ""
    message: no node association found for the driver's service account
  - expression: variables.userNodeName == variables.objectNodeName
    messageExpression: >-
      "this driver running on node '" + variables.userNodeName + "' may not touch slices of other nodes"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: resourceslices-@NAME@}
spec:
  policyName: resourceslices-@NAME@
  validationActions: [Deny]
"""

_DAEMON_SET = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: @LABEL@-dra-driver, namespace: kube-system}
spec:
  selector: {matchLabels: {app: @LABEL@-dra-driver}}
  updateStrategy:
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}  # old and new instance overlap: no claim finds the node without driver
  template:
    metadata: {labels: {app: @LABEL@-dra-driver}}
    spec:
      serviceAccountName: @LABEL@-dra-driver
      priorityClassName: system-node-critical
      containers:
      - name: driver
        image: @LABEL@-dra-driver:latest
        command: [python, -m, @MODULE@]
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
        securityContext: {privileged: true}
        volumeMounts:
        - {name: plugins-registry, mountPath: /var/lib/kubelet/plugins_registry}
        - {name: plugins, mountPath: /var/lib/kubelet/plugins}
        - {name: cdi, mountPath: /var/run/cdi}
      volumes:
      - {name: plugins-registry, hostPath: {path: /var/lib/kubelet/plugins_registry}}
      - {name: plugins, hostPath: {path: /var/lib/kubelet/plugins}}
      - {name: cdi, hostPath: {path: /var/run/cdi, type: DirectoryOrCreate}}
"""

_CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: "@NAME@"}
spec:
  selectors:
  - cel: {expression: device.driver == '@NAME@'}
"""

_DOCKERFILE = """FROM python:3.12-slim
RUN pip install --no-cache-dir drakit
COPY @MODULE@.py /app/
WORKDIR /app
CMD ["python", "-m", "@MODULE@"]
"""

_README = """# @NAME@
A DRA driver made with drakit.

- `@MODULE@.py`: the driver. Change `discover`, `prepare`, `unprepare`, `health`.
- `python -m pytest test_@MODULE@.py`: plays the kubelet; needs no cluster and no hardware.
- `deploy/`: service account and rights, DaemonSet, DeviceClass. `kubectl apply -f deploy/` once the image is built.
- On a laptop: `drakit up --machine --nodes 0`, then run the driver with `--kubeconfig`, `--node this-machine` and the node's directories.
"""
