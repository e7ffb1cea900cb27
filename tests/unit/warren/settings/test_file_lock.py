"""One process at a time."""

import os
from pathlib import Path

import pytest

from warren.errors import CommandError
from warren.settings.home import FileLock, lock_embedded_database


def test_second_holder_is_refused_with_the_words(tmp_path: Path) -> None:
    FileLock(tmp_path / "lock", "taken")

    with pytest.raises(CommandError, match="taken"):
        FileLock(tmp_path / "lock", "taken")


def test_released_lock_can_be_had(tmp_path: Path) -> None:
    FileLock(tmp_path / "lock", "taken").release()

    FileLock(tmp_path / "lock", "taken")


def test_lock_ends_with_its_process(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        FileLock(tmp_path / "lock", "taken")
        os._exit(0)
    os.waitpid(child, 0)

    FileLock(tmp_path / "lock", "taken")


def test_sqlite_database_serves_one_scheduler(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/warren.db"
    lock = lock_embedded_database(url)

    with pytest.raises(CommandError, match=r"another scheduler is using .*warren\.db"):
        lock_embedded_database(url + "?timeout=5")
    assert lock is not None
    lock.release()
    assert lock_embedded_database(url)


def test_server_database_serves_many() -> None:
    assert lock_embedded_database("mysql+pymysql://u@h/d") is None
