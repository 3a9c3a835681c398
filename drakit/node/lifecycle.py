"""Lifecycle hooks of containers: exec, httpGet, sleep."""

from __future__ import annotations

import aiohttp
from lightkube.models.core_v1 import Container, LifecycleHandler

from drakit.clock import Clock
from drakit.node.errors import RuntimeFailure
from drakit.node.probes import find_port
from drakit.node.runtime import Runtime

__all__ = ["run_hook"]


async def run_hook(
    hook: LifecycleHandler, runtime: Runtime, container: Container, identifier: str, address: str, clock: Clock
) -> None:
    """RuntimeFailure when it fails; the caller bounds its time."""
    if hook.exec is not None:
        result = await runtime.exec_sync(identifier, hook.exec.command or [], 0)
        if result.exit_code != 0:
            raise RuntimeFailure(f"exited with {result.exit_code}: {result.output[:1024].decode(errors='replace')}")
    elif hook.httpGet is not None:
        get = hook.httpGet
        path = get.path or "/"
        scheme, host = (get.scheme or "HTTP").lower(), get.host or address
        url = f"{scheme}://{host}:{find_port(container, get.port)}{path if path.startswith('/') else '/' + path}"
        try:
            headers = {h.name: h.value for h in get.httpHeaders or ()}
            async with aiohttp.ClientSession() as session, session.get(url, headers=headers, ssl=False) as response:
                if response.status >= 400:
                    raise RuntimeFailure(f"{url} answered {response.status}")
        except aiohttp.ClientError as error:
            raise RuntimeFailure(f"{url}: {error}") from error
    elif hook.sleep is not None:
        await clock.sleep(float(hook.sleep.seconds))
