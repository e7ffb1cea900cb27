"""Asks executors about runs that have been silent for ten seconds, and acts on the answers.

If a boot does not know a run that was sent to it, the run is sent again with the same id. For a run
of an earlier boot on the same address, the successor's journal says whether it ever started.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from warren.broker import topology
from warren.broker.messages import Boot, KnownState, RunKey, RunStateQuery, RunStateReply
from warren.broker.reasons import Why
from warren.broker.rpc import AddressedQuestion, Requester
from warren.broker.transport import Admin
from warren.scheduler.completion.completion import RunEnder
from warren.scheduler.completion.end import End, identity_of, lost, never_started
from warren.scheduler.jobs.script_cache import few_scripts
from warren.scheduler.membership.roster import Roster, Standing
from warren.scheduler.node_context import NodeContext
from warren.scheduler.recovery.rescuer import made_again
from warren.scheduler.triggers import TRIGGER_VALID_SECONDS, TriggerPublisher
from warren.sql.run_status import RunStatus
from warren.sql.runs import queries
from warren.sql.runs.run_rows import RoutedRun

#: Runs asked about in one question.
BATCH = 500
#: Runs looked at in one round, and the wait between two rounds.
LOOK = 10_000
POLL_SECONDS = 1.0
#: The wait is at least this for each run looked at: reading one takes some 30 microseconds, and
#: thousands may wait in executors for long.
WAIT_SECONDS_A_RUN = 0.000_5
#: After this many questions, a successor that knows nothing of a run is believed, although triggers
#: of the boot before it may still wait in its queue.
SUCCESSOR_QUESTIONS = 2

log = structlog.get_logger()


@dataclass(slots=True)
class _Asked:
    """When a run was last asked about, and how often."""

    at: float
    times: int = 1


class Reconciler:
    """Finds out how silent runs ended, or whether they still run.

    Of the timeouts, `silence` is how old a run must be to be asked about, half of it the wait
    between two questions; `answer` is how long an executor has.
    """

    def __init__(
        self,
        *,
        context: NodeContext,
        ender: RunEnder,
        publisher: TriggerPublisher,
        admin: Admin,
        requester: Requester,
        roster: Roster,
    ) -> None:
        self._context = context
        self._ender = ender
        self._publisher = publisher
        self._admin = admin
        self._requester = requester
        self._roster = roster
        self._silence_seconds = context.timeouts.silence
        self._answer_seconds = context.timeouts.answer
        self._asked: dict[int, _Asked] = {}
        #: Where the next look begins, and the runs of those before it.
        self._offset = 0
        self._seen: set[int] = set()

    def run_round(self, now_ms: int) -> float:
        """Ask about silent runs; return the seconds until the next look.

        An executor that leaves a question unanswered is asked no other one in this round.
        """
        by_executor: dict[tuple[str, str], list[RoutedRun]] = defaultdict(list)
        silent = self._silent(now_ms)
        for row in filter(self._is_to_be_asked, silent):
            app = self._context.app_names.name_of(row.app_id) or ""
            standing = self._roster.standing(app, row.address, row.boot_id)
            if _is_ours(row, standing):
                by_executor[app, row.address].append(row)
        while by_executor:
            answered = self._inquire({at: rows[:BATCH] for at, rows in by_executor.items()})
            by_executor = {
                at: by_executor[at][BATCH:] for at in answered if by_executor[at][BATCH:]
            }
        least_seconds = min(POLL_SECONDS, self._silence_seconds / 10)
        return max(least_seconds, min(len(silent) * WAIT_SECONDS_A_RUN, self._silence_seconds / 2))

    def _silent(self, now_ms: int) -> list[RoutedRun]:
        """Return silent runs; if there are many, the next ones follow in the next round."""
        before_ms = now_ms - int(self._silence_seconds * 1000)
        sent, routed = self._context.database.read(
            lambda session: (
                queries.sent_or_running(
                    session, before_ms=before_ms, now_ms=now_ms, limit=LOOK, offset=self._offset
                ),
                queries.routed(session, before_ms=before_ms, now_ms=now_ms, limit=LOOK),
            )
        )
        self._seen |= {row.id for row in (*sent, *routed)}
        self._offset += len(sent)
        if len(sent) < LOOK:
            self._asked = {run_id: it for run_id, it in self._asked.items() if run_id in self._seen}
            self._offset, self._seen = 0, set()
        return [*sent, *routed]

    def _is_to_be_asked(self, row: RoutedRun) -> bool:
        before = self._asked.get(row.id)
        return before is None or self._context.monotonic() - before.at >= self._silence_seconds / 2

    def _inquire(
        self, by_executor: dict[tuple[str, str], list[RoutedRun]]
    ) -> list[tuple[str, str]]:
        """Ask each executor one question and act on the answers; return which answered."""
        asked: list[tuple[str, str, list[RoutedRun]]] = []
        questions: list[AddressedQuestion] = []
        for (app, address), rows in by_executor.items():
            holder = self._roster.holder(app, address)
            if holder is not None:
                asked.append((app, address, rows))
                questions.append(_question(app, address, holder, rows))
        answered = []
        asked_at = self._context.monotonic()
        answers = self._requester.ask(questions, self._answer_seconds)
        for (app, address, rows), answer in zip(asked, answers, strict=True):
            self._note_asked(rows, asked_at)
            if isinstance(answer, RunStateReply):
                self._act(app, address, rows, answer)
                answered.append((app, address))
        return answered

    def _note_asked(self, rows: Sequence[RoutedRun], asked_at: float) -> None:
        for row in rows:
            before = self._asked.get(row.id)
            self._asked[row.id] = _Asked(asked_at, 1 if before is None else before.times + 1)

    def _act(
        self, app: str, address: str, rows: Sequence[RoutedRun], answer: RunStateReply
    ) -> None:
        acting_at, now_ms = self._context.monotonic(), self._context.now_ms()
        ends: list[End] = []
        unknown: list[RoutedRun] = []
        for row in rows:
            known = answer.runs.get(row.id, KnownState.UNKNOWN)
            is_remembered = row.routed_at >= answer.remembers_since_ms
            if known is KnownState.NEVER_STARTED and is_remembered:
                ends.append(_never_started(row, now_ms))
            elif known in (KnownState.UNKNOWN, KnownState.NEVER_STARTED):
                unknown.append(row)
            # Otherwise it waits, runs, or its result was sent again.
        again: list[RoutedRun] = []
        is_empty = bool(unknown) and self._is_queue_empty(app, address)
        for row in unknown:
            is_same_boot = row.boot_id == answer.boot_id
            is_remembered = row.routed_at >= answer.remembers_since_ms
            if is_same_boot and is_remembered and row.status != RunStatus.RUNNING:
                if is_empty and not _is_stale(row, now_ms):
                    again.append(row)
                elif is_empty:
                    ends.append(_forgotten(row, now_ms))
            elif is_same_boot or is_empty or self._asked[row.id].times >= SUCCESSOR_QUESTIONS:
                ends.append(_forgotten(row, now_ms))
        self._end(ends)
        self._send_again(again, acting_at)

    def _is_queue_empty(self, app: str, address: str) -> bool:
        return not self._admin.count_messages(topology.run_queue(app, address).name)

    def _end(self, ends: Sequence[End]) -> None:
        if not ends:
            return
        tally = self._ender.end(ends)
        log.warning("runs_settled", by_status=Counter(tally.won.values()))

    def _send_again(self, rows: Sequence[RoutedRun], decided_at: float) -> None:
        """Resend triggers that their living executor does not know although its queue is empty."""
        if not rows or not self._publisher.is_open:
            return
        rows = few_scripts(rows)  # the others will be asked about again
        triggers, orphans = made_again(self._context, rows)
        log.warning("triggers_sent_again", count=len(triggers))
        self._publisher.send(triggers, decided_at=decided_at).result()
        now_ms = self._context.now_ms()
        self._end([_forgotten(row, now_ms) for row in orphans])


def _is_ours(row: RoutedRun, standing: Standing) -> bool:
    """Whether an executor can be asked; unconfirmed runs of a living boot are the rescuer's."""
    if standing is Standing.SUPERSEDED:
        return True
    return standing is Standing.ALIVE and row.status != RunStatus.ROUTED


def _is_stale(row: RoutedRun, now_ms: int) -> bool:
    """Whether any copy of the trigger would be expired, so that sending another is useless."""
    return bool(now_ms - row.routed_at > TRIGGER_VALID_SECONDS * 1000)


def _question(app: str, address: str, holder: str, rows: Sequence[RoutedRun]) -> AddressedQuestion:
    keys = tuple(
        RunKey(run_id=row.id, boot_id=row.boot_id, identity=identity_of(row)) for row in rows
    )

    def build(question_id: str, reply_to: str) -> RunStateQuery:
        return RunStateQuery(question_id=question_id, reply_to=reply_to, runs=keys)

    return AddressedQuestion(Boot(app, address, holder), build)


def _never_started(row: RoutedRun, now_ms: int) -> End:
    if row.status == RunStatus.RUNNING:
        return _forgotten(row, now_ms)  # it reported the start, but does not know the run now
    return never_started(row.id, Why.EXECUTOR_RESTARTED(address=row.address), now_ms)


def _forgotten(row: RoutedRun, now_ms: int) -> End:
    return lost(row.id, Why.EXECUTOR_FORGOT(address=row.address), now_ms)
