"""The embedded API server put together: store, access, verbs, HTTPS.

server = Server(Settings(data=Path("state")))
await server.start()          # listens on 127.0.0.1; server.url, server.kubeconfig()
LocalTransport(server, user)  # for components in this process
await server.stop()
"""

from __future__ import annotations

import asyncio
import logging
import platform
import ssl
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from drakit.api import registry
from drakit.api.gates import FeatureGates
from drakit.api.kind import ExpressionChecker
from drakit.api.kinds.scheduling import SYSTEM_CLASSES
from drakit.apiserver import access, bootstrap, special
from drakit.apiserver.allocations import AllocationGuard
from drakit.apiserver.audit import AuditLog
from drakit.apiserver.auth import ADMIN, Admission, Authenticator, UserInfo
from drakit.apiserver.context import Context
from drakit.apiserver.documents import Documents
from drakit.apiserver.endpoints import Endpoints
from drakit.apiserver.expressions import lazy_expressions
from drakit.apiserver.http import Connection, Limits
from drakit.apiserver.journal import Journal
from drakit.apiserver.lifecycle import INITIAL_NAMESPACES, NamespaceLifecycle
from drakit.apiserver.metrics import ServerMetrics
from drakit.apiserver.node_proxy import NodeProxy
from drakit.apiserver.routes import Routes
from drakit.apiserver.store import HISTORY, Store
from drakit.apiserver.stored import Plain
from drakit.apiserver.token_secrets import TokenSecrets
from drakit.apiserver.tokens import TokenSigner
from drakit.clock import Clock, SystemClock

__all__ = ["Server", "Settings"]

_SWEEP_SECONDS = 5.0
_RENEW_SECONDS = 3600.0
_STOP_SECONDS = 5.0
_CLOSE_SECONDS = 0.2


@dataclass(frozen=True)
class Settings:
    data: Path | None = None  # the folder for state and certificates; None keeps everything in memory
    host: str = "127.0.0.1"
    port: int = 0  # 0 takes a free one
    listen: bool = True  # False: only the in-process door
    tls: bool = True
    gates: FeatureGates = field(default_factory=FeatureGates.default)
    runtime_config: registry.RuntimeConfig = field(default_factory=lambda: registry.RuntimeConfig({"api/all": True}))
    limits: Limits = field(default_factory=Limits)
    history: int = HISTORY
    request_log: bool = False
    audit_log: Path | None = None  # a file for JSON lines: who asked for what, and the verdict
    tokens: Mapping[str, UserInfo] = field(default_factory=dict)  # static tokens beside the administrator's


class Server:
    def __init__(
        self,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        expressions: ExpressionChecker | None = None,
        policies: Iterable[Admission] = (),
        node_proxy: NodeProxy | None = None,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.limits = self.settings.limits
        self.node_proxy = node_proxy
        self.request_log = self.settings.request_log
        self.log = logging.getLogger("drakit.apiserver")
        self.audit: AuditLog | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self.folder = self._folder()
        self._journal = Journal(self.folder / "state.db") if self.settings.data is not None else None
        self.store = Store(self._journal, history=self.settings.history)
        self._connections: set[Connection] = set()
        self.metrics = ServerMetrics(self.store, lambda: len(self._connections))
        clock = clock or SystemClock()
        gates = self.settings.gates
        served = list(registry.served_kinds(gates, self.settings.runtime_config))
        self.context = Context(
            self.store,
            gates=gates,
            clock=clock,
            expressions=expressions or lazy_expressions(),
            routes=Routes(served),
        )
        self.admin_token = ""
        self._credentials: Any = None
        self._tls: ssl.SSLContext | None = None
        signer, tokens = self._identity()
        self.access = access.secure(
            self.store, gates=gates, signer=signer, static_tokens=tokens, epoch=lambda: int(clock.now().timestamp()),
            policies=policies,
        )  # fmt: skip
        self.authenticator: Authenticator = authenticator or self.access.authenticator
        self.context.authorizer = self.access.authorizer
        self.context.privileges = self.access.privileges
        self.context.admission = (NamespaceLifecycle(self._namespace), *self.access.admission)
        self.context.special = special.handlers(self.access)
        AllocationGuard(self.store).attach()
        self._aggregation = bootstrap.Aggregation(self.context)
        self._token_secrets = TokenSecrets(
            self.context, signer, lambda: self._credentials.ca if self._credentials else b""
        )
        self.documents = Documents(served)
        self.endpoints = Endpoints(self)
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.port = 0

    def _folder(self) -> Path:
        if self.settings.data is not None:
            try:
                self.settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                from drakit.apiserver.journal import JournalError

                text = f"cannot use {self.settings.data} for state: {error}; choose a folder that this user may write"
                raise JournalError(text) from error
            return self.settings.data
        self._temporary = tempfile.TemporaryDirectory(prefix="drakit-")
        return Path(self._temporary.name)

    def _identity(self) -> tuple[TokenSigner, dict[str, UserInfo]]:
        tokens = dict(self.settings.tokens)
        if not self.settings.listen:
            return TokenSigner.generate(), tokens
        from drakit.apiserver.certificates import load_or_create

        self._credentials = load_or_create(self.folder / "pki")
        self.admin_token = self._credentials.token
        tokens[self.admin_token] = ADMIN
        return TokenSigner.load(self.folder / "pki" / "service-accounts.key"), tokens

    def _namespace(self, name: str) -> Plain | None:
        return self.context.store.get("", "namespaces", "", name)

    # -- running -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Load, make what a new cluster has, and listen."""
        loaded = self.store.load(registry.KINDS)
        self._bootstrap()
        self._aggregation.start()
        self._token_secrets.start()
        await self.store.settled(self.store.version)
        self.store.forget_history()
        if self.settings.audit_log is not None:
            later = asyncio.get_running_loop().call_soon
            self.audit = AuditLog(self.settings.audit_log, now=self.context.clock.now, later=later)
        if self.settings.listen:
            await self._listen()
        self.log.info("API server: %d objects, %s", loaded, self.url or "in process only")

    async def _listen(self) -> None:
        if self.settings.tls:
            from drakit.apiserver.certificates import server_context

            self._tls = server_context(self._credentials)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self.endpoints.handle, self.limits, self._connections, time.monotonic),
            self.settings.host,
            self.settings.port,
            ssl=self._tls,
            backlog=1024,
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self._sweeper = loop.create_task(self._sweep())

    def renew_certificates(self, now: datetime) -> bool:
        """Make those anew that are about to end; connections from now on see them. Whether there were any."""
        from drakit.apiserver.certificates import read_certificates, renew

        if self._tls is None or not renew(self.folder / "pki", now):
            return False
        read_certificates(self._tls, self._credentials)
        self.log.info("renewed the server's certificate")
        return True

    async def _sweep(self) -> None:
        looked = time.monotonic()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            if now - looked > _RENEW_SECONDS:
                looked = now
                self.renew_certificates(datetime.now(UTC))
            for connection in list(self._connections):
                connection.check(now)
            self.endpoints.recheck()

    async def stop(self) -> None:
        """No new connections; watches end, answers under way are sent, everything written is on disk."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._listener is not None:
            self._listener.close()
        self.endpoints.stop()
        now = time.monotonic()
        answered, deadline = 0.0, now + _STOP_SECONDS
        while self._connections and now < deadline:
            for connection in list(self._connections):
                if connection.idle:
                    connection.close()
            if not answered and all(connection.closing for connection in self._connections):
                # Everyone has an answer; a client that does not close its side is not waited for.
                answered = now
                deadline = min(deadline, now + _CLOSE_SECONDS)
            await asyncio.sleep(0.01)
            now = time.monotonic()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0.01)  # lets the transports end
        await self.store.close()
        if self.audit is not None:
            self.audit.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _bootstrap(self) -> None:
        for name in INITIAL_NAMESPACES:
            self.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            # The controller makes these for other namespaces; here pods should be welcome from the first moment.
            self.ensure(
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
            )
        for priority_class in SYSTEM_CLASSES:
            self.ensure(priority_class)
        bootstrap.ensure_roles(self.context)

    def ensure(self, obj: Plain) -> None:
        """Create an object if there is none of its name: for what a cluster starts with."""
        bootstrap.ensure(self.context, obj)

    # -- what others ask -----------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"{'https' if self.settings.tls else 'http'}://{self.settings.host}:{self.port}" if self.port else ""

    def kubeconfig(self, name: str = "drakit") -> Plain:
        from drakit.apiserver.kubeconfig import entries

        return entries(self._credentials, self.url, name)

    def healthy(self) -> bool:
        return not self.store.broken

    @property
    def version_info(self) -> Plain:
        return {
            "major": "1",
            "minor": "37",
            "emulationMajor": "1",
            "emulationMinor": "37",
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": "36",
            "gitVersion": "v1.37.0",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
