"""Log stores, and what the tests of them ask of a cluster."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.s3_server import S3Server
from warren.admin_web.run_logs import Source, log_source
from warren.broker.log_folder import MARK
from warren.scheduler.log_store.folder_store import FolderStore
from warren.scheduler.log_store.store import LogStore
from warren.sql.listings import recent
from warren.sql.runs import stored_logs
from warren.sql.runs.stored_logs import LogRow, LogState


@pytest.fixture
def s3() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@dataclass
class Place:
    """A store, and how to take it away and bring it back."""

    store: LogStore
    folder: Path | None
    go_away: Callable[[], object]
    come_back: Callable[[], object]
    files: Callable[[], list[str]]


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return Place(
            server.store(), None, server.stop, server.start, lambda: sorted(server.objects)
        )
    folder, away = tmp_path / "store", tmp_path / "away"

    def go_away() -> None:
        """Leave an empty folder, as a file system does that is not mounted any more."""
        folder.rename(away)
        folder.mkdir()

    def come_back() -> None:
        folder.rmdir()
        away.rename(folder)

    def files() -> list[str]:
        return sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file() and path.name != MARK
        )

    return Place(FolderStore(folder), folder, go_away, come_back, files)


@dataclass
class Rows:
    """What the database knows of stored logs."""

    cluster: Cluster

    def find(self, run_id: int) -> LogRow | None:
        return self.cluster.database.read(
            lambda session: stored_logs.by_runs(session, [run_id])
        ).get(run_id)

    def are_stored(self, *run_ids: int) -> bool:
        known = self.cluster.database.read(lambda session: stored_logs.by_runs(session, run_ids))
        states = {run_id: row.state for run_id, row in known.items()}
        return states == dict.fromkeys(run_ids, LogState.STORED)

    def wait_stored(self, *run_ids: int) -> None:
        eventually(lambda: self.are_stored(*run_ids))

    def source(self, run_id: int) -> Source:
        return self.cluster.database.read(
            lambda session: log_source(session, recent.run(session, run_id), with_store=True)
        )


@pytest.fixture
def rows(cluster: Cluster) -> Rows:
    return Rows(cluster)
