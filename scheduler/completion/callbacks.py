"""Stores executors' reports: one transaction per batch, acknowledged after its commit.

A callback that cannot be stored is found by bisection and dead-lettered, so that one bad report
never blocks the others. Its run still ends as the executor says, but without the report's texts,
which may be at fault. If that fails too, the fault is the scheduler's: the run stays open until its
executor, when asked, reports again.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog
from msgspec.json import encode
from sqlalchemy.orm import Session

from warren.broker.errors import BadMessage, Oversized
from warren.broker.messages import (
    Boot,
    Callback,
    Called,
    CallEndQuery,
    CallEndReply,
    Finished,
    LogsStored,
    NotStarted,
    OpenRunsQuery,
    OpenRunsReply,
    Progressed,
    Report,
    Started,
    StoreLogs,
)
from warren.broker.reasons import Why
from warren.broker.signing import Direction, Sealer, app_of
from warren.broker.transport import Consumer, Delivery
from warren.scheduler.completion.calls import ReportedCall, end_of_call
from warren.scheduler.completion.completion import RunEnder, Tally
from warren.scheduler.completion.end import End, end_of, identity_of, plausible_instant
from warren.scheduler.completion.log_places import note_stored
from warren.scheduler.membership.registration import BootAccounts
from warren.scheduler.node_context import AddressedCommand, CommandSender, NodeContext
from warren.scheduler.problems import fault_of
from warren.scheduler.rounds import NAP_SECONDS, bisect
from warren.sql.epochs import Cause
from warren.sql.errors import DatabaseUnavailable
from warren.sql.registry import presence
from warren.sql.run_status import IN_FLIGHT
from warren.sql.runs import queries, transitions
from warren.sql.runs.run_rows import RoutedRun
from warren.sql.runs.stored_logs import LogRow
from warren.sql.runs.transitions import SentTo

#: Deliveries per round, with up to 100 reports each, and reports per round: all in one transaction,
#: whose locks others wait for.
BATCH = 50
REPORTS = 5_000
#: Shortest time between two rounds: a transaction costs as much as thirty reports in it. A callback
#: after an idle time is stored at once.
GATHER_SECONDS = 0.05
#: The same while runs wait for an underused limit: as often as an executor reports.
SHORT_GATHER_SECONDS = 0.02
#: How long an answer to `OpenRunsQuery` is valid.
ANSWER_SECONDS = 30.0
#: The messages that come besides reports.
_Message = Callback | Progressed | OpenRunsQuery | CallEndQuery | StoreLogs | LogsStored

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Item:
    """One report, its executor, and the delivery that carried it."""

    delivery: Delivery
    app_id: int
    address: str
    report: Report

    @property
    def sent_to(self) -> SentTo:
        """The reporting boot; the run must have been sent to it."""
        return SentTo(self.app_id, self.address, self.report.boot_id)


class Callbacks:
    """Updates runs as their executors report.

    Args:
        on_freed: called after a commit with the number of ended runs by app and address.
        is_pressing: whether runs wait for what the reported ones give back.
        on_logs: answers executors that ask where to store logs.
        on_whole: called with stored logs of which parts are left.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        ender: RunEnder,
        consumer: Consumer,
        sealer: Sealer,
        commands: CommandSender,
        accounts: BootAccounts,
        on_freed: Callable[[Mapping[tuple[int, str], int]], None],
        is_pressing: Callable[[], bool],
        on_logs: Callable[[StoreLogs], None] = lambda _question: None,
        on_whole: Callable[[list[LogRow]], None] = lambda _rows: None,
    ) -> None:
        self._context = context
        self._ender = ender
        self._consumer = consumer
        self._sealer = sealer
        self._commands = commands
        self._accounts = accounts
        self._on_freed = on_freed
        self._is_pressing = is_pressing
        self._on_logs = on_logs
        self._on_whole = on_whole
        self._taken: deque[Delivery] = deque()
        self._held: list[Delivery] = []
        self._items: list[_Item] = []
        self._progress: dict[SentTo, dict[int, str]] = defaultdict(dict)
        self._logs: list[LogsStored] = []

    def run_round(self, _now_ms: int) -> float:
        """Store the reports that have arrived; waits for the first message unless `wake` is called.

        Returns the seconds to wait, in which further reports gather for the next round.
        """
        if not self._held:
            self._take()
        if not self._held:
            return 0
        began_at = time.monotonic()
        # Not the time of this round, which may have waited long.
        spoiled = self._store(self._items, self._context.now_ms())
        rejected = {id(item.delivery) for item in spoiled}
        self._store_progress()
        self._store_logs()
        self._consumer.ack([item for item in self._held if id(item) not in rejected])
        self._consumer.reject([item for item in self._held if id(item) in rejected])
        # Only now: if the database is down, the same deliveries are tried again next round.
        self._held, self._items, self._logs = [], [], []
        gather_seconds = SHORT_GATHER_SECONDS if self._is_pressing() else GATHER_SECONDS
        return max(0.0, began_at + gather_seconds - time.monotonic())

    def wake(self) -> None:
        """End a waiting round at once."""
        self._consumer.wake()

    def _take(self) -> None:
        if not self._taken:
            self._taken.extend(self._consumer.take(BATCH, NAP_SECONDS))
        while self._taken and len(self._items) < REPORTS:
            self._receive(self._taken[0])
            # Only now: if the database is down, the next round continues with it.
            self._taken.popleft()

    def _receive(self, delivery: Delivery) -> None:
        try:
            message = self._open(delivery)
        except Oversized as error:
            self._context.counters.count("messages_dropped")
            log.warning("message_dropped", queue=delivery.queue, reason=str(error))
            self._consumer.ack([delivery])
            return
        except BadMessage as error:
            self._context.counters.count("messages_rejected")
            log.warning("message_rejected", queue=delivery.queue, reason=str(error))
            self._consumer.reject([delivery])
            return
        items = []
        if isinstance(message, OpenRunsQuery):
            self._answer(message)
        elif isinstance(message, CallEndQuery):
            self._answer_call(message)
        elif isinstance(message, Progressed):
            self._note(message)
        elif isinstance(message, StoreLogs):
            self._on_logs(message)
        elif isinstance(message, LogsStored):
            self._logs.append(message)
        else:
            app_id = self._context.app_names.id_of(message.app)
            items = [_Item(delivery, app_id, message.address, report) for report in message.reports]
        self._held.append(delivery)
        self._items += items

    def _open(self, delivery: Delivery) -> _Message:
        message: _Message = self._sealer.open(
            delivery, expect=_Message, direction=Direction.FROM_EXECUTOR
        )
        boot = Boot(message.app, message.address, message.boot_id)
        if not self._accounts.knows(boot):
            self._learn_account(boot)
        self._accounts.prove(boot, delivery.user)
        return message

    def _learn_account(self, boot: Boot) -> None:
        """Read the account of a boot that another scheduler admitted, if it holds its address."""
        account = self._context.database.read(
            lambda session: presence.account(session, presence.EXECUTOR, *boot)
        )
        if account is not None:
            self._accounts.settle(boot, account)

    def _store(self, items: list[_Item], now_ms: int) -> list[_Item]:
        """Store reports; return those that the database rejected."""
        spoiled: list[_Item] = []

        def give_up(item: _Item, error: Exception) -> None:
            self._give_up(item, error, now_ms)
            spoiled.append(item)

        bisect(items, lambda part: self._write(part, now_ms), give_up)
        return spoiled

    def _write(self, items: Sequence[_Item], now_ms: int) -> None:
        started = [item for item in items if isinstance(item.report, Started)]
        calls = [
            ReportedCall(report=item.report, sent_to=item.sent_to)
            for item in items
            if isinstance(item.report, Called)
        ]
        ends = [
            end_of(item.report, item.sent_to, now_ms)
            for item in items
            if isinstance(item.report, Finished | NotStarted)
        ]
        tally = self._ender.end(
            ends, called=calls, first=lambda session: _start(session, started, now_ms)
        )
        if tally.not_theirs and self._context.app_names.refresh():
            not_theirs, tally.not_theirs = tally.not_theirs, set()
            again = [self._renewed(item) for item in items if item.report.run_id in not_theirs]
            self._write(again, now_ms)
        self._count(tally)
        self._compare_ids(tally, items)
        self._on_freed(tally.freed)

    def _renewed(self, item: _Item) -> _Item:
        """Return a report with the current id of its executor's app."""
        return replace(item, app_id=self._context.app_names.id_of(app_of(item.delivery)))

    def _give_up(self, item: _Item, error: Exception, now_ms: int) -> None:
        """Store a report without its texts; if that fails too, skip it.

        Raises:
            DatabaseUnavailable: a harmless write fails as well, so the report is not at fault.

        """
        report = item.report
        self._check_writes(report.run_id)
        self._context.counters.count("callbacks_unstorable")
        words = fault_of(error)
        log.error("callback_unstorable", run_id=report.run_id, error=words)
        if isinstance(report, Called):
            self._refuse(report, words)
        elif not isinstance(report, Started):  # the end of the run will say that it started
            self._end_bare(end_of(report, item.sent_to, now_ms), words)

    def _end_bare(self, end: End, words: str) -> None:
        message = Why.RESULT_NOT_STORED(why=words)
        try:
            self._ender.end([replace(end, message=message, log_tail="", result="")])
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("run_not_ended", run_id=end.run_id)

    def _refuse(self, call: Called, words: str) -> None:
        """Refuse a call; the calling run continues."""
        try:
            self._ender.refuse(call, Why.CALL_NOT_STORED(why=words))
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("call_not_refused", run_id=call.run_id)

    def _check_writes(self, run_id: int) -> None:
        """Raise DatabaseUnavailable unless the table of runs can be written."""
        try:
            self._context.database.write(lambda session: transitions.rewrite(session, run_id))
        except DatabaseUnavailable:
            raise
        except Exception as error:
            raise DatabaseUnavailable(f"cannot write to the database: {fault_of(error)}") from error

    def _count(self, tally: Tally) -> None:
        self._context.counters.count("callbacks_stored", len(tally.won))
        if tally.ignored:
            self._context.counters.count("callbacks_ignored", len(tally.ignored))
            log.debug("callbacks_ignored", run_ids=tally.ignored[:20])
        if tally.not_theirs or tally.unknown:
            self._context.counters.count(
                "callbacks_rejected", len(tally.not_theirs) + len(tally.unknown)
            )
            log.warning(
                "callbacks_rejected",
                not_theirs=list(tally.not_theirs)[:20],
                unknown=list(tally.unknown)[:20],
            )

    def _compare_ids(self, tally: Tally, items: Sequence[_Item]) -> None:
        """Begin an epoch of run ids if executors know ids that are being reused."""
        database = self._context.database
        later = {run_id for run_id in tally.unknown if run_id > database.seen_ids.highest}
        if not tally.others and not later:
            return
        who = {item.report.run_id: f"{app_of(item.delivery)}/{item.address}" for item in items}
        if tally.others:
            self._context.counters.count("callbacks_refused", len(tally.others))
            named = sorted(tally.others)[:20]
            executors = sorted({who[run_id] for run_id in named})
            log.error("callbacks_refused", run_ids=named, executors=executors)
        highest = max(tally.others | later)
        database.begin_epoch(
            Cause.EXECUTOR,
            seen_id=max(later, default=0),
            twice_id=max(tally.others, default=0),
            told_by=who[highest],
        )

    def _note(self, message: Progressed) -> None:
        app_id = self._context.app_names.id_of(message.app)
        texts = self._progress[SentTo(app_id, message.address, message.boot_id)]
        texts.update((run_id, encode(run).decode()) for run_id, run in message.runs.items())

    def _store_progress(self) -> None:
        """Store the progress of runs in one transaction; if it fails, newer progress follows.

        It comes after the reports, because a run may have started with one of them.
        """
        reports, self._progress = self._progress, defaultdict(dict)
        if not reports:
            return

        def unit(session: Session) -> None:
            for who, runs in reports.items():
                transitions.note_progress(session, who, runs)

        try:
            self._context.database.write(unit)
        except DatabaseUnavailable as error:
            log.debug("progress_not_stored", error=str(error))

    def _store_logs(self) -> None:
        """Note what became of logs, after the reports of their runs."""
        id_of, now_ms = self._context.app_names.id_of, self._context.now_ms()
        for message in self._logs:
            unit = partial(note_stored, message=message, app_id=id_of(message.app), now_ms=now_ms)
            try:
                self._on_whole(self._context.database.write(unit))
            except DatabaseUnavailable:
                raise
            except Exception:
                log.exception("stored_logs_not_noted", address=message.address)

    def _answer(self, question: OpenRunsQuery) -> None:
        """Tell an executor that was out of contact which of its waiting runs may still start."""
        try:
            rows = self._context.database.read(
                lambda session: queries.by_ids(session, set(question.run_ids))
            )
        except DatabaseUnavailable as error:
            log.warning("question_not_answered", address=question.address, error=str(error))
            return  # the executor asks again every few seconds
        app_id = self._context.app_names.id_of(question.app)
        asking = SentTo(app_id, question.address, question.boot_id)
        identities = dict(zip(question.run_ids, question.identities, strict=False))
        still_open = tuple(
            row.id
            for row in rows
            if row.status in IN_FLIGHT
            and _sent_to(row) == asking
            and identities.get(row.id, 0) in (0, identity_of(row))
        )
        command = AddressedCommand(
            boot=Boot(question.app, question.address, question.boot_id),
            message=OpenRunsReply(asked=question.run_ids, open_ids=still_open),
            valid_seconds=ANSWER_SECONDS,
        )
        self._commands.send([command])

    def _answer_call(self, question: CallEndQuery) -> None:
        """Answer a run that waits for a run it called, if that one has ended."""
        boot = Boot(question.app, question.address, question.boot_id)
        app_id = self._context.app_names.id_of(question.app)
        asking = SentTo(app_id, question.address, question.boot_id)
        call = question.call
        try:
            end = self._context.database.read(lambda session: end_of_call(session, call, asking))
        except DatabaseUnavailable as error:
            log.warning("question_not_answered", address=question.address, error=str(error))
            return  # the executor asks again
        if end is not None:
            answer = CallEndReply(run_id=call.run_id, number=call.number, end=end)
            command = AddressedCommand(boot=boot, message=answer, valid_seconds=ANSWER_SECONDS)
            self._commands.send([command])


def _sent_to(row: RoutedRun) -> SentTo:
    return SentTo(row.app_id, row.address, row.boot_id)


def _start(session: Session, items: Sequence[_Item], now_ms: int) -> None:
    if not items:
        return
    rows = {row.id: row for row in queries.by_ids(session, [item.report.run_id for item in items])}
    started = {
        row.id: plausible_instant(item.report.started_at_ms, routed_at=row.routed_at, now_ms=now_ms)
        for item in items
        if isinstance(item.report, Started)
        and (row := rows.get(item.report.run_id)) is not None
        and _sent_to(row) == item.sent_to
        and item.report.identity in (0, identity_of(row))
    }
    if started:
        transitions.start(session, started)
