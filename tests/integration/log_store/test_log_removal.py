"""A stored log goes with its run."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integration.log_store.conftest import Place, Rows
from tests.support.cluster import Cluster
from tests.support.s3_server import S3Server
from warren.broker.messages import LOG_PARTS_LIMIT
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoredLogs, StoreUnavailable
from warren.scheduler.retention.clearing import CalendarDays, Clearing, ClearingCriteria, clear_all
from warren.scheduler.retention.log_removal import AGAIN_MS, GRACE_MS, LogRemoval
from warren.sql.runs import stored_logs

pytestmark = pytest.mark.parametrize("cluster", ["memory"], indirect=True)


def stored(cluster: Cluster, place: Place, rows: Rows, count: int) -> list[int]:
    """Store the logs of some runs, and delete the runs."""
    scheduler = cluster.scheduler(log_store=place.store)
    cluster.executor(log_folder=place.folder, log_text=lambda _trigger: b"a line\n")
    cluster.wait_online()
    cluster.job("talks", handler="noop")
    run_ids = [cluster.trigger("talks") for _ in range(count)]
    rows.wait_stored(*run_ids)
    for run_id in run_ids:
        cluster.wait_final(run_id)
    scheduler.stop()
    cluster.schedulers.remove(scheduler)
    return run_ids


def clear(cluster: Cluster) -> None:
    now_ms = cluster.now_ms()
    clearing = Clearing(
        cluster.database,
        ClearingCriteria(),
        by="test",
        days=CalendarDays("UTC"),
        now_ms=now_ms,
    )
    assert clear_all(clearing, now_ms)


def removal(cluster: Cluster, place: Place, node: str = "a") -> LogRemoval:
    return LogRemoval(node=node, database=cluster.database, store=place.store)


def test_logs_are_deleted_after_their_runs(cluster: Cluster, place: Place, rows: Rows) -> None:
    run_ids = stored(cluster, place, rows, 3)
    role, later_ms = removal(cluster, place), cluster.now_ms() + GRACE_MS + 1_000

    role.run_round(later_ms)
    assert len(place.files()) == 3  # their runs are there
    clear(cluster)
    role.run_round(cluster.now_ms())
    assert len(place.files()) == 3  # an executor might still store something
    role.run_round(later_ms)

    assert place.files() == []
    assert [rows.find(run_id) for run_id in run_ids] == [None] * 3


def test_while_the_store_is_away_nothing_is_forgotten(
    cluster: Cluster, place: Place, rows: Rows
) -> None:
    [run_id] = stored(cluster, place, rows, 1)
    clear(cluster)
    role, later_ms = removal(cluster, place), cluster.now_ms() + GRACE_MS + 1_000
    place.store.prepare()
    role.run_round(cluster.now_ms())

    place.go_away()
    with pytest.raises(StoreUnavailable):
        role.run_round(later_ms)
    place.come_back()
    assert rows.find(run_id) is not None
    role.run_round(later_ms)

    assert place.files() == []
    assert rows.find(run_id) is None


def test_what_cannot_be_deleted_is_tried_again_and_holds_up_no_other(
    cluster: Cluster, s3: S3Server, rows: Rows
) -> None:
    place = Place(s3.store(), None, s3.stop, s3.start, lambda: sorted(s3.objects))
    kept, gone = stored(cluster, place, rows, 2)
    clear(cluster)
    s3.refuse = lambda _method, key: (403, "AccessDenied") if f"/{kept}-" in key else None
    role, later_ms = removal(cluster, place), cluster.now_ms() + GRACE_MS + 1_000

    role.run_round(later_ms)
    assert (rows.find(gone), rows.find(kept) is not None) == (None, True)
    s3.refuse = lambda _method, _key: None
    role.run_round(later_ms + AGAIN_MS // 2)
    assert len(place.files()) == 1
    role.run_round(later_ms + AGAIN_MS)

    assert place.files() == []


def test_a_log_that_goes_while_it_is_read_is_gone_and_the_store_is_not_away(
    cluster: Cluster, place: Place, rows: Rows
) -> None:
    [run_id] = stored(cluster, place, rows, 1)
    row = rows.find(run_id)
    assert row is not None
    log = StoredLogs(lambda: place.store).open(row.key)
    assert log is not None
    assert log.read(1, 1).text == "a line"

    place.store.delete([row.key])

    assert place.store.fetch(row.key, 0, 5) == b""


class ManyKeys(FolderStore):
    """Counts the keys that it is given at once."""

    most = 0

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        self.most = max(self.most, len(keys))
        return {}


def test_logs_that_are_said_to_have_very_many_parts_fill_no_memory(
    cluster: Cluster, tmp_path: Path
) -> None:
    store, now_ms = ManyKeys(tmp_path / "store"), cluster.now_ms()
    logs = {run_id: (1, f"demo/2026-01-01/{run_id}.log.gz") for run_id in range(1, 9)}
    parts = [{"run_id": run_id, "parts": LOG_PARTS_LIMIT} for run_id in logs]
    cluster.database.write(lambda session: stored_logs.offer(session, logs, 1))
    cluster.database.write(lambda session: stored_logs.note(session, parts))
    role = LogRemoval(node="a", database=cluster.database, store=store)
    role.drop_parts(list(cluster.database.read(lambda s: stored_logs.by_runs(s, logs)).values()))
    cluster.database.write(lambda session: stored_logs.give_up(session, logs, 1))

    while cluster.database.read(lambda session: stored_logs.by_runs(session, logs)):
        role.run_round(now_ms)

    assert LOG_PARTS_LIMIT <= store.most < 2 * LOG_PARTS_LIMIT


def test_one_scheduler_at_a_time_deletes(cluster: Cluster, s3: S3Server) -> None:
    place = Place(s3.store(), None, s3.stop, s3.start, lambda: sorted(s3.objects))
    now_ms = cluster.now_ms()
    first, second = removal(cluster, place, "a"), removal(cluster, place, "b")

    first.run_round(now_ms)
    assert not second._lease.take(now_ms)
    first.leave()

    assert second._lease.take(now_ms)
