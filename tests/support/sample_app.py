"""An app with one of everything that the console shows, with texts chosen by the test."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import update

from tests.support.stored_rows import Rows
from warren.scheduler.commands.command_context import Action, AuditLog
from warren.sql.alarms import alarm_listing, alarms
from warren.sql.alarms.alarms import MAIL, AlarmStatus, NewAlarm
from warren.sql.jobs import script_versions
from warren.sql.models import (
    Alarm,
    ApiToken,
    App,
    AppDay,
    AuditEntry,
    DayReport,
    History,
    Incident,
    Job,
    Pause,
    Registration,
    Run,
    ScriptVersion,
    SignIn,
    SkippedTicks,
    User,
)
from warren.sql.registry import presence
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.run_status import Kind, RunStatus

#: Returns the text of a field, given the field's name.
Text = Callable[[str], str]
MINUTE_MS = 60_000


@dataclass
class SampleApp:
    """The ids of what was created; `fields` are the names of all texts that were requested."""

    app: str
    ids: dict[str, int] = field(default_factory=dict)
    fields: set[str] = field(default_factory=set)

    def values(self, arguments: set[str], *, script: bool = False) -> dict[str, Any]:
        """Return values for the arguments of a rule."""
        known: dict[str, Any] = self.ids | {
            "action": "stop",
            "filename": "console.css",
            "limit": "none",
            "name": "none",
        }
        if script:
            known["job_id"] = self.ids["script_id"]
        return {name: known[name] for name in arguments}


def add_sample_app(rows: Rows, app: str, text: Text, now_ms: int) -> SampleApp:
    """Create one of everything in an app; `text` is called once for each field."""
    made = SampleApp(app)

    def of(name: str) -> str:
        made.fields.add(name)
        return text(name)

    made.ids["app_id"] = rows.app(app)
    _app(rows, made.ids["app_id"], of)
    _jobs(rows, made, of, now_ms)
    _runs(rows, made, of, now_ms)
    _registry(rows, made, of, now_ms)
    _people(rows, made, of, now_ms)
    _alarm(rows, made, of, now_ms)
    _incident(rows, made, of, now_ms)
    _backfill(rows, made, of, now_ms)
    return made


def _backfill(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    made.ids["backfill_id"] = rows.backfill(
        made.ids["job_id"],
        now_ms,
        decided=1,
        left_out="0",
        param=of("backfill-param"),
        state="PAUSED",
        state_reason=of("backfill-reason")[:512],
    )


def _alarm(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    alarm = NewAlarm(
        subject_key=f"alarm of {made.app}",
        channel=MAIL,
        target=of("alarm-target"),
        content="",
        created_at=now_ms - MINUTE_MS,
        job_id=made.ids["job_id"],
        app_id=made.ids["app_id"],
        status=AlarmStatus.READY,
    )

    def unit(session: Any) -> int:
        alarms.add(session, [alarm])
        [alarm_id] = alarm_listing.ids_of_subject(session, alarm.subject_key)
        sent = {"status": AlarmStatus.SENT, "sent_at": now_ms, "answer": of("alarm-answer")}
        session.execute(update(Alarm).where(Alarm.id == alarm_id).values(**sent))
        return alarm_id

    made.ids["alarm_id"] = rows.database.write(unit)


def _incident(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    incident = Incident(
        job_id=made.ids["job_id"],
        app_id=made.ids["app_id"],
        rule="finish_by",
        due_at=now_ms - MINUTE_MS,
        expected="07:00",
        opened_at=now_ms,
        remind_at=now_ms,
        acked_at=now_ms,
        acked_by=of("ack-by"),
        ack_note=of("ack-note"),
    )

    def unit(session: Any) -> int:
        session.add(incident)
        session.flush()
        return int(incident.id)

    made.ids["incident_id"] = rows.database.write(unit)


def _app(rows: Rows, app_id: int, of: Text) -> None:
    values = {
        "title": of("title"),
        "address_list": of("listed-address"),
        "alarm_email": of("app-email"),
        "alarm_webhook": of("app-webhook"),
        "address_type": 1,
    }
    rows.database.write(lambda s: s.execute(update(App).where(App.id == app_id).values(**values)))


def _jobs(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    child = rows.job(of("child"), made.app, handler=of("child-handler"))
    made.ids["job_id"] = rows.job(
        of("job"),
        made.app,
        author=of("author"),
        handler=of("handler"),
        param=of("param"),
        alarm_email=of("job-email"),
        alarm_webhook=of("job-webhook"),
        stop_reason=of("stop-reason"),
        child_ids=str(child),
        schedule_kind="FIX_RATE",
        schedule_value="60",
        is_enabled=1,
        last_tick_at=now_ms,
        next_tick_at=now_ms + MINUTE_MS,
    )
    since = History(
        job_id=made.ids["job_id"],
        changed_at=0,
        changed_by="tests",
        watermark=now_ms - 2 * MINUTE_MS,
        enabled=1,
        schedule_kind="FIX_RATE",
        schedule_value="60",
        timezone="",
        misfire="DO_NOTHING",
        anchor=now_ms,
    )
    rows.job(of("odd"), made.app, schedule_kind="CRON", schedule_value=of("schedule"))
    made.ids["script_id"] = rows.job(of("script"), made.app, handler="")
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
            saved = script_versions.save(
                session,
                job,
                script_type="GLUE_SHELL",
                source=of(f"{number}-source") + "\necho\n",
                remark=of(f"{number}-remark"),
                author="cut",
                now_ms=now_ms,
            )
            # Set directly, as a user's name would be cut to its length.
            session.get_one(ScriptVersion, saved).author = of(f"{number}-scripter")
        return int(saved)

    made.ids["version_id"] = rows.database.write(unit)


def _runs(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    shared = {"address": of("run-address"), "boot_id": "b00t"}
    failed = rows.run(
        made.ids["job_id"],
        now_ms - 1_000,
        made.app,
        status=RunStatus.FAILED.value,
        handler=of("run-handler"),
        param=of("run-param"),
        trigger_message=of("trigger-message"),
        message=of("exit-message"),
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


def _registry(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    load = {"handlers": [of("registered-handler")], "slots": 4, "running": 1}
    made.ids["executor_id"] = rows.executor(of("executor"), now_ms, json.dumps(load), made.app)
    node = json.dumps({"failing": [of("failing-role")]})
    for app, name in ((presence.SCHEDULER, "scheduler"), (presence.CONSOLE, "console")):
        beat = presence.Beat(
            kind=presence.ADMIN,
            app=app,
            address=of(name),
            boot_id="b",
            beat_at=now_ms,
            load=node,
        )
        rows.database.write(lambda session, beat=beat: presence.hold(session, beat))


def _people(rows: Rows, made: SampleApp, of: Text, now_ms: int) -> None:
    user = User(name=of("user"), password="x", role=2, permission=str(made.ids["app_id"]))
    audit_log = AuditLog(who="cut", origin="cut")

    def unit(session: Any) -> int:
        session.add(user)
        session.flush()
        for app_id, kind in ((EVERY_APP, ""), (made.ids["app_id"], "app-")):
            by, reason = of(f"{kind}paused-by"), of(f"{kind}pause-reason")
            session.add(Pause(app_id=app_id, since_at=now_ms, paused_by=by, reason=reason))
        session.execute(update(SignIn).values(agent=of("agent"), address=of("sign-in-address")))
        audit_log.note(
            session,
            Action.JOB_UPDATE,
            of("object"),
            now_ms=now_ms,
            before={of("value-name"): of("before")},
            after={of("value-name"): of("after")},
        )
        session.flush()
        whose = update(AuditEntry).where(AuditEntry.who == "cut")
        session.execute(whose.values(who=of("who"), origin=of("origin")))
        return int(user.id)

    made.ids["user_id"] = rows.database.write(unit)
    token = ApiToken(
        token_hash=f"{made.ids['user_id']:064}",
        name=of("token"),
        user_id=made.ids["user_id"],
        scopes="read",
        created_at=now_ms,
        created_by="cut",
        expires_at=now_ms + MINUTE_MS,
        used_at=now_ms,
        used_from=of("token-address"),
    )

    def add(session: Any) -> int:
        session.add(token)
        session.flush()
        return token.id

    made.ids["token_id"] = rows.database.write(add)
    made.ids["sign_in_id"] = 1


#: Tables with rows of apps, which users without those apps must not change.
OF_APPS = (App, Job, Run, ScriptVersion, Registration, SkippedTicks, DayReport, AppDay, Pause)


def dump(rows: Rows) -> list[list[Any]]:
    """Return all rows of these tables, for comparing."""

    def read(session: Any) -> list[list[Any]]:
        return [
            [tuple(row) for row in session.execute(model.__table__.select())] for model in OF_APPS
        ]

    return rows.database.read(read)
