"""What people do with apps, one at a time: the console's counterpart of the job file's `apps`."""

from collections.abc import Callable

from sqlalchemy.orm import Session

from scheduler.alarms import rules
from scheduler.job_rules import check_addresses, check_app_name, check_title
from scheduler.job_spec import AppSpec
from scheduler.trail import Action, Trail
from sql import alarm_targets, app_listing, apps, families, user_accounts
from sql.engine import Database
from sql.errors import Conflict
from sql.liveness import state
from sql.models import App

#: Jobs that a refusal names.
NAMED = 5


class AppInUse(Conflict):
    """An app is needed still.

    `jobs` names some of its `job_count` jobs; `executors` are those that live.
    """

    def __init__(self, name: str, usage: app_listing.Usage, executors: list[str]) -> None:
        super().__init__(f"app {name} is in use")
        self.jobs = usage.jobs
        self.job_count = usage.job_count
        self.has_open_runs = usage.has_open_runs
        self.executors = executors


class AppCommands:
    """Adds, changes and deletes apps, for whoever may do that with all of them.

    Args:
        database: where they are.
        now_ms: the database's clock.
        who: recorded in the audit trail.
        origin: the address that it comes from.

    """

    def __init__(
        self, database: Database, now_ms: Callable[[], int], *, who: str, origin: str
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._trail = Trail(who=who, origin=origin)

    def add(self, spec: AppSpec) -> int:
        """Make an app; return its id.

        Raises:
            ValueError: the description is not acceptable, in one line.
            Conflict: the name is taken.

        """
        _check(spec)

        def unit(session: Session) -> int:
            families.lock(session)
            if spec.name in apps.ids_by_name(session):
                raise Conflict(f"there is an app named {spec.name!r} already")
            app_id, _ = apps.ensure(session, spec.name, spec.title)
            app = app_listing.lock(session, app_id)
            _describe(session, app, spec)
            self._note(session, Action.APP_CREATE, app, after=_shown(app))
            return app_id

        return self._database.write(unit)

    def change(self, app_id: int, spec: AppSpec) -> bool:
        """Make an app as described, but for its name, which stays; False when it is so already.

        Raises:
            ValueError: the description is not acceptable, in one line.
            NotFound: there is no such app.

        """
        _check(spec)

        def unit(session: Session) -> bool:
            app = app_listing.lock(session, app_id)
            before = _shown(app)
            apps.ensure(session, app.app_name, spec.title)
            _describe(session, app, spec)
            after = _shown(app)
            if before != after:
                self._note(session, Action.APP_UPDATE, app, before=before, after=after)
            return before != after

        return self._database.write(unit)

    def delete(self, app_id: int) -> None:
        """Delete an app that nothing needs, and take it from every user who had it.

        Raises:
            NotFound: there is no such app.
            AppInUse: it has jobs, open runs, or executors that live.

        """

        def unit(session: Session) -> None:
            # Jobs are made under this lock, so that none appears in between.
            families.lock(session)
            app = app_listing.lock(session, app_id)
            usage = app_listing.usage(session, app_id, names=NAMED)
            now_ms = self._now_ms()
            executors = [
                row.registry_value
                for row in app_listing.registrations(session, app.app_name)
                if state(row, now_ms) != "silent"
            ]
            if usage.job_count or usage.has_open_runs or executors:
                raise AppInUse(app.app_name, usage, executors)
            self._note(session, Action.APP_DELETE, app, before=_shown(app))
            user_accounts.take_away_app(session, app_id)
            app_listing.remove(session, app)

        self._database.write(unit)

    def _note(
        self,
        session: Session,
        action: Action,
        app: App,
        *,
        before: dict[str, str] | None = None,
        after: dict[str, str] | None = None,
    ) -> None:
        self._trail.note(
            session,
            action,
            app.app_name,
            object_id=app.id,
            now_ms=self._now_ms(),
            before=before,
            after=after,
        )


def _check(spec: AppSpec) -> None:
    check_app_name(spec.name)
    check_title(spec.title or "")
    check_addresses(spec.addresses)
    for problem in rules.problems(spec.alarm):
        raise ValueError(problem)


def _describe(session: Session, app: App, spec: AppSpec) -> None:
    apps.list_addresses(session, app.id, spec.addresses)
    alarm = spec.alarm
    alarm_targets.set_app(
        session, app.id, emails=",".join(alarm.emails), webhook=alarm.webhook, style=alarm.style
    )


def _shown(app: App) -> dict[str, str]:
    return {
        "title": app.title,
        "addresses": app.address_list or "",
        "alarm_email": app.alarm_email or "",
        "alarm_webhook": app.alarm_webhook or "",
        "alarm_style": app.alarm_style or "",
    }
