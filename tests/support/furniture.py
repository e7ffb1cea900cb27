"""An app with one of everything that the console shows, each free text in it as a test wants."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import update

from scheduler.trail import Action, Trail
from sql import glue, presence
from sql.models import (
    App,
    Cluster,
    DayReport,
    GlueVersion,
    History,
    Job,
    Registration,
    Run,
    SignIn,
    SkippedTicks,
    TrailEntry,
    User,
)
from sql.run_status import Kind, RunStatus
from tests.support.ledger_rows import Rows

#: Gives the text of a field, by the field's name.
Text = Callable[[str], str]
MINUTE_MS = 60_000


@dataclass
class Furniture:
    """The ids of what was made; `fields` are the names of all texts that were asked for."""

    app: str
    ids: dict[str, int] = field(default_factory=dict)
    fields: set[str] = field(default_factory=set)

    def values(self, arguments: set[str], *, script: bool = False) -> dict[str, Any]:
        """Return what the arguments of a rule are for what was made."""
        known: dict[str, Any] = self.ids | {"filename": "console.css"}
        if script:
            known["job_id"] = self.ids["script_id"]
        return {name: known[name] for name in arguments}


def furnish(rows: Rows, app: str, text: Text, now_ms: int) -> Furniture:
    """Make one of everything in an app; `text` is called once for each field."""
    made = Furniture(app)

    def of(name: str) -> str:
        made.fields.add(name)
        return text(name)

    made.ids["app_id"] = rows.app(app)
    _app(rows, made.ids["app_id"], of)
    _jobs(rows, made, of, now_ms)
    _runs(rows, made, of, now_ms)
    _registry(rows, app, of, now_ms)
    _people(rows, made, of, now_ms)
    return made


def _app(rows: Rows, app_id: int, of: Text) -> None:
    values = {
        "title": of("title"),
        "address_list": of("listed-address"),
        "alarm_email": of("app-email"),
        "alarm_webhook": of("app-webhook"),
        "address_type": 1,
    }
    rows.database.write(lambda s: s.execute(update(App).where(App.id == app_id).values(**values)))


def _jobs(rows: Rows, made: Furniture, of: Text, now_ms: int) -> None:
    child = rows.job(of("child"), made.app, executor_handler=of("child-handler"))
    made.ids["job_id"] = rows.job(
        of("job"),
        made.app,
        author=of("author"),
        executor_handler=of("handler"),
        executor_param=of("param"),
        alarm_email=of("job-email"),
        alarm_webhook=of("job-webhook"),
        stop_reason=of("stop-reason"),
        child_jobid=str(child),
        schedule_type="FIX_RATE",
        schedule_conf="60",
        trigger_status=1,
        trigger_last_time=now_ms,
        trigger_next_time=now_ms + MINUTE_MS,
    )
    since = History(
        job_id=made.ids["job_id"],
        changed_at=0,
        changed_by="tests",
        watermark=now_ms - 2 * MINUTE_MS,
        enabled=1,
        schedule_type="FIX_RATE",
        schedule_conf="60",
        timezone="",
        misfire_strategy="DO_NOTHING",
        anchor=now_ms,
    )
    rows.job(of("odd"), made.app, schedule_type="CRON", schedule_conf=of("schedule"))
    made.ids["script_id"] = rows.job(of("script"), made.app, executor_handler="")
    skipped = SkippedTicks(
        job_id=made.ids["job_id"],
        from_at=now_ms - MINUTE_MS,
        to_at=now_ms - MINUTE_MS,
        count=1,
        reason=of("skip-reason"),
        recorded_at=now_ms,
    )

    def unit(session: Any) -> int:
        session.add_all([since, skipped])
        job = session.get_one(Job, made.ids["script_id"])
        saved = 0
        for number in ("first", "second"):
            saved = glue.save(
                session,
                job,
                glue_type="GLUE_SHELL",
                source=of(f"{number}-source") + "\necho\n",
                remark=of(f"{number}-remark"),
                author="cut",
                now_ms=now_ms,
            )
            # A name of its own would be cut to its length.
            session.get_one(GlueVersion, saved).author = of(f"{number}-scripter")
        return int(saved)

    made.ids["glue_id"] = rows.database.write(unit)


def _runs(rows: Rows, made: Furniture, of: Text, now_ms: int) -> None:
    shared = {"executor_address": of("run-address"), "boot_id": "b00t"}
    failed = rows.run(
        made.ids["job_id"],
        now_ms - 1_000,
        made.app,
        status=RunStatus.FAILED.value,
        executor_handler=of("run-handler"),
        executor_param=of("run-param"),
        trigger_msg=of("trigger-message"),
        handle_msg=of("exit-message"),
        log_tail=of("log-tail"),
        routed_by=of("scheduler-of-run"),
        started_at=now_ms - 900,
        finished_at=now_ms - 500,
        **shared,
    )
    made.ids["run_id"] = failed
    rows.run(
        made.ids["job_id"],
        now_ms - 2_000,
        made.app,
        status=RunStatus.RUNNING.value,
        kind=Kind.PARENT,
        origin_id=failed,
        started_at=now_ms - 1_900,
        **shared,
    )
    rows.run(made.ids["job_id"], now_ms - 3_000, made.app, wanted_addresses=of("wanted-address"))


def _registry(rows: Rows, app: str, of: Text, now_ms: int) -> None:
    load = {"handlers": [of("registered-handler")], "slots": 4, "running": 1}
    rows.executor(of("executor"), now_ms, json.dumps(load), app)
    node = json.dumps({"failing": [of("failing-role")]})
    for key, name in ((presence.SCHEDULER, "scheduler"), (presence.CONSOLE, "console")):
        beat = presence.Beat(
            group=presence.ADMIN,
            key=key,
            address=of(name),
            boot_id="b",
            beat_at=now_ms,
            load=node,
        )
        rows.database.write(lambda session, beat=beat: presence.hold(session, beat))


def _people(rows: Rows, made: Furniture, of: Text, now_ms: int) -> None:
    user = User(username=of("user"), password="x", role=2, permission=str(made.ids["app_id"]))
    trail = Trail(who="cut", origin="cut")

    def unit(session: Any) -> int:
        session.add(user)
        session.flush()
        session.execute(update(Cluster).values(paused_at=now_ms, paused_by=of("paused-by")))
        session.execute(update(SignIn).values(agent=of("agent"), address=of("sign-in-address")))
        trail.note(
            session,
            Action.JOB_UPDATE,
            of("object"),
            now_ms=now_ms,
            before={of("value-name"): of("before")},
            after={of("value-name"): of("after")},
        )
        session.flush()
        whose = update(TrailEntry).where(TrailEntry.who == "cut")
        session.execute(whose.values(who=of("who"), origin=of("origin")))
        return int(user.id)

    made.ids["user_id"] = rows.database.write(unit)
    made.ids["sign_in_id"] = 1


#: What belongs to an app, and may not change because of somebody who does not have it.
OF_APPS = (App, Job, Run, GlueVersion, Registration, SkippedTicks, DayReport, Cluster)


def dump(rows: Rows) -> list[list[Any]]:
    """Return all rows of tables that belong to apps, to be compared."""

    def read(session: Any) -> list[list[Any]]:
        return [
            [tuple(row) for row in session.execute(model.__table__.select())] for model in OF_APPS
        ]

    return rows.database.read(read)
