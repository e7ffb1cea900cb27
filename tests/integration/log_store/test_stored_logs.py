"""Finished logs go into the store, and are read there once their executor is gone."""

import gzip
import shutil
from pathlib import Path

import pytest

from tests.integration.log_store.conftest import Place, Rows
from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from tests.support.s3_server import S3Server
from warren.admin_web.run_logs import LogReader, ReadStatus
from warren.broker.messages import Trigger
from warren.executor.agent import Executor
from warren.scheduler.log_store.store import LogStore, StoredLogs

pytestmark = pytest.mark.parametrize("cluster", ["memory"], indirect=True)


def text_of(trigger: Trigger) -> bytes:
    return f"run {trigger.run_id}\nsays {trigger.param}\n".encode()


def reader(store: LogStore) -> LogReader:
    """Return a reader that asks no executor."""
    return LogReader(None, stored=StoredLogs(lambda: store))


def forget_logs(cluster: Cluster, *executors: Executor) -> None:
    for executor in executors:
        executor.stop()
        executor.join()
    shutil.rmtree(cluster.folder / "logs")


def test_a_log_is_read_in_the_store_when_its_executor_is_gone(
    cluster: Cluster, place: Place, rows: Rows
) -> None:
    cluster.scheduler(log_store=place.store)
    executor = cluster.executor(processes=True, log_folder=place.folder)
    cluster.wait_online()
    cluster.job("talks", handler="prints")

    run_id = cluster.trigger("talks", param="1200")
    cluster.wait_final(run_id)
    rows.wait_stored(run_id)
    forget_logs(cluster, executor)

    source, logs = rows.source(run_id), reader(place.store)
    first, last = logs.read(source, 1, limit=500), logs.read(source, 1, limit=2, at_end=True)
    assert (first.status, first.is_stored, first.is_end) == (ReadStatus.LINES, True, False)
    assert (first.lines[0], first.lines[-1], first.next_line) == ("line 0", "line 499", 501)
    assert (last.from_line, last.lines, last.is_end) == (1199, ("line 1198", "line 1199"), True)
    assert logs.search(source, "line 119", 1).lines == (120, *range(1191, 1201))


def test_zcat_prints_what_is_stored(cluster: Cluster, s3: S3Server, rows: Rows) -> None:
    cluster.scheduler(log_store=s3.store())
    cluster.executor(log_text=text_of)
    cluster.wait_online()
    cluster.job("talks", handler="noop")

    run_id = cluster.trigger("talks", param="hello")
    rows.wait_stored(run_id)

    [(key, packed)] = s3.objects.items()
    row = rows.find(run_id)
    assert row is not None
    assert key == f"a/prefix/{row.key}"
    assert row.key.startswith(f"{APP}/")
    assert (row.size, row.packed) == (len(gzip.decompress(packed)), len(packed))
    assert gzip.decompress(packed) == f"run {run_id}\nsays hello\n".encode()


def test_a_run_that_printed_nothing_stores_nothing(
    cluster: Cluster, s3: S3Server, rows: Rows
) -> None:
    cluster.scheduler(log_store=s3.store())
    cluster.executor(log_text=lambda trigger: trigger.param.encode())
    cluster.wait_online()
    cluster.job("may-talk", handler="noop")

    silent, loud = cluster.trigger("may-talk"), cluster.trigger("may-talk", param="a word")

    rows.wait_stored(loud)
    cluster.wait_final(silent)
    assert rows.find(silent) is None
    assert len(s3.objects) == 1


def test_without_a_store_nothing_is_noted(cluster: Cluster, rows: Rows) -> None:
    cluster.scheduler()
    executor = cluster.executor(log_text=text_of)
    cluster.wait_online()
    cluster.job("talks", handler="noop")

    run_id = cluster.trigger("talks")
    cluster.wait_final(run_id)

    assert rows.find(run_id) is None
    assert not (cluster.folder / "state" / executor.identity.address / "unstored-logs").exists()


def test_a_store_that_was_away_gets_what_was_finished_meanwhile(
    cluster: Cluster, place: Place, rows: Rows
) -> None:
    cluster.scheduler(log_store=place.store)
    executor = cluster.executor(log_folder=place.folder, log_text=text_of)
    cluster.wait_online()
    cluster.job("talks", handler="noop")
    before = cluster.trigger("talks")
    rows.wait_stored(before)

    place.go_away()
    during = [cluster.trigger("talks") for _ in range(5)]
    for run_id in during:
        cluster.wait_final(run_id)
    keeper = executor._core._active_runs.log_keeper  # type: ignore[union-attr]
    assert keeper is not None
    eventually(lambda: keeper.count == len(during) and not keeper.is_storing)
    if place.folder is not None:
        assert list(place.folder.iterdir()) == []
    place.come_back()

    rows.wait_stored(before, *during)
    assert len(place.files()) == 1 + len(during)


def test_the_next_boot_stores_what_its_killed_predecessor_left(
    cluster: Cluster, place: Place, rows: Rows, tmp_path: Path
) -> None:
    cluster.be_quick()
    cluster.scheduler(log_store=place.store)
    executor = cluster.executor(log_folder=place.folder, log_text=text_of)
    cluster.wait_online()
    cluster.job("talks", handler="noop")
    cluster.job("hangs", handler="sleep")
    rows.wait_stored(cluster.trigger("talks"))
    place.go_away()

    finished, running = cluster.trigger("talks"), cluster.trigger("hangs")
    cluster.wait_final(finished)
    cluster.wait_status(running, "RUNNING")
    cluster.kill(executor)
    place.come_back()
    cluster.executor(log_folder=place.folder)

    rows.wait_stored(finished, running)
    assert cluster.wait_final(running).status == "LOST"
    [line, _] = reader(place.store).read(rows.source(running), 1, limit=9).lines
    assert line == f"run {running}"


def test_an_executor_that_stops_stores_its_last_logs_first(
    cluster: Cluster, s3: S3Server, rows: Rows
) -> None:
    cluster.scheduler(log_store=s3.store())
    executor = cluster.executor(log_text=text_of)
    cluster.wait_online()
    cluster.job("talks", handler="noop")
    rows.wait_stored(cluster.trigger("talks"))
    s3.delay_seconds = 0.2

    runs = [cluster.trigger("talks") for _ in range(10)]
    for run_id in runs:
        cluster.wait_final(run_id)
    executor.stop()
    executor.join()

    assert len(s3.objects) == 1 + len(runs)
    rows.wait_stored(*runs)


def test_a_part_of_a_log_of_50_mb_is_read_without_the_rest(
    cluster: Cluster, s3: S3Server, rows: Rows
) -> None:
    line = b"%07d some words that a program prints again and again\n"
    count = 50_000_000 // len(line % 0)
    cluster.scheduler(log_store=s3.store())
    executor = cluster.executor(
        log_text=lambda _trigger: b"".join(line % number for number in range(1, count + 1))
    )
    cluster.wait_online()
    cluster.job("talks", handler="noop")
    run_id = cluster.trigger("talks")
    rows.wait_stored(run_id)
    forget_logs(cluster, executor)
    [packed] = s3.objects.values()
    s3.requests.clear()

    source, logs = rows.source(run_id), reader(s3.store())
    middle = logs.read(source, count // 2, limit=3)
    end = logs.read(source, 1, limit=2, at_end=True)

    assert [each.split()[0] for each in middle.lines] == [
        f"{number:07}" for number in range(count // 2, count // 2 + 3)
    ]
    assert [int(each.split()[0]) for each in end.lines] == [count - 1, count]
    spans = [span.removeprefix("bytes=").split("-") for _, _, span in s3.requests if span]
    read = sum(int(last) - int(first) + 1 for first, last in spans)
    assert read < 4_000_000 < len(packed) * 2
    assert read < len(packed) / 2


def test_a_host_that_is_lost_leaves_what_its_running_runs_wrote_until_then(
    cluster: Cluster, s3: S3Server, rows: Rows
) -> None:
    cluster.be_quick()
    cluster.scheduler(log_store=s3.store())
    executor = cluster.executor(log_text=text_of)
    cluster.wait_online()
    cluster.job("hangs", handler="sleep")
    run_id = cluster.trigger("hangs")
    eventually(lambda: (row := rows.find(run_id)) is not None and row.parts)

    cluster.kill(executor)
    shutil.rmtree(cluster.folder / "logs")
    shutil.rmtree(cluster.folder / "state")

    assert cluster.wait_final(run_id).status == "LOST"
    part = reader(s3.store()).read(rows.source(run_id), 1, limit=9)
    assert (part.lines[0], part.is_stored) == (f"run {run_id}", True)


def test_parts_are_deleted_once_the_whole_log_is_stored(
    cluster: Cluster, s3: S3Server, rows: Rows
) -> None:
    cluster.scheduler(log_store=s3.store())
    cluster.executor(log_text=text_of)
    cluster.wait_online()
    cluster.job("waits", handler="until-file")
    end = cluster.folder / "end"
    run_id = cluster.trigger("waits", param=str(end))
    eventually(lambda: (row := rows.find(run_id)) is not None and row.parts)

    end.touch()

    rows.wait_stored(run_id)
    eventually(lambda: len(s3.objects) == 1)
    eventually(lambda: (row := rows.find(run_id)) is not None and row.parts == 0)
