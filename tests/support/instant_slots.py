"""Slots without processes that act like the handlers of `tests.support.cluster`."""

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.support.random_flows import random_fates
from warren.broker.codec import EncodedCatalogue
from warren.broker.messages import (
    Catalogue,
    Finished,
    HandlerFacts,
    Outcome,
    ScriptLanguage,
    Trigger,
)
from warren.broker.reasons import Words
from warren.broker.stored_reasons import to_json
from warren.executor.processes.interface import SlotEvents, SlotPool
from warren.executor.run_life import cut_off

HANDLERS = (
    *("noop", "echo", "fail", "second-time-lucky", "third-time-lucky"),
    *("sleep", "until-file", "random"),
)
_LOOK_SECONDS = 0.005


class InstantSlots(SlotPool):
    """Replaces `warren.executor.processes.slots.Slots`; each start is a line of `starts`.

    `write_log` writes a run's log as it starts, and returns its end.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        events: SlotEvents,
        script_folder: Path,  # noqa: ARG002 - the interface's
        notes_folder: Path,  # noqa: ARG002 - the interface's
        starts: Path,
        count: int,
        handlers: Sequence[str] = HANDLERS,
        code_version: str = "",
        write_log: Callable[[Trigger], str] = lambda _trigger: "",
    ) -> None:
        self._write_log = write_log
        self._loop = loop
        self._on_started = events.started
        self._on_finished = events.finished
        self._starts = starts
        self._count = count
        self._handlers = tuple(handlers)
        facts = tuple(HandlerFacts(name=name, about=f"Does {name}.") for name in handlers)
        self._told = EncodedCatalogue(
            Catalogue(
                handlers=facts, languages=tuple(map(str, ScriptLanguage)), code_version=code_version
            )
        )
        self._running: dict[int, Trigger] = {}
        self._tails: dict[int, str] = {}

    @property
    def free(self) -> int:
        return self._count - len(self._running)

    def open(self) -> tuple[str, ...]:
        return self._handlers

    @property
    def catalogue(self) -> EncodedCatalogue:
        return self._told

    def lacks_handler(self, trigger: Trigger) -> bool:
        return not trigger.script_language and trigger.handler not in self._handlers

    def start(self, trigger: Trigger, *_others: Trigger) -> None:
        line = {"run": trigger.run_id, "attempt": trigger.attempt, "job": trigger.job_id}
        with self._starts.open("a") as out:
            out.write(json.dumps(line | {"boot": trigger.boot_id}) + "\n")
        self._running[trigger.run_id] = trigger
        self._tails[trigger.run_id] = self._write_log(trigger)
        self._loop.call_soon(self._on_started, trigger.run_id)
        self._loop.call_soon(self._work, trigger)

    def stop(self, run_id: int, why: Words) -> bool:
        if run_id not in self._running:
            return False
        self._loop.call_soon(self._end, run_id, Outcome.KILLED, why)
        return True

    def cut_off(self, run_id: int) -> bool:
        if run_id not in self._running:
            return False
        self._loop.call_soon(self._end, run_id, Outcome.FAILED, cut_off().words)
        return True

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":  # noqa: ARG002
        closed: asyncio.Future[None] = self._loop.create_future()
        closed.set_result(None)
        return closed

    def _work(self, trigger: Trigger) -> None:
        end = partial(self._end, trigger.run_id)
        match trigger.handler:
            case "noop":
                end(Outcome.SUCCEEDED, "done")
            case "echo":
                end(Outcome.SUCCEEDED, trigger.param)
            case "fail":
                end(Outcome.FAILED, "no luck")
            case "second-time-lucky" if trigger.attempt < 1:
                end(Outcome.FAILED, f"attempt {trigger.attempt}")
            case "third-time-lucky" if trigger.attempt < 2:
                end(Outcome.FAILED, f"attempt {trigger.attempt}")
            case "second-time-lucky" | "third-time-lucky":
                end(Outcome.SUCCEEDED, "at last")
            case "random":
                fate = random_fates("soak")(str(trigger.run_id), 0, 0)
                result = "" if fate.result is None else json.dumps(fate.result)
                end(Outcome(fate.status), fate.status, result)
            case "sleep":
                seconds = float(trigger.param or 60)
                self._loop.call_later(
                    seconds, self._end, trigger.run_id, Outcome.SUCCEEDED, "slept"
                )
            case "until-file":
                self._watch(trigger)

    def _watch(self, trigger: Trigger) -> None:
        if Path(trigger.param).exists():
            self._end(trigger.run_id, Outcome.SUCCEEDED, "released")
        elif trigger.run_id in self._running:
            self._loop.call_later(_LOOK_SECONDS, self._watch, trigger)

    def _end(self, run_id: int, outcome: Outcome, words: Words, result: str = "") -> None:
        trigger = self._running.pop(run_id, None)
        if trigger is None:
            return
        self._on_finished(
            Finished(
                run_id=run_id,
                boot_id=trigger.boot_id,
                outcome=outcome,
                message=str(words),
                why=to_json(words),
                result=result,
                log_tail=self._tails.pop(run_id, ""),
                started_at_ms=1,
                finished_at_ms=2,
            ),
            None,
        )
