"""What kubectl asks of a node: logs, exec, attach, port-forward. Answers for agents in this process.

Agents of other processes are reached by their kubelet API (`RemoteNodes`).

`NodeApi` is the API server's NodeProxy. `PodApi` does the work for one agent; the kubelet API server (`kubelet_api`) uses it too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drakit.api.errors import StatusError
from drakit.apiserver.node_proxy import NodeRequest, NodeStream
from drakit.node import port_forward, remote_command
from drakit.node.errors import NodeError
from drakit.node.logs import LogOptions, read
from drakit.node.remote_command import CommandOptions
from drakit.node.runtime import Stream

if TYPE_CHECKING:  # a cluster without a node of its own does not load the agent
    from drakit.node.agent import Agent
    from drakit.node.pod_worker import PodWorker
    from drakit.node.slots import Slot

__all__ = ["NodeApi", "PodApi", "RemoteNodes"]

log = logging.getLogger(__name__)
Query = Mapping[str, Sequence[str]]


class RemoteNodes(Protocol):
    """Reaches agents of other processes."""

    async def handle(self, request: NodeRequest, stream: NodeStream) -> None: ...


class NodeApi:
    """Several agents, by node name."""

    def __init__(self, agents: Sequence[Agent] = (), *, remote: RemoteNodes | None = None) -> None:
        self.agents = {a.name: a for a in agents}
        self.remote = remote

    def add(self, agent: Agent) -> None:
        self.agents[agent.name] = agent

    async def handle(self, request: NodeRequest, stream: NodeStream) -> None:
        agent = self.agents.get(request.node_name)
        if agent is None:
            if not request.node_name:
                raise StatusError.bad_request(f"pod {request.pod['metadata']['name']} does not have a host assigned")
            if self.remote is not None:
                await self.remote.handle(request, stream)
                return
            raise StatusError.unavailable(
                f"node {request.node_name} is simulated or not connected: its pods have no {request.subresource} here"
            )
        meta = request.pod["metadata"]
        api = PodApi(agent, meta["namespace"], meta["name"])
        await api.handle(request.subresource, request.query, request.headers, stream)


class PodApi:
    """Requests about one pod of an agent."""

    def __init__(self, agent: Agent, namespace: str, name: str) -> None:
        worker = agent.worker_of(namespace, name)
        if worker is None:
            raise StatusError.not_found("", "pods", name)
        self._agent = agent
        self._worker: PodWorker = worker
        self._name = name

    async def handle(self, what: str, query: Query, headers: Mapping[str, str], stream: NodeStream) -> None:
        if what == "log":
            await self._log(query, stream)
        elif what == "exec":
            await self._exec(query, headers, stream)
        elif what == "attach":
            await self._attach(query, headers, stream)
        elif what == "portforward":
            await port_forward.serve(headers, query, stream.upgrade, self._agent.address)
        else:
            raise StatusError(501, "NotImplemented", f"pods/{what} is not served by this node")

    def _slot(self, query: Query) -> Slot:
        name = _one(query, "container")
        slots = self._worker.slots
        if not name:
            ordinary = [s for s in slots if not s.init]
            if len(ordinary) > 1 or len(slots) > len(ordinary):
                names = " ".join(s.spec.name for s in slots if not s.init)
                if len(ordinary) > 1:
                    text = f"a container name must be specified for pod {self._name}, choose one of: [{names}]"
                    inits = " ".join(s.spec.name for s in slots if s.init)
                    raise StatusError.bad_request(
                        text + (f" or one of the init containers: [{inits}]" if inits else "")
                    )
            return ordinary[0]
        slot = self._worker.slot(name)
        if slot is None:
            raise StatusError.bad_request(f"container {name} is not valid for pod {self._name}")
        return slot

    def _running(self, query: Query) -> str:
        slot = self._slot(query)
        current = slot.view.current
        if current is None or not slot.view.running:
            raise StatusError.internal(f'unable to upgrade connection: container not found ("{slot.spec.name}")')
        return current.id

    async def _exec(self, query: Query, headers: Mapping[str, str], stream: NodeStream) -> None:
        options, command = CommandOptions.of(query), list(query.get("command", ()))
        if not command:
            raise StatusError.bad_request("you must specify at least one command for the container")
        identifier = self._running(query)

        async def start() -> Stream:
            try:
                return await self._agent.runtime.exec(identifier, command, tty=options.tty, stdin=options.stdin)
            except NodeError as error:
                raise StatusError.internal(str(error)) from error

        await remote_command.serve(headers, options, stream.upgrade, start)

    async def _attach(self, query: Query, headers: Mapping[str, str], stream: NodeStream) -> None:
        options = CommandOptions.of(query)
        identifier = self._running(query)

        async def start() -> Stream:
            try:
                return await self._agent.runtime.attach(identifier, tty=options.tty, stdin=options.stdin)
            except NodeError as error:
                raise StatusError.internal(str(error)) from error

        await remote_command.serve(headers, options, stream.upgrade, start)

    async def _log(self, query: Query, stream: NodeStream) -> None:
        slot = self._slot(query)
        options = self._log_options(query)
        view = slot.view
        where = f'container "{slot.spec.name}" in pod "{self._name}"'
        if _flag(query, "previous"):
            run = view.last if view.running or not view.waiting_reason else view.ended or view.last
            if run is None:
                raise StatusError.bad_request(f"previous terminated {where} not found")
        else:
            run = view.current
            if run is None:
                reason = view.waiting_reason or (
                    "PodInitializing" if self._worker.pod.spec and self._worker.slots[0].init else "ContainerCreating"
                )
                raise StatusError.bad_request(f"{where} is waiting to start: {reason}")
        stream.start(200, "text/plain")
        chosen = run

        def running() -> bool:
            current = slot.view.current
            return current is not None and current.id == chosen.id and slot.view.running and not stream.closed

        async for piece in read(Path(run.log_path), options, running):
            await stream.write(piece)
            if stream.closed:
                return
        stream.end()

    def _log_options(self, query: Query) -> LogOptions:
        since = None
        if seconds := _number(query, "sinceSeconds", at_least=1):
            since = self._agent.clock.now() - timedelta(seconds=seconds)
        elif moment := _one(query, "sinceTime"):
            try:
                since = datetime.fromisoformat(moment.replace("Z", "+00:00"))
            except ValueError as error:
                raise StatusError.bad_request(f'sinceTime: Invalid value: "{moment}"') from error
        return LogOptions(
            follow=_flag(query, "follow"),
            timestamps=_flag(query, "timestamps"),
            tail_lines=_number(query, "tailLines", at_least=0),
            since=since,
            limit_bytes=_number(query, "limitBytes", at_least=1),
            stream=_one(query, "stream") or "All",
        )


def _one(query: Query, name: str) -> str:
    values = query.get(name) or ("",)
    return values[0]


def _flag(query: Query, name: str) -> bool:
    return _one(query, name) in ("true", "1", "True")


def _number(query: Query, name: str, *, at_least: int) -> int | None:
    text = _one(query, name)
    if not text:
        return None
    try:
        value = int(text)
    except ValueError as error:
        raise StatusError.bad_request(f'{name}: Invalid value: "{text}": must be a number') from error
    if value < at_least:
        raise StatusError.bad_request(f"{name}: Invalid value: {value}: must be greater than or equal to {at_least}")
    return value
