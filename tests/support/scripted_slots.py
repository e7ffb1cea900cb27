"""Slots without processes: each run does what its trigger's param says.

"ok"       ends at once, SUCCEEDED
"hold"     runs until `finish` or a stop
"stubborn" runs until `finish`, ignoring stops
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warren.broker.codec import EncodedCatalogue
from warren.broker.messages import Catalogue, Finished, HandlerFacts, Outcome, Trigger
from warren.broker.reasons import Reason, Words
from warren.broker.stored_reasons import to_json
from warren.executor.processes.interface import SlotEvents, SlotPool
from warren.executor.run_life import cut_off


class ScriptedSlots(SlotPool):
    """Replaces `warren.executor.processes.slots.Slots`; `started` has every trigger in order."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        events: SlotEvents,
        script_folder: Path,  # noqa: ARG002 - the interface's
        notes_folder: Path,  # noqa: ARG002 - the interface's
        count: int = 4,
        handlers: Sequence[str] = ("demo.echo",),
    ) -> None:
        self.loop = loop
        self.started: list[Trigger] = []
        self.stopped: list[tuple[int, str]] = []
        self.cut_offs: list[int] = []
        #: How many times everything assigned early was taken back.
        self.recalls = 0
        self.running: dict[int, Trigger] = {}
        #: Runs that have ended and whose logs are still on their way.
        self.late_logs: set[int] = set()
        self.is_closed = False
        self.on_ready = events.ready
        self.on_moved = events.moved
        self._on_started = events.started
        self._on_finished = events.finished
        self.count = count
        self._handlers = tuple(handlers)

    @property
    def free(self) -> int:
        return self.count - len(self.running)

    def open(self) -> tuple[str, ...]:
        return self._handlers

    @property
    def catalogue(self) -> EncodedCatalogue | None:
        if self.is_remote:
            return None
        facts = tuple(HandlerFacts(name=name) for name in self._handlers)
        return EncodedCatalogue(Catalogue(handlers=facts, code_version="v1"))

    def lacks_handler(self, trigger: Trigger) -> bool:
        if self.is_remote or trigger.script_language:
            return False
        return trigger.handler not in self._handlers

    def has_late_log(self, run_id: int) -> bool:
        return run_id in self.late_logs

    def start(self, trigger: Trigger, *_others: Trigger) -> None:
        assert self.free > 0
        self.started.append(trigger)
        self.running[trigger.run_id] = trigger
        self.loop.call_soon(self._on_started, trigger.run_id)
        if trigger.param == "ok":
            self.loop.call_soon(self.end, trigger.run_id, Outcome.SUCCEEDED, "done")

    def recall_all(self) -> None:
        self.recalls += 1

    def stop(self, run_id: int, why: Words) -> bool:
        self.stopped.append((run_id, str(why)))
        trigger = self.running.get(run_id)
        if trigger is None:
            return False
        if trigger.param != "stubborn":
            self.loop.call_soon(self.end, run_id, Outcome.KILLED, why)
        return True

    def cut_off(self, run_id: int) -> bool:
        self.cut_offs.append(run_id)
        trigger = self.running.get(run_id)
        if trigger is None:
            return False
        if trigger.param != "stubborn":
            self.loop.call_soon(self.end, run_id, Outcome.FAILED, cut_off().words)
        return True

    def finish(
        self,
        run_id: int,
        outcome: Outcome = Outcome.SUCCEEDED,
        message: str = "done",
        on_recorded: Callable[[], None] | None = None,
    ) -> None:
        """End a run; thread-safe."""
        self.loop.call_soon_threadsafe(self.end, run_id, outcome, message, on_recorded)

    def end(
        self,
        run_id: int,
        outcome: Outcome,
        words: Words,
        on_recorded: Callable[[], None] | None = None,
    ) -> None:
        """End a run, on the thread of the loop."""
        trigger = self.running.pop(run_id, None)
        if trigger is not None:
            self._on_finished(
                Finished(
                    run_id=run_id,
                    boot_id=trigger.boot_id,
                    outcome=outcome,
                    message=str(words),
                    why=to_json(words),
                    started_at_ms=1,
                    finished_at_ms=2,
                ),
                on_recorded,
            )

    def close(self, _grace_seconds: float) -> "asyncio.Future[None]":
        self.is_closed = True
        closed: asyncio.Future[None] = self.loop.create_future()
        closed.set_result(None)
        return closed


class RemoteScriptedSlots(ScriptedSlots):
    """Scripted slots whose runs are elsewhere."""

    is_remote = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.away_now: Reason | None = None
        self.resumed: list[Trigger] = []
        self.ages: list[float] = []

    @property
    def away(self) -> Reason | None:
        return self.away_now

    def resume(self, trigger: Trigger, started_at_ms: int, age_seconds: float) -> None:
        assert started_at_ms
        self.ages.append(age_seconds)
        self.resumed.append(trigger)
        self.running[trigger.run_id] = trigger
