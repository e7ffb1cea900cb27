"""The first step of completion: moves runs to SUCCEEDED that are the only one of their tick.

Most runs end this way. One guarded UPDATE moves all those of an executor, without reading their
rows first. Every other end is decided on by its row.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.broker.messages.values import cut_message
from warren.scheduler.completion.end import AHEAD_MS, EARLY_MS, End, ms_ahead
from warren.scheduler.completion.follow_ups import FollowUps, LastAttempt
from warren.scheduler.schedules.registry import WAITING_KINDS
from warren.sql.jobs import child_links
from warren.sql.run_status import RunStatus
from warren.sql.runs import successes, transitions
from warren.sql.runs.successes import SentTo, Success


class PlainSuccess(NamedTuple):
    """An end that may take the fast path: who reported it, and what is written."""

    end: End
    sent_to: SentTo
    success: Success


def split(ends: Sequence[End], now_ms: int) -> tuple[list[PlainSuccess], list[End]]:
    """Return the ends that may take the fast path, and the others. A run reported twice may not."""
    times = Counter(end.run_id for end in ends)
    plain: list[PlainSuccess] = []
    others: list[End] = []
    for end in ends:
        one = _plain(end, now_ms) if times[end.run_id] == 1 else None
        if one is None:
            others.append(end)
        else:
            plain.append(one)
    return plain, others


def end_plain(
    session: Session, plain: Sequence[PlainSuccess], follow_ups: FollowUps
) -> tuple[list[PlainSuccess], list[int]]:
    """End those that are open as SUCCEEDED; return them, and the ids of runs that follow."""
    if not plain:
        return [], []
    moved = successes.succeed_open(session, _by_executor(plain))
    won = [one for one in plain if one.success.run_id in moved]
    return won, _follow(session, [one.success for one in won], follow_ups)


def _plain(end: End, now_ms: int) -> PlainSuccess | None:
    """Return what ends a whole tick, as far as can be told without the row; None for other ends.

    Instants within a day are accepted, whenever the run was routed.
    """
    if (
        end.status is not RunStatus.SUCCEEDED
        or end.sent_to is None
        or end.alone_of_job is None
        or end.started_at is None
        or not isinstance(end.message, str)
    ):
        return None
    earliest_ms, latest_ms = now_ms - EARLY_MS, now_ms + AHEAD_MS
    due_at = end.finished_at if end.due_at is None else end.due_at
    if not all(earliest_ms <= at <= latest_ms for at in (end.started_at, end.finished_at, due_at)):
        return None
    ahead_ms = ms_ahead(end, now_ms)
    success = Success(
        run_id=end.run_id,
        job_id=end.alone_of_job,
        message=cut_message(end.message),
        started_at=end.started_at - ahead_ms,
        finished_at=end.finished_at - ahead_ms,
        log_tail=end.log_tail or "",
    )
    return PlainSuccess(end, end.sent_to, success)


def _by_executor(plain: Sequence[PlainSuccess]) -> Mapping[SentTo, list[Success]]:
    found: dict[SentTo, list[Success]] = defaultdict(list)
    for one in plain:
        found[one.sent_to].append(one.success)
    return found


def _follow(session: Session, won: Sequence[Success], follow_ups: FollowUps) -> list[int]:
    """Plan what follows the ends of jobs with children or a fixed delay.

    The jobs are read after the UPDATE, so that an edit made before it counts.
    """
    job_ids = sorted({one.job_id for one in won})
    followed = child_links.followed(session, job_ids, waiting_kinds=WAITING_KINDS)
    led_on = {one.run_id: one for one in won if one.job_id in followed}
    rows = transitions.lock(session, led_on) if led_on else []
    last_attempts = [
        LastAttempt(row, RunStatus.SUCCEEDED, led_on[row.id].finished_at) for row in rows
    ]
    return follow_ups.follow(session, last_attempts) if last_attempts else []
