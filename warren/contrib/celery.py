"""Celery tasks as handlers for `warren executor`, without a Celery worker or broker.

    # handlers.py
    from proj import app
    from warren.contrib.celery import declare_tasks

    declare_tasks(app)

A run's param is `{"args": […], "kwargs": {…}}`, both optional. The task runs eagerly in the job's
process, so a timeout or a kill really ends it. A task that calls `self.retry` runs again at once;
for a delay, give the job `retries` and `retry_delay`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from warren.executor.handlers.context import JobContext
from warren.executor.handlers.handler_registry import job

_OWN = "celery."


def declare_tasks(app: Any) -> None:
    """Declare each task of a Celery app as a handler of the same name, except Celery's own.

    Raises:
        HandlersError: a name is taken.

    """
    for name in task_names(app):
        job(name)(_handler(app.tasks[name]))


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


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    args: list[Any] = []
    kwargs: dict[str, Any] = {}

    @property
    def pair(self) -> tuple[list[Any], dict[str, Any]]:
        return self.args, self.kwargs


def _handler(task: Any) -> Callable[[JobContext], Any]:
    from celery.exceptions import Retry  # noqa: PLC0415 - Celery is installed only beside its tasks

    def run(context: JobContext) -> Any:
        args, kwargs = arguments(context.param)
        call, retries = task.signature(args, kwargs), 0
        while True:
            try:
                done = call.apply(task_id=str(context.run_id), retries=retries, throw=True)
            except Retry as again:
                if again.sig is None:  # it was raised by hand
                    raise
                call, retries = again.sig, retries + 1
            else:
                return done.get()

    return run
