"""Runtimes on their own: what goes into an OCI spec, what plain processes refuse, images that were unpacked."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from drakit.driver import cdi
from drakit.driver.injection import CdiCache, Edits
from drakit.node.errors import NotSupported, RuntimeFailure
from drakit.node.runtime import EXITED, ContainerConfig, Mount, Resources, SandboxConfig, Security
from drakit.node.runtimes import oci, oci_spec
from drakit.node.runtimes.choose import choose, look
from drakit.node.runtimes.cri import CriRuntime, _apply, _cdi_enabled
from drakit.node.runtimes.cri_protocol import CRI
from drakit.node.runtimes.process import ProcessRuntime, _inside
from drakit.node.runtimes.rootfs import find_image

SANDBOX = SandboxConfig("default", "p", "uid-1", hostname="p", log_directory="/logs")


def container(log: Path, *command: str, **fields: Any) -> ContainerConfig:
    values: dict[str, Any] = {
        "image": "busybox",
        "image_ref": "",
        "args": [],
        "working_directory": "",
        "env": {},
        "mounts": [],
        "cdi_devices": [],
    }
    return ContainerConfig("c", 0, command=list(command), log_path=str(log), **{**values, **fields})


def spec(edits: Edits | None = None, **fields: Any) -> dict[str, Any]:
    config = container(Path("/log"), "run", **fields)
    return oci_spec.build(
        config, argv=["run"], root=Path("/r"), host_binds=False, masked=["/tmp"], hostname="p", edits=edits or Edits(), cgroup="/g",
        env=oci_spec.merged_env(config.env, edits or Edits()), working_directory="/",
    )  # fmt: skip


def test_cdi_edits_reach_the_oci_spec() -> None:
    edits = Edits(additional_gids=[44])
    edits.add(
        {
            "env": ["A=cdi", "B=2"],
            "deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/null", "permissions": "rw", "gid": 5}],
            "mounts": [
                {"hostPath": "/h", "containerPath": "/data/deep", "options": ["ro"]},
                {"hostPath": "/h2", "containerPath": "/v"},
            ],
            "hooks": [{"hookName": "createContainer", "path": "/bin/true", "args": ["true"]}],
        }
    )
    made = spec(edits, env={"A": "pod"}, mounts=[Mount("/pod", "/v")])
    assert made["process"]["env"] == ["A=cdi", "B=2"]
    assert made["process"]["user"]["additionalGids"] == [44]
    (device,) = made["linux"]["devices"]
    assert (device["path"], device["type"], device["major"], device["minor"], device["gid"]) == ("/dev/x", "c", 1, 3, 5)
    assert {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"} in made["linux"]["resources"]["devices"]
    by_path = {m["destination"]: m for m in made["mounts"]}
    assert by_path["/v"]["source"] == "/h2", "a CDI mount replaces one at the same place"
    assert by_path["/data/deep"]["options"] == ["rbind", "ro"]
    assert made["hooks"] == {"createContainer": [{"path": "/bin/true", "args": ["true"]}]}


def test_security_and_limits_reach_the_oci_spec() -> None:
    security = Security(
        user=1000,
        group=100,
        read_only_root=True,
        no_new_privileges=True,
        drop_capabilities=["ALL"],
        add_capabilities=["NET_BIND_SERVICE"],
    )
    made = spec(security=security, resources=Resources(cpu_shares=512, cpu_quota=50_000, memory_limit=1 << 20))
    assert made["process"]["user"]["uid"] == 1000
    assert made["process"]["capabilities"]["bounding"] == ["CAP_NET_BIND_SERVICE"]
    assert made["process"]["noNewPrivileges"]
    assert made["root"]["readonly"]
    assert made["linux"]["resources"]["memory"] == {"limit": 1 << 20}
    assert made["linux"]["resources"]["cpu"] == {"shares": 512, "quota": 50_000, "period": 100_000}
    assert made["linux"]["resources"]["devices"][0] == {"allow": False, "access": "rwm"}


def test_what_runc_cannot_do_is_refused() -> None:
    with pytest.raises(NotSupported, match="netDevices"):
        spec(Edits(net_devices=[{"hostInterfaceName": "eth0", "name": "eth1"}]))
    with pytest.raises(RuntimeFailure, match="is not a device"):
        spec(Edits(device_nodes=[{"path": "/dev/x", "hostPath": "/etc/hostname"}]))


def test_cri_translates_or_refuses_cdi() -> None:
    message = CRI.ContainerConfig()
    edits = Edits(
        env=["A=b"],
        mounts=[{"hostPath": "/h", "containerPath": "/c", "options": ["ro"]}],
        device_nodes=[{"path": "/dev/x", "hostPath": "/dev/null"}],
    )
    _apply(edits, message)
    assert [(e.key, e.value) for e in message.envs] == [("A", b"b")]
    assert [(m.container_path, m.readonly) for m in message.mounts] == [("/c", True)]
    assert [(d.host_path, d.permissions) for d in message.devices] == [("/dev/null", "rwm")]
    with pytest.raises(NotSupported, match="hooks need a runtime with CDI enabled"):
        _apply(Edits(hooks=[{"hookName": "prestart", "path": "/x"}]), message)
    with pytest.raises(NotSupported, match="does not exist on the node"):
        _apply(Edits(device_nodes=[{"path": "/dev/nope"}]), message)


def test_cri_refuses_devices_when_told_to_and_the_runtimes_cdi_is_off(tmp_path: Path) -> None:
    runtime = CriRuntime("/nowhere", cdi=CdiCache(()), cdi_mode="refuse")
    with pytest.raises(NotSupported, match="enable_cdi = true"):
        asyncio.run(runtime.create_container("s", container(tmp_path / "l", "run", cdi_devices=["v/c=d"]), SANDBOX))


@pytest.mark.parametrize(
    ("config", "on"),
    [("", False), ("{", False), ('{"enableCDI": true}', True), ('{"enableCDI": false}', False), ("{}", False)],
)
def test_containerds_cdi_state_is_read_from_its_status(config: str, on: bool) -> None:
    assert _cdi_enabled(config) is on


def test_bare_processes_get_variables_and_refuse_mounts() -> None:
    async def scenario(root: Path) -> None:
        cdi.write(root / "cdi", "a", {"kind": "v/c", "devices": [{"name": "d", "containerEdits": {"env": ["GPU=0"]}}]})
        runtime = ProcessRuntime(root / "r", cdi=CdiCache((root / "cdi",)), bwrap="")
        await runtime.start()
        assert "without any isolation" in (await runtime.info()).notes[0]
        sandbox, _ = await runtime.run_sandbox(SANDBOX)
        good = await runtime.create_container(
            sandbox, container(root / "log", "/bin/sh", "-c", "echo $GPU; exit 3", cdi_devices=["v/c=d"]), SANDBOX
        )
        await runtime.start_container(good)
        ended = await asyncio.wait_for(runtime.wait(good), 10)
        assert (ended.state, ended.exit_code) == (EXITED, 3)
        assert (root / "log").read_text().endswith(" stdout F 0\n")
        bad = await runtime.create_container(
            sandbox, container(root / "log2", "true", mounts=[Mount("/etc", "/config")]), SANDBOX
        )
        with pytest.raises(NotSupported, match="cannot provide /config: plain processes have no mounts"):
            await runtime.start_container(bad)
        missing = container(root / "log3", "true", cdi_devices=["v/c=nope"])
        with pytest.raises(RuntimeFailure, match="unresolvable CDI devices v/c=nope"):
            await runtime.create_container(sandbox, missing, SANDBOX)
        nothing = await runtime.create_container(sandbox, container(root / "log4", "/does/not/exist"), SANDBOX)
        with pytest.raises(RuntimeFailure, match="No such file or directory"):
            await runtime.start_container(nothing)
        await runtime.stop(kill=True)
        assert list((root / "r" / "pods").iterdir()) == []

    with tempfile.TemporaryDirectory(prefix="dr-") as folder:
        asyncio.run(scenario(Path(folder)))


def test_mount_points_follow_links_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "run").symlink_to("/run")
    (tmp_path / "up").symlink_to("../../..")
    assert _inside(tmp_path, "/var/run/a/b") == "/run/a/b"
    assert _inside(tmp_path, "/up/etc") == "/etc"
    assert _inside(tmp_path, "/plain/path") == "/plain/path"


@pytest.mark.parametrize("image", ["../../etc", "a/../../b", "ünïcode", "x" * 300])
def test_image_names_cannot_leave_the_folder(image: str, tmp_path: Path) -> None:
    try:
        assert find_image(tmp_path / "images", image).is_host
    except ValueError as error:
        assert "file name" in str(error)  # noqa: PT017 either answer is safe


@pytest.mark.slow
def test_unpacked_image_is_run_with_its_own_configuration() -> None:
    busybox = shutil.which("busybox")
    if not oci.find() or busybox is None:
        pytest.skip("needs root, and runc and busybox, which make test installs on Debian")

    async def scenario(root: Path) -> None:
        image = root / "images" / "tiny_1"
        (image / "rootfs" / "bin").mkdir(parents=True)
        shutil.copy(busybox, image / "rootfs" / "bin" / "busybox")
        (image / "config.json").write_text(
            json.dumps({"config": {"Entrypoint": ["/bin/busybox"], "Cmd": ["env"], "Env": ["FROM=image"]}})
        )
        runtime = oci.OciRuntime(root / "r", cdi=CdiCache(()), images=root / "images")
        await runtime.start()
        sandbox, _ = await runtime.run_sandbox(SANDBOX)
        for config in (
            container(root / "log", image="tiny:1"),
            container(root / "log", image="tiny:1", args=["ls", "/"]),
        ):
            identifier = await runtime.create_container(sandbox, config, SANDBOX)
            await runtime.start_container(identifier)
            assert (await asyncio.wait_for(runtime.wait(identifier), 10)).exit_code == 0
        text = (root / "log").read_text()
        assert "FROM=image" in text
        assert " stdout F home" not in text, "the host's root is not there"
        await runtime.stop(kill=True)

    with tempfile.TemporaryDirectory(prefix="dr-") as folder:
        asyncio.run(scenario(Path(folder)))


def test_every_runtime_is_looked_at_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    from drakit.clock import SystemClock

    assert [f.runtime for f in asyncio.run(look("/nowhere.sock"))] == ["cri", "oci", "process", "fake"]
    with pytest.raises(RuntimeFailure, match="is not one of auto, cri, oci, process, fake"):
        asyncio.run(choose("docker", tmp_path, cdi=CdiCache(()), clock=SystemClock()))
