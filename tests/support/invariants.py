"""What must be true at the end of every end-to-end test."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import select

from tests.support.eventually import eventually
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.completion.end import tick_end
from warren.sql.engine import Database
from warren.sql.jobs import job_links
from warren.sql.models import Job, Run
from warren.sql.run_status import FINAL, Kind, RunStatus
from warren.sql.runs.ticks import tick_of

#: Final states of runs that never had a process, and those that another attempt may follow.
_NEVER_STARTED = {RunStatus.UNDELIVERED, RunStatus.CANCELLED, RunStatus.REFUSED}
_FOLLOWED = {RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED, RunStatus.LOST}


class Subject(Protocol):
    """Anything that runs jobs whose handlers record starts in `starts.jsonl` of its folder."""

    folder: Path
    database: Database

    def stop_jobs(self) -> None:
        """Stop all schedules."""


def assert_sound(subject: Subject, seconds: float = 60.0) -> None:
    """Wait until every run is over, then check the invariants."""
    subject.stop_jobs()
    eventually(lambda: _is_over(subject.database), seconds, every=0.02)
    assert_sound_tallies(subject.database, subject.folder / "starts.jsonl")


def assert_sound_tallies(database: Database, starts_file: Path) -> None:
    """Check the invariants of finished runs.

    Every tick has exactly one row or skip, every run is final, no run was started twice, none that
    counts as never started was started, each attempt follows one that allows it, and each tick that
    succeeded has one run of each current child of its job.
    """
    assert _is_over(database)
    runs = read_runs(database)
    _assert_ticks_are_decided_once(database, runs)
    _assert_attempts_follow_each_other(runs)
    _assert_children_ran_once(database, runs)
    flows = database.read(
        lambda session: set(session.scalars(select(Job.id).where(Job.flow != "")))
    )
    executed = [run for run in runs if run.job_id not in flows]
    _assert_starts_fit(executed, read_starts(starts_file))


def read_runs(database: Database) -> list[Run]:
    """Return every row."""
    return database.read(lambda session: list(session.execute(select(Run)).scalars()))


def read_starts(path: Path) -> list[dict[str, Any]]:
    """Return the records of handlers: `run`, `attempt` and `pid` of each start."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _is_over(database: Database) -> bool:
    statement = select(Run.id, Run.status, Run.address).where(Run.status.not_in(FINAL))
    open_runs = database.read(lambda session: session.execute(statement).all())
    assert not open_runs, f"{len(open_runs)} open runs: {open_runs[:20]}"
    return True


def _assert_ticks_are_decided_once(database: Database, runs: Sequence[Run]) -> None:
    report = audit(database, since_ms=0, until_ms=2**53, timezone="UTC")
    wrong = [job for job in report.jobs if job.lost_count or job.doubled_count]
    assert report.is_sound, wrong
    first_attempts = Counter(
        (run.job_id, run.scheduled_at, run.origin_id, run.shard_index)
        for run in runs
        if run.attempt == 0
    )
    assert not [tick for tick, count in first_attempts.items() if count > 1]


def _assert_attempts_follow_each_other(runs: Sequence[Run]) -> None:
    attempts = defaultdict(list)
    for run in runs:
        attempts[run.job_id, run.scheduled_at, run.origin_id, run.shard_index].append(run)
    for tick, found in attempts.items():
        found.sort(key=lambda run: run.attempt)
        # If a broadcast was expanded at a later attempt, its other shards begin there.
        first = found[0].attempt if found[0].shard_index else 0
        assert [run.attempt for run in found] == list(range(first, first + len(found))), tick
        words = (tick, [(run.attempt, run.status) for run in found])
        followed = found[:-1]
        # A refused attempt is followed by another only if it was a retry.
        assert {run.status for run in followed} <= _FOLLOWED | {RunStatus.REFUSED}, words
        assert {run.status for run in followed[:1]} <= _FOLLOWED, words


def _assert_children_ran_once(database: Database, runs: Sequence[Run]) -> None:
    expected = Counter(
        (child, run.scheduled_at, run.id)
        for run, children in _succeeded(database, runs)
        for child in children
    )
    ran = Counter(
        (run.job_id, run.scheduled_at, run.origin_id)
        for run in runs
        if run.kind == Kind.PARENT and run.shard_index == 0
    )
    assert ran == expected, (ran - expected, expected - ran)


def _succeeded(database: Database, runs: Sequence[Run]) -> Iterator[tuple[Run, tuple[int, ...]]]:
    """Yield the first run of each tick that succeeded, with the ids of its job's children."""
    ticks = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.shard_index, run.attempt)):
        ticks[tick_of(run)].append(run)
    jobs = database.read(lambda session: list(session.execute(select(Job)).scalars()))
    children = database.read(lambda session: job_links.children(session, [job.id for job in jobs]))
    for tick, found in ticks.items():
        end = tick_end(tick, found)
        if end is not None and end.succeeded:
            yield found[0], children.get(tick.job_id, ())


def _assert_starts_fit(runs: Sequence[Run], noted: Sequence[dict[str, Any]]) -> None:
    starts = Counter(start["run"] for start in noted)
    twice = {run_id: count for run_id, count in starts.items() if count > 1}
    assert not twice, f"started more than once: {twice}"
    status = {run.id: run.status for run in runs}
    strangers = set(starts) - set(status)
    assert not strangers, f"started without a row: {strangers}"
    impossible = {run_id: status[run_id] for run_id in starts if status[run_id] in _NEVER_STARTED}
    assert not impossible, f"started, and said to have never started: {impossible}"
    succeeded = {run_id for run_id, end in status.items() if end == RunStatus.SUCCEEDED}
    assert succeeded <= set(starts), "succeeded without a start"
