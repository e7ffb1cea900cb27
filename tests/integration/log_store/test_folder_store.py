"""A shared folder is a store only while it is there, and no link in it is followed."""

import os
from pathlib import Path

import pytest

from warren.broker.log_folder import MARK, write_log
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoreUnavailable


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "store")
    store.prepare()
    return store


def put(store: FolderStore, app: str, key: str, text: bytes) -> None:
    write_log(store.folder, app, key, lambda file: file.write(text))


def test_what_is_written_is_read_and_deleted(store: FolderStore) -> None:
    put(store, "mine", "mine/2026-01-01/1.log.gz", b"hello")

    assert store.size("mine/2026-01-01/1.log.gz") == 5
    assert store.fetch("mine/2026-01-01/1.log.gz", 1, 3) == b"ell"
    assert store.delete(["mine/2026-01-01/1.log.gz", "mine/2026-01-01/2.log.gz"]) == {}
    assert store.size("mine/2026-01-01/1.log.gz") is None
    assert not (store.folder / "mine/2026-01-01").exists()


@pytest.mark.parametrize(
    "key", ["theirs/2026-01-01/1", "mine/../theirs/1", "mine//1", "mine/.hidden", "/etc/passwd", ""]
)
def test_an_executor_writes_into_its_apps_folder_only(store: FolderStore, key: str) -> None:
    with pytest.raises(ValueError, match="expected the key of a log of mine"):
        put(store, "mine", key, b"hello")


def test_a_link_leads_nowhere(store: FolderStore) -> None:
    put(store, "theirs", "theirs/2026-01-01/1.log.gz", b"secret")
    put(store, "mine", "mine/2026-01-02/1.log.gz", b"mine")
    (store.folder / "mine/2026-01-01").symlink_to(store.folder / "theirs/2026-01-01")
    (store.folder / "mine/2026-01-02/2.log.gz").symlink_to(
        store.folder / "theirs/2026-01-01/1.log.gz"
    )

    for key in ("mine/2026-01-01/1.log.gz", "mine/2026-01-02/2.log.gz"):
        with pytest.raises(StoreUnavailable):
            store.fetch(key, 0, 6)
        with pytest.raises(StoreUnavailable):
            store.size(key)
    store.delete(["mine/2026-01-01/1.log.gz", "mine/2026-01-02/2.log.gz"])
    assert store.fetch("theirs/2026-01-01/1.log.gz", 0, 6) == b"secret"


def test_a_fifo_in_a_logs_place_holds_up_nobody(store: FolderStore) -> None:
    put(store, "mine", "mine/2026-01-01/1.log.gz", b"hello")
    os.mkfifo(store.folder / "mine/2026-01-01/2.log.gz")

    with pytest.raises(StoreUnavailable, match="no regular file"):
        store.size("mine/2026-01-01/2.log.gz")


def test_a_folder_that_is_not_mounted_is_no_store(store: FolderStore) -> None:
    (store.folder / MARK).unlink()

    with pytest.raises(FileNotFoundError, match="it has no warren-log-store"):
        put(store, "mine", "mine/2026-01-01/1.log.gz", b"hello")
    with pytest.raises(StoreUnavailable):
        store.size("mine/2026-01-01/1.log.gz")
    with pytest.raises(StoreUnavailable):
        store.delete(["mine/2026-01-01/1.log.gz"])
    assert list(store.folder.iterdir()) == []


def test_a_folder_with_other_files_does_not_become_a_store(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/holiday.jpg").touch()

    with pytest.raises(StoreUnavailable, match="choose an empty folder"):
        FolderStore(tmp_path / "photos").prepare()


def test_a_check_leaves_nothing_behind(store: FolderStore) -> None:
    assert store.check() == f"{store.folder} can be written, read and deleted from"
    assert [path.name for path in store.folder.iterdir()] == [MARK]
