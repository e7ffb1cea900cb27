"""The table of errands; nothing here loads what does them."""

from typing import NamedTuple


class Errand(NamedTuple):
    """An errand: the scope that a token needs for it, and the function that does it.

    `place` is `MODULE:FUNCTION` below `warren.errands.doing`.
    """

    scope: str
    place: str


READ, TRIGGER, OPERATE, WRITE, ADMIN = "read", "trigger", "operate", "write", "admin"

#: The errands by name: the command that sends it, or what it does for one.
ERRANDS = {
    "jobs.list": Errand(READ, "jobs:list_jobs"),
    "jobs.show": Errand(READ, "jobs:show_job"),
    "jobs.trigger": Errand(TRIGGER, "runs:trigger_job"),
    "runs.list": Errand(READ, "runs:list_runs"),
    "runs.skips": Errand(READ, "runs:list_skips"),
    "runs.show": Errand(READ, "runs:show_run"),
    "runs.outcome": Errand(READ, "runs:show_outcome"),
    "runs.rerun": Errand(TRIGGER, "runs:rerun_runs"),
    "runs.kill": Errand(OPERATE, "runs:kill_run"),
    "runs.move": Errand(TRIGGER, "runs:move_run"),
    "runs.cancel": Errand(TRIGGER, "runs:cancel_runs"),
    "runs.clear": Errand(OPERATE, "runs:clear_runs"),
}
