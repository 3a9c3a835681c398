"""Fast programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drakit.cel.checker import Checked
from drakit.cel.environment import Environment
from drakit.cel.planner import Plan


def generate(checked: Checked, env: Environment, plan: Plan) -> Callable[[Mapping[str, Any]], Any] | None:
    return None
