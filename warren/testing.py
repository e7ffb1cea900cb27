"""Runs handlers in tests, in the test's own process and without services; reads job files.

    from warren.testing import run

    def test_the_load_skips_a_holiday() -> None:
        done = run(load, param="2026-12-25")
        assert done.outcome == "SUCCEEDED"
        assert done.message == "0 rows"

An executor runs handlers in separate job processes, where a test's patches have no effect.
"""

import asyncio
import inspect
import io
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

from warren.broker.messages import Outcome, result_value
from warren.executor.fork_server.output import LineHandler
from warren.executor.handlers.context import (
    CallFailed,
    JobContext,
    JobStopped,
    NotATypeOfParams,
    Params,
    Wait,
)
from warren.executor.handlers.outcomes import describe, message_and_result
from warren.executor.handlers.params import checked, encode, params_of

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Called:
    """A run that a handler has called; `param` None = the job's own."""

    job: str
    param: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a run ended.

    `outcome` is "SUCCEEDED", "SKIPPED" or "FAILED"; `message` is the run's message as the console
    would show it. `returned` is what the handler returned, None if it raised; `error` is what it
    raised. `result` is the value that the API would return for it. `lines` is the run's
    log: what was printed, and log records of INFO and above. `called` are the runs that it asked
    for with `context.call`, in order; nothing runs them.
    """

    outcome: str
    message: str
    lines: list[str]
    returned: Any = None
    result: Any = None
    error: BaseException | None = None
    called: list[Called] = field(default_factory=list)


def run(
    handler: Handler,
    *,
    param: str = "",
    params: object = None,
    at: str | datetime | None = None,
    attempt: int = 0,
    shard: tuple[int, int] = (0, 1),
    kind: str = "MANUAL",
    run_date: str | date | None = None,
    results: Mapping[str, object] | None = None,
) -> Done:
    """Call a handler as a job process would, and return how its run ended.

    Args:
        handler: the function that `@job` declares; `async def` too. Its `init` and `destroy` are
            not called.
        param: the run's param.
        params: those of a typed handler: a value of its type, or the JSON of one; None = what
            is in `param`.
        at: the due time, such as "2026-12-01T02:00Z"; None = now.
        attempt: 0 for the first one, 1 for its first retry.
        shard: index and number of shards, such as (0, 3).
        kind: what the run came from, such as "CRON" or "RETRY".
        run_date: the date that the run is about, such as "2026-12-01"; None = the day of `at`.
        results: by job, the results of the runs that the handler calls and waits for; an exception
            is raised. One that is missing is a CallFailed.

    Raises:
        ValueError: `at` has no zone, `run_date` is no date, there is no such attempt or shard, or
            handlers cannot have params of its type.
        RuntimeError: an `async def` handler is to run while an event loop runs in this thread.

    """
    index, total = shard
    if not 0 <= index < total:
        raise ValueError(f"expected shard to be like (0, 3), got: {shard!r}")
    if attempt < 0:
        raise ValueError(f"expected attempt to be 0 or more, got: {attempt!r}")
    typed = _params_of(handler)
    if params is not None:
        param = encode(params)
    due = _instant(at)
    called: list[Called] = []

    def on_call(*asked: Any) -> Wait:
        called.append(Called(*checked(*asked)))
        return partial(_result, results or {}, called[-1].job)

    context = JobContext(
        job_id=1,
        run_id=1,
        attempt=attempt,
        kind=kind,
        param=param,
        shard_index=index,
        shard_total=total,
        scheduled_at=due,
        run_date=date.fromisoformat(str(run_date)) if run_date else due.date(),
        on_call=on_call,
    )
    output = io.StringIO()
    returned, error, result = None, None, ""
    with redirect_stdout(output), redirect_stderr(output), _logged():
        try:
            returned = handler(context) if typed is None else handler(context, typed.decode(param))
            if inspect.isawaitable(returned):
                returned = _awaited(returned)
            words, result = message_and_result(returned)
            outcome, message = Outcome.SUCCEEDED, str(words)
        except (KeyboardInterrupt, _RunningLoop):
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever a handler raises ends its run only
            returned, error = None, raised
            ending = describe(raised)
            outcome, message = ending.outcome, str(ending.message)
    if context.verdicts and not isinstance(error, JobStopped):
        ending = describe(context.verdicts[-1])
        outcome, message, result = ending.outcome, str(ending.message), ""
    return Done(
        outcome=outcome.name,
        message=message,
        lines=output.getvalue().splitlines(),
        returned=returned,
        result=result_value(result),
        error=error,
        called=called,
    )


def _result(results: Mapping[str, object], job: str, _timeout: float | None) -> Any:
    if job not in results:
        words = f"nothing runs here: give the result of job {job!r} as results={{{job!r}: …}}"
        raise CallFailed(words, status="REFUSED", run_id=0)
    result = results[job]
    if isinstance(result, BaseException):
        raise result
    return result


def _params_of(handler: Handler) -> Params | None:
    try:
        return params_of(handler)
    except NotATypeOfParams as error:
        raise ValueError(f"expected params of the handler to have {error}") from error


class _RunningLoop(RuntimeError):
    """An event loop is already running in this thread."""


@contextmanager
def _logged() -> Iterator[None]:
    """Write log records as lines of the run's log."""
    root, handler = logging.getLogger(), LineHandler()
    level = root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _instant(at: str | datetime | None) -> datetime:
    if at is None:
        return datetime.now(UTC)
    try:
        instant = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise ValueError(f"expected at to be like 2026-12-01T02:00Z, with its zone, got: {at!r}")
    return instant.astimezone(UTC)


def _awaited(value: Awaitable[Any]) -> Any:
    async def complete() -> Any:
        return await value

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(complete())
    if inspect.iscoroutine(value):
        value.close()
    raise _RunningLoop("expected run() to be called outside an event loop: use a plain test")


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of some job files.

    `problems` and `warnings` are the lines that `warren jobs check` would print.
    """

    problems: list[str]
    warnings: list[str]
    _schedules: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """The jobs as APP/NAME, in the order of the files."""
        return list(self._schedules)

    def fires(self, name: str, day: str | date, count: int = 1) -> list[datetime]:
        """Return a job's first due times from the beginning of a day on, in the job's time zone.

        They are computed from its schedule, whether the job is enabled or not.

        Raises:
            LookupError: there is no such job, or several apps have one of that name.

        """
        from warren.scheduler.schedules.reading import first_fires  # noqa: PLC0415 - see load_jobs

        in_day = [
            schedule
            for schedule in self._schedules
            if name in (schedule, schedule.partition("/")[2])
        ]
        if len(in_day) != 1:
            known = ", ".join(in_day or self._schedules)
            raise LookupError(f"expected name to be that of one job, got: {name!r}; known: {known}")
        facts, calendars = self._schedules[in_day[0]]
        zone = facts.timezone
        midnight = datetime.combine(_day(day), time(), ZoneInfo(zone))
        first_ms = int(midnight.timestamp() * 1_000)
        due = first_fires(facts, now_ms=first_ms - 1, count=count, calendars=calendars)
        return [datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone)) for ms in due]


def load_jobs(
    *files: str | Path,
    handlers: str | ModuleType | None = None,
    app: str = "",
    timezone: str = "UTC",
    values: Mapping[str, object] | None = None,
) -> Jobs:
    """Read job files, and check them as `warren jobs check` does, without a database.

    The jobs that the handlers declare are among them.

        jobs = load_jobs("jobs.yaml", handlers="acme_jobs.handlers")
        assert not jobs.problems
        assert [f"{due:%H:%M}" for due in jobs.fires("load", "2026-12-01", 2)] == ["02:00", "14:00"]

    Args:
        files: their paths.
        handlers: a module, its name, or a file; it is a problem if a job names a handler that is
            not in it, or has a param that its handler does not take.
        app: that of declared jobs that name none.
        timezone: that of jobs that name none.
        values: those of `${NAME}` in the files, by name.

    Raises:
        TypeError: a module is given as a file.
        ModuleNotFoundError: the extra `warren[server]` is not installed.
        HandlersError: the handlers cannot be imported.

    """
    # Executors install the base only, and that is all that `run` needs.
    from warren.jobfile.check import check  # noqa: PLC0415 - see above
    from warren.jobfile.declared import declared_in  # noqa: PLC0415 - see above
    from warren.jobfile.sources import read_sources, values_of  # noqa: PLC0415 - see above
    from warren.scheduler.jobs.spec import facts_of  # noqa: PLC0415 - see above
    from warren.terminal.changes import warning_lines  # noqa: PLC0415 - see above

    if modules := [file for file in files if isinstance(file, ModuleType)]:
        raise TypeError(f"expected files to be paths, got: {modules[0]!r}; give it as handlers=")
    sources = read_sources([Path(file) for file in files])
    known: dict[str, str] = {}
    if handlers is not None:
        name = handlers.__name__ if isinstance(handlers, ModuleType) else handlers
        declared = declared_in([name], app=app)
        known |= declared.handlers
        sources += [declared.job_file()] if declared.jobs else []
    given = values_of(values or {}, "values={{'{name}': …}}")
    names = known if handlers is not None else None
    checked_files = check(sources, given, timezone=timezone, handlers=names, schemas=known)
    schedules = {
        f"{spec.app}/{spec.name}": (facts_of(spec, timezone), checked_files.calendars)
        for spec in checked_files.specs
    }
    return Jobs(list(checked_files.problems), warning_lines(checked_files.warnings), schedules)


def _day(day: str | date) -> date:
    return day if isinstance(day, date) else date.fromisoformat(day)
