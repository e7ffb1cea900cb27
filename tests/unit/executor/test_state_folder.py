"""The file with an executor's signs of life."""

import os
import time
from pathlib import Path

import msgspec
import pytest

from warren.broker.reasons import Why
from warren.executor.messaging.outbox import Identity
from warren.executor.state_folder import SIGNS_NAME, LifeSigns, running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    folder.mkdir()
    return folder


def test_what_an_executor_says_is_found_with_its_age(folder: Path) -> None:
    signs = LifeSigns(folder, Identity.checked("demo", "one"), lambda: None)

    signs.beat(was_welcomed=False, is_draining=False, obstacle=None)
    signs.beat(was_welcomed=True, is_draining=False, obstacle=Why.JOURNAL_FAILING())
    os.utime(folder / SIGNS_NAME, (time.time() - 40, time.time() - 40))

    [(said, age_seconds)] = running(folder.parent)
    assert (said.address, said.pid, said.was_welcomed) == ("one", os.getpid(), True)
    assert said.obstacle == str(Why.JOURNAL_FAILING())
    assert 40 <= age_seconds < 50


def test_signs_come_about_once_a_second_however_often_the_core_looks(folder: Path) -> None:
    beats: list[int] = []
    signs = LifeSigns(folder, Identity.checked("demo", "one"), lambda: beats.append(1))

    for _ in range(100):
        signs.beat(was_welcomed=True, is_draining=False, obstacle=None)

    assert len(beats) <= 2


def test_an_ended_executor_and_one_that_was_killed_do_not_run(folder: Path) -> None:
    signs = LifeSigns(folder, Identity.checked("demo", "one"), lambda: None)
    signs.beat(was_welcomed=True, is_draining=False, obstacle=None)
    [(said, _)] = running(folder.parent)

    (folder / SIGNS_NAME).write_bytes(msgspec.json.encode(msgspec.structs.replace(said, born=1)))
    assert list(running(folder.parent)) == []  # another process has its id by now

    signs.end()
    assert not (folder / SIGNS_NAME).exists()


def test_a_file_that_is_none_of_ours_is_passed_over(folder: Path) -> None:
    (folder / SIGNS_NAME).write_text("no signs")

    assert list(running(folder.parent)) == []
