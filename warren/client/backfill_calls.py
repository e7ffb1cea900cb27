"""The calls on backfills; one is given by its id, or as a returned `Backfill`."""

from datetime import date
from typing import Any, TypeAlias

from warren.client import wire
from warren.client.answers import Backfill, BackfillPreview, FilledTick
from warren.client.exchange import Exchange, Request

BackfillId: TypeAlias = int | Backfill
#: A date, or YYYY-MM-DD.
Day: TypeAlias = date | str


def backfill(
    job: str,
    from_date: Day,
    to_date: Day,
    *,
    dates: bool = False,
    at_once: int = 1,
    newest_first: bool = False,
    only: str = "missing",
    stop_on_failure: bool = False,
    children: bool = True,
    instead: bool = False,
    param: str | None = None,
    key: str | None = None,
) -> Exchange[Backfill]:
    """Run a job for the due times whose run dates are in a range; return the backfill.

    Args:
        job: APP/NAME.
        from_date: the first run date, such as 2026-11-01.
        to_date: the last run date.
        dates: one run for each date instead, for jobs without a schedule.
        at_once: how many due times may be open at the same time.
        newest_first: begin with the last one.
        only: `missing`, `failed` or `all`.
        stop_on_failure: pause once a run has failed for good.
        children: let successes trigger the job's children.
        instead: stop the job's schedule until the backfill is over.
        param: of all runs, instead of the job's own.
        key: a name; the same key of the same job makes no second backfill.

    """
    body = _body(from_date, to_date, dates=dates, only=only, newest_first=newest_first)
    body |= {
        "at_once": at_once,
        "stop_on_failure": stop_on_failure,
        "children": children,
        "instead": instead,
        "param": param,
        "key": key,
    }
    response = yield wire.keyed(f"{wire.job_path(job)}/backfills", body, None)
    return wire.value_of(response, Backfill)


def preview_backfill(
    job: str,
    from_date: Day,
    to_date: Day,
    *,
    dates: bool = False,
    newest_first: bool = False,
    only: str = "missing",
) -> Exchange[BackfillPreview]:
    """Return what a backfill would do now, without making it."""
    body = _body(from_date, to_date, dates=dates, only=only, newest_first=newest_first)
    path = f"{wire.job_path(job)}/backfills:preview"
    return wire.value_of((yield wire.json_request("POST", path, body)), BackfillPreview)


def backfills(
    *, job: str | None = None, going: bool = False, limit: int = 50
) -> Exchange[list[Backfill]]:
    """Return up to `limit` backfills, newest first; `going`: those that are open or paused."""
    wanted = {"job": job, "going": "true" if going else None}
    return (yield from wire.items_of("/backfills", wanted, limit, Backfill))


def get_backfill(backfill: BackfillId) -> Exchange[Backfill]:
    """Return a backfill as it is now."""
    return wire.value_of((yield Request(method="GET", path=_path(backfill))), Backfill)


def backfill_due_times(backfill: BackfillId) -> Exchange[list[FilledTick]]:
    """Return the due times of a backfill in its order, and what became of each."""
    return (yield from wire.items_of(f"{_path(backfill)}/due_times", {}, None, FilledTick))


def pause_backfill(backfill: BackfillId) -> Exchange[Backfill]:
    """Let a backfill plan no more runs until it is resumed; open ones continue."""
    return wire.value_of((yield _post(backfill, "pause")), Backfill)


def resume_backfill(backfill: BackfillId) -> Exchange[Backfill]:
    """Let a paused backfill go on, also one that a failure has stopped."""
    return wire.value_of((yield _post(backfill, "resume")), Backfill)


def cancel_backfill(backfill: BackfillId, *, kill: bool = False) -> Exchange[Backfill]:
    """Let a backfill plan no more runs; with `kill`, its open ones are ended, too."""
    request = wire.json_request("POST", f"{_path(backfill)}/cancel", {"kill": kill})
    return wire.value_of((yield request), Backfill)


def _body(from_date: Day, to_date: Day, **more: Any) -> dict[str, Any]:
    return {"from": str(from_date), "to": str(to_date), **more}


def _path(backfill: BackfillId) -> str:
    return f"/backfills/{int(backfill if isinstance(backfill, int) else backfill.id)}"


def _post(backfill: BackfillId, verb: str) -> Request:
    return Request(method="POST", path=f"{_path(backfill)}/{verb}")
