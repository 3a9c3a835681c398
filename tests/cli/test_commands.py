"""The command line: every command has help and a page in the docs; what users get wrong is told without a traceback."""

from __future__ import annotations

import argparse
import json
import re
import socket
from importlib import import_module
from pathlib import Path

import pytest

from drakit.cli import options, running
from drakit.cli.main import COMMANDS, main
from drakit.drivers import profiles

ROOT = Path(__file__).resolve().parents[2]
DOCS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))


def parser_of(command: str) -> argparse.ArgumentParser:
    commands = argparse.ArgumentParser(prog="drakit").add_subparsers()
    import_module(f"drakit.cli.{command.replace('-', '_')}").add_parser(commands)
    return commands.choices[command]  # type: ignore[no-any-return]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: drakit {command}" in text
    assert parser_of(command).description


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_help(command: str) -> None:
    undescribed = [a.dest for a in parser_of(command)._actions if not a.help]
    assert undescribed == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_docs(command: str) -> None:
    assert re.search(rf"`?(drakit|kubectl dra) {command}\b", DOCS), f"no page in docs/ tells of `drakit {command}`"


def test_without_a_command_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["up", "--profile", "nothing"], "there are a100-mig"),
        (["up", "--feature-gates", "NoSuchGate=true"], "--feature-gates: "),
        (["up", "--runtime-config", "api/all=maybe"], "--runtime-config: "),
        (["up", "--controllers", "nobody"], "--controllers: there is no nobody"),
        (
            ["controllers", "--controllers", "resourcepoolstatusrequest-controller"],
            "needs a feature gate that is off (--feature-gates DRAResourcePoolStatus=true)",
        ),
        (["controllers", "--controllers", "root-ca-certificate-publisher-controller"], "works in `drakit up` only"),
        (["scheduler", "--kubeconfig", "/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        (["up", "--feature-gates", "DRAAdminAcess=true"], "did you mean DRAAdminAccess for DRAAdminAcess?"),
        (["up", "--runtime-config", "nobody.example.com/v1=true"], "unknown API group in 'nobody.example.com/v1'"),
        (["up", "--profile", "./nothing.yaml"], "--profile: profile ./nothing.yaml: no such file"),
        (["profiles", "nothing"], "profile 'nothing' is not known"),
        (["controllers", "--controllers", ""], "--controllers: none is left to run"),
        (["node", "--root", "here", "--client-ca", "/nowhere/ca.crt"], "--client-ca /nowhere/ca.crt: no such file"),
    ],
)
def test_mistakes_are_told(args: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if args[0] == "up":
        args = [*args, "--state", str(tmp_path), "--ephemeral"]
    assert main(args) == 1
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["up", "--nodes", "-1"], "--nodes: -1: must be a whole number from 0"),
        (["up", "--nodes", "x"], "--nodes: x: must be a whole number from 0"),
        (["up", "--port", "65536"], "--port: 65536: must be a whole number from 0 to 65535"),
        (["up", "--port", "-5"], "--port: -5: must be"),
        (["up", "--pod-seconds", "nan"], "--pod-seconds: nan: must be a number of seconds"),
        (["up", "--pod-seconds", "-1"], "--pod-seconds: -1: must be a number of seconds"),
        (["node", "--port", "99999"], "--port: 99999: must be"),
        (["driver"], "required: VERB"),
        (["nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_a_wrong_command_line_is_told(args: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_a_port_in_use_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["up", "--state", str(tmp_path), "--ephemeral", "--nodes", "0", "--port", str(port)]) == 1
    assert f"--port {port}: is in use on 127.0.0.1; choose another" in capsys.readouterr().err


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["up", "--state", str(tmp_path / "file" / "state")]) == 1
    assert f"{tmp_path}/file/state: Not a directory; choose with --state a folder" in capsys.readouterr().err


def test_damaged_state_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "state.db").write_text("no database, but long enough to look at" * 100)
    assert main(["up", "--state", str(tmp_path), "--nodes", "0"]) == 1
    assert "state.db is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a: [b", "not a kubeconfig, which is YAML: "),
        (b"text", "not a kubeconfig (expected a mapping"),
        (b"\xff\xfe\x00", "not a kubeconfig, which is YAML: "),
        (b"clusters: 5", "clusters: expected a list, got int"),
        (b"contexts: [7]", "contexts[0]: expected a mapping with a name"),
        (b"users: [{name: a, user: 3}]", "users[0].user: expected a mapping"),
        (b"{}", "no current-context; choose one with --context"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_told(
    content: bytes, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_bytes(content)
    assert main(["scheduler", "--kubeconfig", str(file)]) == 1
    assert f"{file}: {text}" in capsys.readouterr().err


def test_a_number_out_of_range_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["up", "--nodes", "-1"])
    assert ended.value.code == 2
    assert "argument --nodes: -1: must be" in capsys.readouterr().err


def test_status_and_down_without_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--state", str(tmp_path)]) == 3
    assert main(["down", "--state", str(tmp_path)]) == 0
    assert "no cluster runs" in capsys.readouterr().out


def test_a_cluster_on_its_way_up_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running.time, "sleep", lambda seconds: None)
    with running.occupy(tmp_path):
        assert main(["status", "--state", str(tmp_path)]) == 1
        assert main(["down", "--state", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("still starting") == 2


def test_a_folder_is_held_by_one_cluster(tmp_path: Path) -> None:
    with running.occupy(tmp_path) as file:
        running.announce(file, running.Process(1, "https://x", "k", 0.0))
        assert running.find(tmp_path) == running.Process(1, "https://x", "k", 0.0)
        with pytest.raises(running.AlreadyRunning, match="process 1, https://x"), running.occupy(tmp_path):
            pass
    assert running.find(tmp_path) is None


def test_the_file_of_a_killed_cluster_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    running.announce(tmp_path / "process.json", running.Process(1, "https://x", "k", 0.0))
    assert running.find(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("*", ["resourceclaim-controller", "job-controller"], []),
        ("*,-job-controller", ["resourceclaim-controller"], ["job-controller"]),
        ("job-controller", ["job-controller"], ["resourceclaim-controller"]),
        ("", [], ["job-controller"]),
    ],
)
def test_controllers_are_chosen_as_upstream_does(text: str, has: list[str], lacks: list[str]) -> None:
    chosen = options.parse_controllers(text)
    assert set(has) <= set(chosen)
    assert not set(lacks) & set(chosen)


def test_profiles_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == profiles.names()
    assert main(["profiles", "dgx-h100"]) == 0
    assert "resource.kubernetes.io/pcieRoot" in capsys.readouterr().out


def test_check_says_where_and_what_to_write_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(ROOT / "examples" / "gpu-pod.yaml"), str(ROOT / "examples" / "job.yaml")]) == 0
    assert capsys.readouterr().out == ""
    old = tmp_path / "old.yaml"
    old.write_text("apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClass\nmetadata:\n  name: a\n")
    assert main(["check", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert f'{old}:2: kind: no kind "ResourceClass" in version "resource.k8s.io/v1alpha2"' in text
    assert "use a DeviceClass" in text
    assert main(["check", str(old), "-o", "json"]) == 1
    assert [problem["line"] for problem in json.loads(capsys.readouterr().out)] == [2]


def test_check_of_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 1
    assert "no .yaml, .yml, .json files" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "nothing.yaml")]) == 1
    assert f"{tmp_path}/nothing.yaml: No such file" in capsys.readouterr().err


def test_profiles_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles", "-o", "json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == profiles.names()
    assert main(["profiles", "gb200", "-o", "json"]) == 0
    assert {item["kind"] for item in json.loads(capsys.readouterr().out)["items"]} == {"DeviceClass", "ResourceSlice"}
