"""How much work something is: counted in bytecodes where that tells, and otherwise only cut off when it has become hopeless."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import drakit

HOPELESS = 60.0  # seconds of CPU for what takes a fraction of one: a slow machine does not get there, unbounded work never ends


class Bytecodes:
    """Counts those that are executed in our own code (in `packages` of it) while `on`."""

    def __init__(self, *packages: str) -> None:
        self.count = 0
        self._where = tuple(f"{drakit.__path__[0]}/{package}/" for package in packages) or f"{drakit.__path__[0]}/"
        self._ours: dict[CodeType, bool] = {}

    @contextmanager
    def on(self) -> Iterator[None]:
        traced = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(traced)

    def _enter(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(self._where)
        if not ours:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, _: FrameType, event: str, __: object) -> Any:
        self.count += event == "opcode"
        return self._step


@contextmanager
def bounded() -> Iterator[None]:
    """What runs inside has an end. It is stopped, and the test fails, when it has used more of the CPU than bounded work ever does."""

    def stop(*_: object) -> None:
        raise AssertionError(f"no end after {HOPELESS:.0f} s of CPU: this work is not bounded")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, HOPELESS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
