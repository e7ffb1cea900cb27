"""The runs that hold a slot or were handed ahead to a process, and what happens to them.

`run_life.SLOT_LIFE` says which events a run in a slot may have, and their effects. This module
raises the events (stops, timeouts, what processes do) and, at its end, carries out the effects.
"""

import asyncio
import time
from collections.abc import Callable, KeysView, Sequence
from functools import partial
from pathlib import Path

import structlog

from warren.broker.reasons.codes import Reason, Why
from warren.executor.container import Host
from warren.executor.fork_server import frames
from warren.executor.processes.endings import Exit, Stop, channel_misused, timed_out
from warren.executor.processes.interface import Owner, SlotEvents, SlotOptions
from warren.executor.processes.job_process import JobProcess, LookAhead, ProcessEvents, SlotRun
from warren.executor.processes.pool import IdleLimit, Pool
from warren.executor.processes.run_ends import RunEnds
from warren.executor.processes.supervisor import ForkServerSupervisor
from warren.executor.run_life import SLOT_LIFE, Event, InSlot, SlotEvent


class SlotRuns:
    """The runs in the slots of one executor. `on_change` is called when some are gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        options: SlotOptions,
        supervisor: ForkServerSupervisor,
        notes_folder: Path | None,
        ends: RunEnds,
        events: SlotEvents,
        on_change: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._grace_seconds = options.grace_seconds
        self._events = events
        self._on_change = on_change
        self._log = structlog.get_logger()
        self._ends = ends
        of_process = ProcessEvents(
            answered=self._on_answer, misused=self._on_misuse, stuck=self._on_stuck
        )
        idle_limit = IdleLimit(
            options.idle_count,
            slots=options.count,
            spares=options.spare_count,
            job_processes=options.confinement.limits.processes,
            host=Host(),
        )
        self._look_ahead = LookAhead(
            notes_folder, options.batch_seconds, partial(self._happens, SlotEvent.NOT_BEGUN)
        )
        self.pool = Pool(loop, supervisor, options, self._look_ahead, idle_limit, of_process)
        #: The runs that hold a slot.
        self._runs: dict[int, SlotRun] = {}
        self._effects: dict[InSlot, Callable[[SlotRun], None]] = {
            effect: getattr(self, f"_{effect.name.lower()}") for effect in InSlot
        }

    def __len__(self) -> int:
        """Return how many runs are in slots, or wait for what they have called."""
        return len(self._runs)

    @property
    def awaiting_count(self) -> int:
        """How many runs wait for what they have called, and leave their slots to others."""
        return sum(bool(run.awaited) for run in self._runs.values())

    @property
    def ids(self) -> KeysView[int]:
        """The ids of the runs in slots."""
        return self._runs.keys()

    @property
    def all(self) -> list[SlotRun]:
        """Every run in a slot."""
        return list(self._runs.values())

    def batch_size(self, owner: Owner) -> int:
        """Return how many runs a process of this owner may be given at once."""
        return 1 if self.pool.is_slow(owner) else self._look_ahead.batch_size

    def close(self) -> None:
        """Close the begin notes; no process is left that could write to one."""
        self._look_ahead.close()

    # -- for the slots ------------------------------------------------------------------------

    def start(self, run: SlotRun, followers: Sequence[SlotRun]) -> None:
        """Give a run a slot and a process, which may be handed some of the followers ahead."""
        self._runs[run.trigger.run_id] = run
        self._happens(self.pool.place(run, followers), run)
        for follower in followers:
            if follower.process is not None:
                self._happens(SlotEvent.HANDED_AHEAD, follower)

    def refuse(self, run: SlotRun, why: Reason) -> None:
        """Give a run a slot in which it fails soon."""
        self._runs[run.trigger.run_id] = run
        run.exit = Exit(failure=why)
        self._happens(SlotEvent.UNPLACED, run)

    def place_waiting(self) -> None:
        """Fork processes for the runs that wait for one while there is room."""
        for run, event in self.pool.place_waiting():
            self._happens(event, run)

    def stop(self, run_id: int, stop: Stop, grace_seconds: float) -> bool:
        """End a run; return whether it is still there, to finish soon."""
        run = self._runs.get(run_id)
        if run is not None:
            self._stop(run, stop, grace_seconds)
        return run_id in self._runs

    def has_begun(self, run_id: int) -> bool:
        """Whether a run is known to have begun; its process may stall just before."""
        run = self._runs.get(run_id)
        return run is None or self._look_ahead.has_begun(run)

    def recall(self, run_id: int) -> bool:
        """Take back what was handed ahead with this run; return False if it is still ahead."""
        run = self._runs.get(run_id) or self._look_ahead.get(run_id)
        if run is not None:
            self._look_ahead.recall(run.process)
        return not self.has_ahead(run_id)

    def has_ahead(self, run_id: int) -> bool:
        """Whether a process was handed this run ahead, and has not been seen to reach it."""
        return self._look_ahead.get(run_id) is not None

    def recall_all(self) -> None:
        """Take back every run that was handed ahead and has not begun."""
        for process in self.pool.all:
            self._look_ahead.recall(process)

    # -- what processes do --------------------------------------------------------------------

    def on_forked(self, forked: frames.Forked) -> None:
        """Record that a process exists."""
        process = self.pool.get(forked.number)
        if process is None:
            return
        process.pid = forked.pid
        if process.run is not None:
            process.run.forked_at_ms = forked.started_at_ms
            self._happens(SlotEvent.FORKED, process.run)

    def _on_answer(self, process: JobProcess, answer: frames.FromJobProcess) -> None:
        run = process.run
        if isinstance(answer, frames.Withheld):
            self._look_ahead.on_withheld(process, answer.batch)
        elif isinstance(answer, frames.Told):
            if run is not None and run.trigger.run_id == answer.run_id:
                self._events.progressed(answer.run_id, answer.progress)
        elif isinstance(answer, frames.Call):
            if run is not None and run.trigger.run_id == answer.run_id:
                self._report_started(run)
                run.has_called = True
                self._events.called(answer, partial(process.keep, answer))
        elif isinstance(answer, frames.Await):
            if run is not None and run.trigger.run_id == answer.run_id:
                self._wait_for(run, process, answer)
        elif run is not None and run.trigger.run_id == answer.run_id:
            self._report_started(run)  # the answer may arrive before `Forked`
            run.result = answer
            self._happens(self._answered(process, answer), run)

    def _wait_for(self, run: SlotRun, process: JobProcess, call: frames.Await) -> None:
        """Tell a run how its call has ended; until then, it leaves its slot to others."""
        if call.is_over:
            run.awaited.discard(call.number)
            return
        end = self._events.awaited(call)
        process.tell(frames.CallState(run_id=call.run_id, number=call.number, end=end))
        if end is not None:
            run.awaited.discard(call.number)
        elif call.number not in run.awaited:
            run.awaited.add(call.number)
            self._look_ahead.recall(process)
            self._events.ready()

    def _answered(self, process: JobProcess, result: frames.Result) -> SlotEvent:
        """Return what a result means for its run."""
        if result.will_end:
            return SlotEvent.ANSWERED_LAST
        if self._look_ahead.has_next(process):
            return SlotEvent.WENT_ON
        return SlotEvent.ANSWERED_LATE if process.is_ending else SlotEvent.ANSWERED

    def _on_misuse(self, process: JobProcess, why: Reason) -> None:
        """End a process that wrote something other than a result to its channel, and its run."""
        self._log.warning("channel_misused", pid=process.pid, handler=process.what, why=str(why))
        self._look_ahead.recall(process)
        if process.run is None:
            self.pool.stop_idle(process)
        elif process.run.result is None:
            self._stop(process.run, channel_misused(why), self._grace_seconds)

    def on_exited(self, exited: frames.Exited) -> None:
        """Handle the end of a process and of its runs."""
        process = self.pool.get(exited.number)
        if process is not None:
            self.pool.remove(process)
            exit_ = self._ends.exited(process, exited)
            self._take_exit(
                process, exit_, had_no_room=exited.no_room, is_untaken=exited.is_untaken
            )

    def on_zygote_died(self, survivors: str, error: str) -> None:
        """Handle the end of all processes; with an `error`, no run waits for others."""
        for process in self.pool.remove_all():
            if process.run is not None:
                self._take_exit(process, self._ends.lost_zygote(process, survivors))
        if error:
            for run in self.pool.take_all_waiting():
                run.exit = Exit(failure=Why.ZYGOTE_GONE(fault=error))
                self._happens(SlotEvent.EXITED, run)
        self._on_change()

    def _on_stuck(self, process: JobProcess) -> None:
        """Give up a process that SIGKILL does not end, so that its run does not stay open."""
        self.pool.remove(process)
        self._take_exit(process, self._ends.stuck(process))

    def _take_exit(
        self,
        process: JobProcess,
        exit_: Exit,
        *,
        had_no_room: bool = False,
        is_untaken: bool = False,
    ) -> None:
        """Handle the end of a process that is removed, for all the runs that it had."""
        never_began = self._look_ahead.never_began(process) or is_untaken
        run = process.run
        if run is None:
            self.place_waiting()
            self._on_change()
        else:
            run.exit = exit_
            if had_no_room:
                event = SlotEvent.NO_ROOM
            elif never_began and exit_.failure is None:
                event = SlotEvent.EXITED_IDLE  # idle or spare, it died just as it got this run
            else:
                event = SlotEvent.EXITED
            self._happens(event, run)
        while self._look_ahead.has_next(process):
            # It has begun them, and their answers were lost.
            follower = self._reach_next_of(process)
            follower.exit = exit_
            self._events.moved(follower.trigger.run_id, Event.REACHED)
            self._happens(SlotEvent.EXITED, follower)

    def _reach_next_of(self, process: JobProcess) -> SlotRun:
        run = self._look_ahead.reach_next(process)
        self._happens(SlotEvent.REACHED, run)
        return run

    def _stop(self, run: SlotRun, stop: Stop, grace_seconds: float) -> None:
        if run.stop is None:
            self._look_ahead.recall(run.process)  # it may have ended, or not begun: then it is GONE
            run.stop, run.grace_seconds = stop, grace_seconds
            self._happens(SlotEvent.STOP, run)

    # -- the table ----------------------------------------------------------------------------

    def _happens(self, event: SlotEvent, run: SlotRun) -> None:
        run.phase, effects = SLOT_LIFE[run.phase][event]
        for effect in effects:
            self._effects[effect](run)

    # -- the effects --------------------------------------------------------------------------

    def _start_timer(self, run: SlotRun) -> None:
        seconds = run.trigger.timeout_seconds
        if seconds > 0:
            stop, grace_seconds = timed_out(seconds), self._grace_seconds
            run.timer = self._loop.call_later(seconds, self._stop, run, stop, grace_seconds)

    def _report_started(self, run: SlotRun) -> None:
        if not run.started_at_ms:
            run.started_at_ms = run.forked_at_ms or int(time.time() * 1000)
            self._events.started(run.trigger.run_id)

    def _report_started_soon(self, run: SlotRun) -> None:
        self._loop.call_soon(self._report_started, run)

    def _take_slot(self, run: SlotRun) -> None:
        self._runs[run.trigger.run_id] = run
        run.started_at_ms = int(time.time() * 1000)

    def _forget(self, run: SlotRun) -> None:
        run.process = None
        self._events.moved(run.trigger.run_id, Event.HANDED_BACK)

    def _give_back(self, run: SlotRun) -> None:
        process = run.process
        self._leave_slot(run)
        run.process = None
        if process is not None:
            process.run = None
            if not process.is_ending:
                self.pool.make_idle(process)
        self._events.moved(run.trigger.run_id, Event.NOT_BEGUN)
        self._on_change()

    def _rest_process(self, run: SlotRun) -> None:
        assert run.process is not None
        self.pool.make_idle(run.process)

    def _reach_next(self, run: SlotRun) -> None:
        assert run.process is not None
        self._reach_next_of(run.process)

    def _report_reached(self, run: SlotRun) -> None:
        assert run.process is not None
        if run.process.run is not None:
            self._events.moved(run.process.run.trigger.run_id, Event.REACHED)

    def _wait_for_exit(self, run: SlotRun) -> None:
        assert run.process is not None
        run.process.expect_exit(self._grace_seconds)
        self._look_ahead.recall(run.process)

    def _ask_to_exit(self, run: SlotRun) -> None:
        assert run.process is not None
        run.process.end(self._grace_seconds)  # it did not react to SIGTERM

    def _end_process(self, run: SlotRun) -> None:
        assert run.process is not None
        run.process.stop(run.grace_seconds)

    def _leave_queue(self, run: SlotRun) -> None:
        self.pool.cancel_waiting(run)
        run.exit = Exit()

    def _wait_for_room(self, run: SlotRun) -> None:
        """Let the run of a process that could not be forked wait for an idle one to exit."""
        if self.pool.make_room(run):
            run.detach()
        else:
            self._happens(SlotEvent.EXITED, run)

    def _place_again(self, run: SlotRun) -> None:
        run.detach()
        self._happens(self.pool.place(run), run)

    def _end_soon(self, run: SlotRun) -> None:
        self._loop.call_soon(self._happens, SlotEvent.OVER, run)

    def _report_end(self, run: SlotRun) -> None:
        """Report the end of a run whose processes are all gone."""
        self._leave_slot(run)
        self.place_waiting()
        self._events.finished(self._ends.conclude(run))
        self._on_change()

    def _leave_slot(self, run: SlotRun) -> None:
        del self._runs[run.trigger.run_id]
        run.cancel_timer()
