"""Each question of the schedulers' loops goes through the index that is meant for it."""

import re
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.support.crowd import JOBS, MAILS, RUNS, WEBHOOKS, counting_rows, crowd
from tests.support.mariadb import SERVER, PrivateMariaDB
from tests.support.sql_rows import NODE, NOW_MS, ended, routed, statements
from warren.sql import pending
from warren.sql.accounts import audit_log
from warren.sql.alarms import alarms
from warren.sql.board import listing as board
from warren.sql.engine import Database
from warren.sql.explanation import Explanation
from warren.sql.instants import at
from warren.sql.jobs import due_jobs, history, job_links, job_rows
from warren.sql.listings import (
    app_listing,
    dashboard,
    error_groups,
    job_search,
    newest_runs,
    run_relations,
    run_search,
    timeline,
)
from warren.sql.listings.job_search import JobFilter, Order
from warren.sql.listings.newest_runs import RunSelection
from warren.sql.listings.run_search import RunSearch
from warren.sql.listings.timeline import outcomes_of_days
from warren.sql.registry import presence
from warren.sql.run_status import FAILURES, Kind, RunStatus
from warren.sql.runs import (
    day_reports,
    due_runs,
    purges,
    queries,
    reruns,
    tick_rows,
    ticks,
    transitions,
)
from warren.sql.runs.purges import START, DuePosition
from warren.sql.runs.tick_rows import JobRange
from warren.sql.runs.ticks import Tick
from warren.sql.runs.transitions import SentTo, Success

T = TypeVar("T")

#: Who asks for all apps reads the first; the second says which were deleted.
TABLES_OF_APPS = ("xxl_job_group", "warren_trail")
NEWEST_FAILURES = RunSelection(statuses=FAILURES, app_ids=None)
MINE = range(1_000, 1_500)
TICKS = [Tick(1 + i % 500, NOW_MS + i, 0) for i in MINE]
RETRIES = [
    SimpleNamespace(**tick._asdict(), id=1, shard_index=0, attempt=1, retries_left=0)
    for tick in TICKS
]
#: Runs in flight, sent to one executor of the first app, by id.
SENT_TO = SentTo(1, "exec-0", "boot")
OPEN = range(45_300, 45_900, 100)
#: In which a tenth of the runs came due.
FOUR_SECONDS = (at(NOW_MS), at(NOW_MS + 4_000))


@dataclass(frozen=True)
class Step:
    """One table of an execution plan."""

    table: str
    key: str
    rows: int


#: A run, as far as its tick is concerned.
A_TICK: Any = SimpleNamespace(job_id=7, scheduled_at=NOW_MS, origin_id=0)


@pytest.fixture(scope="module")
def crowded(mysql_server: PrivateMariaDB) -> Iterator[Database]:
    """Many jobs, of which few are due, and many runs, of which few are open."""
    if SERVER != "mariadbd":
        pytest.skip("reads MariaDB's plans, and fills its tables from MariaDB's sequences")
    with crowd(mysql_server) as database:
        yield database


def success(run_id: int) -> Success:
    return Success(
        run_id=run_id,
        job_id=1 + run_id % 500,
        message="done",
        due_at=1,
        started_at=1,
        finished_at=2,
        log_tail="",
    )


def plans(database: Database, work: Callable[[Session], object]) -> list[Step]:
    """Run the work, take it back, and return how each of its statements was executed."""

    def unit(session: Session) -> list[tuple[str, object]]:
        with statements(database) as sent:
            work(session)
        session.rollback()
        return list(sent)

    steps: list[Step] = []
    for words, values in database.write(unit):
        if re.match("SELECT|UPDATE", words):
            steps += database.read(lambda session, s=(words, values): _explain(session, *s))
    return steps


def _explain(session: Session, words: str, values: Any) -> list[Step]:
    found = session.connection().exec_driver_sql(f"EXPLAIN {words}", values)
    return [
        # A second index may filter the first: `i_kill|i_status_due`, `474 (2%)`.
        Step(row.table, str(row.key).partition("|")[0], int(str(row.rows or 0).split()[0]))
        for row in found
        if row.table is not None and row.table.startswith(("xxl", "warren_alarm", "warren_trail"))
    ]


LOOPS: list[tuple[str, Callable[[Session], object], str, int]] = [
    (
        "claim_due",
        lambda s: due_jobs.claim_due(s, until_ms=NOW_MS + 50_000, limit=200),
        "i_status_next",
        60,
    ),
    (
        "peek_due",
        lambda s: due_runs.peek_due(s, 1, since_ms=NOW_MS, until_ms=NOW_MS + 43_000, limit=500),
        "i_status_due",
        700,
    ),
    ("next_due", lambda s: due_runs.next_due(s, since_ms=NOW_MS), "i_status_due", 10),
    (
        "next_due_of",
        lambda s: due_runs.next_due_of(
            s, 1, after_ms=NOW_MS, until_ms=NOW_MS + 500, without_jobs=[7]
        ),
        "i_status_due",
        10,
    ),
    (
        "overdue_counts",
        lambda s: due_runs.overdue_counts(s, before_ms=NOW_MS + 43_000),
        "i_status_due",
        8_000,
    ),
    ("in_flight", queries.in_flight, "i_status_due", 1_100),
    ("in_flight_of_job", lambda s: queries.in_flight_of_job(s, 1, 7), "i_status_due", 1_100),
    (
        "of_boot",
        lambda s: queries.of_boot(s, 1, "exec-1", "boot", limit=500),
        "i_status_due",
        1_100,
    ),
    (
        "routed",
        lambda s: queries.routed(s, before_ms=NOW_MS, now_ms=NOW_MS, limit=500),
        "i_status_due",
        250,
    ),
    (
        "sent_or_running",
        lambda s: queries.sent_or_running(s, before_ms=NOW_MS, now_ms=NOW_MS, limit=10_000),
        "i_status_due",
        900,
    ),
    (
        "kill_requested",
        lambda s: queries.kill_requested(s, now_ms=NOW_MS + queries.KILL_MS - 1),
        "i_kill",
        600,
    ),
    ("by_ids", lambda s: queries.by_ids(s, MINE), "PRIMARY", 500),
    ("claim", lambda s: transitions.claim(s, MINE), "PRIMARY", 500),
    ("lock", lambda s: transitions.lock(s, MINE), "PRIMARY", 500),
    (
        "route alike",
        lambda s: transitions.route(s, [routed(i) for i in MINE], node=NODE, now_ms=1),
        "PRIMARY",
        500,
    ),
    (
        "route each",
        lambda s: transitions.route(
            s, [routed(i, Explanation(f"to {i}")) for i in MINE], node=NODE, now_ms=1
        ),
        "PRIMARY",
        1,
    ),
    (
        "succeed",
        lambda s: transitions.succeed(s, SENT_TO, [success(i) for i in OPEN]),
        "PRIMARY",
        1,
    ),
    (
        "lock_open",
        lambda s: transitions.lock_open(s, SENT_TO, dict.fromkeys(MINE, 1)),
        "PRIMARY",
        500,
    ),
    ("mark_sent", lambda s: transitions.mark_sent(s, MINE, node=NODE, now_ms=1), "PRIMARY", 500),
    ("start", lambda s: transitions.start(s, dict.fromkeys(MINE, 1)), "PRIMARY", 1),
    ("end", lambda s: transitions.end(s, [ended(i) for i in MINE]), "PRIMARY", 1),
    ("for_runs", lambda s: job_rows.for_runs(s, MINE), "PRIMARY", 500),
    (
        "followed",
        lambda s: job_links.followed(s, MINE, waiting_kinds=["FIX_DELAY"]),
        "PRIMARY",
        500,
    ),
    ("to_plan", lambda s: due_jobs.to_plan(s, MINE), "PRIMARY", 500),
    ("parked", lambda s: due_jobs.lock(s, MINE), "PRIMARY", 500),
    ("heads", lambda s: ticks.first_run_ids(s, TICKS), "i_tick", 500),
    ("attempts", lambda s: ticks.attempts(s, TICKS), "i_tick", 500),
    ("own_heads", lambda s: ticks.first_run_ids(s, TICKS, own=True), "i_tick", 500),
    ("own_attempts", lambda s: ticks.own_attempts(s, TICKS), "i_tick", 500),
    ("failures_before", lambda s: ticks.failures_before(s, RETRIES), "i_tick", 500),
    ("count", lambda s: day_reports.count(s, *FOUR_SECONDS), "i_trigger_time", 10_000),
    (
        "due_after",
        lambda s: purges.due_after(s, START, DuePosition(at(NOW_MS + 4_000), 0), limit=400),
        "i_trigger_time",
        10_000,
    ),
    (
        "nth_newest_run",
        lambda s: purges.nth_newest_run(s, 10_000, now_ms=2**42),
        "i_trigger_time",
        47_000,
    ),
    (
        "nth_newest_tick",
        lambda s: purges.nth_newest_tick(s, 50, job_id=7, now_ms=2**42),
        "i_tick",
        120,
    ),
    (
        "ticks_after",
        lambda s: purges.ticks_after(s, Tick(7, 0, -1), before_ms=2**53, limit=400),
        "i_tick",
        120,
    ),
    ("runs_of_ticks", lambda s: purges.runs_of_ticks(s, TICKS), "i_tick", 500),
    (
        "clear",
        lambda s: purges.clear(s, MINE, by="me", now_ms=NOW_MS, day_of=lambda at: at.date()),
        "PRIMARY",
        500,
    ),
    (
        "advance",
        lambda s: due_jobs.advance(s, [{"id": i, "next_tick_at": 1} for i in MINE]),
        "PRIMARY",
        1,
    ),
]


@pytest.mark.parametrize(
    ("work", "key", "rows"), [case[1:] for case in LOOPS], ids=[case[0] for case in LOOPS]
)
def test_a_loops_question_goes_through_its_index(
    crowded: Database, work: Callable[[Session], object], key: str, rows: int
) -> None:
    steps = plans(crowded, work)

    assert steps
    assert {step.key for step in steps} == {key}
    assert max(step.rows for step in steps) <= rows


DASHBOARD: list[tuple[str, Callable[[Session], object], set[str]]] = [
    ("job_counts", lambda s: dashboard.job_counts(s, None), {"i_status_next"}),
    (
        "failed",
        lambda s: dashboard.failed(s, [1, 2, 3, 4, 5], since_ms=NOW_MS, limit=8),
        {"i_status_due", "PRIMARY", "i_tick"},
    ),
    ("what came later", lambda s: reruns.later(s, MINE), {"PRIMARY", "i_tick"}),
    (
        "runs of a flow's nodes",
        lambda s: run_relations.run_groups(s, 1, NOW_MS, range(1, 31)),
        {"i_tick"},
    ),
    ("flows of runs", lambda s: run_relations.flow_places(s, MINE, None), {"PRIMARY"}),
    ("running", lambda s: dashboard.running(s, None, limit=8), {"i_status_due", "PRIMARY"}),
    (
        "count_due",
        lambda s: due_runs.count_due(s, None, until_ms=NOW_MS, most=1_000),
        {"i_status_due"},
    ),
    (
        "lateness",
        lambda s: dashboard.lateness(s, None, now_ms=NOW_MS + 40_000),
        {"i_trigger_time"},
    ),
    (
        "next_ticks",
        lambda s: timeline.next_ticks(s, None, from_ms=NOW_MS, to_ms=NOW_MS + 3_600_000, limit=8),
        {"i_status_next", "PRIMARY"},
    ),
    (
        "timeline, what stands out",
        lambda s: timeline.sample(s, None, from_ms=NOW_MS, until_ms=NOW_MS + 60_000),
        {"i_status_due"},
    ),
    (
        "timeline, runs of rows",
        lambda s: timeline.of_jobs(
            s, range(1, 31), from_ms=NOW_MS, until_ms=NOW_MS + 60_000, limit=120
        ),
        {"i_tick"},
    ),
    (
        "what runs for long",
        lambda s: board.oldest_running(s, [1, 2, 3]),
        {"i_status_due"},
    ),
    (
        "open shards",
        lambda s: run_relations.open_of_tick(s, A_TICK),
        {"i_tick"},
    ),
    (
        "a job's days",
        lambda s: outcomes_of_days(s, 7, range(NOW_MS, NOW_MS + 50_000, 500)),
        {"i_tick"},
    ),
]


@pytest.mark.parametrize(
    ("work", "keys"), [case[1:] for case in DASHBOARD], ids=[case[0] for case in DASHBOARD]
)
def test_what_the_dashboard_asks_of_jobs_and_runs_goes_through_their_indexes(
    crowded: Database, work: Callable[[Session], object], keys: set[str]
) -> None:
    steps = plans(crowded, work)

    assert {step.key for step in steps if step.table not in TABLES_OF_APPS} == keys


@pytest.mark.parametrize(
    "ask",
    [
        alarms.waiting_apps,
        lambda s: app_listing.with_started_jobs(s, None),
        lambda s: app_listing.with_started_jobs(s, [1, 2, 3, 4, 5]),
    ],
)
def test_apps_with_enabled_jobs_are_found_by_one_job_of_each(
    crowded: Database, ask: Callable[[Session], Sized]
) -> None:
    found, rows = crowded.read(lambda s: counting_rows(s, ask))

    assert len(found) == 5
    assert rows < 100


def test_enabled_jobs_of_an_app_are_read_up_to_a_bound(crowded: Database) -> None:
    found, rows = crowded.read(
        lambda s: counting_rows(s, lambda one: app_listing.started_jobs(one, "app-1", limit=500))
    )

    assert len(found) == 500
    assert rows < 1_100


def test_changes_of_schedules_are_read_along_the_index_of_jobs(crowded: Database) -> None:
    found, rows = with_changes(crowded, lambda s: sum(1 for _ in history.changes(s, at_once=500)))

    assert found == 10_000
    assert rows < 5 * found  # a page that began at the first row each time would read 20 times


def test_zones_of_jobs_are_read_from_the_newest_change_of_each(crowded: Database) -> None:
    found, rows = with_changes(crowded, lambda s: len(history.zones(s, range(1, 201))))

    assert found == 200
    assert rows < 10 * found


def with_changes(database: Database, work: Callable[[Session], T]) -> tuple[T, int]:
    """Return what the work gives with two changes of each of 5,000 jobs, and the rows read."""

    def unit(session: Session) -> tuple[T, int]:
        session.execute(
            text(
                "INSERT INTO warren_history (job_id, changed_at, changed_by, watermark, enabled,"
                " schedule_type, timezone, misfire_strategy, late_limit, anchor)"
                " SELECT 1 + seq % 5000, 1, '', 0, 1, 'NONE', '', '', 60, 0 FROM seq_1_to_10000"
            )
        )
        counted = counting_rows(session, work)
        session.rollback()
        return counted

    return database.write(unit)


def test_an_audit_reads_runs_a_range_of_jobs_at_a_time(crowded: Database) -> None:
    def reads(session: Session) -> list[tuple[JobRange, int]]:
        return [
            (jobs, counting_rows(session, lambda s, jobs=jobs: _doubled_and_broken(s, jobs))[1])  # type: ignore[misc]
            for jobs in tick_rows.job_ranges(session, at_once=4_000)
        ]

    found = crowded.read(reads)

    ranges = [jobs for jobs, _ in found]
    firsts, lasts = zip(*ranges, strict=True)
    assert firsts[0] == 0
    assert list(firsts[1:]) == [last + 1 for last in lasts[:-1]]
    assert lasts[-1] >= JOBS
    assert len(ranges) == 12
    # Both statements read a range along the index, and the rows behind it.
    assert max(rows for _, rows in found) < 5 * 4_100


def _doubled_and_broken(session: Session, jobs: JobRange) -> None:
    assert tick_rows.doubled(session, jobs, after_ms=0, until_ms=2**53) == []
    assert tick_rows.broken_shards(session, jobs, after_ms=0, until_ms=2**53) == []


@pytest.mark.parametrize("job_ids", [[7], range(1, 501)], ids=["one", "many"])
def test_stopping_jobs_reads_no_more_than_their_apps_have_planned(
    crowded: Database, job_ids: Sequence[int]
) -> None:
    steps = plans(
        crowded,
        lambda session: transitions.cancel(
            session, job_ids, reason=Explanation(), now_ms=1, kinds=Kind, schedule_only=True
        ),
    )

    assert {step.key for step in steps} <= {"PRIMARY", "i_status_due", "i_tick"}
    assert max(step.rows for step in steps) < 8_000


def test_the_next_tick_is_read_from_the_end_of_the_index(crowded: Database) -> None:
    explained = crowded.read(
        lambda session: session.execute(
            text("EXPLAIN SELECT MIN(trigger_next_time) FROM xxl_job_info WHERE trigger_status = 1")
        ).one()
    )

    assert explained.Extra == "Select tables optimized away"


def test_a_look_at_what_is_pending_reads_an_end_of_each_index(crowded: Database) -> None:
    instants = {"since_ms": NOW_MS, "now_ms": NOW_MS + queries.KILL_MS - 1}

    steps = plans(crowded, lambda session: session.execute(pending.STATEMENTS[True], instants))

    in_flight = RUNS[RunStatus.ROUTED] + RUNS[RunStatus.SENT] + RUNS[RunStatus.RUNNING]
    of_runs = [step for step in steps if step.table != "warren_alarm"]
    assert {step.key for step in of_runs} <= {"i_status_due", "i_kill", "i_g_k_v"}
    assert max(step.rows for step in of_runs) <= 1.1 * in_flight


def test_a_look_for_webhooks_reads_no_mails_and_the_other_way_round(crowded: Database) -> None:
    instants = {"since_ms": NOW_MS, "now_ms": NOW_MS + 1}

    steps = plans(crowded, lambda session: session.execute(pending.STATEMENTS[True], instants))

    rows = sorted(step.rows for step in steps if step.key == "i_alarm_channel")
    # MariaDB 11.8 looks for new alarms along this index too.
    run_ends, *new_alarms, webhooks, mails = rows
    assert run_ends <= 1
    assert sum(new_alarms) <= 2
    # A range before the e-mails' channel, one behind the run ends', and one between them.
    assert webhooks <= WEBHOOKS + 2
    assert mails <= MAILS


def test_the_first_run_of_a_day_is_read_from_the_index(crowded: Database) -> None:
    def explain(session: Session) -> Any:
        words = (
            "EXPLAIN SELECT MIN(trigger_time) FROM xxl_job_log FORCE INDEX (i_trigger_time) "
            "WHERE trigger_time >= %s AND trigger_time < %s"
        )
        return session.connection().exec_driver_sql(words, FOUR_SECONDS).one()

    assert crowded.read(explain).Extra == "Select tables optimized away"
    assert crowded.read(lambda session: day_reports.first_due(session, *FOUR_SECONDS)) == at(NOW_MS)


def test_runs_are_deleted_by_their_primary_key(crowded: Database) -> None:
    def unit(session: Session) -> list[tuple[str, Any]]:
        with statements(crowded) as sent:
            cleared = purges.clear(
                session, list(MINE), by="test", now_ms=NOW_MS, day_of=lambda due: due.date()
            )
        session.rollback()
        assert cleared == len(MINE)
        return list(sent)

    deletes = [each for each in crowded.write(unit) if each[0].startswith("DELETE")]
    steps = [
        step
        for words in deletes
        for step in crowded.read(lambda session, w=words: _explain(session, *w))
    ]

    assert {(step.table, step.key) for step in steps} == {("xxl_job_log", "PRIMARY")}
    assert max(step.rows for step in steps) <= len(MINE)


@pytest.mark.parametrize(
    "work",
    [
        lambda s: due_runs.peek_due(s, 1, since_ms=NOW_MS, until_ms=NOW_MS + 43_000, limit=500),
        lambda s: newest_runs.read(s, NEWEST_FAILURES, limit=50),
        lambda s: list(newest_runs.stream(s, NEWEST_FAILURES)),
        lambda s: run_search.sweep(s, RunSearch(statuses=FAILURES), most=9_999, looked_at=9_999),
        lambda s: run_search.count(s, RunSearch(statuses=FAILURES), most=9_999, looked_at=9_999),
    ],
    ids=["peek at due runs", "newest runs", "stream of runs", "sweep", "count"],
)
def test_what_the_index_knows_is_read_from_it_alone(
    crowded: Database, work: Callable[[Session], object]
) -> None:
    def unit(session: Session) -> list[str]:
        with statements(crowded) as sent:
            work(session)
        plans = [
            session.connection().exec_driver_sql(f"EXPLAIN {words}", values).all()
            for words, values in sent
        ]
        return [str(step.Extra) for plan in plans for step in plan if step.table == "xxl_job_log"]

    extras = crowded.read(unit)

    # "Using index condition" would mean that rows are read as well.
    alone = re.compile("Using index(; | for |$)")
    assert extras
    assert all(alone.search(extra) for extra in extras), extras


def test_errors_are_grouped_without_a_look_at_any_other_run(crowded: Database) -> None:
    wanted = RunSearch(statuses=FAILURES)

    def unit(session: Session) -> list[tuple[str, str]]:
        with statements(crowded) as sent:
            error_groups.read(session, wanted, most=100, looked_at=9_999)
        [(words, values)] = [each for each in sent if "GROUP BY" in each[0] and "text" in each[0]]
        steps = session.connection().exec_driver_sql(f"EXPLAIN {words}", values).all()
        return [(step.key, str(step.Extra)) for step in steps if step.table == "xxl_job_log"]

    (outer_key, _), (inner_key, inner_extra) = crowded.read(unit)

    assert (outer_key, inner_key) == ("PRIMARY", "i_status_due")
    assert "Using index" in inner_extra.split("; ")


def test_a_sign_of_life_finds_its_row_by_its_key(crowded: Database) -> None:
    beat = presence.Beat(kind="EXECUTOR", app="demo", address="a", boot_id="b", beat_at=1)
    crowded.write(lambda session: presence.hold(session, beat))

    steps = plans(crowded, lambda session: presence.renew(session, beat))

    assert {step.key for step in steps} == {"i_g_k_v"}


#: A page in the middle: as dear as the first one.
PAGES = [
    (JobFilter(order=Order.NAME, after="3/job-5"), "i_group_name"),
    (JobFilter(order=Order.NAME, after="3/job-5", app_ids=[3]), "i_group_name"),
    (JobFilter(order=Order.NEWEST, after="9000"), "PRIMARY"),
    (JobFilter(order=Order.DUE, after=f"{NOW_MS + 9_000_000}/9000"), "i_status_next"),
    (JobFilter(order=Order.DUE, app_ids=[3]), "i_group_status_next"),
]


@pytest.mark.parametrize("order", [Order.DUE, Order.NEWEST])
@pytest.mark.parametrize("name", ["job-77", "JOB-1", "nowhere"], ids=["few", "many", "none"])
def test_jobs_found_by_a_text_are_in_the_order_asked_for(
    crowded: Database, name: str, order: Order
) -> None:
    numbers = [n for n in range(1, JOBS + 1) if name.lower() in f"job-{n}"]
    newest_first = order is Order.NEWEST

    found = crowded.read(
        lambda session: job_search.search(
            session, JobFilter(name=name, order=order, app_ids=range(9)), now_ms=NOW_MS
        )
    )

    assert [row.id for row in found] == sorted(numbers, reverse=newest_first)[:50]


@pytest.mark.parametrize("order", Order)
def test_a_text_that_no_job_has_is_looked_for_in_the_index_alone(
    crowded: Database, order: Order
) -> None:
    wanted = JobFilter(handler="nowhere", author="nobody", order=order, app_ids=range(9))

    steps = plans(crowded, lambda s: job_search.search(s, wanted, now_ms=NOW_MS))

    assert steps[0].key == "i_search"


@pytest.mark.parametrize("order", Order)
def test_a_tag_that_no_job_has_is_looked_for_in_the_index_alone(
    crowded: Database, order: Order
) -> None:
    wanted = JobFilter(tag="nowhere", order=order, app_ids=range(9))

    steps = plans(crowded, lambda s: job_search.search(s, wanted, now_ms=NOW_MS))

    assert steps[0].key == "i_search"


def test_the_changes_of_a_job_are_found_by_its_id(crowded: Database) -> None:
    def fill(session: Session) -> None:
        session.execute(
            text(
                "INSERT INTO warren_trail (at, who, origin, action, kind, object_id, name)"
                " SELECT seq, 'alice', 'cli', 'job.update', 'job', seq MOD 500, 'x'"
                " FROM seq_1_to_5000"
            )
        )
        session.execute(text("ANALYZE TABLE warren_trail PERSISTENT FOR ALL"))

    crowded.write(fill)

    steps = plans(crowded, lambda s: audit_log.of_job(s, 7, ["job.update", "glue.save"], limit=100))

    assert [step.key for step in steps] == ["i_trail_action", "PRIMARY"]


@pytest.mark.parametrize(("wanted", "key"), PAGES, ids=["name", "app", "newest", "due", "due-app"])
def test_a_page_of_jobs_is_read_along_its_index(
    crowded: Database, wanted: JobFilter, key: str
) -> None:
    def unit(session: Session) -> list[tuple[str, Any]]:
        with statements(crowded) as sent:
            job_search.search(session, wanted, now_ms=NOW_MS)
        return list(sent)

    page, rows = (words for words in crowded.read(unit) if words[0].startswith("SELECT"))

    assert wanted.limit <= handler_reads(crowded, page) <= wanted.limit + 3
    assert [step.key for step in crowded.read(lambda s: _explain(s, *page))] == [key]
    assert {step.key for step in crowded.read(lambda s: _explain(s, *rows))} <= {
        "PRIMARY",
        "i_tick",
        "i_app_name",
    }


@pytest.mark.parametrize("order", [Order.ENDED, Order.TOOK, Order.CHANGE, Order.SHARE])
def test_of_jobs_without_a_rank_no_more_are_read_than_listed(
    crowded: Database, order: Order
) -> None:
    def first(session: Session) -> Sequence[int]:
        return job_search.ids(session, JobFilter(order=order), most=50)

    def later(session: Session) -> Sequence[int]:
        wanted = JobFilter(order=order, after="10000", limit=50)
        return [job.id for job in job_search.search(session, wanted, now_ms=NOW_MS)]

    found, read = crowded.read(lambda session: counting_rows(session, first))
    found_later, read_later = crowded.read(lambda session: counting_rows(session, later))

    assert list(found) == list(range(1, 51))
    assert list(found_later) == list(range(10_001, 10_051))
    assert max(read, read_later) < 1_000


def handler_reads(database: Database, words: tuple[str, Any]) -> int:
    """Return how many rows a statement really reads."""

    def unit(session: Session) -> int:
        connection = session.connection()
        connection.exec_driver_sql("FLUSH STATUS")
        assert connection.exec_driver_sql(*words).all()
        found = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        return sum(int(row[1]) for row in found)

    return database.read(unit)


def test_the_last_runs_of_a_job_are_read_backwards_along_its_ticks(crowded: Database) -> None:
    steps = plans(crowded, lambda session: job_search.last_runs(session, 7, now_ms=2**53, limit=20))

    # The names of its job and app come by their primary keys.
    assert [step.key for step in steps] == ["i_tick", "PRIMARY", "PRIMARY"]
