"""Takes what has changed into the state of jobs, their errors and quarters, in one transaction.

Most runs succeed at their first attempt after all other due times of their job: these are taken as
they are. All runs of any other due time are read, and a job whose history cannot take one in is
read again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from typing import Any

from sqlalchemy.orm import Session

from warren.scheduler.board import history
from warren.scheduler.board.due_time import DueTime, judge
from warren.scheduler.board.error_text import error_of
from warren.scheduler.board.history import (
    LENGTH,
    MAX_SUCCESSES,
    MIN_SUCCESSES,
    Entry,
    History,
    Skipped,
    Spell,
    Streak,
    Summary,
)
from warren.sql.batch import chunks
from warren.sql.board import due_runs, job_states, live, quarters
from warren.sql.board.due_runs import DueRun
from warren.sql.board.job_states import StoredError, StoredState, Trouble
from warren.sql.instants import DAY_MS
from warren.sql.run_status import RunStatus
from warren.sql.runs import reruns
from warren.sql.runs.reruns import DueTime as DueKey
from warren.sql.unfolded import Change, quarter_of

#: How far back a job is read again at least, and how many due times at most, if that is possible.
READ_MS, READ_MOST = DAY_MS, 2_000
#: A run is slow if it takes this many times as long as usual, and this much longer.
SLOW_FACTOR, SLOW_MS = 2, 10_000
WEEK_MS = 7 * DAY_MS
_NO_STATE = StoredState(0, "", "", "", 0, 0, 0, 0)


@dataclass(slots=True)
class Reading:
    """A job as its rows have it: its history, and the last spells of its errors since `since_at`.

    Everything after `since_at` was read, and nothing before it.
    """

    history: History
    spells: dict[str, Spell]
    since_at: int


@dataclass(slots=True)
class _Batch:
    """The jobs that a transaction changes."""

    states: Mapping[int, StoredState]
    histories: dict[int, History] = field(default_factory=dict)
    readings: dict[int, Reading] = field(default_factory=dict)
    #: The texts of errors, by run.
    texts: dict[int, str] = field(default_factory=dict)
    spells: dict[int, dict[str, Spell]] = field(default_factory=dict)

    def history_of(self, job_id: int) -> History:
        if job_id not in self.histories:
            kept = history.from_text(self.states.get(job_id, _NO_STATE).strip)
            self.spells[job_id] = kept.spells()
            self.histories[job_id] = kept
        return self.histories[job_id]


def fold(session: Session, change: Change, *, now_ms: int) -> None:
    """Take in a change; the caller has locked the board."""
    runs = due_runs.by_ids(session, sorted(change.runs))
    named = {run.job_id for run in runs} | {*change.jobs, *change.skips}
    jobs = due_runs.existing(session, sorted(named))
    batch = _Batch(job_states.read(session, jobs))
    again = _judge(session, batch, [run for run in runs if run.job_id in jobs])
    _skip(session, batch, jobs.intersection(change.skips))
    again |= _purged(session, batch, jobs.intersection(change.jobs))
    _read_again(session, batch, again, now_ms=now_ms)
    _store(session, batch)
    kept_ms = quarter_of(now_ms - quarters.KEPT_MS)
    recent = {key: number for key, number in change.counts.items() if key.quarter_at >= kept_ms}
    quarters.add(session, recent)
    if change.skipped_since is not None:
        quarters.recount_skips(session, max(change.skipped_since, kept_ms), now_ms)


def rebuild(session: Session, job_ids: Iterable[int], *, now_ms: int) -> None:
    """Store the states of jobs as their rows have them."""
    ids = sorted(job_ids)
    batch = _Batch(job_states.read(session, ids))
    _read_again(session, batch, ids, now_ms=now_ms)
    _store(session, batch)


def read_job(session: Session, job_id: int, *, now_ms: int, texts: dict[int, str]) -> Reading:
    """Return a job as its rows have it; `texts` gets those of its errors, by run.

    It is read back to a success, because nothing before that has to do with what comes after it.
    """
    entries: list[DueTime] = []
    since_at = 0
    for runs in due_runs.newest_first(session, job_id):
        nodes = _nodes(session, runs)
        if (due_time := judge(runs, nodes)) is None:
            continue
        entries.append(due_time)
        is_enough = len(entries) > LENGTH and due_time.at < now_ms - READ_MS
        if due_time.has_succeeded and (is_enough or len(entries) > READ_MOST):
            since_at = due_time.at
            break
    read: dict[int, str] = {}
    named = _with_errors(session, entries, read)
    spells = _spells(named)
    # Only what is shown: a job may have failed a million times.
    texts |= {spell.run_id: read[spell.run_id] for spell in spells.values()}
    skips = [_skipped(skip) for skip in due_runs.skips(session, [job_id])]
    kept = [skip for skip in skips if skip.at > since_at]
    taken_in = history.of(_in_order([*named, *kept]))
    return Reading(taken_in, spells, since_at)


def columns(kept: History, state: StoredState, texts: Mapping[int, str]) -> dict[str, Any]:
    """Return the columns of a job's state, without what is known of its open runs."""
    summary = kept.summary()
    streak, newest = summary.streak, summary.newest
    spell = streak.spell or Spell(error="", since_at=0, last_at=0, count=0, run_id=0)
    text = state.error_text if state.error_key == spell.error else ""
    return {
        "trouble": trouble_of(
            folded_trouble(summary, state.week_ms),
            waiting=state.waiting_count > 0,
            is_long=state.long_since > 0,
        ).value,
        "failing_since": streak.since_at,
        "failing_count": streak.count,
        "error_key": spell.error,
        "error_since": spell.since_at,
        "error_count": spell.count,
        "error_text": texts.get(spell.run_id, text),
        "error_run_id": spell.run_id,
        "good_at": streak.good_at,
        "newest_at": newest.at if newest else 0,
        "newest_status": newest.status.value if newest else "",
        "newest_run_id": newest.run_id if newest else 0,
        "took_ms": newest.took_ms if newest else 0,
        "usual_ms": summary.usual_ms,
        "skipped_since": summary.skipped[0].at if summary.skipped else 0,
        "skipped_count": sum(skip.count for skip in summary.skipped),
        "strip": history.to_text(kept),
    }


def folded_trouble(summary: Summary, week_ms: int) -> Trouble:
    """Return what is wrong with a job by its due times that are over.

    `week_ms` is how long it usually took a week ago.
    """
    newest = summary.newest
    if newest is not None and newest.has_failed:
        return Trouble.LOST if newest.status is RunStatus.LOST else Trouble.FAILING
    if summary.skipped:
        return Trouble.SKIPPED
    if newest is not None and is_slow(newest.took_ms, summary.usual_ms):
        return Trouble.SLOW
    if is_slow(summary.usual_ms, week_ms):
        return Trouble.SLOW
    return Trouble.NONE


def trouble_of(folded: Trouble, *, waiting: bool, is_long: bool) -> Trouble:
    """Return the worst trouble of a job, with that of its open runs."""
    live = [Trouble.WAITING] * waiting + [Trouble.LONG] * is_long
    return min([folded, *live])


def is_slow(took_ms: int, usual_ms: int) -> bool:
    """Whether a run takes much longer than usual."""
    return usual_ms > 0 and took_ms > max(SLOW_FACTOR * usual_ms, usual_ms + SLOW_MS)


def compare(session: Session, job_ids: Iterable[int], *, now_ms: int) -> None:
    """Store how long jobs usually took a week ago; the caller has locked the board."""
    rows = []
    for state in live.states(session, job_ids):
        week_ms = _usual_before(session, state.job_id, now_ms - WEEK_MS)
        if week_ms != state.week_ms:
            folded = folded_trouble(history.from_text(state.strip).summary(), week_ms)
            trouble = trouble_of(
                folded, waiting=state.waiting_count > 0, is_long=state.long_since > 0
            )
            rows.append({"job_id": state.job_id, "week_ms": week_ms, "trouble": trouble.value})
    live.mark(session, rows)


def _usual_before(session: Session, job_id: int, until_at: int) -> int:
    """Return the usual duration by the week before an instant; 0 = there are too few successes."""
    took: list[int] = []
    looked = due_runs.newest_first(
        session, job_id, until_at=until_at, page_length=3 * MAX_SUCCESSES
    )
    for runs in islice(looked, 3 * MAX_SUCCESSES):
        if runs[0].scheduled_at < until_at - WEEK_MS or len(took) == MAX_SUCCESSES:
            break
        due_time = judge(runs, _nodes(session, runs))
        if due_time is not None and due_time.has_succeeded:
            took.append(due_time.took_ms)
    return int(median(took)) if len(took) >= MIN_SUCCESSES else 0


def _judge(session: Session, batch: _Batch, runs: Collection[DueRun]) -> set[int]:
    """Take in the due times of runs; return the jobs that have to be read again."""
    runs = _without_passed_over(batch, runs)
    together = Counter((run.job_id, run.scheduled_at) for run in runs)
    judged: dict[DueKey, DueTime | None] = {}
    for run in runs:
        key = DueKey(run.job_id, run.scheduled_at)
        is_alone = together[run.job_id, run.scheduled_at] == 1
        if is_alone and _is_plain(run) and _is_newest(batch.history_of(run.job_id), run):
            judged[key] = judge([run], {})
        else:
            judged[key] = None
    read = due_runs.at(session, (key for key, due_time in judged.items() if due_time is None))
    nodes = _nodes(session, read)
    by_key: dict[DueKey, list[DueRun]] = defaultdict(list)
    for run in read:
        by_key[DueKey(run.job_id, run.scheduled_at)].append(run)
    judged |= {key: judge(those, nodes) for key, those in by_key.items()}
    keys = sorted(judged)
    known = [due_time for key in keys if (due_time := judged[key]) is not None]
    named = {due.run_id: due for due in _with_errors(session, known, batch.texts)}
    again: set[int] = set()
    for key in keys:
        kept, due_time = batch.history_of(key.job_id), judged[key]
        if due_time is None:
            fits = not kept.has(key.scheduled_at)
        else:
            fits = kept.add(named[due_time.run_id])
        if not fits:
            again.add(key.job_id)
    return again


def _without_passed_over(batch: _Batch, runs: Collection[DueRun]) -> Collection[DueRun]:
    """Return the runs without those that later ones of the same batch push out at once.

    Of a job that has only succeeded since, the last due times say all about those before them.
    """
    if len(runs) <= LENGTH:
        return runs
    by_job: dict[int, list[DueRun]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    kept: list[DueRun] = []
    for job_id, those in by_job.items():
        if len(those) > LENGTH + 1:
            known = batch.history_of(job_id)
            times = {run.scheduled_at for run in those}
            is_plain = all(_is_plain(run) and _is_newest(known, run) for run in those)
            if is_plain and len(times) == len(those):
                those.sort(key=lambda run: run.scheduled_at)
                kept += those[-LENGTH - 1 :]
                continue
        kept += those
    return kept


def _is_plain(run: DueRun) -> bool:
    """Whether a run is a success that was tried once, and repeats nothing."""
    return (
        run.status == RunStatus.SUCCEEDED
        and run.attempt == 0
        and run.shard_total <= 1
        and run.rerun_of is None
        and run.backfill_id is None
        and run.flow_run_id is None
    )


def _is_newest(kept: History, run: DueRun) -> bool:
    last_at = kept.entries[-1].at if kept.entries else kept.pushed_at
    return run.scheduled_at > last_at


def _skip(session: Session, batch: _Batch, job_ids: Collection[int]) -> None:
    """Take in the skips of jobs."""
    by_job: dict[int, list[Skipped]] = {job_id: [] for job_id in job_ids}
    for row in due_runs.skips(session, job_ids):
        by_job[row.job_id].append(_skipped(row))
    for job_id, skips in by_job.items():
        kept = batch.history_of(job_id)
        kept.forget_skips()
        for skip in sorted(skips, key=lambda skip: skip.at):
            kept.add(skip)


def _purged(session: Session, batch: _Batch, job_ids: Collection[int]) -> set[int]:
    """Forget the errors of deleted runs; return the jobs whose last due times are concerned."""
    again: set[int] = set()
    until = job_states.purged_until(session, sorted(job_ids))
    for job_id in sorted(job_ids):
        kept, until_at = batch.history_of(job_id), until.get(job_id, 0)
        # Without a purge, runs of the past were added.
        if not until_at or not kept.entries or kept.entries[0].at <= until_at:
            again.add(job_id)
    for error in job_states.errors(session, job_ids=job_ids):
        if error.last_at <= until.get(error.job_id, 0):
            job_states.forget_errors(session, error.job_id, [error.error_key])
    return again


def _read_again(session: Session, batch: _Batch, job_ids: Iterable[int], *, now_ms: int) -> None:
    for job_id in sorted(job_ids):
        reading = read_job(session, job_id, now_ms=now_ms, texts=batch.texts)
        batch.readings[job_id] = reading
        batch.histories[job_id] = reading.history


def _store(session: Session, batch: _Batch) -> None:
    errors: list[tuple[int, Spell]] = []
    for job_id, kept in batch.histories.items():
        reading = batch.readings.get(job_id)
        before = batch.spells.get(job_id, {}) if reading is None else {}
        spells = kept.spells() if reading is None else reading.spells
        errors += [(job_id, spell) for key, spell in spells.items() if before.get(key) != spell]
    wanted = [(job_id, spell.error) for job_id, spell in errors]
    stored = job_states.errors(session, wanted, batch.readings)
    texts = {(row.job_id, row.error_key): row.error_text for row in stored}
    for job_id, reading in batch.readings.items():
        gone = [
            row.error_key
            for row in stored
            if row.job_id == job_id
            and row.last_at > reading.since_at
            and row.error_key not in reading.spells
        ]
        job_states.forget_errors(session, job_id, gone)
    job_states.store_errors(
        session,
        [
            _error(job_id, spell, batch.texts.get(spell.run_id, texts.get((job_id, spell.error))))
            for job_id, spell in errors
        ],
    )
    rows = {
        job_id: columns(kept, batch.states.get(job_id, _NO_STATE), batch.texts)
        for job_id, kept in batch.histories.items()
    }
    new = {"waiting_count": 0, "waiting_since": 0, "long_since": 0}
    job_states.store(
        session,
        {id_: row if id_ in batch.states else row | new for id_, row in rows.items()},
        batch.states,
    )


def _error(job_id: int, spell: Spell, text: str | None) -> StoredError:
    return StoredError(
        job_id, spell.error, text or "", spell.since_at, spell.last_at, spell.count, spell.run_id
    )


def _with_errors(
    session: Session, due_times: Iterable[DueTime], texts: dict[int, str]
) -> list[DueTime]:
    """Return due times with the keys of their errors.

    `texts` gets their texts, by run.
    """
    named: list[DueTime] = []
    for part in chunks(due_times):
        failed = {due.run_id: due for due in part if due.has_failed}
        messages = due_runs.messages(session, sorted(failed)) if failed else {}
        errors = {
            run_id: error_of(messages.get(run_id, ""), due.status) for run_id, due in failed.items()
        }
        texts |= {run_id: error.text for run_id, error in errors.items()}
        named += [
            replace(due, error=errors[due.run_id].key) if due.has_failed else due for due in part
        ]
    return named


def _spells(newest_first: Iterable[DueTime]) -> dict[str, Spell]:
    """Return the last spell of each error among due times."""
    found: dict[str, Spell] = {}
    streak = Streak()
    for due_time in reversed([*newest_first]):
        streak = streak.then(due_time)
        if streak.spell is not None:
            found[streak.spell.error] = streak.spell
    return found


def _nodes(session: Session, runs: Collection[DueRun]) -> Mapping[int, reruns.NodeKey]:
    if not any(run.flow_run_id is not None for run in runs):
        return {}
    return reruns.nodes_of(session, {run.id for run in runs if run.may_be_of_node})


def _skipped(skip: due_runs.Skip) -> Skipped:
    return Skipped(at=skip.from_at, until_at=skip.to_at, count=skip.number)


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries by time; what ran counts, not that it was skipped before."""
    return sorted(entries, key=lambda entry: (entry.at, isinstance(entry, Skipped)))
