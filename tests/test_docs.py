"""What README and docs say is so: links lead somewhere, examples run, commands, options, files and dependencies exist and are told of."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from drakit.cli.check import check
from drakit.cli.main import COMMANDS
from drakit.drivers import profiles
from drakit.workload import read_claim, read_template_claim
from tests.cli.test_commands import parser_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
NAMES = [page.name for page in PAGES]

# What the examples of a page take for granted.
BEFORE = {
    "api.md": """
body = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "a", "namespace": "b"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}}
""",
    "driver-sdk.md": """
from drakit.driver import Driver, Health, PreparedDevice
from drakit.driver.testing import DriverKit
""",
}
ELSEWHERE = {"cel.md", "workload.md"}  # tests/cel/test_docs.py; below, with the files of a container


@pytest.fixture(params=PAGES, ids=NAMES)
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_links_lead_somewhere(page: Path) -> None:
    for file, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", TEXTS[page]):
        if file.startswith("https://"):
            continue
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name}: no {file}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {file} has no #{anchor}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_readme() -> None:
    reached = " ".join(TEXTS[ROOT / "README.md"].split())
    assert [name for name in NAMES if name not in ("README.md", "CHANGELOG.md") and f"docs/{name}" not in reached] == []


def test_files_and_modules_that_are_named_exist(page: Path) -> None:
    text = re.sub(r"https?://\S+|[\w~.]*/[\w./~]*/drakit/\S+|/(?:dev|etc)/\S+", "", TEXTS[page])
    for name in re.findall(r"(?<![\w/.])((?:drakit|tests|bench|examples|docs|tools)/[\w./*-]*\w)", text):
        assert list(ROOT.glob(name)), f"{page.name} names {name}"
    for module in re.findall(r"python -m ((?:bench|tests|drakit|examples)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), f"{page.name} names {module}"


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ELSEWHERE])
def test_examples_run(name: str) -> None:
    page = next(path for path in PAGES if path.name == name)
    blocks = re.findall(r"^```python\n(.*?)^```", TEXTS[page], re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {}
    exec(BEFORE.get(name, ""), space)
    for block in blocks:
        code = compile(block, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, space)
        if inspect.iscoroutine(result):
            asyncio.run(result)


def test_the_example_of_a_container_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = {"driver": "gpu.example.com", "pool": "p", "name": "gpu-0", "attributes": {"model": {"string": "A100"}}}
    metadata = {
        "kind": "DeviceMetadata",
        "apiVersion": "metadata.resource.k8s.io/v1beta1",
        "metadata": {"name": "gpu-claim", "namespace": "default", "uid": "u", "generation": 1},
        "requests": [{"name": "gpu", "devices": [device]}],
    }
    for folder, read in (
        ("resourceclaims/gpu-claim", read_claim),
        ("resourceclaimtemplates/my-gpu", read_template_claim),
    ):
        file = tmp_path / folder / "gpu" / "gpu.example.com-metadata.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(metadata))
        monkeypatch.setitem(read.__kwdefaults__, "root", tmp_path)
    block = re.search(r"^```python\n(.*?)^```", TEXTS[ROOT / "docs" / "workload.md"], re.MULTILINE | re.DOTALL)
    assert block is not None
    space: dict[str, Any] = {}
    exec(block[1], space)
    assert space["device"].attributes["model"] == "A100"


def test_the_example_of_a_profile_loads(tmp_path: Path) -> None:
    block = re.search(r"^```yaml\n(.*?)^```", TEXTS[ROOT / "docs" / "profiles.md"], re.MULTILINE | re.DOTALL)
    assert block is not None
    file = tmp_path / "mine.yaml"
    file.write_text(block[1])
    (slice_,) = profiles.load(str(file)).slices("node-0")
    assert len(slice_["spec"]["devices"]) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_section_and_every_option_its_line(command: str) -> None:
    assert f"## `drakit {command}`" in TEXTS[ROOT / "docs" / "cli.md"]
    docs = "\n".join(text for page, text in TEXTS.items() if page.parent.name == "docs")
    options = [name for action in parser_of(command)._actions for name in action.option_strings if name[:2] == "--"]
    untold = [name for name in options if name not in ("--help", "--verbose", "--output") and f"`{name}" not in docs]
    assert untold == []


def test_no_page_tells_of_a_command_that_is_not_there(page: Path) -> None:
    told = set(re.findall(r"(?:`|^    |\$ |bin/)(?:drakit|kubectl dra) ([a-z][a-z-]*)", TEXTS[page], re.MULTILINE))
    assert told <= set(COMMANDS)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", TEXTS[page], re.MULTILINE)) <= targets


def test_every_dependency_has_its_line() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    names = {re.match(r"[\w.-]+", requirement)[0] for requirement in wanted}  # type: ignore[index]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", TEXTS[ROOT / "docs" / "dependencies.md"], re.MULTILINE)
    told = {name.strip() for row in rows for name in row.split(",")} - {"package"}
    assert told == names


def test_every_example_says_what_it_is_for() -> None:
    for file in (ROOT / "examples").glob("*.yaml"):
        assert file.read_text(encoding="utf-8").startswith("# "), file.name
        assert list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda file: file.name)
def test_every_example_is_a_manifest_without_faults_or_a_profile_and_is_told_of(file: Path) -> None:
    assert f"examples/{file.name}" in " ".join(TEXTS.values())
    if "kind" in next(yaml.safe_load_all(file.read_text(encoding="utf-8"))):
        gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
        assert [str(problem) for problem in check([str(file)], gates)] == []
    else:
        assert profiles.load(str(file))
