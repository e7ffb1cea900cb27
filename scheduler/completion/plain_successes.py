"""The fast path to SUCCEEDED, for runs that are the only one of their tick.

Most ends are such. One guarded UPDATE moves all those of an executor at once, without reading their
rows first. Any other end takes the ordinary path.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from scheduler.completion.follow_ups import Ending, FollowUps
from scheduler.completion.reported_ends import AHEAD_MS, EARLY_MS
from scheduler.completion.retry_policy import End
from scheduler.explanations import cut
from scheduler.schedules.registry import WAITING_KINDS
from sql.jobs import child_links
from sql.run_status import RunStatus
from sql.runs import successes, transitions
from sql.runs.successes import SentTo, Success


def split(ends: Sequence[End], now_ms: int) -> tuple[list[End], list[End]]:
    """Return the ends that may take the fast path, and the others. A run reported twice may not."""
    times = Counter(end.run_id for end in ends)
    plain: list[End] = []
    others: list[End] = []
    for end in ends:
        quick = times[end.run_id] == 1 and _is_plain(end, now_ms)
        (plain if quick else others).append(end)
    return plain, others


def end_plain(
    session: Session, ends: Sequence[End], follow_ups: FollowUps, *, careful: bool
) -> tuple[list[End], list[int]]:
    """End runs as SUCCEEDED; return the ends that took place, and the ids of runs that follow.

    `careful` first looks which of them are open, and leaves out the others.

    Raises:
        NotAllWon: not `careful`, and one was not open; roll back and repeat with `careful`.

    """
    won: list[End] = []
    for who, alike in _by_executor(ends).items():
        chosen = alike
        if careful:
            jobs = {end.run_id: end.alone_of_job or 0 for end in alike}
            is_open = successes.lock_open(session, who, jobs)
            chosen = [end for end in alike if end.run_id in is_open]
        if chosen:
            successes.succeed(session, who, [_success(end) for end in chosen])
        won += chosen
    return won, _follow(session, won, follow_ups)


def _is_plain(end: End, now_ms: int) -> bool:
    """Whether this ends a whole tick, as far as can be told without the row.

    Instants within a day are accepted, whenever the run was routed.
    """
    return (
        end.status is RunStatus.SUCCEEDED
        and end.alone_of_job is not None
        and end.address is not None
        and isinstance(end.message, str)
        and now_ms - EARLY_MS <= end.finished_at <= now_ms + AHEAD_MS
        and end.started_at is not None
        and now_ms - EARLY_MS <= end.started_at <= now_ms + AHEAD_MS
    )


def _by_executor(ends: Sequence[End]) -> Mapping[SentTo, list[End]]:
    found: dict[SentTo, list[End]] = defaultdict(list)
    for end in ends:
        found[SentTo(end.app_id or 0, end.address or "", end.boot_id or "")].append(end)
    return found


def _success(end: End) -> Success:
    return Success(
        run_id=end.run_id,
        job_id=end.alone_of_job or 0,
        message=cut(str(end.message)),
        started_at=end.started_at or 0,
        finished_at=end.finished_at,
        log_tail=end.log_tail or "",
    )


def _follow(session: Session, won: Sequence[End], follow_ups: FollowUps) -> list[int]:
    """Plan what follows the ends of jobs with children or a fixed delay.

    The jobs are read after the UPDATE, so that an edit made before it counts.
    """
    job_ids = sorted({end.alone_of_job or 0 for end in won})
    followed = child_links.followed(session, job_ids, waiting_kinds=WAITING_KINDS)
    led_on = {end.run_id: end for end in won if end.alone_of_job in followed}
    rows = transitions.lock(session, led_on) if led_on else []
    endings = [Ending(row, RunStatus.SUCCEEDED, led_on[row.id].finished_at) for row in rows]
    return follow_ups.follow(session, endings) if endings else []
