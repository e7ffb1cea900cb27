"""Commands on alarms and incidents.

Test targets; send undelivered alarms again, or dismiss them; acknowledge incidents; mute a job
while somebody looks after its trouble, so that its alarms need not be sent.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.alarms.events import (
    NO_TARGETS,
    NO_WEBHOOK,
    AlarmTargets,
    RunWebhook,
    Trial,
    to_text,
)
from warren.scheduler.alarms.rate_limiter import run_ids_of
from warren.scheduler.alarms.targets import (
    channels_of,
    job_targets,
    target_problems,
    webhook_problems,
)
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.membership.presence import MAILS_KEY
from warren.scheduler.membership.registration import stored_load
from warren.scheduler.names import is_line
from warren.scheduler.problems import Code, Problem, Refused
from warren.sql.alarms import alarm_listing, alarms, incidents
from warren.sql.alarms.alarm_listing import AlarmFilter, AlarmState, ListedAlarm
from warren.sql.alarms.alarms import MAIL, RUN_END, TEST, AlarmStatus, NewAlarm, RunAlarm
from warren.sql.alarms.incidents import ListedIncident
from warren.sql.board import job_states
from warren.sql.board.job_states import StoredMute
from warren.sql.instants import DAY_MS, LATEST_MS, MINUTE_MS, iso
from warren.sql.models import Alarm, App
from warren.sql.registry import presence
from warren.sql.registry.presence import state

#: The most tests that all people together may send in a minute.
MAX_TESTS = 30
#: The most alarms that one transaction sends again or dismisses.
MAX_SELECTED = 1_000
_POLL_SECONDS = 0.1
_OPEN = (AlarmStatus.NEW, AlarmStatus.READY)


class AlarmCommands:
    """Tests of targets, and what people do about undelivered alarms.

    A test is an alarm of its own that a scheduler sends like any other, but at once and only once:
    so it proves the mail server, the network and the rules of the process that really sends.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def test_job(
        self,
        job_id: int,
        targets: AlarmTargets = NO_TARGETS,
        webhook: RunWebhook = NO_WEBHOOK,
        *,
        defaults: AlarmTargets = NO_TARGETS,
    ) -> list[int]:
        """Send a test to these targets of a job; without any, to those of its alarms.

        Returns the ids of the tests; `wait_for_tests` returns their results.

        Raises:
            Refused: there is no such job, no valid target, or no process that can send it.

        """

        def unit(session: Session) -> list[int]:
            job = self._context.job(session, job_id)
            own = alarms.job_targets(session, [job_id])[job_id]
            undelivered = targets if targets or webhook else job_targets(own, defaults)
            name = f"{own.app}/{own.name}"
            if not undelivered and not webhook:
                raise Problem(Code.NOTHING_TO_TEST, what=name)
            news = self._news(own.app, own.name)
            return self._add(
                session, name, news, undelivered, webhook, app_id=job.app_id, job_id=job_id
            )

        _check(targets, webhook)
        return self._context.write(Right.OPERATE, unit)

    def test_app(
        self, app_id: int, targets: AlarmTargets, webhook: RunWebhook = NO_WEBHOOK
    ) -> list[int]:
        """Send a test to these targets, as alarms of an app would be sent; returns the ids.

        Raises:
            Refused: there is no such app, a target is invalid, or no process can send it.

        """

        def unit(session: Session) -> list[int]:
            app = session.get(App, app_id) if self._context.actor.knows(app_id) else None
            if app is None:
                raise Problem(Code.NO_APP, id=app_id)
            news = self._news(app.name)
            return self._add(session, app.name, news, targets, webhook, app_id=app.id)

        _check(targets, webhook)
        return self._context.write(Right.OPERATE, unit)

    def test(self, targets: AlarmTargets) -> list[int]:
        """Send a test to targets that belong to no app; returns the ids. For administrators.

        Raises:
            Refused: a target is invalid, or no process can send it.

        """
        _check(targets, NO_WEBHOOK)
        return self._context.write(
            Right.ADMINISTER,
            lambda session: self._add(session, "", self._news(), targets, NO_WEBHOOK),
        )

    def wait_for_tests(
        self, ids: Sequence[int], seconds: float, sleep: Callable[[float], None] = time.sleep
    ) -> list[ListedAlarm]:
        """Return the tests once all have a result, or as they are after `seconds`."""
        ends = time.monotonic() + seconds
        while True:
            alarm_rows = self._context.database.read(
                lambda session: alarm_listing.by_ids(session, ids)
            )
            if all(alarm.status not in _OPEN for alarm in alarm_rows) or time.monotonic() >= ends:
                return alarm_rows
            sleep(_POLL_SECONDS)

    def send_again(self, wanted: AlarmFilter) -> int:
        """Let undelivered alarms be sent again at once; return how many.

        Each goes to its original target. The filter's limit and state are ignored.
        """

        def unit(session: Session, undelivered: Sequence[Alarm], now_ms: int) -> None:
            run_ids = _run_ids(session, undelivered)
            alarm_listing.send_again(session, undelivered, now_ms=now_ms)
            alarm_listing.reopen_runs(session, run_ids)

        return self._change(wanted, Action.ALARM_RESEND, unit)

    def dismiss(self, wanted: AlarmFilter) -> int:
        """Give up undelivered alarms, so that no page warns about them; return how many."""

        def unit(session: Session, undelivered: Sequence[Alarm], now_ms: int) -> None:
            alarms.mark_runs(session, _run_ids(session, undelivered), RunAlarm.GIVEN_UP)
            alarm_listing.dismiss(session, undelivered, now_ms=now_ms)

        return self._change(wanted, Action.ALARM_DISMISS, unit)

    def _change(
        self,
        wanted: AlarmFilter,
        action: Action,
        change: Callable[[Session, Sequence[Alarm], int], None],
    ) -> int:
        actor = self._context.actor
        mine = replace(
            wanted,
            limit=MAX_SELECTED,
            state=AlarmState.UNDELIVERED,
            app_ids=actor.app_ids,
            job_ids=actor.job_ids,
        )

        def unit(session: Session) -> int:
            now_ms = self._context.now_ms()
            undelivered = alarm_listing.lock_undelivered(session, mine, now_ms=now_ms)
            change(session, undelivered, now_ms)
            for app_id in sorted({alarm.app_id for alarm in undelivered}):
                ids = [alarm.id for alarm in undelivered if alarm.app_id == app_id]
                app = session.get(App, app_id)
                shown = {"count": len(ids), "ids": ids[:20]}
                name = app.name if app else ""
                self._context.note(session, action, name, app_id, now_ms, after=shown)
            return len(undelivered)

        return self._context.write(Right.OPERATE, unit)

    def _news(self, app: str = "", job: str = "") -> Trial:
        return Trial(app=app, job=job, who=self._context.actor.who, at=self._context.now_ms())

    def _add(
        self,
        session: Session,
        name: str,
        news: Trial,
        targets: AlarmTargets,
        webhook: RunWebhook,
        *,
        app_id: int = 0,
        job_id: int = 0,
    ) -> list[int]:
        channels = channels_of(targets) + ([(RUN_END, webhook.url)] if webhook else [])
        self._check_senders(session, {channel for channel, _ in channels}, news.at)
        subject_key = f"{TEST}{news.at}:{secrets.token_hex(8)}"
        tests = [
            NewAlarm(
                subject_key=subject_key,
                channel=channel,
                target=target,
                content=to_text(news),
                created_at=news.at,
                job_id=job_id,
                app_id=app_id,
                status=AlarmStatus.READY,
            )
            for channel, target in channels
        ]
        alarms.add(session, tests)
        shown = [
            test.target if test.channel == MAIL else without_secret(test.target) for test in tests
        ]
        self._context.note(
            session, Action.ALARM_TEST, name, app_id, news.at, after={"targets": shown}
        )
        return alarm_listing.ids_of_subject(session, subject_key)

    def _check_senders(self, session: Session, channels: set[str], now_ms: int) -> None:
        rows = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        online = [row for row in rows if state(row, now_ms).is_online]
        if not online:
            raise Problem(Code.NO_SENDER)
        if MAIL in channels and not any(stored_load(row).get(MAILS_KEY) for row in online):
            raise Problem(Code.NO_MAIL_SERVER)
        if alarm_listing.count_tests(session, since_ms=now_ms - MINUTE_MS) >= MAX_TESTS:
            raise Problem(Code.TOO_MANY_TESTS, most=MAX_TESTS)


def _check(targets: AlarmTargets, webhook: RunWebhook) -> None:
    problems = [*target_problems(targets), *webhook_problems(webhook)]
    if problems:
        raise Refused(problems)


def _run_ids(session: Session, undelivered: Sequence[Alarm]) -> list[int]:
    return [
        run
        for alarm in undelivered
        if alarm.channel != RUN_END
        for run in run_ids_of(session, alarm)
    ]


#: The most characters of a note.
MAX_NOTE_LENGTH = 200


class IncidentCommands:
    """Reads and acknowledges incidents on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def read(self, session: Session, incident_id: int) -> ListedIncident:
        """Return an incident.

        Raises:
            Problem: there is none, or the actor may not see it.

        """
        listed = incidents.find(session, incident_id)
        if listed is None or not self._context.actor.knows_job(listed.app_id, listed.job_id):
            raise Problem(Code.NO_INCIDENT, id=incident_id)
        return listed

    def acknowledge(self, incident_id: int, *, note: str = "", until_ms: int | None = None) -> None:
        """Record that the actor acknowledges an open incident; it stays silent until an instant.

        `until_ms` None = until it closes. Acknowledging it again replaces note and end. An incident
        about a database that lost commits closes when it is acknowledged.

        Raises:
            Problem: there is no such incident, it is closed, or note or end are invalid.

        """
        if not is_line(note, MAX_NOTE_LENGTH):
            raise Problem(Code.INCIDENT_NOTE, "note", most=MAX_NOTE_LENGTH, got=note[:100])

        def unit(session: Session) -> None:
            now_ms = self._context.now_ms()
            if until_ms is not None and not now_ms < until_ms < LATEST_MS:
                raise Problem(Code.INCIDENT_END, "until", got=iso(until_ms) or until_ms)
            incident = self.read(session, incident_id)
            who = self._context.actor.who
            if not incidents.acknowledge(
                session, incident_id, by=who, note=note, until_ms=until_ms, now_ms=now_ms
            ):
                raise Problem(Code.INCIDENT_CLOSED, id=incident_id)
            is_of_database = incident.rule in incidents.OF_DATABASE
            if is_of_database:
                incidents.close(session, incident_id, incidents.ClosedBy.SEEN, now_ms)
            after = {"rule": incident.rule, "note": note, "until": iso(until_ms) or ""}
            self._context.note(
                session,
                Action.INCIDENT_ACK,
                "" if is_of_database else f"{incident.app}/{incident.job or incident.job_id}",
                incident_id,
                now_ms,
                after={name: value for name, value in after.items() if value},
            )

        self._context.write(Right.OPERATE, unit)


#: The longest mute, and the longest reason.
MAX_DAYS, MAX_REASON_LENGTH = 30, 200


class MuteCommands:
    """Mutes and acknowledges the trouble of jobs, with entries in the audit log."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def mute(self, job_id: int, *, until_ms: int, why: str = "", silent: bool = True) -> None:
        """Note that the actor looks after a job until an instant, MAX_DAYS from now at most.

        It ends sooner if the job fails with another error. With `silent`, alarms about its runs
        are stored, but not sent. A mute replaces the job's earlier one.

        Raises:
            Problem: there is no such job, or reason or end are invalid.

        """
        if not is_line(why, MAX_REASON_LENGTH):
            raise Problem(Code.MUTE_REASON, "why", most=MAX_REASON_LENGTH, got=why[:100])

        def unit(session: Session) -> None:
            now_ms = self._context.now_ms()
            if not now_ms < until_ms <= now_ms + MAX_DAYS * DAY_MS:
                raise Problem(Code.MUTE_END, "until", most=MAX_DAYS, got=iso(until_ms) or until_ms)
            job = self._context.job(session, job_id, lock=True)
            job_states.put_mute(
                session,
                StoredMute(
                    job_id=job_id,
                    silences=int(silent),
                    error_key=job_states.error_key_of(session, job_id),
                    made_at=now_ms,
                    made_by=self._context.actor.who,
                    until_at=until_ms,
                    reason=why,
                ),
            )
            after = {"until": iso(until_ms), "why": why, "silent": silent}
            self._context.note_job(session, Action.JOB_MUTE, job, now_ms, after=after)

        self._context.write(Right.OPERATE, unit)

    def unmute(self, job_id: int) -> bool:
        """End the mute of a job; return False if it has none.

        Raises:
            Problem: there is no such job.

        """

        def unit(session: Session) -> bool:
            job = self._context.job(session, job_id, lock=True)
            if job_states.mute_of(session, job_id) is None:
                return False
            job_states.end_mutes(session, [job_id])
            self._context.note_job(session, Action.JOB_UNMUTE, job, self._context.now_ms())
            return True

        return self._context.write(Right.OPERATE, unit)
