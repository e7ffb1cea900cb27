"""The broker or the database goes away and comes back in the middle of 300 runs.

All tests here have one deployment, on the servers that `own_rabbitmq` and `own_mariadb` lend.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import ENOUGH_MEMORY, NO_MEMORY, PrivateRabbit
from warren.sql.models import Uptime
from warren.sql.run_status import LATE_MS, RunStatus

RUNS = 300
JOBS = 10
#: From the service's return to the last run's end, on a busy machine.
DRAINED_SECONDS = 60
#: How long the broker is away where ticks misfire for it, and how soon all schedulers have noticed
#: its silence on a busy machine: two seconds on a quiet one. They send again what they sent before.
AWAY_MS = 20_000
SILENCE_NOTICED_MS = 5_000


class Fragile:
    """A deployment on a broker and a database of its own."""

    def __init__(
        self, deployment: Deployment, broker: PrivateRabbit, database: PrivateMariaDB
    ) -> None:
        self.deployment = deployment
        self.broker = broker
        self.database = database
        for number in range(JOBS):
            deployment.job(
                f"load-{number}", handler="brief", param="0.05", route="ROUND", concurrency=4
            )

    def plan_runs(self) -> list[int]:
        """Plan runs that take all slots some seconds, and let them all go at once."""
        deployment = self.deployment
        deployment.commands.pause()
        run_ids = [deployment.trigger(f"load-{number % JOBS}") for number in range(RUNS)]
        deployment.commands.resume()
        return run_ids

    def started(self, run_ids: list[int]) -> int:
        """Return how many of these runs have started."""
        return len({start["run"] for start in self.deployment.starts()} & set(run_ids))

    def last_statuses(self, run_ids: list[int]) -> Counter:
        """Return how the last attempts of these runs ended."""
        last = {run.origin_id: run.status for run in self.deployment.runs()}
        return Counter(last[run_id] for run_id in run_ids)


@pytest.fixture(scope="module")
def _fragile(
    _broken_rabbitmq: PrivateRabbit,
    _broken_mariadb: PrivateMariaDB,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Fragile]:
    broker, database = _broken_rabbitmq, _broken_mariadb
    try:
        with Deployment(
            tmp_path_factory.mktemp("fragile"),
            database_url=database.create_database(),
            broker_url=broker.url,
        ) as deployment:
            schedulers = [deployment.scheduler(), deployment.scheduler()]
            executors = [deployment.executor("one"), deployment.executor("two")]
            deployment.await_schedulers(*schedulers)
            deployment.await_executors(*executors)
            broker.settle()
            yield Fragile(deployment, broker, database)
    finally:
        broker.heal()
        database.heal()


@pytest.fixture
def fragile(_fragile: Fragile) -> Iterator[Fragile]:
    yield _fragile
    _fragile.deployment.assert_sound()


@pytest.mark.parametrize(
    ("service", "how"),
    [
        pytest.param("broker", "stop", id="f14-broker-restarted"),
        pytest.param("broker", "kill", id="f15-broker-killed", marks=pytest.mark.release),
        pytest.param("database", "stop", id="f25-database-restarted", marks=pytest.mark.release),
        pytest.param("database", "kill", id="f25-database-killed"),
    ],
)
def test_service_that_goes_and_returns_amid_300_runs_costs_none(
    fragile: Fragile, service: str, how: str
) -> None:
    run_ids = fragile.plan_runs()
    amid = eventually(lambda: max(0, fragile.started(run_ids) - RUNS // 10), every=0.01)

    getattr(getattr(fragile, service), how)()
    getattr(fragile, service).start()

    assert amid < RUNS - RUNS // 10, "it came too late to disturb anything"
    fragile.deployment.await_all_final(DRAINED_SECONDS)
    assert fragile.last_statuses(run_ids) == {RunStatus.SUCCEEDED: RUNS}


def test_broker_that_comes_back_empty_is_used_again(fragile: Fragile) -> None:
    fragile.broker.stop()
    fragile.broker.wipe()
    fragile.broker.start()

    fragile.deployment.await_success(fragile.deployment.trigger("load-0"))


@pytest.mark.release
def test_f18_memory_alarm_holds_runs_back_and_costs_none(fragile: Fragile) -> None:
    deployment = fragile.deployment
    fragile.broker.set_memory_limit(NO_MEMORY)
    try:
        run_ids = [deployment.trigger("load-0") for _ in range(20)]
        # RabbitMQ tells only who publishes.
        eventually(lambda: deployment.logged("broker_link_blocked", "triggers"))
        deployment.job("ticking", schedule_kind="FIX_RATE", schedule_value="1", enabled=True)
        eventually(lambda: _overdue(deployment, "ticking") > 2, every=0.1)
        held = {deployment.status(run_id) for run_id in run_ids}
    finally:
        fragile.broker.set_memory_limit(ENOUGH_MEMORY)

    assert held <= {RunStatus.PLANNED, RunStatus.ROUTED}
    deployment.await_final(*run_ids)
    assert fragile.last_statuses(run_ids) == {RunStatus.SUCCEEDED: 20}
    assert len(deployment.running()) == 4


@pytest.mark.parametrize(
    ("go", "come", "noticed_ms"), [("stop", "start", 1_000), ("freeze", "thaw", SILENCE_NOTICED_MS)]
)
@pytest.mark.release
def test_ticks_that_were_planned_while_the_broker_was_away_are_skipped_on_record(
    fragile: Fragile, go: str, come: str, noticed_ms: int
) -> None:
    deployment = fragile.deployment
    deployment.job("careless", schedule_kind="FIX_RATE", schedule_value="1", enabled=True)
    eventually(lambda: deployment.runs("careless", status=RunStatus.SUCCEEDED), every=0.1)

    getattr(fragile.broker, go)()
    away_ms = deployment.now_ms()
    eventually(lambda: deployment.now_ms() > away_ms + AWAY_MS, 60, every=0.1)
    getattr(fragile.broker, come)()
    back_ms = deployment.now_ms()
    eventually(
        lambda: any(
            run.due_at > back_ms for run in deployment.runs("careless", status=RunStatus.SUCCEEDED)
        ),
        DRAINED_SECONDS,
        every=0.1,
    )
    deployment.stop_jobs()
    deployment.await_all_final(DRAINED_SECONDS)

    missed = [
        run
        for run in deployment.runs("careless")
        if away_ms + noticed_ms < run.scheduled_at < _resumed_ms(deployment, away_ms) - LATE_MS
    ]
    skipped = {skip.from_at for skip in deployment.skips("careless")}
    assert {run.status for run in missed} == {RunStatus.CANCELLED}
    assert {run.scheduled_at for run in missed} <= skipped


def _resumed_ms(deployment: Deployment, away_ms: int) -> int:
    """Return when a scheduler first recorded, after this instant, that it can send again."""
    statement = select(func.min(Uptime.since_at)).where(Uptime.since_at > away_ms)
    return deployment.database.read(lambda session: session.execute(statement).scalar_one())


def _overdue(deployment: Deployment, job: str) -> int:
    now_ms = deployment.now_ms()
    return sum(run.due_at < now_ms for run in deployment.runs(job, status=RunStatus.PLANNED))
