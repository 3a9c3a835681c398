"""`python -m tests.apiserver.crash_writer FOLDER SEED`: writes as fast as it can and says what was acknowledged.

`? name` before a delete, `- name` after it, `+ name version` after a create or update. Killed by test_durability.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from drakit.api.errors import StatusError
from tests.apiserver.serving import Local, claim, local_server

WRITERS = 8


async def write(local: Local, number: int, seed: str) -> None:
    for step in range(1_000_000):
        name = f"w{number}-{seed}-{step % 50}"
        try:
            obj = await local.create(claim(name))
        except StatusError:
            if step % 7 == 0:
                print("?", name, flush=True)
                await local.request("DELETE", name=name)
                print("-", name, flush=True)
                continue
            obj = await local.patch(name, {"metadata": {"labels": {"step": str(step)}}})
        print("+", name, obj["metadata"]["resourceVersion"], flush=True)


async def main() -> None:
    async with local_server(data=Path(sys.argv[1])) as local:
        print("ready", flush=True)
        await asyncio.gather(*(write(local, number, sys.argv[2]) for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main())
