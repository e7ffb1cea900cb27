"""Several schedulers share what is due, and a scheduler with nothing to do does little."""

import contextlib
import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import event

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound
from tests.support.one_instant import start_all
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node_context import ClaimLimits
from warren.sql.board.listing import outlooks
from warren.sql.run_status import RunStatus

pytestmark = pytest.mark.both("two schedulers claim the same rows")

#: Five times as many as one claim takes.
JOBS = 500
#: Due seconds after which both must have sent some.
STORMS = 5
_WAKE_UPS = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


def test_two_schedulers_share_hundreds_of_jobs_due_in_one_second(cluster: Cluster) -> None:
    nodes = [cluster.scheduler(limits=ClaimLimits(runs=100)) for _ in range(2)]
    cluster.executor("one", slots=50)
    cluster.executor("two", slots=50)
    cluster.wait_online("one", "two")
    cluster.apply(
        *(
            JobSpec(name=f"job{number}", app=APP, handler="noop", route="RANDOM")
            for number in range(JOBS)
        )
    )

    names = {node.name for node in nodes}
    instants: list[int] = []
    routers: set[str | None] = set()
    # One of them may be faster each time, but not for long; the lock of a whole file often goes to
    # the same one.
    while not instants or (routers != names and len(instants) < STORMS):
        instants.append(start_all(cluster.database, now_ms=cluster.now_ms(), in_seconds=3))
        wanted = JOBS * len(instants)
        eventually(lambda n=wanted: len(cluster.runs(status=RunStatus.SUCCEEDED)) == n, 60, 0.2)
        runs = cluster.runs()
        routers = {run.routed_by for run in runs}
        if cluster.database.dialect.is_embedded:
            break

    assert Counter(run.scheduled_at for run in runs) == dict.fromkeys(instants, JOBS)
    if cluster.database.dialect.is_embedded:
        assert routers <= names
    else:
        assert routers == names
    assert {run.address for run in runs} == {"one", "two"}
    assert_sound(cluster)


@on_memory
def test_an_idle_scheduler_asks_the_database_little(cluster: Cluster) -> None:
    strangers = _threads()
    cluster.scheduler()
    cluster.executor(beat_seconds=5.0)
    cluster.wait_online()
    cluster.job("later", schedule_kind="CRON", schedule_value="0 0 0 1 1 ?", enabled=True)
    # Once the board is filled, and looks ahead for the first time, there is nothing left to do.
    eventually(lambda: cluster.database.read(lambda session: outlooks(session, None, since_ms=1)))
    statements = []
    here = threading.get_ident()

    def note(*values: Any) -> None:
        if threading.get_ident() != here:
            statements.append(values[2])

    event.listen(cluster.database.engine, "before_cursor_execute", note)
    began = time.monotonic()
    costs = [_idle_cost(strangers) for _ in range(3)]

    per_second = len(statements) / (time.monotonic() - began)
    # With BEGINs; eight of them are signs of life and words that one can send, two are looks, and
    # two or three are the board's.
    assert per_second <= 20, (per_second, statements[-40:])
    # Beside other work a wake-up takes more time: what is always there counts.
    assert min(cost.cpu_percent for cost in costs) < 2.5, costs
    assert min(cost.wake_ups for cost in costs) < 65, costs


class Cost(NamedTuple):
    """What threads took: per cent of a core, and wake-ups a second."""

    cpu_percent: float
    wake_ups: float


def _idle_cost(strangers: set[Path]) -> Cost:
    """Return the cost of all threads but `strangers`, which others left here, over four seconds."""
    began, before = time.monotonic(), _taken(strangers)
    eventually(lambda: time.monotonic() - began > 4, every=0.5)
    after, seconds = _taken(strangers), time.monotonic() - began
    return Cost(
        cpu_percent=100 * (after[0] - before[0]) / seconds,
        wake_ups=(after[1] - before[1]) / seconds,
    )


def _threads() -> set[Path]:
    return set(Path("/proc/self/task").iterdir())


def _taken(strangers: set[Path]) -> tuple[float, int]:
    """Return the CPU seconds and the wake-ups of all threads but `strangers`."""
    seconds, wake_ups = 0.0, 0
    for thread in _threads() - strangers:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            wake_ups += int(_WAKE_UPS.findall((thread / "status").read_text())[0])
            seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return seconds, wake_ups
