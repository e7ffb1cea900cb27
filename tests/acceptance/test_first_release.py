"""0.1.0 itself beside today's code, and an upgrade from it under load: executors of both versions.

The code of 0.1.0 comes from the repository's history, so a shallow clone does not have it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.support import first_release
from tests.support.deployment import Deployment
from tests.support.loaded_deployment import LoadedDeployment

pytestmark = [pytest.mark.release, pytest.mark.timeout(1_200)]  # it waits for load

#: So many finished runs are there from before; live runs have ids beyond theirs.
SEEDED, SEEDED_AT_ONCE = 20_000, 500


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return first_release.extract(tmp_path_factory.mktemp("first") / "code", must=True)


class Upgrade(LoadedDeployment):
    """A cluster of 0.1.0 that becomes one of today."""

    def __init__(self, deployment: Deployment, code: Path) -> None:
        super().__init__(deployment, since_id=SEEDED)
        self.code = code

    @contextmanager
    def first(self) -> Iterator[None]:
        """Run commands of 0.1.0 in between."""
        self.deployment.code = self.code
        yield
        self.deployment.code = None

    def make_schema(self) -> None:
        """Make the tables of 0.1.0, with room for the runs that are seeded."""
        self.deployment.warren("db", "upgrade")
        self._write(f"UPDATE warren_sequence SET next_id = {SEEDED + 1} WHERE name = 'run'")

    def seed(self) -> None:
        """Copy runs that have ended, under other ids, until there are many."""
        plain = "'plain', 'round', 'limited', 'failing', 'overlong', 'scripted'"
        names = f"SELECT id FROM xxl_job_info WHERE job_desc IN ({plain})"
        ended = "status IN ('SUCCEEDED', 'FAILED', 'TIMED_OUT')"
        patterns = self._read(f"SELECT * FROM xxl_job_log WHERE {ended} AND job_id IN ({names})")
        columns = list(patterns[0])
        given = ", ".join(f":{name}" for name in columns)
        statement = f"INSERT INTO xxl_job_log ({', '.join(columns)}) VALUES ({given})"
        copies = zip(range(1, SEEDED + 1), cycle(patterns), strict=False)
        rows = [row | {"id": n, "origin_id": n, "kind": "MANUAL"} for n, row in copies]
        for first in range(0, SEEDED, SEEDED_AT_ONCE):
            self._write(statement, rows[first : first + SEEDED_AT_ONCE])

    def seeded(self) -> list[dict[str, Any]]:
        """Return the seeded runs."""
        return self._read(f"SELECT * FROM xxl_job_log WHERE id <= {SEEDED} ORDER BY id")

    def refused(self) -> str:
        """Return why a scheduler does not start."""
        command = self.deployment.scheduler()
        assert command.wait() == 1
        return command.text()

    def _read(self, statement: str) -> list[dict[str, Any]]:
        return [dict(row._mapping) for row in self.rows(statement)]

    def _write(self, statement: str, rows: list[dict[str, Any]] | None = None) -> None:
        def unit(session: Session) -> None:
            session.execute(text(statement), rows or {})

        self.deployment.database.write(unit)


@pytest.fixture
def upgrade(code: Path, mariadb_url: str, vhost: str, tmp_path: Path) -> Iterator[Upgrade]:
    given: dict[str, Any] = {"database_url": mariadb_url, "broker_url": vhost}
    with Deployment(tmp_path, **given, has_schema=False) as deployment:
        yield Upgrade(deployment, code)


def test_a_cluster_of_0_1_0_is_upgraded_under_load_with_executors_behind_and_ahead(
    upgrade: Upgrade,
) -> None:
    """In the order that docs/operations.md gives, with executors and a gateway of both versions."""
    deployment = upgrade.deployment
    with upgrade.first():
        upgrade.make_schema()
        schedulers = upgrade.schedulers()
        upgrade.apply_jobs()
        behind, gateway = upgrade.executor("behind"), upgrade.gateway()
    assert "got: 0001; run: warren db upgrade" in upgrade.refused()
    ahead = upgrade.executor("ahead")
    deployment.await_executors(behind, ahead)

    with upgrade.remote_executor() as remote:
        upgrade.await_work("behind", "ahead", remote)

        upgrade.seed()
        before = upgrade.seeded()

        # An executor that is ahead is killed at work, goes back to 0.1.0, and forth again.
        upgrade.kill(ahead, "ahead")
        with upgrade.first():
            ahead = upgrade.executor("ahead")
        deployment.await_executors(ahead)
        upgrade.await_work("ahead")
        upgrade.end(ahead)
        ahead = upgrade.executor("ahead")
        upgrade.await_work("behind", "ahead", remote)

        # Schedulers go first, then the gateway and the executor, which is killed at work.
        upgrade.end(*schedulers)
        deployment.warren("db", "upgrade")
        after = upgrade.seeded()
        upgrade.schedulers()
        with upgrade.first():
            assert "expected schema version 0001, got: 000" in upgrade.refused()
        upgrade.await_work("behind", "ahead", remote)
        upgrade.end(gateway)
        upgrade.gateway()
        upgrade.await_work(remote)
        upgrade.kill(behind, "behind")
        behind = upgrade.executor("behind")
        deployment.await_executors(behind)
        upgrade.await_work("behind", "ahead", remote)
        upgrade.assert_sound()
    assert len(before) == SEEDED
    assert [{name: row[name] for name in before[0]} for row in after] == before
