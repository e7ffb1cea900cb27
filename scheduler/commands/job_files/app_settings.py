"""The apps of a job file: what changes about them, and its writing."""

from sqlalchemy.orm import Session

from warren.scheduler.alarms.targets import columns_of
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.jobs.stored_spec import app_spec
from warren.sql.alarms import recipients
from warren.sql.job_choices import DEFAULT_ROUTE
from warren.sql.models import App
from warren.sql.registry import apps


def app_changes(app: App, wanted: AppSpec | None) -> tuple[str, ...]:
    """Return the settings of an app that are to change; `wanted` None = it only has to exist."""
    if wanted is None:
        return ()
    words = ["title"] if wanted.title not in (None, app.title) else []
    if app_spec(app).addresses != wanted.addresses:
        words.append(f"addresses: {', '.join(wanted.addresses) or 'all that register'}")
    if (app.route or "") != wanted.route:
        words.append(f"route: {wanted.route or DEFAULT_ROUTE}")
    differing = recipients.differing(app, columns_of(wanted.alarm, wanted.webhook))
    words += dict.fromkeys(column.partition("_")[0] for column in differing)
    return tuple(words)


def write_app(session: Session, name: str, wanted: AppSpec | None) -> App:
    """Create or change an app; return it."""
    app_id, _ = apps.ensure(session, name, wanted.title if wanted else None)
    if wanted:
        apps.list_addresses(session, app_id, wanted.addresses)
        apps.set_route(session, app_id, wanted.route)
        recipients.set_app(session, app_id, columns_of(wanted.alarm, wanted.webhook))
    return session.get_one(App, app_id)
