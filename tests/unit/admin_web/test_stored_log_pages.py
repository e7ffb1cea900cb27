"""Pages say where a log is, and show it from the log store once no executor has it."""

import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.support.console import METRICS_TOKEN, Clock, Visit, make_app, signed_in
from tests.support.stored_rows import LOG_KEY, Rows
from warren.broker.log_blocks import pack
from warren.broker.log_folder import MARK, write_log
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import StoredLogs
from warren.sql.engine import Database


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "store")
    store.prepare()
    return store


@pytest.fixture
def app(database: Database, clock: Clock, store: FolderStore) -> Flask:
    return make_app(database, clock, stored_logs=StoredLogs(lambda: store))


@pytest.fixture
def run_id(rows: Rows, clock: Clock) -> int:
    facts = {"address": "gone-1", "boot_id": "b00t", "started_at": clock.now - 5_000}
    ended = {"status": "FAILED", "finished_at": clock.now, "log_tail": "the end\n"}
    return rows.run(rows.job("talker"), clock.now - 5_000, **facts | ended)


@pytest.fixture
def its_executor(rows: Rows, clock: Clock) -> None:
    """Have the executor of the run online."""
    rows.executor("gone-1", clock.now, "{}")


def put(store: FolderStore, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "log").write_bytes(text)

    def write(file: Any) -> None:
        with (tmp_path / "log").open("rb") as log:
            pack(log, file.write, size=len(text))

    write_log(store.folder, "reports", LOG_KEY, write)


def test_the_page_of_a_log_shows_it_from_the_store(
    admin: Visit, rows: Rows, run_id: int, store: FolderStore, tmp_path: Path
) -> None:
    put(store, tmp_path, b"first <line>\nsecond line\n")
    rows.stored_log(run_id)

    page = admin.get(f"/runs/{run_id}/log").text

    assert "first &lt;line&gt;" in page
    assert "data-log-notice" not in page
    lines = admin.get(f"/runs/{run_id}/log/lines?from=2").json
    found = admin.get(f"/runs/{run_id}/log/search?q=SECOND").json
    assert lines is not None
    assert found is not None
    assert (lines["answer"], lines["lines"], lines["is_end"]) == ("LINES", ["second line"], True)
    assert found["lines"] == [2]
    download = admin.get(f"/runs/{run_id}/log/download")
    assert download.text == "first <line>\nsecond line\n"


def test_the_page_of_a_log_says_that_the_store_is_away(
    admin: Visit, rows: Rows, run_id: int, store: FolderStore
) -> None:
    rows.stored_log(run_id)
    (store.folder / MARK).unlink()

    page = admin.get(f"/runs/{run_id}/log").text
    lines = admin.get(f"/runs/{run_id}/log/lines").json
    download = admin.get(f"/runs/{run_id}/log/download")

    assert "The executor is gone and the log store does not answer." in page
    assert "the end" in page
    assert lines is not None
    assert lines["answer"] == "STORE_AWAY"
    assert "its executor is gone, and the log store does not answer]\nthe end" in download.text


def test_a_log_that_the_store_has_lost_stays_so_for_the_script_of_its_page(
    admin: Visit, rows: Rows, run_id: int
) -> None:
    rows.stored_log(run_id)

    page = admin.get(f"/runs/{run_id}/log").text
    lines = admin.get(f"/runs/{run_id}/log/lines").json

    assert "The log store has lost or damaged this log." in page
    assert lines is not None
    assert lines["answer"] == "STORE_LOST"


@pytest.mark.usefixtures("its_executor")
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"state": "STORED"}, ["It is in the log store."]),
        ({"state": "OFFERED"}, ["Only its executor has it so far."]),
        ({"state": "DROPPED", "fault": "too <many>"}, ["It was not stored:", "too &lt;many&gt;"]),
        (None, ["Only its executor has it so far."]),
    ],
)
def test_the_page_of_a_run_says_where_its_log_is(
    admin: Visit,
    rows: Rows,
    run_id: int,
    facts: dict[str, Any] | None,
    words: list[str],
) -> None:
    if facts is not None:
        rows.stored_log(run_id, **facts)

    page = admin.get(f"/runs/{run_id}").text

    assert [word for word in words if word not in page] == []


@pytest.mark.parametrize("is_known", [True, False], ids=["silent", "stopped"])
def test_the_page_of_a_run_says_that_the_executor_that_has_its_log_is_offline(
    admin: Visit, rows: Rows, clock: Clock, run_id: int, is_known: bool
) -> None:
    if is_known:
        rows.executor("gone-1", clock.now, "{}")
        clock.pass_seconds(60)

    page = admin.get(f"/runs/{run_id}").text

    assert "Only its executor has it, and that is offline." in page


def test_without_a_store_the_page_of_a_run_says_nothing_of_one(
    database: Database, clock: Clock, run_id: int
) -> None:
    admin = signed_in(make_app(database, clock), "admin")

    assert "log store" not in admin.get(f"/runs/{run_id}").text
    assert "Only its executor" not in admin.get(f"/runs/{run_id}").text


def test_an_executor_whose_logs_wait_says_so_on_its_page_and_in_metrics(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    load = {"ailments": ["LOG_STORE"], "unstored_logs": 12, "log_fault": "it is <full>"}
    executor_id = rows.executor("exec-1", clock.now, json.dumps(load))

    page = admin.get(f"/executors/{executor_id}").text
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    figures = admin.client.get("/metrics", headers=headers).text

    assert "Finished logs waiting to be stored: 12" in page
    assert "it is &lt;full&gt;" in page
    assert "its finished logs do not reach the log store" in page
    assert "warren_unstored_logs 12.0" in figures
    assert 'warren_executors_ailing{ailment="log_store"} 1.0' in figures


def test_the_page_of_an_offline_executor_says_how_many_logs_waited_there(
    admin: Visit, rows: Rows, clock: Clock
) -> None:
    load = {"unstored_logs": 12, "log_fault": "it is full"}
    executor_id = rows.executor("exec-1", clock.now, json.dumps(load))
    clock.pass_seconds(60)

    page = admin.get(f"/executors/{executor_id}").text

    assert "Finished logs that waited to be stored when it was last heard: 12" in page
    assert "it is full" in page
