"""The main function of a job process: runs one handler, one run at a time, until asked to exit.

The zygote forks it. It imports the standard library, the handler side of this package,
`warren.broker.messages` and `warren.broker.reasons`, and never sees a connection, a database or the
executor's memory.

On its channel it sends results, runs that it gives back, the progress of a run and its calls; it
receives what to run, that a call is kept, and how the called run ended.
"""

import contextlib
import gc
import inspect
import math
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from itertools import count
from typing import Any, NamedTuple, NoReturn

import msgspec

from warren.broker.messages import (
    CALLS_LIMIT,
    PROGRESS_TEXT_LIMIT,
    CallEnd,
    Outcome,
    Progress,
    Trigger,
)
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import to_json
from warren.executor.begin_notes import BatchPermit, BeginNote
from warren.executor.fork_server import frames, linux
from warren.executor.fork_server.forking import await_order
from warren.executor.fork_server.interpreter import (
    call_exit_functions,
    count_threads,
    join_threads,
    set_signal_mask,
)
from warren.executor.fork_server.output import Output
from warren.executor.fork_server.process_state import RUN_MARK, TRACEPARENT, ProcessState
from warren.executor.fork_server.termination import (
    BETWEEN,
    BLOCKED,
    RUNNING,
    WAITING,
    Termination,
    WaitInterrupted,
)
from warren.executor.handlers.context import (
    CallFailed,
    JobContext,
    JobFailed,
    JobStopped,
    OnCall,
    Verdict,
    Wait,
)
from warren.executor.handlers.handler_registry import Handler, Handlers
from warren.executor.handlers.hooks import Hook, RunHooks, ended
from warren.executor.handlers.outcomes import (
    HandlerOutcome,
    clean,
    describe,
    describe_hook,
    message_and_result,
)

_READ_BYTES = 16_384
#: Signals that the zygote or Python ignores, and that other programs expect to have their effect.
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
_NO_LOCALES = ("C", "POSIX")


def run_script(channel: int, output: Output) -> None:
    """Take a run and exec its script's interpreter; return only if that is not possible."""
    _restore_signals()
    order = _take_order(channel)
    if not isinstance(order, frames.Run):
        return
    output.begin(order.log_path)
    program, path, *arguments = order.command
    # Arguments are UTF-8 whatever the locale is.
    argv = [os.fsencode(program), os.fsencode(path), *(each.encode() for each in arguments)]
    environment = script_environment(order.trigger, os.environ.copy())
    try:
        os.execvpe(program, argv, environment)  # noqa: S606 - no shell is what it is for
    except OSError as error:
        _send(channel, output, order.trigger, _explain(program, error))


def script_environment(trigger: Trigger, inherited: dict[str, str]) -> dict[str, str]:
    """Return the environment of a script: the inherited one, UTF-8, and facts about the run."""
    scheduled_at = datetime.fromtimestamp(trigger.scheduled_at_ms / 1000, UTC)
    return (
        # With buffered output a Python script's lines would be out of order in the log.
        {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}
        | _with_utf8(inherited)
        | {
            RUN_MARK: str(trigger.run_id),
            "WARREN_JOB_ID": str(trigger.job_id),
            "WARREN_KIND": trigger.kind,
            "WARREN_ATTEMPT": str(trigger.attempt),
            "WARREN_SHARD_INDEX": str(trigger.shard_index),
            "WARREN_SHARD_TOTAL": str(trigger.shard_total),
            "WARREN_SCHEDULED_AT": scheduled_at.isoformat(timespec="milliseconds"),
            "WARREN_RUN_DATE": trigger.run_date or scheduled_at.date().isoformat(),
        }
        | ({TRACEPARENT: trigger.traceparent} if trigger.traceparent else {})
    )


def _with_utf8(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment with a UTF-8 locale if it names none."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if locale := environment.get(name):
            chosen = "C.UTF-8" if locale in _NO_LOCALES else locale
            return environment | {name: chosen}
    return environment | {"LANG": "C.UTF-8"}


def _restore_signals() -> None:
    for number in _DEFAULT_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    # Signals that arrived while they were blocked now take effect.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_order(channel: int) -> frames.ToJobProcess | None:
    data = b""
    while not data.endswith(b"\n"):
        piece = os.read(channel, _READ_BYTES)
        if not piece:
            return None
        data += piece
    order: frames.ToJobProcess = frames.decode_to_job_process(data)
    return order


def _explain(program: str, error: OSError) -> Reason:
    if isinstance(error, FileNotFoundError):
        return Why.NO_INTERPRETER(program=program)
    return Why.INTERPRETER_FAILED(program=program, fault=str(error.strerror))


def _send(channel: int, output: Output, trigger: Trigger, error: Reason) -> None:
    written = output.end()
    output.remove_if_empty()
    result = frames.Result(
        run_id=trigger.run_id,
        outcome=Outcome.FAILED,
        message=str(error),
        why=to_json(error),
        will_end=True,
        log_bytes=written.size,
        log_tail=written.tail,
        log_error=frames.note_of(written.error),
        log_why=to_json(written.error),
    )
    frames.write_answer(channel, result)


#: The shortest time between two reports of a run's progress.
_PROGRESS_SECONDS = 1.0
#: Seconds between two checks whether a called run has ended.
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5


class Answers:
    """Writes answers to the channel, one after the other, whichever thread they come from.

    `is_closed` is True once the handler has closed the channel: the executor then sees an exit
    without a result.
    """

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._writing, self._telling = threading.Lock(), threading.Lock()
        #: The run that may report progress, 0 = none, and when it last did.
        self._run_id, self._told_at = 0, 0.0
        self.is_closed = False

    def send(self, answer: frames.FromJobProcess) -> None:
        """Write an answer whole; a long one takes several writes."""
        try:
            with self._writing:
                frames.write_answer(self._channel, answer)
        except OSError:
            self.is_closed = True

    def progress_of(self, run_id: int) -> Callable[[float, float | None, str], None]:
        """Return what reports a run's progress, once a second at most; any thread may call it."""
        self._run_id, self._told_at = run_id, -_PROGRESS_SECONDS
        return partial(self._tell, run_id)

    def end_progress(self) -> None:
        """Stop threads that a run left behind from reporting its progress: its result is final."""
        with self._telling:
            self._run_id = 0

    def _tell(self, run_id: int, done: float, total: float | None, text: str) -> None:
        if os.getpid() != self._pid:  # a child of the handler, with locks as they were
            return
        with self._telling:
            now = time.monotonic()
            if run_id != self._run_id or now - self._told_at < _PROGRESS_SECONDS:
                return
            self._told_at = now
            words = clean(" ".join(text.split()))[:PROGRESS_TEXT_LIMIT]
            progress = Progress(done=done, total=total, text=words)
            self.send(frames.Told(run_id=run_id, progress=progress))


class Orders:
    """Reads the channel of a job process.

    A run that waits until its call is kept may receive orders for later runs, which are queued.
    """

    def __init__(self, channel: int, answers: Answers, termination: Termination) -> None:
        self._channel = channel
        self._answers = answers
        self._termination = termination
        self._pid = os.getpid()
        self._unread = b""
        self._put_by: deque[frames.ToJobProcess] = deque()
        self._calling = threading.Lock()
        #: The run that may call, and whether it has.
        self._run_id, self._has_called = 0, False

    def next(self) -> frames.ToJobProcess | None:
        """Wait for an order; return None when the executor is gone or SIGTERM arrived."""
        if self._put_by:
            return None if self._termination.is_requested else self._put_by.popleft()
        try:
            self._termination.phase = WAITING
            while not self._termination.is_requested and b"\n" not in self._unread:
                if not self._read():
                    return None
            self._termination.phase = BETWEEN
        except (WaitInterrupted, OSError):
            return None
        return self._take() if b"\n" in self._unread else None

    def call_of(self, run_id: int) -> OnCall:
        """Return what sends a run's calls, and waits until each is kept; any thread may call it."""
        self._run_id = run_id
        return partial(self._call, run_id, count(1))

    def _call(
        self, run_id: int, numbers: Iterator[int], job: str, params: object, param: str | None
    ) -> Wait:
        from warren.executor.handlers.params import checked  # noqa: PLC0415 - most runs call nobody

        self._check_process()
        name, text = checked(job, params, param)
        with self._calling:
            self._check_run(run_id)
            self._has_called = True
            number = next(numbers)
            if number > CALLS_LIMIT:
                raise ValueError(f"expected at most {CALLS_LIMIT} calls of a run, got: another")
            self._answers.send(frames.Call(run_id=run_id, number=number, job=name, param=text))
            self._await(frames.Kept, run_id, number)
        return partial(self._result, frames.Await(run_id=run_id, number=number, job=name))

    def end_calls(self) -> None:
        """Stop threads that a run left behind from making calls for it, and read later answers."""
        if self._has_called:
            with self._calling:
                self._run_id, self._has_called = 0, False

    def _check_run(self, run_id: int) -> None:
        if run_id != self._run_id:
            raise RuntimeError("expected a run that goes on to call, got: one that is over")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # a child of the handler shares the channel
            raise RuntimeError("expected the handler's own process to call, got: a forked one")

    def _result(self, call: frames.Await, timeout: float | None) -> Any:
        """Wait for the run of a call; return its result."""
        from warren.broker.messages import result_value  # noqa: PLC0415 - as above

        self._check_process()
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        pause = _SHORTEST_LOOK
        end = None
        try:
            while (end := self._state(call)) is None:
                if (left := deadline - time.monotonic()) <= 0:
                    raise TimeoutError(f"the run of job {call.job} is not over after {timeout} s")
                time.sleep(min(pause, left))
                pause = min(_LONGEST_LOOK, pause * 1.5)
        finally:
            if end is None:
                self._give_up(call)
        if end.is_fine:
            return result_value(end.result)
        words = f"run {end.run_id} of job {call.job} {end.status}"
        words = words if end.run_id else f"the call of job {call.job} was refused"
        raise CallFailed(f"{words}: {end.message}", status=end.status, run_id=end.run_id)

    def _give_up(self, call: frames.Await) -> None:
        with self._calling:
            if call.run_id == self._run_id:
                self._answers.send(msgspec.structs.replace(call, is_over=True))

    def _state(self, call: frames.Await) -> CallEnd | None:
        with self._calling:
            self._check_run(call.run_id)
            self._answers.send(call)
            state = self._await(frames.CallState, call.run_id, call.number)
        assert isinstance(state, frames.CallState)
        return state.end

    def _await(
        self, kind: type[frames.Kept | frames.CallState], run_id: int, number: int
    ) -> frames.Kept | frames.CallState:
        while True:
            while b"\n" not in self._unread:
                if self._answers.is_closed or not self._read():
                    raise RuntimeError("expected the executor to keep a call, got: it is gone")
            order = self._take()
            if not isinstance(order, frames.Kept | frames.CallState):
                self._put_by.append(order)
            elif isinstance(order, kind) and (order.run_id, order.number) == (run_id, number):
                return order  # others answer what SIGTERM has interrupted

    def _read(self) -> bool:
        data = os.read(self._channel, _READ_BYTES)
        self._unread += data
        return bool(data)

    def _take(self) -> frames.ToJobProcess:
        line, _, self._unread = self._unread.partition(b"\n")
        order: frames.ToJobProcess = frames.decode_to_job_process(line)
        return order


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetup:
    """What all job processes of a zygote share.

    They keep `kept_fds`, and handlers' processes `handler_fds` besides, which the handlers opened
    while they were imported. All are below `fd_limit`.
    """

    zygote_pid: int
    handlers: Handlers
    hooks: tuple[Hook, ...]
    output: Output
    process_state: ProcessState
    termination: Termination
    kept_fds: frozenset[int]
    handler_fds: frozenset[int]
    fd_limit: int


class Assignment(NamedTuple):
    """What a job process serves: a handler, or a script if there is none.

    `channel` is its end of the channel, `note` the file of its begin note.
    """

    handler: Handler | None
    channel: int
    note: int | None = None


def main_of_job(setup: JobSetup, assignment: Assignment) -> NoReturn:
    """Run a job process until its end."""
    _set_up(setup, linux.JOB_NAME, _kept_fds(setup, assignment))
    _serve(setup, assignment)


def main_of_spare(setup: JobSetup, link: socket.socket) -> NoReturn:
    """Run a job process that learns over a link which job or handler it serves."""
    _set_up(setup, linux.SPARE_NAME, {link.fileno(), *setup.kept_fds, *setup.handler_fds})
    setup.termination.listen()
    assignment = _await_assignment(setup, link)
    if assignment is not None:
        linux.set_process_name(linux.JOB_NAME)
        if assignment.handler is None:
            # As in a script's process that was forked for it: that is where they are taken.
            set_signal_mask(signal.SIG_SETMASK, BLOCKED)
            _close_other_fds(_kept_fds(setup, assignment), setup.fd_limit)
        if not setup.termination.is_requested:
            _serve(setup, assignment)
    os._exit(0)


def _await_assignment(setup: JobSetup, link: socket.socket) -> Assignment | None:
    try:
        setup.termination.phase = WAITING
        assignment = None if setup.termination.is_requested else await_order(link)
        setup.termination.phase = BETWEEN
    except (WaitInterrupted, OSError):
        return None
    if assignment is None:
        return None
    order, files = assignment
    handler = None if order.handler is None else setup.handlers[order.handler]
    return Assignment(handler, *files) if files else None


def _set_up(setup: JobSetup, name: bytes, kept: set[int]) -> None:
    gc.enable()
    os.setsid()
    linux.become_job_process(setup.zygote_pid, name)
    linux.prefer_as_oom_victim()
    _close_other_fds(kept, setup.fd_limit)
    if setup.process_state.has_limits:
        setup.process_state.limits.apply()


def _serve(setup: JobSetup, assignment: Assignment) -> NoReturn:
    if assignment.handler is None:
        setup.process_state.limits.apply(to_script=True)
        run_script(assignment.channel, setup.output)
    else:
        runs = RunLoop(setup, assignment, assignment.handler)
        runs.serve()
        runs.finish()
    os._exit(0)  # whatever else there is to take down, the kernel does faster


def _kept_fds(setup: JobSetup, assignment: Assignment) -> set[int]:
    kept = {assignment.channel, *setup.kept_fds}
    if assignment.handler is not None:
        kept |= setup.handler_fds
        if assignment.note is not None:
            kept.add(assignment.note)
    return kept


def _close_other_fds(kept: set[int], limit: int) -> None:
    """Close every inherited descriptor except 0, 1, 2 and those in `kept`."""
    low = 2
    for high in (*sorted(kept), limit):
        if high > low:
            os.closerange(low + 1, high)
            low = high


class RunLoop:
    """Takes runs from the channel, runs them and answers each with its result."""

    def __init__(self, setup: JobSetup, assignment: Assignment, handler: Handler) -> None:
        self._handler = handler
        self._output = setup.output
        self._hooks = setup.hooks
        self._process_state = setup.process_state
        self._termination = setup.termination
        self._permit = BatchPermit(BeginNote(assignment.note), self._withhold)
        self._answers = Answers(assignment.channel)
        self._orders = Orders(assignment.channel, self._answers, setup.termination)
        self._pid = os.getpid()
        self._is_ending = False
        self._is_initialised = False
        self._resident_threads = 0
        #: A `coroutines.EventLoop`, once there was something to await.
        self._event_loop: Any = None

    # -- start and end ------------------------------------------------------------------------

    def serve(self) -> None:
        """Run whatever arrives until the process is to exit."""
        self._termination.listen()
        while not (self._is_ending or self._answers.is_closed or self._termination.is_requested):
            order = self._orders.next()
            if not isinstance(order, frames.Run):
                return
            if self._takes(order):
                self._is_ending = order.last
                self._answers.send(self._perform(order))
            elif self._permit.is_unable:
                return

    def finish(self) -> None:
        """Do what a Python program does when it exits."""
        self._termination.phase = BETWEEN
        self._output.reopen_log()
        if self._is_initialised and self._handler.destroy is not None:
            self._guard("destroy", self._handler.destroy)
        if self._event_loop is not None:
            self._guard("the event loop", self._event_loop.close)
        # In the order of the interpreter's own exit. Each may hang; the executor watches the time.
        self._guard("a thread", join_threads)
        self._guard("atexit", call_exit_functions)
        self._output.flush()
        self._output.remove_if_empty()

    def _guard(self, what: str, action: Callable[[], Any]) -> None:
        try:
            self._complete(action())
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is logged
            self._output.write_line("ERROR", describe_hook(what, error, " at the process's end"))

    # -- one run ------------------------------------------------------------------------------

    def _perform(self, order: frames.Run) -> frames.Result:
        self._process_state.mark(order.trigger.run_id, order.trigger.traceparent)
        self._output.begin(order.log_path, order.log_reserve)
        if order.shared:
            self._process_state.remember_limits()
        ending = self._attempt_in_hooks(self._context_of(order.trigger))
        if os.getpid() != self._pid:
            self._end_forked_copy()
        self._process_state.restore()
        self._is_ending = self._is_ending or self._termination.is_requested or self._has_leftovers()
        self._is_ending = self._is_ending or self._answers.is_closed
        if order.shared and self._process_state.has_other_limits():
            self._is_ending = True
        self._orders.end_calls()
        self._answers.end_progress()
        written = self._output.end()
        if not self._is_ending:
            self._output.release_log()
        return frames.Result(
            run_id=order.trigger.run_id,
            outcome=ending.outcome,
            message=str(ending.message),
            why=to_json(ending.message) if ending.message else "",
            will_end=self._is_ending,
            log_bytes=written.size,
            log_tail=written.tail,
            log_error=frames.note_of(written.error) if written.error else "",
            log_why=to_json(written.error) if written.error else "",
            was_interrupted=self._termination.has_interrupted,
            returned=ending.result,
            may_retry=ending.may_retry,
            retry_seconds=ending.retry_seconds,
        )

    def _attempt_in_hooks(self, context: JobContext) -> HandlerOutcome:
        if not self._hooks:
            return self._attempt(context)
        hooks = RunHooks(self._hooks, self._tell_of_hook)
        hooks.enter(context)
        ending = self._attempt(context)
        if os.getpid() == self._pid:
            hooks.leave(ended(ending.outcome, ending.message, ending.error))
        return ending

    def _tell_of_hook(self, name: str, error: BaseException) -> None:
        self._output.write_line("ERROR", describe_hook(f"hook {name}", error))

    def _attempt(self, context: JobContext) -> HandlerOutcome:
        """Call the handler. The outer `try` is for a SIGTERM that arrives as the inner one ends."""
        try:
            try:
                self._termination.phase = RUNNING
                if self._termination.is_requested:
                    raise JobStopped  # noqa: TRY301 - SIGTERM came before the handler was called
                message, returned = self._call(context)
                self._termination.phase = BETWEEN
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises ends its run only
                self._termination.phase = BETWEEN
                return self._explain(error, context.verdicts)
        except JobStopped as stopped:
            self._termination.phase = BETWEEN
            return self._explain(stopped, context.verdicts)
        tasks = self._cancelled_tasks()
        if context.verdicts:
            return self._explain(context.verdicts[-1], ())
        return HandlerOutcome(Outcome.SUCCEEDED, _with_tasks(message, tasks), result=returned)

    def _call(self, context: JobContext) -> tuple[Words, str]:
        if not self._is_initialised:
            if self._handler.init is not None:
                self._initialise(self._handler.init)
            self._is_initialised = True
            self._resident_threads = self._count_threads()
            if self._event_loop is not None:
                self._event_loop.keep_tasks()
        handler = self._handler
        if handler.params is None:
            return message_and_result(self._complete(handler.function(context)))
        params = handler.params.decode(context.param)
        return message_and_result(self._complete(handler.function(context, params)))

    def _initialise(self, init: Callable[[], Any]) -> None:
        try:
            self._complete(init())
        except SystemExit as error:
            # Its status 0 would pass for the success of a run whose handler was never called.
            raise JobFailed(f"its init called sys.exit({error.code!r})") from None

    def _explain(self, error: BaseException, verdicts: Sequence[Verdict]) -> HandlerOutcome:
        # A process whose `init` failed must not take another run.
        self._is_ending = self._is_ending or not self._is_initialised
        self._cancelled_tasks()
        ending = describe(error, self._handler.retry)
        if ending.log:
            self._output.write_line("ERROR", ending.log)
        if verdicts and not isinstance(error, JobStopped):
            # It said so before it ended otherwise.
            return describe(verdicts[-1])
        return ending

    def _complete(self, value: Any) -> Any:
        """Await what an `async def` returned; return anything else as it is."""
        if value is None or isinstance(value, str) or not inspect.isawaitable(value):
            return value
        if self._event_loop is None:
            self._event_loop = _new_event_loop()
        return self._event_loop.run(value, self._termination)

    def _cancelled_tasks(self) -> list[str]:
        """Cancel the tasks that a run has left; return and log their names."""
        if self._event_loop is None:
            return []
        names: list[str] = self._event_loop.cancel_tasks()
        if names:
            self._output.write_line("WARNING", f"cancelled the tasks that it left running: {names}")
        return names

    def _has_leftovers(self) -> bool:
        # Threads that `init` or the event loop started belong to the process, not to a run.
        return self._count_threads() > self._resident_threads or linux.has_living_child()

    def _count_threads(self) -> int:
        of_loop = 0 if self._event_loop is None else self._event_loop.count_threads()
        return count_threads() - of_loop

    def _end_forked_copy(self) -> NoReturn:
        """Exit from a copy of this process that the handler forked and that returned here."""
        with contextlib.suppress(Exception):
            self._output.flush()
        os._exit(0)

    # -- the channel --------------------------------------------------------------------------

    def _context_of(self, trigger: Trigger) -> JobContext:
        scheduled_at = datetime.fromtimestamp(trigger.scheduled_at_ms / 1000, UTC)
        day = trigger.run_date
        return JobContext(
            job_id=trigger.job_id,
            run_id=trigger.run_id,
            attempt=trigger.attempt,
            kind=trigger.kind,
            param=trigger.param,
            shard_index=trigger.shard_index,
            shard_total=trigger.shard_total,
            scheduled_at=scheduled_at,
            run_date=date.fromisoformat(day) if day else scheduled_at.date(),
            traceparent=trigger.traceparent,
            on_progress=self._answers.progress_of(trigger.run_id),
            on_call=self._orders.call_of(trigger.run_id),
        )

    def _takes(self, order: frames.Run) -> bool:
        run_id = order.trigger.run_id
        return self._permit.takes(run_id, batch=order.batch, seconds=order.batch_seconds)

    def _withhold(self, batch: int) -> None:
        self._answers.send(frames.Withheld(batch=batch))


def _new_event_loop() -> Any:
    from warren.executor.fork_server.coroutines import EventLoop  # noqa: PLC0415 - it needs asyncio, which makes each fork dearer

    return EventLoop()


def _with_tasks(message: Words, tasks: Sequence[str]) -> Words:
    if not tasks:
        return message
    note = Why.CANCELLED_TASKS(n=len(tasks), tasks=", ".join(tasks[:3]))
    return Why.NOTED(words=message, notes=(note,)) if message else Why.NOTES(notes=(note,))
