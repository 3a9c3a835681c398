"""Source text, positions in it, and how an issue is shown: cel-go's form with the line and a caret.

A location is (line from 1, column from 0, in code points); `NOWHERE` stands for errors about the whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["NOWHERE", "Issue", "Location", "Source", "render"]

MAX_ISSUES = 100
MAX_SNIPPET = 16384


class Location(NamedTuple):
    line: int
    column: int


NOWHERE = Location(-1, -1)


class Issue(NamedTuple):
    location: Location
    message: str


class Source:
    """One expression; finds the line and column of an offset and the text of a line."""

    def __init__(self, text: str, name: str = "<input>") -> None:
        self.text = text
        self.name = name
        self.starts = [0]
        position = text.find("\n")
        while position >= 0:
            self.starts.append(position + 1)
            position = text.find("\n", position + 1)

    def location(self, offset: int) -> Location:
        if offset < 0:
            return NOWHERE
        line = bisect_right(self.starts, offset)
        return Location(line, offset - self.starts[line - 1])

    def line(self, number: int) -> str | None:
        if not 1 <= number <= len(self.starts) or not self.text:
            return None
        start = self.starts[number - 1]
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return self.text[start:end]


def _show(issue: Issue, source: Source) -> str:
    location, message = issue
    text = f"ERROR: {source.name}:{location.line}:{location.column + 1}: {message}"
    snippet = source.line(location.line)
    if snippet is None or len(snippet.encode("utf-8", "surrogatepass")) > MAX_SNIPPET:
        return text
    snippet = snippet.replace("\t", " ")
    marks = "".join("." if ch < "\x80" else "\uff0e" for ch in snippet[: location.column])
    at = snippet[location.column : location.column + 1]
    return f"{text}\n | {snippet}\n | {marks}{'^' if at < chr(0x80) else chr(0xFF3E)}"


def render(issues: Iterable[Issue], source: Source) -> str:
    """All issues in the order of their position, at most a hundred."""
    listed = list(issues)
    shown = sorted(listed[:MAX_ISSUES], key=lambda issue: issue.location)
    lines = [_show(issue, source) for issue in shown]
    if len(listed) > MAX_ISSUES:
        lines.append(f"{len(listed) - MAX_ISSUES} more errors were truncated")
    return "\n".join(lines)
