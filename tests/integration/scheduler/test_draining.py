"""Draining from afar: a mark in the registry, carried to the boot, kept from the routes."""

from pathlib import Path

import pytest
from sqlalchemy import select

from tests.support.acting import NamedCommands
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from warren.scheduler.problems import Problem
from warren.sql.errors import Ambiguous, NotFound
from warren.sql.models import AuditEntry
from warren.sql.registry import apps, presence
from warren.sql.registry.presence import Beat
from warren.sql.run_status import RunStatus

BOOT_MS = 1_800_000_000_000


def fleet(cluster: Cluster, **limits: object) -> NamedCommands:
    return NamedCommands(cluster.database, cluster.now_ms, who="tester", **limits)


def register(cluster: Cluster, address: str, app: str = APP, boot: str = "b1") -> None:
    beat = Beat(kind=presence.EXECUTOR, app=app, address=address, boot_id=boot, beat_at=BOOT_MS)

    def unit(session: object) -> None:
        apps.ensure(session, app)
        presence.hold(session, beat)

    cluster.database.write(unit)


def asked(cluster: Cluster) -> list[str]:
    return [boot.address for boot in cluster.database.read(presence.requested)]


def test_what_waits_is_run_elsewhere_and_what_runs_is_finished(
    cluster: Cluster, tmp_path: Path
) -> None:
    release = tmp_path / "release"
    cluster.scheduler()
    leaving = cluster.executor("a-leaving")
    cluster.wait_online("a-leaving")
    cluster.job("work", handler="until-file", param=str(release))
    at_work = cluster.trigger("work")
    cluster.wait_status(at_work, RunStatus.RUNNING)
    waiting = cluster.trigger("work")
    cluster.wait_status(waiting, RunStatus.SENT)
    cluster.executor("b-staying")
    cluster.wait_online("b-staying")

    assert fleet(cluster).drain("a-leaving")

    cluster.wait_status(waiting, RunStatus.UNDELIVERED)
    assert cluster.run(at_work).status == RunStatus.RUNNING
    release.touch()
    assert cluster.wait_final(at_work).status == RunStatus.SUCCEEDED
    again = eventually(lambda: cluster.runs(origin_id=waiting, attempt=1))[0]
    moved = cluster.wait_final(again.id)
    assert (moved.address, moved.starts) == ("b-staying", 0)
    assert [one["attempt"] for one in cluster.starts() if one["run"] == again.id] == [0]
    assert leaving.join(60)
    assert (leaving.was_drained, leaving.exit_status) == (True, 0)
    eventually(lambda: asked(cluster) == [])


@on_memory
def test_next_boot_at_the_address_takes_runs_again(cluster: Cluster) -> None:
    cluster.scheduler()
    first = cluster.executor("one")
    cluster.wait_online("one")
    fleet(cluster).drain("one")
    assert first.join(60)
    eventually(lambda: not cluster.is_online("one"))

    cluster.executor("one")
    cluster.wait_online("one")
    cluster.job("work", handler="noop")

    assert cluster.wait_final(cluster.trigger("work")).status == RunStatus.SUCCEEDED


@on_memory
class TestTheMark:
    def test_second_wish_changes_nothing_and_leaves_no_entry(self, cluster: Cluster) -> None:
        register(cluster, "one")

        assert fleet(cluster).drain("one")
        assert not fleet(cluster).drain(f"{APP}/one")

        entries = cluster.database.read(
            lambda session: session.execute(select(AuditEntry)).scalars().all()
        )
        assert [(entry.who, entry.action, entry.name) for entry in entries] == [
            ("tester", "executor.drain", "one")
        ]

    def test_unknown_address_is_told(self, cluster: Cluster) -> None:
        with pytest.raises(NotFound, match="NO_EXECUTOR_AT address='one'"):
            fleet(cluster).drain("one")

    def test_address_of_two_apps_must_be_named_with_its_app(self, cluster: Cluster) -> None:
        register(cluster, "one", "first-app")
        register(cluster, "one", "second-app")

        with pytest.raises(Ambiguous, match="first-app/one, second-app/one"):
            fleet(cluster).drain("one")

        assert fleet(cluster).drain("second-app/one")

    def test_executor_of_a_foreign_app_does_not_exist(self, cluster: Cluster) -> None:
        register(cluster, "one")

        with pytest.raises(Problem, match="no executor with id"):
            fleet(cluster, app_ids=frozenset({4711})).drain("one")

        assert asked(cluster) == []

    def test_new_boot_at_the_address_is_not_meant(self, cluster: Cluster) -> None:
        register(cluster, "one")
        fleet(cluster).drain("one")
        beat = Beat(kind=presence.EXECUTOR, app=APP, address="one", boot_id="b2", beat_at=BOOT_MS)

        cluster.database.write(lambda s: presence.supersede(s, beat, old_boot_id="b1"))

        assert asked(cluster) == []

    def test_heartbeat_that_knows_nothing_yet_does_not_take_it_back(self, cluster: Cluster) -> None:
        register(cluster, "one")
        fleet(cluster).drain("one")
        beat = Beat(
            kind=presence.EXECUTOR, app=APP, address="one", boot_id="b1", beat_at=BOOT_MS + 1
        )

        cluster.database.write(lambda session: presence.renew(session, beat))

        assert asked(cluster) == ["one"]
