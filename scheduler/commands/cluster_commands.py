"""Commands on apps, and on the cluster: drain executors, pause dispatch and resume it.

Job files have their own commands on apps (`job_files`). A drain request is stored in the registry;
the schedulers deliver it.
"""

from dataclasses import asdict
from enum import StrEnum

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.alarms.targets import columns_of
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.jobs.rules import app_problems
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.names import is_line
from warren.scheduler.problems import Code, Problem, refusal
from warren.sql import metrics
from warren.sql.accounts import identities, users
from warren.sql.alarms import alarms
from warren.sql.instants import LATEST_MS, iso, moment
from warren.sql.jobs import job_links
from warren.sql.listings import app_listing
from warren.sql.models import App, Registration
from warren.sql.registry import apps, pauses, presence
from warren.sql.registry.pauses import EVERY_APP
from warren.sql.registry.presence import ProcessState, state
from warren.sql.runs import queries

#: The most jobs that a refusal names.
JOBS_NAMED = 5


class AppCommands:
    """Adds, changes and deletes apps; only for administrators."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def add(self, spec: AppSpec) -> int:
        """Create an app; return its id.

        Raises:
            Refused: the spec is invalid, or the name is taken.

        """
        self._check(spec, is_new=True)

        def unit(session: Session) -> int:
            job_links.lock(session)
            if spec.name in apps.ids_by_name(session):
                raise Problem(Code.APP_NAME_TAKEN, "name", name=spec.name)
            app_id, _ = apps.ensure(session, spec.name, spec.title)
            app = app_listing.lock(session, app_id)
            _apply_spec(session, app, spec)
            self._note(session, Action.APP_CREATE, app, after=app_record(app))
            return app_id

        return self._context.write(Right.ADMINISTER, unit)

    def change(self, app_id: int, spec: AppSpec) -> bool:
        """Change an app to the spec, except for its name; return False if nothing changes.

        Raises:
            Refused: the spec is invalid.
            NotFound: there is no such app.

        """
        self._check(spec)

        def unit(session: Session) -> bool:
            app = app_listing.lock(session, app_id)
            before = app_record(app)
            apps.ensure(session, app.name, spec.title)
            _apply_spec(session, app, spec)
            after = app_record(app)
            if before != after:
                self._note(session, Action.APP_UPDATE, app, before=before, after=after)
            return before != after

        return self._context.write(Right.ADMINISTER, unit)

    def delete(self, app_id: int) -> None:
        """Delete an unused app, and remove it from the rights of all users.

        Raises:
            NotFound: there is no such app.
            Problem: it has jobs, open runs or live executors; the facts name them.

        """

        def unit(session: Session) -> None:
            # Jobs are created under this lock, so that none appears after the check.
            job_links.lock(session)
            app = app_listing.lock(session, app_id)
            usage = app_listing.usage(session, app_id, names=JOBS_NAMED)
            now_ms = self._context.now_ms()
            executors = [
                row.address
                for row in app_listing.registrations(session, app.name)
                if state(row, now_ms) is not ProcessState.SILENT
            ]
            if usage.job_count or usage.has_open_runs or executors:
                facts = {"app": app.name, "executors": executors, **asdict(usage)}
                raise Problem(Code.APP_IN_USE, **facts)
            self._note(session, Action.APP_DELETE, app, before=app_record(app))
            users.remove_app_from_rights(session, app_id)
            identities.remove_app_from_group_rules(session, app_id)
            metrics.forget_app(session, app_id)
            app_listing.remove(session, app)

        self._context.write(Right.ADMINISTER, unit)

    def _check(self, spec: AppSpec, *, is_new: bool = False) -> None:
        added = self._context.added_routes
        if problems := app_problems(spec, is_new=is_new, added_routes=added):
            raise refusal(problems)

    def _note(self, session: Session, action: Action, app: App, **values: dict[str, str]) -> None:
        now_ms = self._context.now_ms()
        self._context.note(session, action, app.name, app.id, now_ms, **values)


def _apply_spec(session: Session, app: App, spec: AppSpec) -> None:
    apps.list_addresses(session, app.id, spec.addresses)
    apps.set_route(session, app.id, spec.route)
    alarms.set_app(session, app.id, columns_of(spec.alarm, spec.webhook))


def app_record(app: App) -> dict[str, str]:
    """Return what the audit log keeps of an app."""
    return {
        "title": app.title,
        "addresses": app.address_list or "",
        "route": app.route or "",
        "alarm_email": app.alarm_email or "",
        "alarm_webhook": app.alarm_webhook or "",
        "alarm_style": app.alarm_style or "",
        "alarm_secret": app.alarm_secret or "",
        "webhook_url": app.webhook_url or "",
        "webhook_when": app.webhook_when or "",
    }


#: The end of a pause that does not end by itself; times that people enter are never negative.
NEVER = -1
#: The most characters of a pause's reason.
MAX_REASON_LENGTH = 200


class PauseOutcome(StrEnum):
    """The outcome of a request to pause."""

    PAUSED = "PAUSED"
    #: It was already paused, and has a new reason or end now.
    CHANGED = "CHANGED"
    #: It was already paused, and the request changes nothing.
    ALREADY = "ALREADY"


class ClusterCommands:
    """Acts on executors and schedulers on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def drain(self, executor_id: int) -> bool:
        """Let an executor finish its runs, take no new ones, and exit; return False if repeated.

        This applies to the boot that has the address now; the next one takes runs again.

        Raises:
            Problem: there is no such executor.

        """

        def unit(session: Session) -> bool:
            row = self._locked(session, executor_id)
            now_ms = self._context.now_ms()
            if not presence.request(session, row, now_ms):
                return False
            after = {"app": row.app, "boot": row.boot_id}
            action = Action.EXECUTOR_DRAIN
            self._context.note(session, action, row.address, row.id, now_ms, after=after)
            return True

        return self._context.write(Right.OPERATE, unit)

    def forget(self, executor_id: int) -> None:
        """Remove an executor that is gone: its registration at once, its queue within minutes.

        Raises:
            Problem: there is no such executor, it is online, or some of its runs are open.

        """

        def unit(session: Session) -> None:
            row, now_ms = self._locked(session, executor_id), self._context.now_ms()
            if presence.state(row, now_ms).is_online:
                raise Problem(Code.EXECUTOR_ONLINE, address=row.address)
            app_id = apps.id_named(session, row.app) or 0
            if runs := queries.count_open_at(session, app_id, row.address):
                raise Problem(Code.EXECUTOR_BUSY, address=row.address, n=runs)
            presence.leave(session, presence.EXECUTOR, row.app, row.address, row.boot_id)
            presence.note(session, row.app, row.address, 0)  # schedulers remove what left long ago
            after = {"app": row.app, "boot": row.boot_id}
            action = Action.EXECUTOR_FORGET
            self._context.note(session, action, row.address, row.id, now_ms, after=after)

        self._context.write(Right.OPERATE, unit)

    def _locked(self, session: Session, executor_id: int) -> Registration:
        row, actor = presence.lock_executor(session, executor_id), self._context.actor
        # A token limited to some jobs may not do this: the executor runs other jobs too.
        is_theirs = row and actor.job_ids is None
        if not row or not is_theirs or not actor.knows(apps.id_named(session, row.app)):
            raise Problem(Code.NO_EXECUTOR, id=executor_id)
        return row

    def pause(
        self, app_id: int = EVERY_APP, *, reason: str = "", until_ms: int | None = None
    ) -> PauseOutcome:
        """Stop dispatch, everywhere or for one app, until it is resumed; planning continues.

        If it is already paused, a given reason or end replaces the old one; NEVER removes the end.

        Args:
            app_id: the app; by default the whole cluster, for administrators only.
            reason: a line for people.
            until_ms: when the pause ends by itself; None = leave the end unchanged, which is NEVER
                for a new pause.

        Raises:
            Problem: reason or end are invalid, or there is no such app.

        """
        check_reason(reason)

        def unit(session: Session) -> PauseOutcome:
            name = self._begin(session, app_id)
            now_ms = self._context.now_ms()
            end_ms = None if until_ms == NEVER else until_ms
            if end_ms is not None and not now_ms < end_ms <= LATEST_MS:
                got = moment(end_ms).isoformat(timespec="milliseconds")
                raise Problem(Code.PAUSE_END, "until", got=got)
            old = pauses.of(session, app_id, now_ms)
            if old is None:
                by = self._context.actor.who
                pauses.begin(session, app_id, now_ms=now_ms, until_ms=end_ms, by=by, reason=reason)
                self._note_pause(session, app_id, name, now_ms, after=_record(reason, end_ms))
                return PauseOutcome.PAUSED
            why = reason or old.reason
            if until_ms is None:
                end_ms = old.until_at
            if (why, end_ms) == (old.reason, old.until_at):
                return PauseOutcome.ALREADY
            pauses.change(session, old.id, until_ms=end_ms, reason=why)
            before, after = _record(old.reason, old.until_at), _record(why, end_ms)
            self._note_pause(session, app_id, name, now_ms, before=before, after=after)
            return PauseOutcome.CHANGED

        return self._context.write(_right(app_id), unit)

    def resume(self, app_id: int = EVERY_APP) -> bool:
        """Resume dispatch, everywhere or for one app; return False if it was not paused.

        Raises:
            Problem: there is no such app.

        """

        def unit(session: Session) -> bool:
            name = self._begin(session, app_id)
            now_ms = self._context.now_ms()
            if not pauses.end(session, app_id, now_ms=now_ms):
                return False
            action = Action.CLUSTER_RESUME if app_id == EVERY_APP else Action.APP_RESUME
            self._context.note(session, action, name, app_id, now_ms)
            return True

        return self._context.write(_right(app_id), unit)

    def _begin(self, session: Session, app_id: int) -> str:
        """Lock out other pauses and resumes; return the name for the audit log."""
        pauses.lock(session)
        if app_id == EVERY_APP:
            return "dispatch"
        app = session.get(App, app_id)
        # A token limited to some jobs may not pause an app: it has other jobs too.
        is_theirs = self._context.actor.knows(app_id) and self._context.actor.job_ids is None
        if app is None or not is_theirs:
            raise Problem(Code.NO_APP, id=app_id)
        return app.name

    def _note_pause(
        self, session: Session, app_id: int, name: str, now_ms: int, **values: dict[str, str]
    ) -> None:
        action = Action.CLUSTER_PAUSE if app_id == EVERY_APP else Action.APP_PAUSE
        self._context.note(session, action, name, app_id, now_ms, **values)


def check_reason(reason: str) -> None:
    """Raise Problem if a pause's reason is too long or has control characters."""
    if not is_line(reason, MAX_REASON_LENGTH):
        raise Problem(Code.PAUSE_REASON, "reason", most=MAX_REASON_LENGTH, got=reason[:100])


def _right(app_id: int) -> Right:
    return Right.ADMINISTER if app_id == EVERY_APP else Right.OPERATE


def _record(reason: str, until_ms: int | None) -> dict[str, str]:
    """Return the audit log's record of a pause."""
    after = {"reason": reason, "until": iso(until_ms) or ""}
    return {name: value for name, value in after.items() if value}
