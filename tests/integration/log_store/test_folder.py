"""Finished logs go into a shared folder, and are read there once their executor is gone."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from warren.admin_web.run_logs import LogReader, ReadStatus, Source, log_source
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoredLogs
from warren.sql.listings import recent
from warren.sql.runs import stored_logs
from warren.sql.runs.stored_logs import LogRow, LogState

pytestmark = pytest.mark.parametrize("cluster", ["memory"], indirect=True)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def source(cluster: Cluster) -> Callable[[int], Source]:
    def read(run_id: int) -> Source:
        return cluster.database.read(
            lambda session: log_source(session, recent.run(session, run_id), with_store=True)
        )

    return read


def row(cluster: Cluster, run_id: int) -> LogRow | None:
    return cluster.database.read(lambda session: stored_logs.by_runs(session, [run_id])).get(run_id)


def is_stored(cluster: Cluster, run_id: int) -> bool:
    found = row(cluster, run_id)
    return found is not None and found.state == LogState.STORED


def test_a_finished_log_is_read_from_the_folder_when_its_executor_is_gone(
    cluster: Cluster, store: FolderStore, source: Callable[[int], Source]
) -> None:
    cluster.scheduler(log_store=store)
    executor = cluster.executor(processes=True, log_folder=store.folder)
    cluster.wait_online()
    cluster.job("talks", handler="prints")

    run_id = cluster.trigger("talks", param="1200")
    cluster.wait_final(run_id)
    eventually(lambda: is_stored(cluster, run_id))
    executor.stop()
    executor.join()
    shutil.rmtree(cluster.folder / "logs")

    reader = LogReader(None, stored=StoredLogs(lambda: store))
    place = source(run_id)
    first = reader.read(place, 1, limit=500)
    last = reader.read(place, 1, limit=2, at_end=True)
    assert (first.status, first.is_stored, first.is_end) == (ReadStatus.LINES, True, False)
    assert (first.lines[0], first.lines[-1], first.next_line) == ("line 0", "line 499", 501)
    assert (last.from_line, last.lines, last.is_end) == (1199, ("line 1198", "line 1199"), True)
    found = reader.search(place, "line 119", 1)
    assert found.lines == (120, *range(1191, 1201))
    found_row = row(cluster, run_id)
    assert found_row is not None
    assert found_row.key.startswith(f"{APP}/")
    text = gzip.decompress((store.folder / found_row.key).read_bytes())
    assert text.decode().splitlines() == [f"line {number}" for number in range(1200)]


def test_a_run_that_printed_nothing_stores_nothing(cluster: Cluster, store: FolderStore) -> None:
    cluster.scheduler(log_store=store)
    cluster.executor(processes=True, log_folder=store.folder)
    cluster.wait_online()
    cluster.job("silent", handler="noop")
    cluster.job("talks", handler="prints")

    silent, loud = cluster.trigger("silent"), cluster.trigger("talks", param="1")

    eventually(lambda: is_stored(cluster, loud))
    cluster.wait_final(silent)
    assert row(cluster, silent) is None


def test_without_a_store_nothing_is_noted(cluster: Cluster) -> None:
    cluster.scheduler()
    executor = cluster.executor(processes=True)
    cluster.wait_online()
    cluster.job("talks", handler="prints")

    run_id = cluster.trigger("talks", param="1")
    cluster.wait_final(run_id)

    assert row(cluster, run_id) is None
    assert not (cluster.folder / "state" / executor.identity.address / "unstored-logs").exists()
