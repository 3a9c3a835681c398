"""What the store knows about devices: no device, share or counter is promised twice, whoever writes the claim."""

from __future__ import annotations

from drakit.apiserver.store import Store


class AllocationGuard:
    def __init__(self, store: Store) -> None:
        self._store = store

    def attach(self) -> None:
        return
