"""The live output of `warren up`: a line for each run that has ended."""

import queue
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.executor.processes.interface import SlotEvents, SlotsFactory
from warren.sql.engine import Database
from warren.sql.listings import run_messages
from warren.views.runs import job_name
from warren.views.terminal import Screen, coloured, visible

#: Lines printed at a time; further runs are only counted.
LINES = 10
_MESSAGE_COLUMNS = 100


class FinishedRuns:
    """Collects ended runs in the executors' threads; another thread prints them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended: queue.SimpleQueue[Finished] = queue.SimpleQueue()

    def watch(self, make_slots: SlotsFactory) -> SlotsFactory:
        """Return a factory whose slots also report each ended run here."""

        def make(*, events: SlotEvents, **others: Any) -> Any:
            def report(
                end: Finished | NotStarted, on_recorded: Callable[[], None] | None = None
            ) -> None:
                events.finished(end, on_recorded)
                if isinstance(end, Finished):
                    self._ended.put(end)

            return make_slots(events=replace(events, finished=report), **others)

        return make

    def show(self) -> None:
        """Print the runs that have ended since the last call."""
        ended = self._take()
        if not ended:
            return
        shown = ended[:LINES]
        ids = [finished.run_id for finished in shown]
        rows = self._database.read(lambda session: run_messages.by_ids(session, ids))
        names = {row.id: f"{row.app}/{job_name(row)}" for row in rows}
        for finished in shown:
            print(_line(finished, names.get(finished.run_id, "?")), flush=True)
        if len(ended) > LINES:
            print(f"          … and {len(ended) - LINES} more runs", flush=True)

    def _take(self) -> list[Finished]:
        ended = []
        while not self._ended.empty():
            ended.append(self._ended.get())
        return ended


def _line(finished: Finished, name: str) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(finished.finished_at_ms / 1000))
    outcome = coloured(finished.outcome, finished.outcome.ljust(9), Screen.current())
    took = ""
    if finished.started_at_ms:
        took = f"{max(finished.finished_at_ms - finished.started_at_ms, 0) / 1000:.2f} s"
    message = visible(finished.message.strip().partition("\n")[0])[:_MESSAGE_COLUMNS]
    return f"{at}  {outcome}  run {finished.run_id}  {visible(name)}  {took}  {message}".rstrip()
