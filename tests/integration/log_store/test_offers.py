"""A log is offered a place while its run is being deleted."""

import threading
from collections.abc import Iterator, Mapping

import pytest
from sqlalchemy.orm import Session

from tests.support.eventually import eventually
from tests.support.server_words import waits_for_a_lock
from tests.support.sql_rows import NOW_MS, planned_in, put, run
from warren.broker.messages import LogToStore, StoreLogs
from warren.scheduler.completion import log_places
from warren.scheduler.completion.end import identity_of
from warren.sql.engine import Database
from warren.sql.run_status import RunStatus
from warren.sql.runs import purges, stored_logs


@pytest.fixture
def database(mariadb_schema_url: str) -> Iterator[Database]:
    database = Database(mariadb_schema_url)
    yield database
    database.close()


def test_it_is_deleted_with_its_run(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    [run_id] = planned_in(database, RunStatus.SUCCEEDED)
    put(database, [run_id], address="one", boot_id="boot", routed_by="a", routed_at=NOW_MS)
    seen = run(database, run_id)
    log = LogToStore(run_id=run_id, identity=identity_of(seen), packed=100)  # type: ignore[arg-type]
    question = StoreLogs(app="demo", address="one", boot_id="boot", logs=(log,))

    def delete(session: Session) -> None:
        purges.clear(session, [run_id], by="me", now_ms=NOW_MS, day_of=lambda at: at.date())

    deleting = threading.Thread(target=lambda: database.write(delete))
    offer = stored_logs.offer

    def offer_later(session: Session, keys: Mapping[int, tuple[int, str]], now_ms: int) -> None:
        deleting.start()
        eventually(
            lambda: (
                not deleting.is_alive()
                or database.read(lambda other: waits_for_a_lock(other, database))
            )
        )
        offer(session, keys, now_ms)

    monkeypatch.setattr(stored_logs, "offer", offer_later)

    offered = database.write(
        lambda session: log_places._offer(session, question, seen.app_id, NOW_MS)
    )
    deleting.join()

    assert offered[run_id] is not None
    row = database.read(lambda session: stored_logs.by_runs(session, [run_id]))[run_id]
    assert row.delete_at == NOW_MS
