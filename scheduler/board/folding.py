"""Takes what has changed into the state of jobs, their errors and quarters, in one transaction.

Most runs succeed at their first attempt after all other due times of their job: these are taken as
they are. All runs of any other due time are read, and a job whose history cannot take one in is
read again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median
from typing import Any

from sqlalchemy.orm import Session

from warren.scheduler.board import history
from warren.scheduler.board.error_text import error_of
from warren.scheduler.board.history import (
    LENGTH,
    MAX_SUCCESSES,
    MIN_SUCCESSES,
    DueTime,
    Entry,
    History,
    Skipped,
    Spell,
    Summary,
    judge,
)
from warren.sql.batch import chunks
from warren.sql.board import due_runs, job_states, live, quarters
from warren.sql.board.due_runs import DueRun, Total
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
    ended = sorted(change.runs)
    totals = due_runs.totals(session, ended)
    jobs = due_runs.existing(session, sorted({*totals, *change.jobs, *change.skips}))
    batch = _Batch(job_states.read(session, jobs))
    totals = {job_id: total for job_id, total in totals.items() if job_id in jobs}
    again = _judge(session, batch, *_ended(session, batch, ended, totals))
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
    spells = history.spells_of(reversed(named))
    # Only what is shown: a job may have failed a million times.
    texts |= {spell.run_id: read[spell.run_id] for spell in spells.values()}
    skips = [_skipped(skip) for skip in due_runs.skips(session, [job_id])]
    kept = [skip for skip in skips if skip.at > since_at]
    taken_in = history.of(_in_order([*named, *kept]))
    return Reading(taken_in, spells, since_at)


def error_keys(session: Session, times: Iterable[DueKey]) -> dict[DueKey, str]:
    """Return the keys of the errors with which due times failed, of those that are over."""
    judged = {key: due for key, due in _judged(session, times).items() if due is not None}
    named = _with_errors(session, judged.values(), {})
    return {key: due.error for key, due in zip(judged, named, strict=True) if due.has_failed}


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


def _ended(
    session: Session, batch: _Batch, ended: Sequence[int], totals: Mapping[int, Total]
) -> tuple[list[DueRun], set[DueKey]]:
    """Return the runs to take in one by one, and the due times that have several of them.

    Without those that later ones of the same batch push out at once: of a job that has only
    succeeded since, the last due times say all about those before them.
    """
    among, most = set(ended), LENGTH + 1
    of_one_time: dict[int, DueKey] = {}
    last: dict[int, list[DueRun]] = {}
    for job_id, total in totals.items():
        if total.number == 1 or total.plain < total.number:
            continue
        if total.first_at == total.last_at:
            of_one_time[job_id] = DueKey(job_id, total.last_at)
        elif total.number > most and total.first_at > batch.history_of(job_id).last_at:
            newest = due_runs.newest(session, job_id, last_at=total.last_at, number=2 * most)
            kept = [run for run in newest if run.id in among][:most]
            if len({run.scheduled_at for run in kept}) == most:
                last[job_id] = kept
    known = {*of_one_time, *last}
    others = due_runs.by_ids(session, ended, but_of=known) if len(known) < len(totals) else []
    runs = sum(last.values(), [run for run in others if run.job_id in totals])
    return runs, set(of_one_time.values())


def _judge(
    session: Session, batch: _Batch, runs: Collection[DueRun], times: Iterable[DueKey]
) -> set[int]:
    """Take in the due times of runs, and others; return the jobs that have to be read again."""
    together = Counter((run.job_id, run.scheduled_at) for run in runs)
    judged: dict[DueKey, DueTime | None] = dict.fromkeys(times)
    for run in runs:
        key = DueKey(run.job_id, run.scheduled_at)
        is_alone = together[run.job_id, run.scheduled_at] == 1
        if is_alone and run.is_plain and run.scheduled_at > batch.history_of(run.job_id).last_at:
            judged[key] = judge([run], {})
        else:
            judged[key] = None
    judged |= _judged(session, [key for key, due_time in judged.items() if due_time is None])
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


def _judged(session: Session, times: Iterable[DueKey]) -> dict[DueKey, DueTime | None]:
    """Return how due times stand, by as few of their runs as say so."""
    judged: dict[DueKey, DueTime | None] = dict.fromkeys(times)
    for key, those in _by_time(due_runs.last_ended(session, judged)).items():
        # Any attempts of the oldest origin may be missing.
        first = min(run.origin_id for run in those) if len(those) == due_runs.LAST_ENDED else 0
        if all(run.shard_total <= 1 and not run.may_be_of_node for run in those):
            due_time = judge([run for run in those if run.origin_id > first], {})
            is_sure = due_time is not None and (due_time.has_failed or due_time.mended or not first)
            judged[key] = (
                due_time if due_time is not None and due_time.is_decided and is_sure else None
            )
    read = due_runs.at(session, (key for key, due_time in judged.items() if due_time is None))
    nodes = _nodes(session, read)
    return judged | {key: judge(those, nodes) for key, those in _by_time(read).items()}


def _by_time(runs: Iterable[DueRun]) -> dict[DueKey, list[DueRun]]:
    by_time: dict[DueKey, list[DueRun]] = defaultdict(list)
    for run in runs:
        by_time[DueKey(run.job_id, run.scheduled_at)].append(run)
    return by_time


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
    job_states.end_mutes_of_other_errors(
        session,
        (
            id_
            for id_, row in rows.items()
            if row["error_key"] not in ("", batch.states.get(id_, _NO_STATE).error_key)
        ),
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
        failed = {due.mended or due.run_id: due for due in part if due.has_failed or due.mended}
        messages = due_runs.messages(session, sorted(failed)) if failed else {}
        errors = {
            run_id: error_of(messages.get(run_id, ""), due.status) for run_id, due in failed.items()
        }
        texts |= {run_id: error.text for run_id, error in errors.items()}
        keys = {failed[run_id].run_id: error.key for run_id, error in errors.items()}
        named += [
            replace(due, error=keys[due.run_id]) if due.run_id in keys else due for due in part
        ]
    return named


def _nodes(session: Session, runs: Collection[DueRun]) -> Mapping[int, reruns.NodeKey]:
    if not any(run.flow_run_id is not None for run in runs):
        return {}
    return reruns.nodes_of(session, {run.id for run in runs if run.may_be_of_node})


def _skipped(skip: due_runs.Skip) -> Skipped:
    return Skipped(at=skip.from_at, until_at=skip.to_at, count=skip.number)


def _in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries by time; what ran counts, not that it was skipped before."""
    return sorted(entries, key=lambda entry: (entry.at, isinstance(entry, Skipped)))
