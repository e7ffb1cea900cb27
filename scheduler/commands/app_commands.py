"""Commands on single apps; `job_files` has those of job files."""

from dataclasses import asdict

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.alarms.targets import columns_of, target_problems, webhook_problems
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.jobs.rules import (
    check_addresses,
    check_app_name,
    check_app_route,
    check_new_app_name,
    check_title,
)
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts import users
from warren.sql.alarms import alarms
from warren.sql.jobs import child_links
from warren.sql.listings import app_listing
from warren.sql.metrics import counts
from warren.sql.models import App
from warren.sql.registry import apps
from warren.sql.registry.presence import ProcessState, state

#: The most jobs that a refusal names.
JOBS_NAMED = 5


class AppCommands:
    """Adds, changes and deletes apps; only for administrators."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def add(self, spec: AppSpec) -> int:
        """Create an app; return its id.

        Raises:
            Problem: the spec is invalid, or the name is taken.

        """
        check_new_app_name(spec.name)
        self._check(spec)

        def unit(session: Session) -> int:
            child_links.lock(session)
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
            Problem: the spec is invalid.
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
            child_links.lock(session)
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
            counts.forget_app(session, app_id)
            app_listing.remove(session, app)

        self._context.write(Right.ADMINISTER, unit)

    def _check(self, spec: AppSpec) -> None:
        check_app_name(spec.name)
        check_title(spec.title or "")
        check_addresses(spec.addresses)
        check_app_route(spec.route, self._context.added_routes)
        for problem in (
            *target_problems(spec.alarm),
            *webhook_problems(spec.webhook),
        ):
            raise problem

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
