"""The command line: every command has help and a page in the docs; what users get wrong is told without a traceback."""

from __future__ import annotations

import argparse
import re
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
        (["up", "--nodes", "-1"], "--nodes -1: must be 0 or more"),
        (["up", "--profile", "nothing"], "there are a100-mig"),
        (["up", "--feature-gates", "NoSuchGate=true"], "--feature-gates: "),
        (["up", "--runtime-config", "api/all=maybe"], "--runtime-config: "),
        (["up", "--controllers", "nobody"], "--controllers: there is no nobody"),
        (["scheduler", "--kubeconfig", "/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        (["profiles", "nothing"], "profile 'nothing' is not known"),
    ],
)
def test_mistakes_are_told(args: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if args[0] == "up":
        args = [*args, "--state", str(tmp_path), "--ephemeral"]
    assert main(args) == 1
    assert text in capsys.readouterr().err


def test_status_and_down_without_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--state", str(tmp_path)]) == 3
    assert main(["down", "--state", str(tmp_path)]) == 0
    assert "no cluster runs" in capsys.readouterr().out


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
