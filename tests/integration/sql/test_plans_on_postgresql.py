"""PostgreSQL takes no hints: each question of Warren's reads little all the same.

Counted is what it really read. Of an index, rows that do not match are passed over without a word,
but each is in a block that was looked at.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.integration.sql.test_plans import DASHBOARD, LOOPS
from tests.support.crowd import counting_rows, crowd
from tests.support.postgresql import PrivatePostgreSQL
from tests.support.sql_rows import NODE, ended, routed, statements
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.listings import newest_runs
from warren.sql.listings.newest_runs import RunSelection
from warren.sql.run_status import RunStatus
from warren.sql.runs import transitions

#: Blocks for each row that is found by a key, the root and a branch of the index included.
EACH = 4
#: The most blocks of a question, of which none is about more than 500 rows; and of others.
BLOCKS, WIDER = (
    500 * EACH + 100,
    {
        # It changes 500 jobs, each in eight indexes.
        "advance": 500 * 8 * EACH,
        # Of 500 runs, each looks for another one, and for its attempts.
        "failed": 3 * 500 * EACH,
        "what came later": 3 * 500 * EACH,
        "timeline, what stands out": 1_000 * EACH,
        "timeline, runs of rows": 1_000 * EACH,
    },
)
#: Tables that are read as a whole, because they have few rows.
SMALL = 100
IDS = range(20_000, 20_500)


@pytest.fixture(scope="module")
def crowded(postgresql: PrivatePostgreSQL) -> Iterator[Database]:
    """Many jobs, of which few are due, and many runs, of which few are open."""
    with crowd(postgresql) as database:
        yield database


def explained(database: Database, work: Callable[[Session], object]) -> list[dict[str, Any]]:
    """Run the work, take it back, and return how each of its statements was executed."""

    def unit(session: Session) -> list[dict[str, Any]]:
        with statements(database) as sent:
            work(session)
        session.rollback()
        asked = [
            each for each in sent if each[0].startswith(("SELECT", "WITH", "UPDATE", "DELETE"))
        ]
        found = [_explain(session, *each) for each in asked]
        session.rollback()
        return found

    return database.write(unit)


def _explain(session: Session, words: str, values: Any) -> dict[str, Any]:
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {words}"
    [[[found]]] = session.connection().exec_driver_sql(explain, values)
    plan: dict[str, Any] = found["Plan"]
    return plan


def read_whole(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the tables that are not small and of which all rows were read."""
    if plan["Node Type"] == "Seq Scan":
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        if rows > SMALL:
            yield plan["Relation Name"]
    for part in plan.get("Plans", ()):
        yield from read_whole(part)


QUESTIONS = [case[:2] for case in (*LOOPS, *DASHBOARD)]


@pytest.mark.parametrize(("name", "work"), QUESTIONS, ids=[case[0] for case in QUESTIONS])
def test_a_question_reads_what_it_is_about(
    crowded: Database, name: str, work: Callable[[Session], object]
) -> None:
    plans = explained(crowded, work)

    assert plans
    assert [table for plan in plans for table in read_whole(plan)] == []
    looks = [plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans]
    assert max(looks) <= WIDER.get(name, BLOCKS)


def test_what_is_newest_in_each_state_and_app_is_found_by_jumps(crowded: Database) -> None:
    every = RunSelection(statuses=frozenset(RunStatus), app_ids=None, since_ms=1)

    def unit(session: Session) -> tuple[int, int]:
        return counting_rows(session, lambda s: newest_runs.latest_due(s, every))

    latest, rows = crowded.read(unit)

    assert latest
    assert rows <= SMALL


@pytest.fixture(scope="module")
def surprised(postgresql: PrivatePostgreSQL) -> Iterator[Database]:
    """A database whose statistics know finished runs only, and in which a storm begins."""
    with crowd(postgresql) as database:
        name = str(database.engine.url.database)
        postgresql.execute("UPDATE xxl_job_log SET status = 'SUCCEEDED'", database=name)
        postgresql.execute("VACUUM ANALYZE", database=name)
        autovacuum = "ALTER TABLE xxl_job_log SET (autovacuum_enabled = false)"
        postgresql.execute(autovacuum, database=name)
        yield database


def _routed(how: Callable[[int], Explanation]) -> Sequence[transitions.Routed]:
    return [routed(run_id, how(run_id)) for run_id in IDS]


STORM: list[tuple[str, RunStatus, Callable[[Session], object]]] = [
    ("claim", RunStatus.PLANNED, lambda s: transitions.claim(s, IDS)),
    (
        "route alike",
        RunStatus.PLANNED,
        lambda s: transitions.route(s, _routed(lambda _: Explanation()), node=NODE, now_ms=1),
    ),
    (
        "route each",
        RunStatus.PLANNED,
        lambda s: transitions.route(
            s, _routed(lambda run_id: Explanation(f"to {run_id}")), node=NODE, now_ms=1
        ),
    ),
    ("mark sent", RunStatus.ROUTED, lambda s: transitions.mark_sent(s, IDS, node=NODE, now_ms=1)),
    ("start", RunStatus.SENT, lambda s: transitions.start(s, dict.fromkeys(IDS, 1))),
    ("end", RunStatus.RUNNING, lambda s: transitions.end(s, [ended(run_id) for run_id in IDS])),
]


@pytest.mark.parametrize(
    ("status", "work"), [case[1:] for case in STORM], ids=[case[0] for case in STORM]
)
def test_in_a_storm_that_statistics_know_nothing_of_runs_are_found_by_their_ids(
    surprised: Database, status: RunStatus, work: Callable[[Session], object]
) -> None:
    storm = text("UPDATE xxl_job_log SET status = :status WHERE id BETWEEN 10000 AND 39999")
    surprised.write(lambda session: session.execute(storm, {"status": status.value}))

    def unit(session: Session) -> int:
        _, rows = counting_rows(session, work)
        session.rollback()
        return rows

    # A few versions of each.
    assert surprised.write(unit) <= 5 * len(IDS)
