"""Which of a job's ticks become runs now, which are skipped, and when to look again.

Every tick between the old watermark and the new one is in exactly one fire or one skip.

      watermark              now - 5 s      now           now + 5 s
    ──────┼──────────────────────┼───────────┼───────────────┼─────>
      oldest tick in here: all       fire at    plan for its
      up to now are one group        once       time

Of a group only the last tick can run. It runs as itself if it is not later than the job allows;
otherwise the job's policy decides. CATCH_UP skips them all, and has a backfill run the newest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from warren.broker.reasons import Reason, Why
from warren.scheduler.schedules.schedule import Ticks
from warren.sql.run_status import LATE_MS, Kind

#: How far ahead ticks become rows (XXL-JOB's pre-read).
WINDOW_MS = 5_000
#: While a job has more than this many PLANNED rows that are over 5 s late, its ticks are skipped.
OVERDUE_LIMIT = 100


class MisfirePolicy(StrEnum):
    """What happens to missed ticks."""

    DO_NOTHING = "DO_NOTHING"
    FIRE_ONCE_NOW = "FIRE_ONCE_NOW"
    CATCH_UP = "CATCH_UP"


#: The policies by which no missed tick runs as itself.
SKIPPING = frozenset({MisfirePolicy.DO_NOTHING, MisfirePolicy.CATCH_UP})


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Which skipped ticks a backfill runs: the newest `most`, up to `within_ms` back."""

    within_ms: int
    most: int


@dataclass(frozen=True, slots=True)
class Fire:
    """A run to plan; `kind` is SCHEDULE or MISFIRE, and `is_late` one that runs as itself."""

    scheduled_at_ms: int
    due_at_ms: int
    kind: Kind
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Skip:
    """Skipped ticks: the first, the last, and their number; `is_caught_up` by a backfill."""

    from_ms: int
    to_ms: int
    count: int
    reason: Reason
    is_caught_up: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether nothing replaces them, so that an alarm must be raised."""
        return self.reason.code is Why.MISFIRED and not self.is_caught_up

    def named(self, backfill_id: int) -> "Skip":
        """Return the same skip; if it is caught up, its reason names the backfill."""
        if not self.is_caught_up:
            return self
        seconds = self.reason.facts["seconds"]
        return replace(self, reason=Why.CAUGHT_UP(seconds=seconds, id=backfill_id))


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision about one job.

    `watermark_ms` is the last decided tick, or the old watermark. `next_ms` is the first tick
    that is still undecided; None when there is none, which ends the schedule unless it `waits`.
    """

    fires: tuple[Fire, ...]
    skips: tuple[Skip, ...]
    watermark_ms: int
    next_ms: int | None
    waits: bool

    def is_behind(self, now_ms: int) -> bool:
        """Whether there is an undecided tick up to now."""
        return self.next_ms is not None and self.next_ms <= now_ms


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A schedule with its anchor."""

    schedule: Ticks
    anchor_ms: int
    job_id: int

    def next_after(self, after_ms: int) -> int | None:
        return self.schedule.next_after(after_ms, self.anchor_ms)

    def last_until(self, after_ms: int, until_ms: int) -> int | None:
        return self.schedule.last_until(after_ms, until_ms, self.anchor_ms)

    def fires(self, after_ms: int, until_ms: int, limit: int) -> tuple[Fire, ...]:
        """Plan the first ticks in the span, each for its own time."""
        ticks = self.schedule.ticks(after_ms, until_ms, self.anchor_ms, limit)
        return tuple(Fire(tick, self.due_at(tick), Kind.SCHEDULE) for tick in ticks)

    def due_at(self, tick: int) -> int:
        """Return when the run of a tick is due."""
        return self.schedule.due_at(self.job_id, tick)

    def late_until(self, after_ms: int, now_ms: int) -> int | None:
        """Return up to when ticks are judged as late; None if all of them are due in time.

        Of ticks up to now, only the last one may be due after now: a jitter is shorter than the
        distance of two ticks.
        """
        last = self.last_until(after_ms, now_ms)
        if last is not None and self.due_at(last) > now_ms:
            return self.last_until(after_ms, last - 1)
        return None if last is None else now_ms

    def skips(self, after_ms: int, until_ms: int, reason: Reason) -> tuple[Skip, ...]:
        """Skip all ticks in the span; nothing when it is empty."""
        first, last = self.next_after(after_ms), self.last_until(after_ms, until_ms)
        if first is None or last is None:
            return ()
        count = self.schedule.count(after_ms, until_ms, self.anchor_ms)
        return (Skip(first, last, count, reason),)

    def caught_up(
        self, after_ms: int, until_ms: int, reason: Reason, earliest_ms: int, most: int
    ) -> tuple[Skip, ...]:
        """Skip the ticks in the span; the newest `most` from `earliest_ms` on are caught up."""
        begin_ms = until_ms
        for _ in range(most):
            tick = self.last_until(max(after_ms, earliest_ms - 1), begin_ms)
            if tick is None:
                break
            begin_ms = tick - 1
        newest = self.skips(begin_ms, until_ms, reason)
        return (
            *self.skips(after_ms, begin_ms, reason),
            *(replace(skip, is_caught_up=True) for skip in newest),
        )


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a job says about late ticks; `catch_up` counts with the policy CATCH_UP only."""

    policy: MisfirePolicy
    late_limit_ms: int
    catch_up: CatchUp | None

    def skips(
        self, ticks: _Anchored, after_ms: int, until_ms: int, reason: Reason, now_ms: int
    ) -> tuple[Skip, ...]:
        """Skip all ticks in the span, and catch up those that the job says.

        A fixed delay has no due times to catch up.
        """
        catch_up = self.catch_up if self.policy is MisfirePolicy.CATCH_UP else None
        if catch_up is None or ticks.schedule.waits_for_completion:
            return ticks.skips(after_ms, until_ms, reason)
        earliest_ms = now_ms - catch_up.within_ms
        return ticks.caught_up(after_ms, until_ms, reason, earliest_ms, catch_up.most)


def decide(
    schedule: Ticks,
    *,
    job_id: int = 0,
    anchor_ms: int,
    watermark_ms: int,
    now_ms: int,
    policy: MisfirePolicy,
    late_limit_ms: int,
    overdue_rows: int,
    catch_up: CatchUp | None = None,
    limit: int = 50,
) -> Plan:
    """Decide about the ticks after the watermark, up to the window's end.

    Args:
        schedule: the job's ticks.
        job_id: the job; a jitter depends on it.
        anchor_ms: any one tick of the job; for a fixed delay the open one (its stored next time).
        watermark_ms: every tick up to here is decided.
        now_ms: the database's clock.
        policy: for ticks that are later than the limit.
        late_limit_ms: how late the last tick up to now may still run as itself.
        overdue_rows: PLANNED rows of this job that were already over 5 s late when last counted.
        catch_up: what the policy CATCH_UP catches up.
        limit: most ordinary fires per call; the rest is left to the next call.

    """
    ticks, until_ms = _Anchored(schedule, anchor_ms, job_id), now_ms + WINDOW_MS
    oldest = ticks.next_after(watermark_ms)
    if oldest is None or oldest > until_ms:
        return Plan((), (), watermark_ms, oldest, schedule.waits_for_completion)
    fires: tuple[Fire, ...] = ()
    skips: tuple[Skip, ...] = ()
    if overdue_rows > OVERDUE_LIMIT:
        skips = ticks.skips(watermark_ms, until_ms, Why.OVERDUE(most=OVERDUE_LIMIT))
    else:
        judged_ms = ticks.late_until(watermark_ms, now_ms) if now_ms - oldest > LATE_MS else None
        if judged_ms is not None and now_ms - ticks.due_at(oldest) > LATE_MS:
            rule = _Rule(policy, late_limit_ms, catch_up)
            fires, skips = _late(ticks, watermark_ms, (judged_ms, now_ms), rule)
        decided_ms = _last((*fires, *skips), watermark_ms)
        fires += ticks.fires(decided_ms, until_ms, limit)
    watermark_ms = _last((*fires, *skips), watermark_ms)
    next_ms = ticks.next_after(watermark_ms)
    if next_ms is None and not fires:
        # No run will end to set a fixed delay's next tick, so the skip itself sets it.
        next_ms = schedule.after_completion(now_ms)
    return Plan(fires, skips, watermark_ms, next_ms, schedule.waits_for_completion)


def _late(
    ticks: _Anchored, watermark_ms: int, until_now: tuple[int, int], rule: _Rule
) -> tuple[tuple[Fire, ...], tuple[Skip, ...]]:
    """Decide about the ticks up to an instant as one group; the second of the pair is the time."""
    until_ms, now_ms = until_now
    oldest = ticks.next_after(watermark_ms) or now_ms
    seconds = f"{(now_ms - ticks.due_at(oldest)) / 1_000:.1f}"
    last = ticks.last_until(watermark_ms, until_ms) or oldest
    due_ms = ticks.due_at(last)
    if now_ms - due_ms <= rule.late_limit_ms:
        why = Why.LATE_BEFORE_ANOTHER(seconds=seconds)
        skips = rule.skips(ticks, watermark_ms, last - 1, why, now_ms)
        return (Fire(last, due_ms, Kind.SCHEDULE, is_late=now_ms - due_ms > LATE_MS),), skips
    if rule.policy in SKIPPING:
        why = Why.MISFIRED(seconds=seconds)
        return (), rule.skips(ticks, watermark_ms, until_ms, why, now_ms)
    skips = ticks.skips(watermark_ms, last - 1, Why.MISFIRED_IN_ONE(seconds=seconds))
    return (Fire(last, now_ms, Kind.MISFIRE),), skips


def _last(decisions: Sequence[Fire | Skip], watermark_ms: int) -> int:
    ends = (d.to_ms if isinstance(d, Skip) else d.scheduled_at_ms for d in decisions)
    return max(ends, default=watermark_ms)
