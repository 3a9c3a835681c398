import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from drakit.client import kubeconfig
from drakit.client.credentials import credentials_of
from drakit.client.kubeconfig import KubeconfigError
from drakit.clock import VirtualClock


def config(user: dict[str, Any], cluster: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ns"}}],
        **more,
    }


def write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path


def authorization(access: kubeconfig.Access, clock: VirtualClock | None = None) -> str:
    return asyncio.run(credentials_of(access, clock or VirtualClock()).authorization())


def test_token(tmp_path: Path) -> None:
    access = kubeconfig.load(write(tmp_path / "c", config({"token": "t"})))
    assert (access.server, access.namespace) == ("https://k:6443", "ns")
    assert authorization(access) == "Bearer t"


def test_basic(tmp_path: Path) -> None:
    access = kubeconfig.load(write(tmp_path / "c", config({"username": "a", "password": "b"})))
    assert authorization(access) == "Basic " + base64.b64encode(b"a:b").decode()


def test_certificates_inline_and_from_files_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_bytes(b"CERT")
    (tmp_path / "key.pem").write_bytes(b"KEY")
    inline = base64.b64encode(b"CA").decode()
    document = config(
        {"client-certificate": "cert.pem", "client-key": "key.pem"}, {"certificate-authority-data": inline}
    )
    access = kubeconfig.load(write(tmp_path / "c", document))
    assert (access.cert_data, access.key_data, access.ca_data) == (b"CERT", b"KEY", b"CA")
    assert asyncio.run(credentials_of(access, VirtualClock()).certificate()) == (b"CERT", b"KEY")


def test_cluster_settings(tmp_path: Path) -> None:
    cluster = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other",
        "proxy-url": "http://proxy:1",
        "disable-compression": True,
    }
    access = kubeconfig.load(write(tmp_path / "c", config({"as": "me", "as-groups": ["g"]}, cluster)))
    assert access.insecure
    assert (access.tls_server_name, access.proxy_url, access.compress) == ("other", "http://proxy:1", False)
    assert (access.impersonate, access.impersonate_groups) == ("me", ("g",))


def test_files_merge_and_the_first_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "a", config({"token": "first"}))
    second = write(tmp_path / "b", {**config({"token": "second"}), "current-context": "other"})
    access = kubeconfig.load(environ={"KUBECONFIG": f"{first}:{tmp_path / 'absent'}:{second}"})
    assert access.token == "first"


def test_context_by_name(tmp_path: Path) -> None:
    document = config({"token": "t"})
    document["contexts"].append({"name": "other", "context": {"cluster": "k"}})
    access = kubeconfig.load(write(tmp_path / "c", document), context="other")
    assert (access.token, access.namespace) == ("", "default")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"current-context": ""}, "no current-context", id="no-context"),
        pytest.param({"current-context": "x"}, "no context 'x'; there is: c", id="unknown-context"),
        pytest.param({"clusters": []}, "names cluster 'k'", id="no-cluster"),
        pytest.param({"users": []}, "names user 'u'", id="no-user"),
        pytest.param(
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]}, "exec plugin", id="auth-provider"
        ),
        pytest.param({"users": [{"name": "u", "user": {"client-key-data": "%"}}]}, "not base64", id="bad-data"),
        pytest.param({"users": [{"name": "u", "user": {"client-key": "absent"}}]}, "client-key", id="missing-file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    with pytest.raises(KubeconfigError, match=text):
        kubeconfig.load(write(tmp_path / "c", {**config({}), **change}))


def test_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="--kubeconfig"):
        kubeconfig.load(environ={"HOME": str(tmp_path)})


def test_service_account_of_a_pod_rotates(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "namespace").write_text("ns")
    access = kubeconfig.in_cluster(
        environ={"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}, directory=tmp_path
    )
    assert (access.server, access.namespace) == ("https://[::1]:443", "ns")

    async def story() -> list[str]:
        clock = VirtualClock()
        credentials = credentials_of(access, clock)
        seen = [await credentials.authorization()]
        (tmp_path / "token").write_text("two")
        seen.append(await credentials.authorization())  # still trusted
        await clock.advance(61)
        seen.append(await credentials.authorization())
        (tmp_path / "token").write_text("three")
        assert credentials.expire()  # the server said 401
        seen.append(await credentials.authorization())
        return seen

    assert asyncio.run(story()) == ["Bearer one", "Bearer one", "Bearer two", "Bearer three"]


def plugin(tmp_path: Path, expiry: str = "") -> dict[str, Any]:
    """A plugin that answers with the number of its call."""
    status = '{"token": "t%d"' + (f', "expirationTimestamp": "{expiry}"' if expiry else "") + "}"
    script = tmp_path / "plugin.sh"
    counter = tmp_path / "count"
    script.write_text(
        f"#!/bin/sh\necho x >> {counter}\nn=$(wc -l < {counter})\n"
        f'printf \'{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}\' $n\n'
    )
    script.chmod(0o755)
    return {
        "exec": {
            "command": "./plugin.sh",
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
    }


def test_exec_plugin_runs_once_until_its_token_expires(tmp_path: Path) -> None:
    access = kubeconfig.load(write(tmp_path / "c", config(plugin(tmp_path, "2026-01-01T01:00:00Z"))))

    async def story() -> list[str]:
        clock = VirtualClock()
        credentials = credentials_of(access, clock)
        seen = list(await asyncio.gather(*(credentials.authorization() for _ in range(3))))
        await clock.advance(3595)
        return [*seen, await credentials.authorization()]

    assert asyncio.run(story()) == ["Bearer t1"] * 3 + ["Bearer t2"]


def test_exec_plugin_is_asked_again_when_refused(tmp_path: Path) -> None:
    access = kubeconfig.load(write(tmp_path / "c", config(plugin(tmp_path))))

    async def story() -> list[str]:
        credentials = credentials_of(access, VirtualClock())
        first = await credentials.authorization()
        credentials.expire()
        return [first, await credentials.authorization()]

    assert asyncio.run(story()) == ["Bearer t1", "Bearer t2"]


def test_exec_plugin_gets_cluster_info(tmp_path: Path) -> None:
    script = tmp_path / "plugin.sh"
    script.write_text(f'#!/bin/sh\nprintf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\necho "{{}}"\n')
    script.chmod(0o755)
    user = {
        "exec": {
            "command": "./plugin.sh",
            "apiVersion": "client.authentication.k8s.io/v1",
            "interactiveMode": "Never",
            "provideClusterInfo": True,
        }
    }
    access = kubeconfig.load(write(tmp_path / "c", config(user)))
    with pytest.raises(KubeconfigError, match="expected an ExecCredential"):
        authorization(access)
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"] == {"interactive": False, "cluster": {"server": "https://k:6443/"}}


@pytest.mark.parametrize(
    ("command", "text"),
    [("./absent", "No such file"), ("false", "exit status 1"), ("true", "not JSON")],
)
def test_exec_plugin_that_fails_is_named(tmp_path: Path, command: str, text: str) -> None:
    user = {"exec": {"command": command, "installHint": "install it", "interactiveMode": "Never"}}
    with pytest.raises(KubeconfigError, match=text):
        authorization(kubeconfig.load(write(tmp_path / "c", config(user))))
