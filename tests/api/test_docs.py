"""What the pages about the API say is true."""

from __future__ import annotations

import re

from drakit.api.gates import GATES
from tests import builders
from tests.vectors import ROOT


def test_the_example_in_the_api_page_runs() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    flat = {"name": "r", "deviceClassName": "gpu"}
    names = {"body": {**builders.claim(), "spec": {"devices": {"requests": [flat]}}}}
    exec(code, names)
    assert names["stored"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1  # type: ignore[index,call-overload]  # made by the code


def test_the_gate_page_names_stages_and_defaults_as_they_are() -> None:
    text = (ROOT / "docs" / "feature-gates.md").read_text()
    rows = re.findall(r"^\| ([A-Z][\w, ]+?)(?: \(.*?\))? \| (.+?) \| (on|off) \|", text, re.MULTILINE)
    assert len(rows) > 15
    for names, stage, default in rows:
        for name in names.split(", "):
            gate = GATES[name]
            assert (gate.stage, gate.locked) == (stage.split(",")[0].lower(), "locked" in stage), name
            assert gate.default == (default == "on"), name


def test_every_gate_that_decides_something_is_described() -> None:
    text = (ROOT / "docs" / "feature-gates.md").read_text()
    described = set(re.findall(r"\w+", text))
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "drakit").rglob("*.py"))
    asked = {name for source in sources for name in re.findall(r'"([A-Z]\w+)"', source)}
    open_gates = {name for name, gate in GATES.items() if not gate.locked}
    assert open_gates & asked - described == set()
    assert [name for name in GATES if name.startswith("DRA") and name not in described] == []
