"""Compares what the board has stored with what the rows of runs and skips say.

What has changed meanwhile and was not taken in yet is no fault, so a difference is looked at again.
Of runs that were deleted, the board still knows what it needs of them, so only the last due times
of such jobs are compared.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.scheduler.board import history
from warren.scheduler.board.folding import columns, read_job
from warren.sql import unfolded
from warren.sql.board import due_runs, fill, job_states, quarters
from warren.sql.board.job_states import StoredState
from warren.sql.instants import iso
from warren.sql.unfolded import QUARTER_MS, Outcomes, quarter_of

#: How often a difference is looked at before it is a fault.
LOOKS = 3
#: More runs than can wait to be taken in.
_ALL = 1_000_000_000
_CHUNK = 100
#: What a quarter has of which nothing is stored: runs that succeeded and failed, and skips.
_NOTHING = (0, 0, 0)


class BoardFault(NamedTuple):
    """What the board says, and what the rows say.

    `job_id` is 0 and `app_id` set if it is about a quarter of an hour.
    """

    job_id: int
    app_id: int
    what: str
    stored: str
    counted: str


def audit_board(
    session: Session, *, bounds: tuple[int, int], now_ms: int, job_id: int | None = None
) -> list[BoardFault]:
    """Return where the board differs; nothing before it has been filled.

    `bounds` are epoch milliseconds, the first excluded: quarters of an hour are counted again in
    this time alone, and only if all jobs are audited.
    """
    if not fill.read(session).is_over:
        return []
    faults: list[BoardFault] = []
    last = fill.last_job_id(session)
    after_id = 0 if job_id is None else job_id - 1
    until_id = last if job_id is None else job_id
    while ids := fill.jobs_after(session, after_id, until_id, _CHUNK):
        faults += _lasting(session, ids, now_ms)
        after_id = ids[-1]
    if job_id is None:
        kept = quarter_of(now_ms - quarters.KEPT_MS) + QUARTER_MS
        first = max(kept, quarter_of(bounds[0]))
        for quarter_at in range(first, min(bounds[1], now_ms) + 1, QUARTER_MS):
            faults += _quarter(session, quarter_at)
    return faults


def _lasting(session: Session, job_ids: Iterable[int], now_ms: int) -> list[BoardFault]:
    found: list[BoardFault] = []
    ids = [*job_ids]
    for _ in range(LOOKS):
        found = list(_jobs(session, ids, now_ms))
        if not found:
            return []
        waiting = unfolded.together(unfolded.oldest(session, _ALL))
        runs = due_runs.by_ids(session, sorted(waiting.runs))
        not_yet = {run.job_id for run in runs} | {*waiting.jobs, *waiting.skips}
        ids = sorted({fault.job_id for fault in found} - not_yet)
    return [fault for fault in found if fault.job_id in ids]


def _jobs(session: Session, job_ids: list[int], now_ms: int) -> Iterator[BoardFault]:
    stored = job_states.rows(session, job_ids)
    purged = job_states.purged_until(session, job_ids)
    for job_id in job_ids:
        texts: dict[int, str] = {}
        reading = read_job(session, job_id, now_ms=now_ms, texts=texts)
        row = stored.get(job_id)
        if row is None:
            if reading.history.entries:
                yield BoardFault(job_id, 0, "state", "", history.to_text(reading.history))
            continue
        kept = history.from_text(row["strip"])
        if job_id in purged:
            last = reading.history.entries
            if kept.entries[-len(last) :] != last[-len(kept.entries) :]:
                yield BoardFault(job_id, 0, "strip", row["strip"], history.to_text(reading.history))
            continue
        known = StoredState(**{name: row[name] for name in StoredState._fields})
        for name, value in columns(reading.history, known, texts).items():
            if row[name] != value:
                yield BoardFault(job_id, 0, name, str(row[name]), str(value))
        errors = {
            error.error_key: (error.since_at, error.last_at, error.due_times, error.run_id)
            for error in job_states.errors(session, job_ids=[job_id])
            if error.last_at > reading.since_at
        }
        counted = {
            key: (spell.since_at, spell.last_at, spell.count, spell.run_id)
            for key, spell in reading.spells.items()
            if spell.last_at > reading.since_at
        }
        if errors != counted:
            yield BoardFault(job_id, 0, "errors", str(errors), str(counted))


def _quarter(session: Session, quarter_at: int) -> list[BoardFault]:
    found: list[BoardFault] = []
    for _ in range(LOOKS):
        stored = {
            row.app_id: (row.succeeded, row.failed, row.skipped)
            for row in quarters.between(session, quarter_at, quarter_at + QUARTER_MS, None)
        }
        runs = quarters.count_runs(session, quarter_at)
        skips = quarters.count_skips(session, quarter_at, quarter_at)
        skipped = {key.app_id: number for key, number in skips.items()}
        counted = {
            app_id: (*runs.get(app_id, (0, 0)), skipped.get(app_id, 0))
            for app_id in runs.keys() | skipped.keys()
        }
        if stored == counted:
            return []
        # Skips are counted again from the first one on that was not taken in yet.
        since = unfolded.together(unfolded.oldest(session, _ALL)).skipped_since
        is_behind = since is not None and since < quarter_at + QUARTER_MS
        judged = slice(len(Outcomes._fields) if is_behind else None)
        what = f"quarter {iso(quarter_at)}"
        found = [
            BoardFault(0, app_id, what, str(stored.get(app_id)), str(counted.get(app_id)))
            for app_id in sorted(stored.keys() | counted.keys())
            if stored.get(app_id, _NOTHING)[judged] != counted.get(app_id, _NOTHING)[judged]
        ]
        if not found:
            break
    return found
