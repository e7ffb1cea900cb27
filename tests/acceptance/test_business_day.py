"""The story of docs/business-day.md: a nightly warehouse, a failure, a missed week, the proof."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select

from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from warren.sql.models import Backfill, FlowNode, Hold, Limit, Run, Unfolded
from warren.sql.models.job_tables import BackfillState
from warren.sql.run_status import OPEN, Kind, RunStatus

LIMIT, AT_ONCE = 2, 3
REGIONS = ("east", "south", "west")
#: What a night starts: each node once, and `parts` once for each region.
NIGHT = Counter({"extract": 1, "load": 1, "part": len(REGIONS), "report": 1})

Damage = Callable[[Deployment], AbstractContextManager[None]]

HANDLERS = """
import json
import time
from pathlib import Path

from handlers import in_company, note
from warren import job

HERE = Path(__file__).parent


def write_start(context, name):
    note(context)
    with (HERE / "nodes").open("a") as nodes:
        nodes.write(f"{context.run_date} {name}\\n")


@job("extract")
def extract(context):
    write_start(context, "extract")
    return {"rows": 7}


@job("load")
def load(context):
    write_start(context, "load")
    with in_company(context):
        day, rows = context.param.split()
        assert (day, rows) == (str(context.run_date), "7")
    return {"rows": 7, "regions": ["east", "south", "west"]}


@job("part")
def part(context):
    write_start(context, "part")
    with in_company(context):
        while not (HERE / "gate").exists():
            time.sleep(0.01)
        if (HERE / f"{context.param}.locked").exists():
            context.fail(f"{context.param} is locked")
    return {"region": context.param}


@job("mend")
def mend(context):
    write_start(context, "mend")


@job("report")
def report(context):
    write_start(context, "report")
    return ",".join(sorted(each["region"] for each in json.loads(context.param)))
"""

JOBS = """
apps:
  - {{name: demo}}
calendars:
  - {{name: warehouse, weekend: [SUN], days: {{{closed}: off}}, until: 2099-12-31}}
limits:
  - {{name: warehouse, at_once: 2}}
defaults: {{app: demo, concurrency: 9}}
jobs:
  - name: nightly
    schedule: {{cron: "0 0 2 * * ?", timezone: UTC, calendar: warehouse}}
    run_date: {{workdays: -1, calendar: warehouse}}
    concurrency: 3
    flow:
      extract: {{job: extract}}
      load:
        job: load
        after: extract
        param_template: "{{{{ run_date }}}} {{{{ extract.result.rows }}}}"
      parts:
        job: part
        after: load
        each: "{{{{ load.result.regions }}}}"
        if: "{{{{ load.result.rows > 0 }}}}"
      mend: {{job: mend, after: {{load: failure}}}}
      report: {{job: report, after: parts, param_template: "{{{{ parts.result | tojson }}}}"}}
  - {{name: extract, handler: extract}}
  - {{name: load, handler: load, limits: [warehouse]}}
  - {{name: part, handler: part, limits: [warehouse]}}
  - {{name: mend, handler: mend}}
  - {{name: report, handler: report}}
"""


def test_a_failed_night_and_a_missed_week_are_made_good_while_schedulers_die(
    mariadb_url: str, vhost: str, tmp_path: Path
) -> None:
    with Deployment(tmp_path, database_url=mariadb_url, broker_url=vhost) as warren:
        schedulers = _start(warren)
        today = datetime.fromtimestamp(warren.now_ms() / 1_000, UTC).date()
        closed = _monday(today) - timedelta(days=12)  # the Wednesday of the week before the last
        (tmp_path / "jobs.yaml").write_text(JOBS.format(closed=closed))
        warren.warren("jobs", "apply", "jobs.yaml")

        night = _fail_a_night(warren, schedulers, closed - timedelta(days=1))
        _repeat_from_failure(warren, night)
        backfill_id = _fill_in_a_week(warren, schedulers, closed)

        company = [int(line) for line in (tmp_path / "company/counts").read_text().splitlines()]
        assert max(company) == LIMIT
        assert '"sound": true' in warren.warren("audit")
        # What is damaged by hand is not told to the board, so it has to have taken in all before.
        eventually(lambda: not _all(warren, Unfolded), 60)
        for damage in _damages(backfill_id, night):
            with damage(warren):
                assert '"sound": false' in warren.warren_fails("audit")


def _start(warren: Deployment) -> list[Command]:
    handlers = warren.folder / "warehouse.py"
    handlers.write_text(HANDLERS)
    warren.handlers = str(handlers)
    schedulers = [warren.scheduler(), warren.scheduler()]
    executor = warren.executor(slots=9)
    warren.await_schedulers(*schedulers)
    warren.await_executors(executor)
    return schedulers


def _fail_a_night(warren: Deployment, schedulers: list[Command], day: date) -> int:
    """Run a night in which one table is locked, and end a scheduler in it; return its run."""
    (warren.folder / "south.locked").touch()
    warren.warren("jobs", "trigger", "nightly", "--run-date", str(day))
    eventually(lambda: _nodes(warren)[str(day)]["part"] == LIMIT)
    assert f"warehouse ({LIMIT} of {LIMIT}: part #" in eventually(lambda: _waiting(warren))

    _replace(warren, schedulers)

    [night] = warren.runs("nightly")
    assert warren.await_final(night.id)[0].status == RunStatus.FAILED
    parts = warren.runs("part")
    ended = {run.param: run.status for run in parts}
    expected = dict.fromkeys(REGIONS, RunStatus.SUCCEEDED) | {"south": RunStatus.FAILED}
    assert ended == expected, [(run.param, run.message) for run in parts]
    assert _outcomes(warren, night.id) == {
        "extract": "SUCCEEDED",
        "load": "SUCCEEDED",
        "parts": "FAILED",
        "mend": "BYPASSED",
        "report": "BYPASSED",
    }
    assert _nodes(warren)[str(day)] == Counter(extract=1, load=1, part=len(REGIONS))
    return night.id


def _repeat_from_failure(warren: Deployment, night: int) -> None:
    (warren.folder / "south.locked").unlink()
    warren.warren("runs", "rerun", str(night), "--failed")

    [repeated] = warren.runs("nightly", rerun_of=night)
    assert warren.await_final(repeated.id)[0].status == RunStatus.SUCCEEDED
    assert _outcomes(warren, repeated.id) == {
        "extract": "KEPT",
        "load": "KEPT",
        "parts": "SUCCEEDED",
        "mend": "KEPT",
        "report": "SUCCEEDED",
    }
    assert _nodes(warren)[str(repeated.run_date)] == Counter(
        extract=1, load=1, part=2 * len(REGIONS), report=1
    )


def _fill_in_a_week(warren: Deployment, schedulers: list[Command], closed: date) -> int:
    """Fill in the week after the day on which the warehouse was closed, and end a scheduler."""
    first, last = closed, closed + timedelta(days=6)
    (warren.folder / "gate").unlink()
    span = ("--from", str(first), "--to", str(last), "--at-once", str(AT_ONCE))
    warren.warren("backfill", "nightly", *span)
    [backfill] = _all(warren, Backfill)
    eventually(lambda: _open(warren, backfill.id) == AT_ONCE and _waiting(warren))

    _replace(warren, schedulers)

    def is_done() -> bool:
        assert _open(warren, backfill.id) <= AT_ONCE
        return bool(_all(warren, Backfill)[0].state == BackfillState.DONE)

    eventually(is_done, 120, every=0.05)
    days = [first + timedelta(days=n) for n in range(7)]
    working = {day for day in days if day != closed and day.isoweekday() != 7}
    runs = warren.runs("nightly", origin_id=backfill.id)
    assert sorted(run.run_date for run in runs if run.run_date) == sorted(working)
    failed = [(row.node, row.reason) for row in _all(warren, FlowNode, outcome="FAILED")]
    ends = {(run.kind, run.status) for run in runs}
    assert ends == {(Kind.BACKFILL, RunStatus.SUCCEEDED)}, failed
    assert {day: _nodes(warren)[str(day)] for day in working} == dict.fromkeys(working, NIGHT)
    return backfill.id


def _replace(warren: Deployment, schedulers: list[Command]) -> None:
    """Let the parts go on, end the eldest scheduler, and start another."""
    (warren.folder / "gate").touch()
    schedulers.pop(0).kill()
    schedulers.append(warren.scheduler())


def _damages(backfill_id: int, night: int) -> Iterator[Damage]:
    """Give what somebody may do to the tables by hand, each as a context that undoes it."""

    @contextmanager
    def without(warren: Deployment, model: Any, **where: int | str) -> Iterator[None]:
        row = _all(warren, model, **where)[0]
        values = {column.key: getattr(row, column.key) for column in model.__mapper__.column_attrs}
        warren.database.write(
            lambda session: session.execute(delete(model).where(model.id == row.id))
        )
        yield
        warren.database.write(lambda session: session.execute(insert(model), [values]))

    @contextmanager
    def hold_left_behind(warren: Deployment) -> Iterator[None]:
        [limit] = _all(warren, Limit, name="warehouse")
        hold = {"limit_id": limit.id, "run_id": night, "weight": 1}
        warren.database.write(lambda session: session.execute(insert(Hold).values(hold)))
        yield
        warren.database.write(lambda session: session.execute(delete(Hold)))

    yield lambda warren: without(warren, FlowNode, flow_run_id=night, node="parts")
    yield lambda warren: without(warren, Run, origin_id=backfill_id)
    yield hold_left_behind


def _all(warren: Deployment, model: Any, **where: object) -> list[Any]:
    rows = select(model).filter_by(**where)
    return warren.database.read(lambda session: list(session.execute(rows).scalars()))


def _outcomes(warren: Deployment, run_id: int) -> dict[str, str]:
    return {row.node: row.outcome for row in _all(warren, FlowNode, flow_run_id=run_id)}


def _open(warren: Deployment, backfill_id: int) -> int:
    runs = warren.runs("nightly", origin_id=backfill_id)
    return sum(run.status in OPEN for run in runs)


def _waiting(warren: Deployment) -> str:
    """Return what waits for the limit, as `warren queue` says."""
    lines = warren.warren("queue").splitlines()
    return "\n".join(line for line in lines if "warehouse (" in line)


def _nodes(warren: Deployment) -> dict[str, Counter[str]]:
    """Return which nodes have started for each date, as the handlers have written."""
    path = warren.folder / "nodes"
    starts = defaultdict[str, Counter[str]](Counter)
    for line in path.read_text().splitlines() if path.exists() else []:
        day, node = line.split()
        starts[day][node] += 1
    return starts


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
