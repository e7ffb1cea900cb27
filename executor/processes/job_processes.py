"""Job processes as their executor sees them: channels, runs, how they are stopped, when they idle.

A process is assigned runs early, so that it does not wait between them:

    head ──> follower ──> follower ──> …      one batch, answered run by run
               └─ withdrawn, or the process has worked for long enough: it goes back to its lane

The process continues by itself. Its executor assumes that a follower runs as soon as the run before
it has answered; the process's begin note says what has really begun.

Idle processes wait for the next run of their job. The machine's memory, descriptors and process
limits decide how many may stay. The memory that an executor may use is its control group's limit,
otherwise what the host has available. Idle processes get a quarter of it, at most, and go when it
gets short.
"""

import asyncio
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from warren.broker.messages import Trigger
from warren.broker.process_use import ProcessUse
from warren.broker.reasons import Reason, Why
from warren.executor import begin_notes
from warren.executor.begin_notes import Batch
from warren.executor.container import Host
from warren.executor.fork_server import frames
from warren.executor.fork_server.zygote import PROCESS_LIMIT
from warren.executor.processes.interface import Owner
from warren.executor.processes.supervisor import ForkServerSupervisor
from warren.executor.run_life import Exit, SlotPhase, Stop

#: Bytes read from the channel at a time; a larger buffer would be mapped again for every read.
_READ_BYTES = 16_384
#: More reads than are needed for the answers of a batch.
_MAX_READS = 1_000
#: How much of an invalid answer is shown, in bytes.
_SHOWN_BYTES = 60
#: The most runs that a job process is assigned at once.
BATCH_RUNS = 8
#: How many times the seconds of a batch a run may take while other jobs' runs wait behind it.
_PATIENCE = 2


class ProcessChannel:
    """A channel whose `other_end` goes to the job process.

    `on_answer` is called with each answer, `on_misuse` when something else arrives, after which
    nothing is read any more. `in_batch`: several answers may come, one after the other.
    `left_input_unread`: the process closed its end before it had read everything.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_answer: Callable[[frames.FromJobProcess], None],
        on_misuse: Callable[[Reason], None],
    ) -> None:
        self._loop = loop
        self._on_answer = on_answer
        self._on_misuse = on_misuse
        self._unread = b""
        self._unsent = b""
        self._is_misused = False
        self.in_batch = False
        self.left_input_unread = False
        self._socket, self.other_end = socket.socketpair()
        self._socket.setblocking(False)
        # The loop formats the repr of an object that it does not know yet: of a socket, both
        # addresses.
        self._file = self._socket.fileno()
        loop.add_reader(self._file, self._on_readable)

    def send(self, data: bytes) -> None:
        """Send lines; what does not fit is sent once there is room."""
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.left_input_unread = True  # it is dead: its exit will be reported
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._file, self._send_more)

    def read(self) -> None:
        """Take the answers that have arrived."""
        for _ in range(_MAX_READS):
            if self._is_misused or not self._on_readable():
                return

    def close(self) -> None:
        """Read what a dead process has left in the channel, and close it."""
        while self._on_readable():
            pass
        self._loop.remove_reader(self._file)
        self._loop.remove_writer(self._file)
        self._socket.close()

    def _send_more(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = b""
        if not self._unsent:
            self._loop.remove_writer(self._file)

    def _on_readable(self) -> bool:
        """Read what is there; return False when there is nothing."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            # A reset: the process closed the channel before it had read everything.
            self.left_input_unread = True
            data = b""
        if not data:
            # No proof of an exit: a job may close any descriptor. The zygote reports exits.
            self._loop.remove_reader(self._file)
            return False
        if not self._is_misused:
            self._unread = self._unread + data if self._unread else data
            while self._unread and self._take_answer():
                pass
        return True

    def _take_answer(self) -> bool:
        """Take the first complete answer; return False if there is none."""
        data = self._unread
        try:
            answer, self._unread = frames.take_answer(data, in_batch=self.in_batch)
        except frames.InvalidAnswer:
            self._is_misused = True
            self._unread = b""
            self._loop.remove_reader(self._file)
            self._on_misuse(Why.CHANNEL_MISUSED(data=repr(data[:_SHOWN_BYTES])))
            return False
        if answer is None:
            return False
        self._on_answer(answer)
        return True


#: Seconds until SIGCONT is sent again after SIGTERM, and how many times as long each next time.
NUDGE_SECONDS = 0.1
NUDGE_FACTOR = 3


@dataclass(slots=True, eq=False)
class SlotRun:
    """A run in a slot. `started_at_ms` is 0 until a process has it. A script has a `command`.

    `forked_at_ms` is when its process began, if that was new.

    Its end follows from these: the `stop` that was ordered, the `result` that it answered, and
    the `exit` of its process, None if that lives on.
    """

    trigger: Trigger
    log_path: str
    use: ProcessUse = ProcessUse.JOB
    log_reserve: int = 0
    phase: SlotPhase = SlotPhase.QUEUED
    command: tuple[str, ...] = ()
    forked_at_ms: int = 0
    started_at_ms: int = 0
    stop: Stop | None = None
    grace_seconds: float = 0
    has_called: bool = False
    #: The calls whose runs it waits for; while there are some, it holds no slot.
    awaited: set[int] = field(default_factory=set)
    result: frames.Result | None = None
    exit: Exit | None = None
    process: "JobProcess | None" = None
    timer: asyncio.TimerHandle | None = None

    @property
    def owner(self) -> Owner | None:
        """What its process serves; None for a script."""
        return None if self.command else Owner.of(self.trigger, self.use)

    @property
    def needs_own_process(self) -> bool:
        """Whether its process serves no other run."""
        return self.use == ProcessUse.FRESH

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def detach(self) -> None:
        """Take the run from its process, so that another one can have it."""
        self.process = self.exit = None
        self.cancel_timer()


class JobProcess:
    """A job process, from the request to fork it until its exit is reported.

    `owner` is None for a script, `note` is the file of its begin note. `run` is its current run, as
    far as is known, and `batch` the runs that it was last given at once, if several; `given_at` is
    when, by the loop's clock.

    `on_answer` is called with each answer, `on_misuse` when something else arrives on the channel,
    which is not read any more then, `on_stuck` when SIGKILL does not end the process.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        supervisor: ForkServerSupervisor,
        number: int,
        owner: Owner | None,
        note: int | None,
        on_answer: Callable[["JobProcess", frames.FromJobProcess], None],
        on_misuse: Callable[["JobProcess", Reason], None],
        on_stuck: Callable[["JobProcess"], None],
        stuck_seconds: float,
    ) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._on_stuck = on_stuck
        self._stuck_seconds = stuck_seconds
        self.number = number
        self.owner = owner
        self.note = note
        self.run: SlotRun | None = None
        self.batch: Batch | None = None
        self.runs_begun = 0
        self.is_ending = False
        self.is_forced = False
        self.idle_since = 0.0
        self.given_at = 0.0
        self._kill_timer: asyncio.TimerHandle | None = None
        self._nudge_timer: asyncio.TimerHandle | None = None
        self.pid = 0
        self._channel = ProcessChannel(
            loop, on_answer=partial(on_answer, self), on_misuse=partial(on_misuse, self)
        )
        handler = None if owner is None else owner.handler
        supervisor.fork(number, handler, self._channel.other_end, note)

    @property
    def what(self) -> str:
        """The handler's name, or "a script", for people."""
        return "a script" if self.owner is None else self.owner.handler

    # -- work ---------------------------------------------------------------------------------

    def give(self, runs: Sequence[SlotRun], *, last: bool, batch: Batch | None = None) -> None:
        """Hand over a run, or a `batch`; if it is the `last`, the process exits after it."""
        self.batch = batch
        self.given_at = self._loop.time()
        self._channel.in_batch = batch is not None
        for run in runs:
            run.process = self
        self.begin(runs[0])
        self._channel.send(b"".join([_order(run, last=last, batch=batch) for run in runs]))

    def begin(self, run: SlotRun) -> None:
        """Record that this is the process's current run."""
        self.run = run
        run.process = self
        self.runs_begun += 1

    def keep(self, call: frames.Call) -> None:
        """Tell a run that its call is stored."""
        kept = frames.Kept(run_id=call.run_id, number=call.number)
        self._channel.send(frames.encode_line(kept))

    def tell(self, state: frames.CallState) -> None:
        """Tell a run how the run that it called has ended."""
        self._channel.send(frames.encode_line(state))

    def read(self) -> None:
        """Take the answers that have arrived."""
        self._channel.read()

    # -- the end ------------------------------------------------------------------------------

    def end(self, grace_seconds: float) -> None:
        """Ask an idle process to exit, and kill it if it does not."""
        self._channel.send(frames.encode_line(frames.End()))
        self.expect_exit(grace_seconds)

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace time; the exit will be reported."""
        self._supervisor.signal(self.number, signal.SIGTERM)
        self._nudge(NUDGE_SECONDS)
        self._cancel_kill_timer()
        self.expect_exit(grace_seconds)

    def _nudge(self, again_seconds: float) -> None:
        """Make the process notice SIGTERM, even if it is stopped or enters a system call."""
        self._supervisor.signal(self.number, signal.SIGCONT)
        self._cancel_nudge()
        self._nudge_timer = self._loop.call_later(
            again_seconds, self._nudge, again_seconds * NUDGE_FACTOR
        )

    def expect_exit(self, grace_seconds: float) -> None:
        """Kill the process if it still exists after the grace time."""
        self.is_ending = True
        if self._kill_timer is None:
            self._kill_timer = self._loop.call_later(grace_seconds, self._kill)

    @property
    def died_idle(self) -> bool:
        """Whether this process, now closed, died between two runs, before it had read its run.

        A process that has not served yet does not count: a new one would die the same way. In a
        batch, the begin note decides, because what was left unread may have been a later run. Nor
        does one whose run made a call: what it left unread may have been the confirmation of that.
        """
        left = self._channel.left_input_unread and self.batch is None and self.runs_begun > 1
        run = self.run
        return left and run is not None and run.result is None and not run.has_called

    def close(self) -> None:
        """Release a process that is gone, after reading a result that is left in its channel."""
        self.is_ending = True  # so that this result does not make it idle
        self._channel.close()
        self._cancel_kill_timer()
        self._cancel_nudge()

    def _kill(self) -> None:
        self.is_forced = True
        self._supervisor.signal(self.number, signal.SIGKILL)
        self._kill_timer = self._loop.call_later(self._stuck_seconds, self._on_stuck, self)

    def _cancel_kill_timer(self) -> None:
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None

    def _cancel_nudge(self) -> None:
        if self._nudge_timer is not None:
            self._nudge_timer.cancel()
            self._nudge_timer = None


def _order(run: SlotRun, *, last: bool, batch: Batch | None) -> bytes:
    trigger = run.trigger
    if run.command:
        trigger = msgspec.structs.replace(trigger, script_source="")  # the file has it
    order = frames.Run(
        trigger=trigger,
        log_path=run.log_path,
        last=last,
        log_reserve=run.log_reserve,
        command=run.command,
        shared=run.use == ProcessUse.HANDLER,
    )
    if batch is not None:
        seconds = batch.seconds if trigger.run_id == batch.head else 0.0
        order = msgspec.structs.replace(order, batch=batch.number, batch_seconds=seconds)
    return frames.encode_line(order)


class EarlyRuns:
    """The runs assigned early to the job processes of an executor, and their begin notes.

    Without a `folder` for the notes nothing is assigned early. `on_not_begun` is called with each
    run that a process had and will not begin, the last one first.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        folder: Path | None,
        seconds: float,
        on_not_begun: Callable[[SlotRun], None],
    ) -> None:
        self._loop = loop
        self._patience_seconds = _PATIENCE * seconds
        self._folder = folder
        self._seconds = seconds
        self._on_not_begun = on_not_begun
        #: The runs that no process has reached yet.
        self._runs: dict[int, SlotRun] = {}
        #: Owners with a run that took too long for other jobs' runs to wait behind it, and no quick
        #: one since.
        self._slow: set[Owner | None] = set()
        self._notes: list[int] = []
        self._free: list[int] = []
        self._numbers = itertools.count(1)
        if folder is not None:
            with suppress(OSError):  # then no process gets a note
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    # -- notes --------------------------------------------------------------------------------

    def assign_note(self) -> int | None:
        """Return the note of a new process, a file; None if there is no place for it.

        What the last process noted there stays until this one is given runs: the ends of those runs
        may not be in the journal yet.
        """
        if self._folder is None:
            return None
        if self._free:
            return self._free.pop()
        note = begin_notes.make_note(self._folder / str(len(self._notes)))
        if note is not None:
            self._notes.append(note)
        return note

    def release_note(self, note: int | None) -> None:
        """Take back the note of a dead process."""
        if note is not None:
            self._free.append(note)

    def close(self) -> None:
        for note in self._notes:
            os.close(note)
        self._notes.clear()
        self._free.clear()

    # -- assigning ----------------------------------------------------------------------------

    def batch_size(self, owner: Owner) -> int:
        """Return how many runs a process of this owner may be given at once."""
        return 1 if self._folder is None or owner in self._slow else BATCH_RUNS

    def give(
        self, process: JobProcess, run: SlotRun, followers: Sequence[SlotRun], *, left: int
    ) -> None:
        """Give an idle process its next run and, if it can note them, others to continue with.

        The process may have `left` more runs after this one; its last run is given alone.
        """
        runs = [run, *followers[: max(0, left - 1)]]
        batch = None
        if len(runs) > 1 and process.note is not None:
            batch = self.new_batch(process.note, tuple(each.trigger.run_id for each in runs))
        if batch is None:
            process.give([run], last=left <= 0)
            return
        process.give(runs, last=False, batch=batch)
        self._runs |= {each.trigger.run_id: each for each in runs[1:]}
        if any(each.trigger.job_id != run.trigger.job_id for each in runs[1:]):
            # Another slot may become free for them before this run has ended.
            self._loop.call_later(self._patience_seconds, self._end_patience, process, batch)

    def _end_patience(self, process: JobProcess, batch: Batch) -> None:
        """Take back the runs of a batch that still wait behind others."""
        if process.batch is batch and batch.followers:
            if process.run is not None and process.run.trigger.run_id == batch.head:
                self._slow.add(process.owner)
            self.recall(process)

    def end(self, process: JobProcess) -> None:
        """Record that a process has answered all that it was given."""
        if self._loop.time() - process.given_at <= self._patience_seconds:
            self._slow.discard(process.owner)

    def new_batch(self, note: int, run_ids: tuple[int, ...]) -> Batch | None:
        """Return a batch for the process with this note; None if the note cannot be read."""
        try:
            before = begin_notes.begun(note)
        except OSError:
            return None
        return Batch(next(self._numbers), note, run_ids, self._seconds, before)

    def get(self, run_id: int) -> SlotRun | None:
        """Return a run that no process has reached yet."""
        return self._runs.get(run_id)

    def has_next(self, process: JobProcess) -> bool:
        """Whether a process has runs that it has not reached."""
        return process.batch is not None and bool(process.batch.followers)

    def reach_next(self, process: JobProcess) -> SlotRun:
        """Record that a process has reached its next run; return that run."""
        assert process.batch is not None
        run = self._runs.pop(process.batch.reach_next())
        process.begin(run)
        return run

    # -- what has begun -----------------------------------------------------------------------

    def has_begun(self, run: SlotRun) -> bool:
        """Whether a run that was reached is known to have begun."""
        batch = None if run.process is None else run.process.batch
        return batch is None or batch.has_begun(run.trigger.run_id, batch.begun())

    def never_began(self, process: JobProcess) -> bool:
        """Return whether a dead process had not begun its run; take back the others not begun."""
        batch = process.batch
        if batch is None or process.run is None:
            return process.died_idle
        noted = batch.begun()
        self._take_back(process, batch, noted)
        run = process.run
        return run is not None and run.result is None and not batch.has_begun(batch.head, noted)

    # -- taking back --------------------------------------------------------------------------

    def recall(self, process: JobProcess | None) -> None:
        """Withdraw a process's early runs, and take back those that have not begun."""
        if process is None or process.batch is None or process.run is None:
            return
        batch = process.batch
        if not batch.followers and process.run.trigger.run_id == batch.head:
            return
        noted = batch.withdraw()
        process.read()  # it has answered everything before the run that it noted last
        self._take_back(process, batch, noted)

    def on_withheld(self, process: JobProcess, number: int) -> None:
        """Take back the runs of a batch that its process says it will not begin."""
        batch = process.batch
        if batch is not None and number == batch.number:
            self._take_back(process, batch, batch.head)  # it has answered all that it began

    def _take_back(self, process: JobProcess, batch: Batch, noted: int) -> None:
        """Take back the runs that have not begun; `noted` is the last one that has."""
        run = process.run
        for run_id in batch.take_back(None if run is None else run.trigger.run_id, noted):
            back = self._runs.pop(run_id, run)
            assert back is not None
            self._on_not_begun(back)


#: The parts that idle processes may take: of memory, of process limits, of descriptors.
_MEMORY_PART, _PROCESSES_PART, _FILES_PART = 4, 4, 3
#: Descriptors that the executor holds of a job process: its channel, its pidfd, its begin note.
_FILES_EACH = 3
#: What an idle process is taken to need until one has been measured.
_DEFAULT_BYTES = 3 * 2**20
#: When less than this part of the memory is free, it is short.
_SHORT_PART = 10
#: A smaller change of what fits is ignored unless memory is short: available memory fluctuates, and
#: processes would be ended and started again with it.
_STEADY_PART = 20
#: The part of what fits that is left free, at most one place per slot: a run that needs a new
#: process then does not wait until the one that has to go for it has exited.
_ROOM_PART = 16
#: For how many jobs the last use of a process is remembered.
MAX_REMEMBERED = 10_000


class IdleLimit:
    """How many idle processes to keep; `most` is how many fit.

    `fixed` keeps that many; without it, as many as fit beside `spares`, and at most a quarter of
    `job_processes`, the number that the jobs' user may have (0: any number).
    """

    def __init__(
        self, fixed: int | None, *, slots: int, spares: int, job_processes: int, host: Host
    ) -> None:
        self._host = host
        self._fixed = fixed
        self._slots = slots
        self._spares = spares
        self._bytes_each = _DEFAULT_BYTES
        self._bound = PROCESS_LIMIT - slots
        self.most = fixed if fixed is not None else 0
        if fixed is None:
            self._bound = min(self._bound, *self._bounds(job_processes))
            self.look(())

    @property
    def kept(self) -> int:
        """How many to keep."""
        if self._fixed is not None:
            return self._fixed
        return self.most - min(self._slots, self.most // _ROOM_PART)

    def look(self, idle: Collection[int]) -> None:
        """Update how many fit, given the ids of the processes that are idle now."""
        if self._fixed is not None:
            return
        self._bytes_each = self._host.private_bytes(idle) or self._bytes_each
        memory, held = self._host.memory(), self._bytes_each * len(idle)
        # What they hold would be available otherwise.
        may_use = memory.free + held if memory.limit is None else memory.limit
        spared = (held + memory.free - may_use // _SHORT_PART) // self._bytes_each
        fit = min(may_use // _MEMORY_PART // self._bytes_each, spared)
        most = max(0, min(fit - self._spares, self._bound))
        is_near = abs(most - self.most) <= self.most // _STEADY_PART
        if not is_near or spared - self._spares < self.most:
            self.most = most

    def _bounds(self, job_processes: int) -> Iterator[int]:
        yield self._host.most_files() // _FILES_PART // _FILES_EACH
        for processes in (self._host.most_processes(), job_processes or None):
            if processes is not None:
                yield processes // _PROCESSES_PART


class IdleProcesses:
    """Processes that have finished their run and wait for the next one of their job.

    If more jobs take turns than there are places, those that have a place keep it and find their
    process each time. A job gets the place of one that has not run since its own last run.
    """

    def __init__(self) -> None:
        #: By number, the one that has idled longest first.
        self._all: dict[int, JobProcess] = {}
        #: Those among them that have served a single run.
        self._new: dict[int, JobProcess] = {}
        self._by_owner: dict[Owner, dict[int, JobProcess]] = {}
        #: When each owner's process last became idle, the longest ago first.
        self._last_idle: dict[Owner, float] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._all.values()]

    def add(self, process: JobProcess) -> None:
        assert process.owner is not None, "a script's process never idles"
        process.idle_since = time.monotonic()
        self._all[process.number] = process
        if process.runs_begun == 1:
            self._new[process.number] = process
        self._by_owner.setdefault(process.owner, {})[process.number] = process
        self._last_idle.pop(process.owner, None)
        self._last_idle[process.owner] = process.idle_since
        if len(self._last_idle) > MAX_REMEMBERED:
            del self._last_idle[next(iter(self._last_idle))]

    def last_idle(self, owner: Owner | None) -> float:
        """Return when a process of this owner last became idle, in monotonic seconds; 0 = never."""
        return self._last_idle.get(owner, 0.0) if owner is not None else 0.0

    def take(self, owner: Owner | None) -> JobProcess | None:
        """Remove and return a job's most recently idle process, so that the others can time out."""
        own = self._by_owner.get(owner) if owner is not None else None
        if not own:
            return None
        process = next(reversed(own.values()))
        self.discard(process)
        return process

    def take_oldest(self, idle_for: float = 0) -> JobProcess | None:
        """Remove and return the longest idle process, if idle for at least `idle_for` seconds."""
        process = next(iter(self._all.values()), None)
        if process is None or process.idle_since > time.monotonic() - idle_for:
            return None
        self.discard(process)
        return process

    def take_least_useful(self, last_idle: float) -> JobProcess | None:
        """Remove and return the process whose end costs least.

        It makes room for a job whose process was last idle then. That is the longest idle one if it
        has idled since before that; otherwise the newest that has served a single run, if any.
        """
        process = next(reversed(self._new.values()), None)
        oldest = next(iter(self._all.values()), None)
        if process is None or (oldest is not None and oldest.idle_since < last_idle):
            return self.take_oldest()
        self.discard(process)
        return process

    def discard(self, process: JobProcess) -> None:
        if self._all.pop(process.number, None) is None or process.owner is None:
            return
        self._new.pop(process.number, None)
        own = self._by_owner[process.owner]
        del own[process.number]
        if not own:
            del self._by_owner[process.owner]
