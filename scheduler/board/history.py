"""How the due times of a job stand by their runs, and what follows: pure, and without a clock.

    older due times                 the last 30
    ─────────────────────────────── ┌────────────────────────────────┐
    what follows from them: Before  │ each of them: DueTime, Skipped │ ──> Summary
                                    └────────────────────────────────┘

A due time that ends is added; one that comes after all others pushes the oldest out, which then
counts in `Before`. What cannot be decided like this, because it changes a due time that was pushed
out or takes back an error, is said so, and the job is read again.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median

from warren.sql.board.due_runs import DueRun
from warren.sql.run_status import FAILURES, OPEN, RunStatus
from warren.sql.runs.reruns import NodeKey

#: How many due times are kept.
LENGTH = 30
#: The usual duration is the median of the last successes: of this many at most, and at least.
MAX_SUCCESSES, MIN_SUCCESSES = 20, 5
#: Of several nodes or shards, the one that counts.
_RANK = {RunStatus.SUCCEEDED: 1} | dict.fromkeys(FAILURES, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTime:
    """A due time that is over: its status, that of its run `run_id`, and how long it took.

    One that was killed, refused or skipped has decided nothing. `error` is the key of its error.
    One that had failed and was made good has that error too, and `mended` is the run that failed.
    """

    at: int
    status: RunStatus
    run_id: int
    took_ms: int = 0
    error: str = ""
    mended: int = 0

    @property
    def is_decided(self) -> bool:
        """Whether it succeeded or failed."""
        return self.status in _RANK

    @property
    def has_failed(self) -> bool:
        """Whether it failed."""
        return self.status in FAILURES

    @property
    def has_succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.status is RunStatus.SUCCEEDED


def judge(runs: Iterable[DueRun], nodes: Mapping[int, NodeKey]) -> DueTime | None:
    """Return how a due time stands; None while it is not over, or if all was cancelled.

    Runs of one due time are attempts, re-runs and backfills of its shards; the newest that decides
    something counts. What was killed, refused or skipped decides nothing. A re-run does not count
    before it has ended, so what failed has failed until then.

    Nodes of flows that have the same job share its due times. Each is judged by itself; the due
    time has failed if one of them has.

    Args:
        runs: all its runs, at least one.
        nodes: the nodes of flows whose runs these are or repeat, by run id.

    """
    by_node: dict[NodeKey | None, list[DueRun]] = defaultdict(list)
    for run in runs:
        if run.status != RunStatus.CANCELLED:
            by_node[nodes.get(run.id)].append(run)
    ends = [end for those in by_node.values() if (end := _end(those)) is not None]
    if not ends:
        return None
    return min(ends, key=lambda end: (-_RANK.get(end.status, 0), end.run_id))


def _end(runs: Sequence[DueRun]) -> DueTime | None:
    """Return how the runs of one node, or of none, stand; None while a shard is open."""
    by_shard: dict[int, list[DueRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.origin_id, run.attempt)):
        by_shard[run.shard_index].append(run)
    deciding = [_deciding(those) for _, those in sorted(by_shard.items())]
    known = [run for run in deciding if run is not None]
    if len(known) < len(deciding):
        return None
    counted = [run for run in known if RunStatus(run.status) in _RANK] or known
    worst = max(counted, key=lambda run: _RANK.get(RunStatus(run.status), 0))
    status = RunStatus(worst.status)
    return DueTime(
        at=worst.scheduled_at,
        status=status,
        run_id=worst.id,
        took_ms=_took_ms(counted),
        mended=_last_failed(runs) if status is RunStatus.SUCCEEDED else 0,
    )


def _deciding(runs: Sequence[DueRun]) -> DueRun | None:
    """Return the run that decides about a shard; None while that is open.

    An attempt that will be repeated decides nothing, and neither does a whole re-run meanwhile.
    """
    final: list[DueRun] = []
    for _, attempts in groupby(runs, lambda run: run.origin_id):
        tries = list(attempts)
        if tries[-1].status not in OPEN:
            final += tries
    if not final:
        return None
    decided = [run for run in final if RunStatus(run.status) in _RANK]
    return (decided or final)[-1]


def _last_failed(runs: Iterable[DueRun]) -> int:
    """Return the newest run that failed and had no attempts left; 0 = there is none."""
    tries = sorted(runs, key=lambda run: run.attempt)
    last = {(run.shard_index, run.origin_id): run for run in tries}
    failed = [run for run in last.values() if run.status in FAILURES]
    return max(failed, key=lambda run: (run.origin_id, run.id)).id if failed else 0


def _took_ms(runs: Sequence[DueRun]) -> int:
    """Return how long it took from the first start to the last end; 0 if that is not known."""
    starts = [run.started_at for run in runs if run.started_at is not None]
    ends = [run.finished_at for run in runs if run.finished_at is not None]
    return max(0, max(ends) - min(starts)) if starts and ends else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Due times in a row that were skipped: `count` of them, from `at` to `until_at`."""

    at: int
    until_at: int
    count: int


Entry = DueTime | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Due times that failed with one error, one after the other, and the run of the last."""

    error: str
    since_at: int
    last_at: int
    count: int
    run_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """The failures since the last success: from when on, how many, and those of one error."""

    good_at: int = 0
    since_at: int = 0
    count: int = 0
    spell: Spell | None = None

    def then(self, entry: Entry) -> "Streak":
        """Return it after one more due time."""
        if isinstance(entry, Skipped) or not (entry.has_failed or entry.has_succeeded):
            return self
        if entry.has_succeeded:
            return Streak(good_at=entry.at)
        return replace(
            self,
            since_at=self.since_at or entry.at,
            count=self.count + 1,
            spell=_longer(self.spell, entry),
        )


def _longer(spell: Spell | None, failed: DueTime) -> Spell:
    if spell is None or spell.error != failed.error:
        spell = Spell(error=failed.error, since_at=failed.at, last_at=0, count=0, run_id=0)
    run_id = failed.mended or failed.run_id
    return replace(spell, last_at=failed.at, count=spell.count + 1, run_id=run_id)


def spells_of(entries: Iterable[Entry], streak: Streak | None = None) -> dict[str, Spell]:
    """Return the last spell of each error among entries in order, which come after a streak.

    A due time that was made good is the end of a spell.
    """
    found: dict[str, Spell] = {}
    streak = streak or Streak()
    for entry in entries:
        if isinstance(entry, DueTime) and (entry.has_failed or entry.mended):
            found[entry.error] = _longer(streak.spell, entry)
        streak = streak.then(entry)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What follows from all due times of a job.

    `newest` is the last one that succeeded or failed; `skipped` are those skipped after it.
    """

    streak: Streak
    newest: DueTime | None
    skipped: Sequence[Skipped]
    usual_ms: int


@dataclass(slots=True, kw_only=True)
class History:
    """The last due times of a job, in order; `before` is what follows from older ones.

    `pushed_at` is the last due time that was pushed out; 0 = all are there. `pushed` are the last
    spells of the errors that were pushed out since this was read.
    """

    before: Streak = field(default_factory=Streak)
    pushed_at: int = 0
    entries: list[Entry] = field(default_factory=list)
    pushed: dict[str, Spell] = field(default_factory=dict, compare=False)

    @property
    def last_at(self) -> int:
        """The newest due time that was taken in; 0 = none."""
        return self.entries[-1].at if self.entries else self.pushed_at

    def add(self, entry: Entry) -> bool:
        """Take in how a due time stands; return False if the job has to be read again."""
        if entry.at <= self.pushed_at:
            return isinstance(entry, Skipped)
        place = bisect_left(self.entries, entry.at, key=lambda known: known.at)
        known = self.entries[place] if place < len(self.entries) else None
        if known is None or known.at != entry.at:
            self.entries.insert(place, entry)
            self._push()
            return True
        if isinstance(entry, Skipped) and isinstance(known, DueTime):
            return True
        self.entries[place] = entry
        return not _takes_back(known, entry)

    def forget_skips(self) -> None:
        """Drop the skips, to take in the recorded ones again."""
        self.entries = [entry for entry in self.entries if isinstance(entry, DueTime)]

    def has(self, at: int) -> bool:
        """Whether a due time was taken in, or may have been."""
        return at <= self.pushed_at or any(
            entry.at == at and isinstance(entry, DueTime) for entry in self.entries
        )

    def summary(self) -> Summary:
        """Return what follows from all due times."""
        streak, newest, skipped = self.before, None, list[Skipped]()
        for entry in self.entries:
            streak = streak.then(entry)
            if isinstance(entry, Skipped):
                skipped.append(entry)
            elif entry.has_failed or entry.has_succeeded:
                newest = entry
                skipped.clear()
        return Summary(
            streak=streak, newest=newest, skipped=tuple(skipped), usual_ms=self._usual_ms()
        )

    def spells(self) -> dict[str, Spell]:
        """Return the last spell of each error, as far as it is known."""
        before = self.before.spell
        found = self.pushed | ({before.error: before} if before is not None else {})
        return found | spells_of(self.entries, self.before)

    def _push(self) -> None:
        while len(self.entries) > LENGTH:
            oldest = self.entries.pop(0)
            self.pushed |= spells_of([oldest], self.before)
            self.before = self.before.then(oldest)
            self.pushed_at = oldest.at

    def _usual_ms(self) -> int:
        took = [
            entry.took_ms
            for entry in self.entries
            if isinstance(entry, DueTime) and entry.has_succeeded
        ]
        return int(median(took[-MAX_SUCCESSES:])) if len(took) >= MIN_SUCCESSES else 0


def _takes_back(known: Entry, entry: Entry) -> bool:
    """Whether a failure, of now or made good, is none any more or has another error."""
    if isinstance(known, Skipped) or not (known.has_failed or known.mended):
        return False
    return not isinstance(entry, DueTime) or entry.error != known.error


def of(entries: Iterable[Entry]) -> History:
    """Return the history of due times that are in order."""
    history = History()
    for entry in entries:
        history.add(entry)
    return history


# What a strip has for each status; skipped due times have `o`.
_SIGNS = {
    RunStatus.SUCCEEDED: "s",
    RunStatus.FAILED: "f",
    RunStatus.TIMED_OUT: "t",
    RunStatus.LOST: "l",
    RunStatus.UNDELIVERED: "u",
    RunStatus.SKIPPED: "n",
    RunStatus.KILLED: "k",
    RunStatus.REFUSED: "r",
}
_STATUSES = {sign: status for status, sign in _SIGNS.items()}
_SKIP = "o"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_text(history: History) -> str:
    """Return a history as text of about 25 characters a due time, for `from_text`."""
    before, spell = history.before, history.before.spell
    head = [history.pushed_at, before.good_at, before.since_at, before.count]
    words = [".".join(map(_base36, head))]
    if spell is not None:
        numbers = (spell.since_at, spell.last_at, spell.count, spell.run_id)
        words[0] += "." + ".".join([spell.error or "-", *map(_base36, numbers)])
    last_at = 0
    for entry in history.entries:
        at = _base36(entry.at - last_at)
        if isinstance(entry, Skipped):
            parts = [at, _base36(entry.until_at - entry.at), _base36(entry.count)]
            words.append(_SKIP + ".".join(parts))
        else:
            parts = [at, _base36(entry.took_ms), _base36(entry.run_id)]
            parts += [entry.error] if entry.error else []
            parts += [_base36(entry.mended)] if entry.mended else []
            words.append(_SIGNS[entry.status] + ".".join(parts))
        last_at = entry.at
    return " ".join(words)


def from_text(text: str) -> History:
    """Return the history that `to_text` wrote; an empty one for no text."""
    if not text:
        return History()
    head, *words = text.split(" ")
    parts = head.split(".")
    pushed_at, good_at, since_at, count = (int(part, 36) for part in parts[:4])
    spell = _spell(parts[4:]) if len(parts) > 4 else None  # noqa: PLR2004 - those before it
    before = Streak(good_at=good_at, since_at=since_at, count=count, spell=spell)
    return History(before=before, pushed_at=pushed_at, entries=list(_entries(words)))


def _spell(parts: Sequence[str]) -> Spell:
    error, *numbers = parts
    since_at, last_at, count, run_id = (int(part, 36) for part in numbers)
    return Spell(
        error="" if error == "-" else error,
        since_at=since_at,
        last_at=last_at,
        count=count,
        run_id=run_id,
    )


def _entries(words: Iterable[str]) -> Iterator[Entry]:
    last_at = 0
    for word in words:
        parts = word[1:].split(".")
        after, second, third = (int(part, 36) for part in parts[:3])
        last_at += after
        if word[0] == _SKIP:
            yield Skipped(at=last_at, until_at=last_at + second, count=third)
        else:
            yield DueTime(
                at=last_at,
                status=_STATUSES[word[0]],
                took_ms=second,
                run_id=third,
                error="".join(parts[3:4]),
                mended=int("".join(parts[4:]) or "0", 36),
            )


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
