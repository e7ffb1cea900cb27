"""`breakpoint()` in a job process: stops on the terminal of `warren try`; elsewhere, logs a line.

A job process has no terminal of its own: its output is a file. So the debugger opens the command's
terminal by its name. Imported only when it is needed.
"""

import os
import pdb  # noqa: T100 - this is the place for it
import sys
import time
from types import FrameType, TracebackType

from warren.executor.handlers.context import log_line


def pause(frame: FrameType, terminal: str) -> None:
    """Stop in a frame; without a terminal, write a line to the run's log and go on."""
    if not terminal:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        words = f"breakpoint() at {place} was passed: it needs the terminal of `warren try`"
        sys.stdout.write(log_line(time.time(), "WARNING", words))
        return
    _debugger(terminal).set_trace(frame)


def look_at(trace: TracebackType, terminal: str) -> None:
    """Show a failure's frames, the innermost first."""
    debugger = _debugger(terminal)
    debugger.reset()
    debugger.interaction(None, trace)


def _debugger(terminal: str) -> pdb.Pdb:
    sys.stdout.flush()
    # Not as this process's controlling terminal, because it is the command's.
    reading = os.open(terminal, os.O_RDONLY | os.O_NOCTTY)
    writing = os.open(terminal, os.O_WRONLY | os.O_NOCTTY)
    return pdb.Pdb(stdin=os.fdopen(reading), stdout=os.fdopen(writing, "w"), nosigint=True)
