"""Runs what an `async def` handler returns.

The only part of a job process that needs asyncio, and imported when something is to be awaited:
with asyncio loaded each fork of the zygote costs 0.3 ms more.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

from executor.context import JobStopped
from executor.termination import Termination


def run(value: Awaitable[Any], termination: Termination) -> Any:
    """Return what an awaitable comes to.

    Raises:
        JobStopped: it was cancelled because SIGTERM came.

    """
    with asyncio.Runner() as runner:
        try:
            return runner.run(_as_task(value, termination))
        except asyncio.CancelledError as error:
            if termination.is_ordered:
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
