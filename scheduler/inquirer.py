"""Asks executors about runs of which nothing was heard for ten seconds, and acts on the answers.

Of the boot that was asked, unknown runs are sent again with the same id. Of an earlier boot on the
same address, its successor's journal says whether they ever started.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import structlog

from broker import topology
from broker.messages import Know, KnowAnswer, Knowledge, RunKey
from broker.rpc import Question, Requester
from broker.transport import Admin
from scheduler.aftermath import End
from scheduler.app_names import AppNames
from scheduler.completion import Completion
from scheduler.delivery import Delivery, parcels_again
from scheduler.roster import Roster, Standing
from sql import jobs, run_queries
from sql.engine import Database
from sql.ids import RunIds
from sql.rows import AnyRow
from sql.run_status import RunStatus

#: Silence after which a run is asked about, and the pause between two questions about it.
SILENCE_SECONDS = 10.0
#: How long an executor has to answer.
ANSWER_SECONDS = 2.0
#: Runs asked about in one question.
BATCH = 500

log = structlog.get_logger()


class Inquirer:
    """Finds out what became of silent runs.

    Args:
        on_planned: called after a commit that planned further attempts.

    """

    def __init__(
        self,
        *,
        database: Database,
        ids: RunIds,
        completion: Completion,
        delivery: Delivery,
        admin: Admin,
        requester: Requester,
        roster: Roster,
        app_names: AppNames,
        on_planned: Callable[[], None],
    ) -> None:
        self._database = database
        self._ids = ids
        self._completion = completion
        self._delivery = delivery
        self._admin = admin
        self._requester = requester
        self._roster = roster
        self._app_names = app_names
        self._on_planned = on_planned
        self._asked_at: dict[int, float] = {}

    def tick(self, now_ms: int) -> float:
        """Ask about silent runs; return the seconds until the next look."""
        silent = self._silent(now_ms)
        by_executor: dict[tuple[str, str], list[AnyRow]] = defaultdict(list)
        for row in silent:
            app = self._app_names(row.job_group).get(row.job_group, "")
            standing = self._roster.standing(app, row.executor_address, row.boot_id)
            if standing in (Standing.ALIVE, Standing.SUPERSEDED):
                by_executor[app, row.executor_address].append(row)
        if by_executor:
            self._inquire(by_executor, now_ms)
        return 0.5

    def _silent(self, now_ms: int) -> list[AnyRow]:
        before_ms = now_ms - int(SILENCE_SECONDS * 1000)
        rows = self._database.read(
            lambda session: run_queries.handed_over(session, before_ms=before_ms, limit=BATCH * 20)
        )
        now = time.monotonic()
        open_ids = {row.id for row in rows}
        self._asked_at = {
            run_id: at
            for run_id, at in self._asked_at.items()
            if run_id in open_ids and now - at < SILENCE_SECONDS
        }
        return [row for row in rows if row.id not in self._asked_at]

    def _inquire(self, by_executor: dict[tuple[str, str], list[AnyRow]], now_ms: int) -> None:
        asked: list[tuple[str, str, list[AnyRow]]] = []
        questions: list[Question] = []
        for (app, address), rows in by_executor.items():
            holder = self._roster.holder(app, address)
            if holder is not None:
                asked.append((app, address, rows[:BATCH]))
                questions.append(_question(app, address, holder, rows[:BATCH]))
        answers = self._requester.ask(questions, ANSWER_SECONDS)
        for (app, address, rows), answer in zip(asked, answers, strict=True):
            for row in rows:
                self._asked_at[row.id] = time.monotonic()
            if isinstance(answer, KnowAnswer):
                self._act(app, address, rows, answer, now_ms)

    def _act(
        self, app: str, address: str, rows: Sequence[AnyRow], answer: KnowAnswer, now_ms: int
    ) -> None:
        ends: list[End] = []
        again: list[AnyRow] = []
        for row in rows:
            known = answer.runs.get(row.id, Knowledge.UNKNOWN)
            remembered = row.routed_at >= answer.remembers_since_ms
            if known is Knowledge.NEVER_STARTED and remembered:
                ends.append(_never_started(row, now_ms))
            elif known not in (Knowledge.UNKNOWN, Knowledge.NEVER_STARTED):
                continue  # it waits, runs, or its result is on its way again
            elif row.boot_id == answer.boot_id and remembered and row.status == RunStatus.SENT:
                again.append(row)
            elif row.boot_id == answer.boot_id or self._is_queue_empty(app, address):
                ends.append(_forgotten(row, now_ms))
        self._end(ends)
        self._send_again(again)

    def _is_queue_empty(self, app: str, address: str) -> bool:
        return not self._admin.count_messages(topology.run_queue(app, address).name)

    def _end(self, ends: Sequence[End]) -> None:
        if not ends:
            return
        self._ids.reserve()
        tally = self._database.write(lambda session: self._completion.end(session, ends))
        log.warning("runs_settled", by_status=Counter(tally.won.values()))
        if tally.planned:
            self._on_planned()

    def _send_again(self, rows: Sequence[AnyRow]) -> None:
        if not rows or not self._delivery.is_open:
            return
        known = self._database.read(
            lambda session: jobs.for_runs(session, {row.job_id for row in rows})
        )
        log.warning("triggers_sent_again", count=len(rows))
        self._delivery.send(parcels_again(rows, known, self._app_names())).receipt()


def _question(app: str, address: str, holder: str, rows: Sequence[AnyRow]) -> Question:
    keys = tuple(RunKey(run_id=row.id, boot_id=row.boot_id) for row in rows)

    def build(question_id: str, reply_to: str) -> Know:
        return Know(question_id=question_id, reply_to=reply_to, runs=keys)

    return app, address, holder, build


def _never_started(row: AnyRow, now_ms: int) -> End:
    return End(
        run_id=row.id,
        status=RunStatus.UNDELIVERED,
        message=f"executor {row.executor_address} was restarted before this run started",
        finished_at=now_ms,
        never_started=True,
    )


def _forgotten(row: AnyRow, now_ms: int) -> End:
    return End(
        run_id=row.id,
        status=RunStatus.LOST,
        message=f"executor {row.executor_address} does not know this run any more",
        finished_at=now_ms,
    )
