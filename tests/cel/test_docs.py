"""The examples in docs/cel.md run."""

from __future__ import annotations

import re

from tests.vectors import ROOT


def test_examples_in_the_page_run() -> None:
    page = (ROOT / "docs" / "cel.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 3
    scope: dict[str, object] = {}
    for block in blocks:
        exec(block, scope)
    assert scope["program"].evaluate({"name": "gpu-0", "labels": {}}) is False  # type: ignore[attr-defined]
    assert scope["selector"].matches(scope["device"]) is False  # type: ignore[attr-defined]
