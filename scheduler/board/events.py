"""What was the case for a while: outages, downtimes, pauses, executors that are gone, full limits.

An event is kept from its beginning to its end. What is the case now is compared with the events
that are open; the same thing that went on is the same event.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.orm import Session

from warren.scheduler.board.error_text import cut
from warren.scheduler.limits import stored_uses
from warren.sql.board import live
from warren.sql.board.live import EventRow, SpellRow, Waiting
from warren.sql.instants import DAY_MS, MINUTE_MS
from warren.sql.registry import pauses, presence, uptimes
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.registry.presence import ProcessState

#: An outage is one error in this many jobs of any apps, less than this long apart.
OUTAGE_JOBS, OUTAGE_GAP_MS = 5, 15 * MINUTE_MS
#: A time without a scheduler is an event if it was longer.
DOWNTIME_MS = MINUTE_MS
#: How far back events are looked for, and how long they are kept.
LOOK_BACK_MS, KEPT_MS = DAY_MS, 8 * DAY_MS
_SUBJECT_LIMIT = 255


class EventKind(StrEnum):
    """What was the case."""

    OUTAGE = "OUTAGE"
    NO_SCHEDULER = "NO_SCHEDULER"
    EXECUTOR_GONE = "EXECUTOR_GONE"
    LIMIT_FULL = "LIMIT_FULL"
    PAUSE = "PAUSE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that is or was the case; `until_at` None = still.

    `count` is how many jobs failed together, or how many runs were lost or wait.
    """

    kind: EventKind
    app_id: int
    subject: str
    since_at: int
    until_at: int | None = None
    count: int = 0
    error_key: str | None = None


def look(session: Session, waiting: Iterable[Waiting], *, now_ms: int) -> None:
    """Store what is the case, and what has ended; the caller has locked the board."""
    happening = [
        *outages(live.spells(session, since_ms=now_ms - LOOK_BACK_MS)),
        *_downtimes_and_pauses(session, now_ms),
        *_gone(session, now_ms),
        *_full_limits(session, waiting, now_ms),
    ]
    known = live.events(session, since_ms=now_ms - LOOK_BACK_MS)
    for one, event in matched(happening, known):
        if one is None:
            assert event is not None, "one of both is there"
            if event.until_at is None:
                live.change_event(
                    session, event.id, since_at=event.since_at, until_at=now_ms, runs=event.runs
                )
        elif event is None:
            live.add_event(
                session,
                kind=one.kind.value,
                app_id=one.app_id,
                subject=one.subject,
                since_at=one.since_at,
                until_at=one.until_at,
                runs=one.count,
                error_key=one.error_key,
            )
        else:
            since_at, count = min(one.since_at, event.since_at), max(one.count, event.runs)
            if (since_at, one.until_at, count) != (event.since_at, event.until_at, event.runs):
                live.change_event(
                    session, event.id, since_at=since_at, until_at=one.until_at, runs=count
                )


def matched(
    happening: Iterable[Happening], known: Iterable[EventRow]
) -> Iterator[tuple[Happening | None, EventRow | None]]:
    """Yield what is the case with its event, what has none, and events that are over."""
    left: dict[tuple[str, int, str], list[EventRow]] = defaultdict(list)
    for event in known:
        left[event.kind, event.app_id, event.error_key or event.subject].append(event)
    for one in happening:
        rows = left[one.kind, one.app_id, one.error_key or one.subject]
        same = next((event for event in rows if _overlap(one, event)), None)
        if same is not None:
            rows.remove(same)
        yield one, same
    for rows in left.values():
        yield from ((None, event) for event in rows)


def outages(spells: Sequence[SpellRow]) -> list[Happening]:
    """Return the parts of outages in each app, by the errors of jobs in the order they began.

    Whoever sees some of the apps adds up their parts: words and figures are of that app alone.
    """
    by_error: dict[str, list[SpellRow]] = defaultdict(list)
    for spell in spells:
        by_error[spell.error_key].append(spell)
    found: list[Happening] = []
    for those in by_error.values():
        for together in _together(those):
            if len(together) >= OUTAGE_JOBS:
                found += _parts(together)
    return found


def _parts(together: Iterable[SpellRow]) -> Iterator[Happening]:
    by_app: dict[int, list[SpellRow]] = defaultdict(list)
    for spell in together:
        by_app[spell.app_id].append(spell)
    for app_id, those in by_app.items():
        is_open = any(spell.still == spell.error_key for spell in those)
        yield Happening(
            kind=EventKind.OUTAGE,
            app_id=app_id,
            subject=cut(those[0].error_text, _SUBJECT_LIMIT),
            since_at=those[0].since_at,
            until_at=None if is_open else max(spell.last_at for spell in those),
            count=len(those),
            error_key=those[0].error_key,
        )


def _together(spells: Iterable[SpellRow]) -> Iterator[list[SpellRow]]:
    """Yield spells that overlap, or are less than a gap apart."""
    together: list[SpellRow] = []
    last_at = 0
    for spell in spells:
        if together and spell.since_at > last_at + OUTAGE_GAP_MS:
            yield together
            together = []
        together.append(spell)
        last_at = max(last_at, spell.last_at)
    if together:
        yield together


def _downtimes_and_pauses(session: Session, now_ms: int) -> Iterator[Happening]:
    paused = pauses.recent(session, now_ms)
    for pause in paused:
        if pause.until_at is None or pause.until_at > now_ms - LOOK_BACK_MS:
            words = f"{pause.paused_by}: {pause.reason}" if pause.reason else pause.paused_by
            yield Happening(
                kind=EventKind.PAUSE,
                app_id=pause.app_id,
                subject=words[:_SUBJECT_LIMIT],
                since_at=pause.since_at,
                until_at=None if pause.is_in_force(now_ms) else pause.until_at,
            )
    of_all = [pause for pause in paused if pause.app_id == EVERY_APP]
    for down in uptimes.downtimes(session):
        is_pause = any(
            pause.since_at < down.to_ms and down.from_ms < (pause.until_at or now_ms)
            for pause in of_all
        )
        is_long = down.to_ms - down.from_ms > DOWNTIME_MS and down.to_ms > now_ms - LOOK_BACK_MS
        if is_long and not is_pause:
            yield Happening(
                kind=EventKind.NO_SCHEDULER,
                app_id=EVERY_APP,
                subject="",
                since_at=down.from_ms,
                until_at=down.to_ms,
            )


def _gone(session: Session, now_ms: int) -> Iterator[Happening]:
    for app_id, row in live.executors(session):
        if presence.state(row, now_ms) is ProcessState.SILENT:
            yield Happening(
                kind=EventKind.EXECUTOR_GONE,
                app_id=app_id,
                subject=row.address,
                since_at=row.beat_at,
                count=live.lost_runs(session, app_id, row.address, row.beat_at - DAY_MS),
            )


def _full_limits(session: Session, waiting: Iterable[Waiting], now_ms: int) -> Iterator[Happening]:
    """Yield the limits that are full, for each app whose overdue runs wait for them."""
    waits = {row.job_id: row for row in waiting}
    if not waits or not (full := {limit.name for limit in live.full_limits(session)}):
        return
    by_limit: dict[tuple[int, str], list[Waiting]] = defaultdict(list)
    named: Mapping[int, str] = live.limits_of(session, waits)
    for job_id, limits in named.items():
        for use in stored_uses(limits):
            if use.name in full:
                by_limit[waits[job_id].app_id, use.name].append(waits[job_id])
    for (app_id, name), rows in sorted(by_limit.items()):
        yield Happening(
            kind=EventKind.LIMIT_FULL,
            app_id=app_id,
            subject=name,
            since_at=min(now_ms, *(row.oldest_at for row in rows)),
            count=sum(row.number for row in rows),
        )


def _overlap(one: Happening, event: EventRow) -> bool:
    ends_before = event.until_at is not None and event.until_at < one.since_at
    begins_after = one.until_at is not None and one.until_at < event.since_at
    return not (ends_before or begins_after)
