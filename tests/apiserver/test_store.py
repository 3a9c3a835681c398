"""The store: order, visibility, history, what a failed commit leaves, what a damaged file says."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drakit.api import registry
from drakit.api.errors import StatusError
from drakit.apiserver import store as store_module
from drakit.apiserver import watchers as watchers_module
from drakit.apiserver.journal import Change, Journal, JournalError
from drakit.apiserver.selection import EVERYTHING, parse_selection
from drakit.apiserver.store import Store
from drakit.apiserver.watchers import Watcher
from tests.apiserver.serving import claim, local_server, run

CONFIGMAP = registry.by_resource("", "configmaps")
assert CONFIGMAP is not None
KIND = CONFIGMAP


def config(name: str, value: str = "", labels: dict[str, str] | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if labels:
        meta["labels"] = labels
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"v": value}}


def put(store: Store, name: str, value: str = "", labels: dict[str, str] | None = None) -> int:
    collection = store.collection(KIND)
    key = f"default/{name}"
    return store.put(collection, key, config(name, value, labels), collection.objects.get(key)).version


def watcher(store: Store, selection: Any = EVERYTHING, *, limit: int = 100, namespace: str = "") -> Watcher:
    made = Watcher(namespace, selection, lambda: None, after=store.version, limit=limit)
    store.collection(KIND).watchers.add(made)
    return made


def seen(found: Watcher) -> list[tuple[str, str]]:
    return [(type, event.seen_as(type).obj["metadata"]["name"]) for type, event in found.events]


class BrokenJournal:
    """Takes batches and finishes them when told to, well or badly."""

    def __init__(self) -> None:
        self.path = Path("broken.db")
        self.batches: list[tuple[list[Change], Callable[[Exception | None], None]]] = []

    def write(self, changes: list[Change], version: int, done: Callable[[Exception | None], None]) -> None:
        self.batches.append((changes, done))

    def close(self) -> None:
        return


def test_versions_increase_over_all_kinds() -> None:
    store = Store()
    versions = [put(store, "a"), put(store, "b"), put(store, "a", "2")]
    assert versions == sorted(set(versions))
    assert store.collection(KIND).objects["default/a"].obj["metadata"]["resourceVersion"] == str(versions[-1])


def test_a_list_is_in_key_order_and_by_namespace() -> None:
    store = Store()
    for name in ("b", "a", "c"):
        put(store, name)
    collection = store.collection(KIND)
    store.put(collection, "default-2/x", {**config("x"), "metadata": {"name": "x", "namespace": "default-2"}}, None)
    assert [stored.key for stored in collection.select()] == ["default-2/x", "default/a", "default/b", "default/c"]
    assert [stored.key for stored in collection.select("default")] == ["default/a", "default/b", "default/c"]


def test_history_gives_any_version_that_it_still_has() -> None:
    store = Store(history=3)
    first = put(store, "a", "1")
    put(store, "b", "1")
    second = put(store, "a", "2")
    collection = store.collection(KIND)
    store.remove(collection, collection.objects["default/b"])
    then = collection.at(second)
    assert {key: stored.obj["data"]["v"] for key, stored in then.items()} == {"default/a": "2", "default/b": "1"}
    with pytest.raises(StatusError, match="too old"):
        collection.at(first - 1)
    assert [event.type for event in collection.since(second)] == ["DELETED"]
    with pytest.raises(StatusError, match="too old resource version"):
        collection.since(first - 1)


def test_history_and_watchers_hold_so_much_text_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """One object of a megabyte, changed 4,096 times, would else be some gigabytes."""
    monkeypatch.setattr(store_module, "HISTORY_BYTES", 10_000)
    monkeypatch.setattr(watchers_module, "_LAG_BYTES", 10_000)
    store = Store()
    lagging, reading = watcher(store), watcher(store)
    for number in range(40):
        version = put(store, "a", str(number) + "x" * 1000)
        assert reading.take()[1].version == version
    collection = store.collection(KIND)
    assert 5 <= len(collection.history) <= 10
    assert len(collection.since(collection.compacted)) == len(collection.history)
    with pytest.raises(StatusError, match="too old resource version"):
        collection.since(collection.compacted - 1)
    assert lagging.overflowed
    assert not lagging.events
    assert not reading.overflowed
    store.remove(collection, collection.objects["default/a"])
    for number in range(20):  # what was deleted counts as what it was
        put(store, f"small-{number}")
    assert len(collection.history) > 20


def test_a_selector_sees_objects_enter_and_leave() -> None:
    store = Store()
    watching = watcher(store, parse_selection(KIND, "v1", "app=x", ""))
    put(store, "a", "1")
    put(store, "a", "2", {"app": "x"})
    put(store, "a", "3", {"app": "x"})
    version = put(store, "a", "4", {"app": "y"})
    assert [type for type, _ in watching.events] == ["ADDED", "MODIFIED", "DELETED"]
    last = watching.events[-1][1].seen_as("DELETED")
    assert last.obj["data"]["v"] == "3"  # the state it knew, at the version of the change
    assert last.obj["metadata"]["resourceVersion"] == str(version)


def test_only_watchers_concerned_are_asked() -> None:
    store = Store()
    by_name = watcher(store, parse_selection(KIND, "v1", "", "metadata.name=a"))
    elsewhere = watcher(store, namespace="other")
    put(store, "a")
    put(store, "b")
    assert seen(by_name) == [("ADDED", "a")]
    assert seen(elsewhere) == []


def test_a_watcher_that_lags_too_far_is_cut_off() -> None:
    store = Store()
    slow = watcher(store, limit=2)
    for number in range(3):
        put(store, f"n{number}")
    assert slow.overflowed
    assert not slow.events


def test_nothing_is_seen_before_its_commit() -> None:
    async def scenario() -> None:
        journal = BrokenJournal()
        store = Store(journal)  # type: ignore[arg-type]  # as far as the store uses it
        watching = watcher(store)
        version = put(store, "a")
        assert store.durable < version
        assert not watching.events
        waiting = asyncio.ensure_future(store.settled(version))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = put(store, "b")  # gathers for the next commit
        assert len(journal.batches) == 1
        journal.batches[0][1](None)
        await asyncio.wait_for(waiting, 5)
        assert seen(watching) == [("ADDED", "a")]
        assert store.durable == version
        await asyncio.sleep(0)
        journal.batches[1][1](None)
        await store.settled(second)
        assert seen(watching) == [("ADDED", "a"), ("ADDED", "b")]

    run(scenario())


def test_a_failed_commit_undoes_everything_since() -> None:
    async def scenario() -> None:
        journal = BrokenJournal()
        store = Store(journal)  # type: ignore[arg-type]
        collection = store.collection(KIND)
        put(store, "kept", "1")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        journal.batches[0][1](None)
        await store.settled(store.version)
        watching = watcher(store)
        before = dict(collection.objects)
        versions = [put(store, "kept", "2"), put(store, "new")]
        store.remove(collection, collection.objects["default/kept"])
        waiting = [asyncio.ensure_future(store.settled(version)) for version in versions]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        journal.batches[1][1](JournalError("database or disk is full"))
        for future in waiting:
            with pytest.raises(StatusError, match="disk is full"):
                await future
        assert collection.objects == before
        assert collection.keys == ["default/kept"]
        assert not watching.events
        assert store.broken
        assert put(store, "later") > versions[-1]  # versions never come back

    run(scenario())


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async def write() -> int:
        async with local_server(data=tmp_path) as local:
            for number in range(20):
                await local.create(claim(f"c{number}"))
            await local.request("DELETE", name="c3")
            changed = await local.patch("c4", {"metadata": {"labels": {"a": "b"}}})
            return int(changed["metadata"]["resourceVersion"])

    async def read(version: int) -> None:
        async with local_server(data=tmp_path) as local:
            listing = (await local.request("GET")).body
            names = {item["metadata"]["name"]: item for item in listing["items"]}
            assert len(names) == 19
            assert "c3" not in names
            assert names["c4"]["metadata"]["labels"] == {"a": "b"}
            assert int(listing["metadata"]["resourceVersion"]) >= version
            new = await local.create(claim("new"))
            assert int(new["metadata"]["resourceVersion"]) > version

    run(read(run(write())))
    assert oct((tmp_path / "state.db").stat().st_mode & 0o777) == "0o600"


def test_a_backup_is_a_whole_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_server(data=tmp_path / "data") as local:
            writers = [asyncio.ensure_future(local.create(claim(f"c{number}"))) for number in range(50)]
            (tmp_path / "copy").mkdir()
            await local.server.store.backup(tmp_path / "copy" / "state.db")
            await asyncio.gather(*writers)
        async with local_server(data=tmp_path / "copy") as restored:
            listing = (await restored.request("GET")).body
            assert all(item["spec"]["devices"]["requests"] for item in listing["items"])
            await restored.create(claim("again"))

    run(scenario())


def test_a_file_is_used_by_one_server_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db")
    try:
        with pytest.raises(JournalError, match="in use by another process"):
            Journal(tmp_path / "state.db")
    finally:
        journal.close()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"this is no database, however long it may be " * 100)
    with pytest.raises(JournalError, match=r"state\.db is damaged .*restore a backup"):
        Journal(path)


def test_damage_in_the_middle_is_found_at_the_start(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db")
    journal._commit([Change("configmaps", f"default/{n}", n + 2, b'{"metadata":{}}' * 50) for n in range(400)], 500)
    journal.close()
    data = bytearray((tmp_path / "state.db").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = os.urandom(4096)
    (tmp_path / "state.db").write_bytes(data)

    def load() -> None:
        opened = Journal(tmp_path / "state.db")
        try:
            Store(opened).load(registry.KINDS)
        finally:
            opened.close()

    with pytest.raises(JournalError, match="damaged"):
        load()


def test_a_row_that_is_no_json_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db")
    journal._commit([Change("configmaps", "default/bad", 2, b"{not json")], 2)
    store = Store(journal)
    with pytest.raises(JournalError, match="configmaps default/bad"):
        store.load(registry.KINDS)
    journal.close()


def test_a_full_disk_keeps_nothing_of_the_write(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db")
    journal._commit([Change("configmaps", "default/a", 2, b"{}")], 2)
    pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
    journal._db.execute(f"PRAGMA max_page_count = {pages}")
    journal.start()
    errors: list[Exception | None] = []
    done = __import__("threading").Event()

    def finished(error: Exception | None) -> None:
        errors.append(error)
        done.set()

    changes = [Change("configmaps", f"default/big{n}", n + 3, b"x" * 10_000) for n in range(50)]
    journal.write(changes, 60, finished)
    assert done.wait(10)
    assert "disk is full" in str(errors[0])
    assert "nothing of this write was kept" in str(errors[0])
    journal.close()
    with sqlite3.connect(tmp_path / "state.db") as db:
        assert db.execute("SELECT key FROM objects").fetchall() == [("default/a",)]
    db.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere: run as a user")
def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(JournalError, match="must be writable"):
        Journal(tmp_path / "state.db")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def scenario() -> None:
        async with local_server(data=tmp_path / "file" / "state"):
            pass

    with pytest.raises(JournalError, match="choose a folder that this user may write"):
        run(scenario())


def test_another_format_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state.db")
    journal._db.execute("UPDATE meta SET value = 99 WHERE name = 'format'")
    journal.close()
    with pytest.raises(JournalError, match="use the drakit that wrote it"):
        Journal(tmp_path / "state.db")
