"""A shared folder is a store only while it is there, and no link in it is followed."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warren.broker.log_folder import MARK, write_log
from warren.command_line.check import check_log_folder
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoreUnavailable
from warren.settings.settings import Settings


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


def as_user(uid: int, groups: tuple[int, ...], act: Callable[[], object]) -> None:
    """Do something in a process of another user, which keeps its files to itself.

    Raises:
        AssertionError: it failed; the text says how.

    """
    read, write = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
            os.umask(0o077)
            act()
        except BaseException as error:  # noqa: BLE001 - it is told
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as said:
        assert said.read().decode() == ""


@pytest.fixture
def shared() -> Iterator[FolderStore]:
    """A store whose folders have the owners that the page names."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        store = FolderStore(Path(name) / "store")
        store.prepare()
        app = store.folder / "mine"
        app.mkdir()
        os.chown(app, EXECUTOR, SCHEDULERS)
        app.chmod(0o2770)
        yield store


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")
EXECUTOR, SCHEDULER, SCHEDULERS = 20_001, 20_002, 20_003


@needs_root
def test_schedulers_read_and_delete_what_another_user_has_stored(shared: FolderStore) -> None:
    key = "mine/2026-01-01/1.log.gz"

    as_user(EXECUTOR, (), lambda: put(shared, "mine", key, b"hello"))

    as_user(SCHEDULER, (SCHEDULERS,), lambda: shared.fetch(key, 0, 5))
    with pytest.raises(AssertionError, match="Permission denied"):
        as_user(SCHEDULER, (), lambda: shared.fetch(key, 0, 5))
    as_user(SCHEDULER, (SCHEDULERS,), lambda: shared.delete([key]))
    assert list((shared.folder / "mine").iterdir()) == []


@needs_root
def test_a_check_takes_a_folder_in_which_the_executor_has_its_apps_only(
    shared: FolderStore,
) -> None:
    settings = Settings(log_store=str(shared.folder))

    as_user(EXECUTOR, (), lambda: check_log_folder(settings))

    with pytest.raises(AssertionError, match=r"neither .* is writable"):
        as_user(SCHEDULER, (), lambda: check_log_folder(settings))


def test_a_check_leaves_a_folder_as_it_is_where_nothing_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    for name in ("empty", "absent"):
        assert FolderStore(tmp_path / name).check() == (
            f"{tmp_path / name} is empty or absent: a scheduler will use it, unless a file system "
            "has to be mounted there first"
        )

    assert [*tmp_path.iterdir()] == [tmp_path / "empty"]
    assert [*(tmp_path / "empty").iterdir()] == []


def test_a_check_leaves_nothing_behind(store: FolderStore) -> None:
    assert store.check() == f"{store.folder} can be written, read and deleted from"
    assert [path.name for path in store.folder.iterdir()] == [MARK]
