"""A backfill of many dates while a scheduler dies: each date runs once, never too many at once."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import func, select

from tests.support.acting import acting
from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from warren.scheduler.backfills.draft import BackfillRequest
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.models import Backfill, Run
from warren.sql.models.job_tables import BackfillState
from warren.sql.run_status import OPEN, RunStatus

DATES, AT_ONCE, DEATH = 300, 7, 90

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)


def test_each_of_300_dates_runs_once_while_one_of_two_schedulers_dies(cluster: Cluster) -> None:
    cluster.be_quick()
    first, _ = cluster.scheduler(), cluster.scheduler()
    cluster.executor()
    cluster.wait_online()
    cluster.apply(JobSpec(name="load", app=APP, handler="noop", concurrency=8))
    mortal = cluster.mortals[id(first)]

    def planned() -> int:
        count = select(func.count()).where(Run.status != RunStatus.PLANNED)
        return int(cluster.database.read(lambda session: session.scalar(count)) or 0)

    def die() -> None:
        if planned() >= DEATH:
            mortal.die()

    mortal.before_commit = die
    last = datetime.fromtimestamp(cluster.now_ms() / 1_000, UTC).date()
    begin = last - timedelta(days=DATES - 1)
    commands = acting(cluster.database, cluster.now_ms)
    made = commands.backfills.make(
        cluster.jobs(name="load")[0].id,
        BackfillRequest(from_date=begin, to_date=last, dates=True, at_once=AT_ONCE),
    )

    most = 0

    def is_done() -> bool:
        nonlocal most
        is_open = select(func.count()).where(Run.status.in_(OPEN))
        most = max(most, cluster.database.read(lambda session: session.scalar(is_open)) or 0)
        return bool(cluster.database.read(lambda s: s.get_one(Backfill, made.id)).state == "DONE")

    eventually(lambda: mortal.is_dead)
    cluster.crash(first)
    eventually(is_done, 120)

    days = Counter(run.run_date for run in cluster.runs(attempt=0))
    assert days == Counter(date.fromordinal(begin.toordinal() + number) for number in range(DATES))
    assert 0 < most <= AT_ONCE
    backfill = cluster.database.read(lambda session: session.get_one(Backfill, made.id))
    assert (backfill.state, backfill.succeeded) == (BackfillState.DONE, DATES)
    assert_sound(cluster)
