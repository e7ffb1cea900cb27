"""How far runs are: from their handlers to their rows."""

from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.sql_rows import planned_in, put
from warren.resources.runs import Progress
from warren.scheduler.views.run_view import run_of
from warren.sql.engine import Database
from warren.sql.listings import recent
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions
from warren.sql.runs.transitions import SentTo

WHO = SentTo(1, "one", "boot")


def stored(database: Database, run_id: int) -> str | None:
    return database.read(lambda session: session.get_one(Run, run_id).progress)


def test_a_running_run_says_how_far_it_is(cluster: Cluster, tmp_path: Path) -> None:
    release = tmp_path / "release"
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    cluster.job("count", handler="counts-until-file", param=str(release))
    run_id = cluster.trigger("count")

    eventually(lambda: stored(cluster.database, run_id), 60)
    release.touch()

    assert cluster.wait_final(run_id).status == RunStatus.SUCCEEDED
    row = cluster.database.read(lambda session: recent.run(session, run_id))
    assert run_of(row).progress == Progress(done=3.0, total=10.0, text="loading")


@pytest.mark.parametrize(
    ("columns", "is_stored"),
    [
        ({}, True),
        ({"status": RunStatus.SENT}, False),
        ({"status": RunStatus.FAILED}, False),
        ({"boot_id": "another"}, False),
        ({"address": "two"}, False),
        ({"app_id": 2}, False),
    ],
)
def test_only_the_executor_of_a_running_run_says_how_far_it_is(
    cluster: Cluster, columns: dict[str, object], is_stored: bool
) -> None:
    [run_id] = planned_in(cluster.database, RunStatus.RUNNING)
    route = {"app_id": 1, "address": "one", "boot_id": "boot"}
    put(cluster.database, [run_id], **(route | columns))

    cluster.database.write(lambda session: transitions.note_progress(session, WHO, {run_id: "{}"}))

    assert stored(cluster.database, run_id) == ("{}" if is_stored else None)
