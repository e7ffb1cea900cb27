"""The hook of `warren try --pdb`: a debugger where the run failed."""

import sys
from collections.abc import Generator

from warren.executor.handlers.context import JobContext
from warren.executor.handlers.debugging import look_at
from warren.executor.handlers.hooks import RunEnd, around_run


@around_run
def look_at_failure(_context: JobContext) -> Generator[None, RunEnd, None]:
    """Show the frames of what the handler raised."""
    end = yield
    trace = None if end.error is None else end.error.__traceback__
    if trace is not None:
        look_at(trace, getattr(sys.breakpointhook, "terminal", ""))
