"""Runs `async def` handlers.

The only module of a job process that needs asyncio. It is imported only when there is something to
await, because a zygote with asyncio loaded takes 0.3 ms longer to fork.
"""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from warren.executor.fork_server.termination import Termination
from warren.executor.handlers.context import JobStopped

#: The name of the threads in which the loop resolves names and makes blocking calls.
_THREADS = "warren-loop"


class EventLoop:
    """The one event loop of a job process, for `init`, all runs and `destroy`.

    Clients that are made in one of them can be used in the others. Its threads belong to the
    process, and so do the tasks that `init` has started.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix=_THREADS))
        self._kept: set[asyncio.Task[Any]] = set()

    def run(self, value: Awaitable[Any], termination: Termination) -> Any:
        """Await a value and return its result.

        Raises:
            JobStopped: it was cancelled by SIGTERM.

        """
        # A copy, so that no run sees the context variables of another.
        context = contextvars.copy_context()
        try:
            return self._runner.run(_as_task(value, termination), context=context)
        except asyncio.CancelledError as error:
            if termination.is_requested:
                raise JobStopped().with_traceback(error.__traceback__) from None
            raise
        finally:
            termination.cancel = None

    def keep_tasks(self) -> None:
        """Let the tasks that there are now live as long as the process."""
        self._kept = asyncio.all_tasks(self._runner.get_loop())

    def cancel_tasks(self) -> list[str]:
        """Cancel the tasks that a run has left, wait for them, and return their names."""
        left = asyncio.all_tasks(self._runner.get_loop()) - self._kept
        if left:
            self._runner.run(_cancelled(left))
        return sorted(map(_name, left))

    def count_threads(self) -> int:
        return sum(1 for thread in threading.enumerate() if thread.name.startswith(_THREADS))

    def close(self) -> None:
        """Cancel what is left and wait for the threads, as `asyncio.run` does at its end."""
        self._runner.close()


async def _as_task(value: Awaitable[Any], termination: Termination) -> Any:
    task = asyncio.current_task()
    assert task is not None, "a runner runs tasks"
    loop = task.get_loop()
    termination.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
    return await value


async def _cancelled(tasks: set["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _name(task: "asyncio.Task[Any]") -> str:
    return str(getattr(task.get_coro(), "__qualname__", task.get_name()))
