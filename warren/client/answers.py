"""What calls return: the API's answers as structs. Fields that a newer API adds are ignored."""

from collections.abc import Mapping
from typing import Any

from warren.resources.runs import EndedRun


class ApiError(Exception):
    """The API refused a call; `problem` is its answer (RFC 9457).

    `status` is that of HTTP, 0 if there was no answer. `run_ids` are the runs that `trigger_all`
    had planned before.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.run_ids: list[int] = []
        self.problem = dict(problem)
        detail = str(problem.get("detail", "")) or f"status {status}"
        # The detail of several broken rules is all of them already.
        errors = [each for each in problem.get("errors", ()) if each["detail"] not in detail]
        super().__init__("; ".join([detail, *map(placed, errors)]))


class RunFailed(Exception):
    """A run's tick is over and did not succeed; `run` is the one that decided, as of `wait`."""

    def __init__(self, run: EndedRun) -> None:
        self.run = run
        super().__init__(f"run {run.id} {run.tick.status}: {run.message}")


def placed(error: Mapping[str, Any]) -> str:
    """Return one problem of a refusal after its place."""
    place = error.get("pointer") or error.get("parameter")
    if error.get("line") is not None:
        place = f"line {error['line']}"
    if error.get("file"):
        place = f"{error['file']}:{error['line']}" if error.get("line") else error["file"]
    return f"{place}: {error.get('detail')}" if place else str(error.get("detail"))
