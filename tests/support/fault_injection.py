"""The real `warren` command with a fault injected at a chosen point.

    python fault_injection.py ACTION POINT COMMAND ARGUMENT...

ACTION is SIGKILL or SIGSTOP, sent to itself when it first reaches POINT, or the path of a file:
then it waits at POINT, every time, until that file exists.

    ROLE:before-commit    a scheduler's role has changed runs and not committed yet; the role of a
                          console's threads is waitress
    ROLE:after-commit     it has committed that and done nothing else
    page-read             a console has read runs for a page and its transaction is open
    triggers-published    triggers were published, no confirm was awaited
    triggers-confirmed    the broker has confirmed them, SENT is not written
    trigger-accepted      an executor has a run in its journal and has not acknowledged the trigger
    run-started           a job process has the run
    run-ended             its process has finished, the journal does not know
    run-reported          the broker has the callback, the journal does not know

The product contains none of this: its classes are wrapped here, before its `main` is called.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

_TABLE = "xxl_job_log "


class Fate:
    """What happens at the point."""

    def __init__(self, action: str) -> None:
        self._action = action
        self._struck = threading.Lock()

    def strike(self) -> None:
        """Carry it out."""
        if self._action in signal.Signals.__members__:
            if self._struck.acquire(blocking=False):
                os.kill(os.getpid(), signal.Signals[self._action])
                # Another thread may receive the signal: wait here until it has.
                time.sleep(0.2)
            return
        while not Path(self._action).exists():
            time.sleep(0.005)


def arrange(point: str, fate: Fate) -> None:
    """Let `fate` strike at `point`."""
    role, _, moment = point.partition(":")
    if moment:
        _at_commit(role, moment, fate)
    else:
        _POINTS[point](fate)


def _at_commit(role: str, moment: str, fate: Fate) -> None:
    from sqlalchemy import Engine, event  # noqa: PLC0415 - executors do without

    from warren.sql.engine import Database  # noqa: PLC0415 - same

    changed = threading.local()

    @event.listens_for(Engine, "before_cursor_execute")
    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        is_change = statement[:6].upper() in {"INSERT", "UPDATE"} and _TABLE in statement.lower()
        if is_change and _role() == role:
            changed.runs = True

    def strike_if_changed() -> None:
        if getattr(changed, "runs", False):
            fate.strike()

    if moment == "before-commit":
        event.listen(Engine, "commit", lambda _connection: strike_if_changed())
    else:
        assert moment == "after-commit", moment
        _wrap(Database, "write", after=lambda *_: strike_if_changed())


def _role() -> str:
    return threading.current_thread().name.partition("-")[0]


def _at_page(fate: Fate) -> None:
    from sqlalchemy import Engine, event  # noqa: PLC0415 - executors do without

    @event.listens_for(Engine, "after_cursor_execute")
    def note(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        # Not the counts beside the menu, which each page has.
        if _role() == "waitress" and _TABLE in statement.lower() and "handle_msg" in statement:
            fate.strike()


def _at_publish(fate: Fate) -> None:
    from warren.scheduler.triggers import TriggerBatch  # noqa: PLC0415 - executors do without

    _wrap(TriggerBatch, "result", before=lambda *_: fate.strike())


def _at_confirm(fate: Fate) -> None:
    from warren.scheduler.triggers import TriggerBatch  # noqa: PLC0415 - executors do without

    _wrap(TriggerBatch, "result", after=lambda *_: fate.strike())


def _at_acceptance(fate: Fate) -> None:
    from warren.executor.messaging.inbox import Inbox  # noqa: PLC0415 - schedulers do without

    def before(_inbox: Inbox, deliveries: list[Any]) -> None:
        if any(delivery.queue.startswith("warren.run.") for delivery in deliveries):
            fate.strike()

    _wrap(Inbox, "ack", before=before)


def _at_start(fate: Fate) -> None:
    from warren.executor.processes.slots import Slots  # noqa: PLC0415 - schedulers do without

    _wrap(Slots, "start", after=lambda *_: fate.strike())


def _at_core(method: str) -> Callable[[Fate], None]:
    def arrange_it(fate: Fate) -> None:
        from warren.executor.core import Core  # noqa: PLC0415 - schedulers do without

        _wrap(Core, method, before=lambda *_: fate.strike())

    return arrange_it


def _wrap(
    owner: type,
    name: str,
    *,
    before: Callable[..., None] = lambda *_: None,
    after: Callable[..., None] = lambda *_: None,
) -> None:
    wrapped = getattr(owner, name)

    @wraps(wrapped)
    def call(*arguments: Any, **named: Any) -> Any:
        before(*arguments)
        result = wrapped(*arguments, **named)
        after(*arguments)
        return result

    setattr(owner, name, call)


_POINTS: dict[str, Callable[[Fate], None]] = {
    "page-read": _at_page,
    "triggers-published": _at_publish,
    "triggers-confirmed": _at_confirm,
    "trigger-accepted": _at_acceptance,
    "run-started": _at_start,
    "run-ended": _at_core("run_finished"),
    "run-reported": _at_core("reports_confirmed"),
}


if __name__ == "__main__":
    import warren

    arrange(sys.argv[2], Fate(sys.argv[1]))
    sys.argv = ["warren", *sys.argv[3:]]
    warren.main()
