"""A small runner for API scripts: requests in order, values saved from answers, expected parts compared.

For a clone that has our own selection only (tests/data/api/scripts.jsonl). A script is
`{"id", "steps": [{"method", "path", "query"?, "type"?, "body"?, "save"?: {name: path}, "expect": {"status", "body"?, "events"?}}]}`;
`${ns}` is a namespace of its own, `${p}` a fresh prefix. Bodies are compared by what the script names: other fields may be there.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from argparse import Namespace
from pathlib import Path
from typing import Any

__all__ = ["Client", "Config", "Runner", "Skip", "short"]

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Skip(Exception):
    """The server cannot do what the script is about."""


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 300 else text[:300] + "..."


class Config:
    def __init__(self, path: str) -> None:
        config = json.loads(Path(path).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.server: str = cluster["server"]
        self.token: str = user["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.context = ssl.create_default_context(cadata=authority)


class Client:
    def __init__(self, config: Config) -> None:
        self._config = config

    def request(
        self, method: str, path: str, query: dict[str, Any] | None, content_type: str, body: Any
    ) -> tuple[int, Any]:
        url = self._config.server + urllib.parse.quote(path)
        if query:
            url += "?" + urllib.parse.urlencode(query)
        headers = {
            "Authorization": f"Bearer {self._config.token}",
            "Accept": "application/json",
            "Content-Type": content_type,
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._config.context, timeout=30) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error.read())


def _parsed(data: bytes) -> Any:
    """JSON, the lines of a watch, or text."""
    text = data.decode()
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text


def _substituted(value: Any, variables: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: variables[match.group(1)], value)
    if isinstance(value, list):
        return [_substituted(item, variables) for item in value]
    if isinstance(value, dict):
        return {_substituted(name, variables): _substituted(item, variables) for name, item in value.items()}
    return value


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _difference(expected: Any, actual: Any, path: str, *, texts: bool) -> tuple[str, Any, Any] | None:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for name, item in expected.items():
            if name == "message" and not texts:
                continue
            found = _difference(item, actual.get(name), f"{path}.{name}", texts=texts)
            if found:
                return found
        return None
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for position, (left, right) in enumerate(zip(expected, actual, strict=True)):
            found = _difference(left, right, f"{path}[{position}]", texts=texts)
            if found:
                return found
        return None
    return None if expected == actual else (path, expected, actual)


class Runner:
    def __init__(self, client: Client, options: Namespace) -> None:
        self._client = client
        self._options = options

    def run(self, script: dict[str, Any], record: bool) -> tuple[int | None, Any, float]:
        """(step, failure, seconds); no failure when the script passed."""
        started = time.monotonic()
        prefix = uuid.uuid4().hex[:8]
        variables = {"p": f"t{prefix}", "ns": f"ns-{prefix}"}
        self._client.request(
            "POST", "/api/v1/namespaces", None, "application/json", {"metadata": {"name": variables["ns"]}}
        )
        try:
            for number, step in enumerate(script["steps"]):
                failure = self._step(_substituted({**step, "save": None}, variables), step.get("save") or {}, variables)
                if failure:
                    return number, failure, time.monotonic() - started
            return None, None, time.monotonic() - started
        finally:
            self._client.request("DELETE", f"/api/v1/namespaces/{variables['ns']}", None, "application/json", None)

    def _step(self, step: dict[str, Any], save: dict[str, str], variables: dict[str, str]) -> Any:
        kind = step.get("type") or "application/json"
        code, body = self._client.request(step["method"], step["path"], step.get("query"), kind, step.get("body"))
        expected = step["expect"]
        if code != expected["status"]:
            return "HTTP status", expected["status"], {"status": code, "answer": body}
        for name, path in save.items():
            variables[name] = str(_at(body, path))
        if self._options.level == "status":
            return None
        wanted = expected.get("events", expected.get("body"))
        if wanted is None:
            return None
        if "events" in expected and isinstance(body, dict):
            body = [body]  # one line of a watch is JSON by itself
        return _difference(wanted, body, "body", texts=self._options.level == "message")

    def close(self) -> None:
        return
