"""Celery tasks as handlers for `warren executor`, without a Celery worker or broker.

    # handlers.py
    from proj import app
    from warren.contrib.celery import declare_tasks

    declare_tasks(app)

A run's param is `{"args": […], "kwargs": {…}}`, both optional. The task runs eagerly in the job's
process, so a timeout or a kill really ends it.

A task with `autoretry_for` is tried again by Warren: after the wait that `retry_backoff`,
`retry_backoff_max` and `retry_jitter` give, up to `max_retries` times, if its job has as many
`retries`. Any other exception of such a task is final. A task that calls `self.retry` by itself
runs again at once; for a delay, give the job `retries` and `retry_delay`. A run whose task raises
`Ignore` is skipped; one whose task raises `Reject` fails.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from warren.executor.handlers.context import JobContext, RetryLater
from warren.executor.handlers.declarations import MAX_TIMES, Retry
from warren.executor.handlers.handler_registry import HandlersError, job
from warren.executor.handlers.outcomes import headline

_OWN = "celery."


def declare_tasks(app: Any) -> None:
    """Declare each task of a Celery app as a handler of the same name, except Celery's own.

    Raises:
        HandlersError: a name is taken, or a task has options of retries that nothing can follow.

    """
    for name in task_names(app):
        task = app.tasks[name]
        try:
            retry = retry_of(task)
        except (TypeError, ValueError) as error:
            raise HandlersError(f"how is Celery's task {name!r} retried? {error}") from error
        job(name, retry=retry)(_handler(task) if retry is None else _retried_handler(task))


def retry_of(task: Any) -> Retry | None:
    """Return how a task with `autoretry_for` is tried again; None for other tasks.

    Raises:
        ValueError: an option is out of range.
        TypeError: an option is not of its type.

    """
    if not getattr(task, "autoretry_for", ()):
        return None
    kwargs = getattr(task, "retry_kwargs", {})
    times = kwargs.get("max_retries", task.max_retries)
    backoff = getattr(task, "retry_backoff", False)
    if backoff:
        delay = max(1, int(backoff))
        most = max(delay, getattr(task, "retry_backoff_max", 600))
        jitter = 1.0 if getattr(task, "retry_jitter", True) else 0.0
    else:
        delay, most, jitter = kwargs.get("countdown", task.default_retry_delay), 0, 0.0
    return Retry(
        times=MAX_TIMES if times is None else min(times, MAX_TIMES),
        delay=delay,
        backoff="exponential" if backoff else "fixed",
        most=most,
        jitter=jitter,
        never=(Exception,),  # what is in `autoretry_for` becomes a `RetryLater`
    )


def task_names(app: Any) -> list[str]:
    """Return the names of an app's tasks, including those of modules it imports."""
    app.loader.import_default_modules()
    app.finalize()
    return sorted(name for name in app.tasks if not name.startswith(_OWN))


def arguments(param: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments and keyword arguments in a run's param.

    Raises:
        ValueError: it is not JSON of this form.

    """
    if not param.strip():
        return [], {}
    try:
        return msgspec.json.decode(param, type=_Call).pair
    except msgspec.MsgspecError as error:
        expected = '{"args": [], "kwargs": {}}'
        raise ValueError(f"expected param to be {expected}, got: {param[:100]!r}") from error


def _retried_handler(task: Any) -> Callable[[JobContext], Any]:
    from celery.exceptions import Retry as AgainError  # noqa: PLC0415 - as below

    def run(context: JobContext) -> Any:
        args, kwargs = arguments(context.param)
        call = task.signature(args, kwargs)
        try:
            done = call.apply(task_id=str(context.run_id), retries=context.attempt, throw=True)
        except AgainError as again:
            cause = again.exc
            raise RetryLater(_wait(again.when), headline(cause or again)) from cause
        return _result(context, done)

    return run


def _result(context: JobContext, done: Any) -> Any:
    """Return what a task returned; Celery counts `Ignore` and `Reject` neither way."""
    if done.state == "IGNORED":
        context.skip("the task raised Ignore")
    if done.state == "REJECTED":
        context.fail("the task raised Reject")
    return done.get()


def _wait(when: Any) -> float:
    """Return the seconds until a time, or of a countdown."""
    if isinstance(when, datetime):
        return max(0.0, (when - datetime.now(when.tzinfo)).total_seconds())
    return float(when or 0)


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}

    @property
    def pair(self) -> tuple[list[Any], dict[str, Any]]:
        return self.args, self.kwargs


def _handler(task: Any) -> Callable[[JobContext], Any]:
    from celery.exceptions import Retry as AgainError  # noqa: PLC0415 - Celery is installed only beside its tasks

    def run(context: JobContext) -> Any:
        args, kwargs = arguments(context.param)
        call, retries = task.signature(args, kwargs), 0
        while True:
            try:
                done = call.apply(task_id=str(context.run_id), retries=retries, throw=True)
            except AgainError as again:
                if again.sig is None:  # it was raised by hand
                    raise
                call, retries = again.sig, retries + 1
            else:
                return _result(context, done)

    return run
