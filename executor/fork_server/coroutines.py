"""Runs `async def` handlers.

The only module of a job process that needs asyncio. It is imported only when there is something to
await, because a zygote with asyncio loaded takes 0.3 ms longer to fork.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from warren.executor.fork_server.termination import Termination
from warren.executor.handlers.context import JobStopped


def run(value: Awaitable[Any], termination: Termination) -> Any:
    """Await a value and return its result.

    Raises:
        JobStopped: it was cancelled by SIGTERM.

    """
    with asyncio.Runner() as runner:
        try:
            return runner.run(_as_task(value, termination))
        except asyncio.CancelledError as error:
            if termination.is_requested:
                raise JobStopped().with_traceback(error.__traceback__) from None
            raise
        finally:
            termination.cancel = None


async def _as_task(value: Awaitable[Any], termination: Termination) -> Any:
    task = asyncio.current_task()
    assert task is not None, "a runner runs tasks"
    loop = task.get_loop()
    termination.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
    return await value
