"""Banners about conditions that stop the cluster, and the pages that pause and resume dispatch.

The banners report pauses, a missing scheduler or broker, and undelivered alarms. Pages reload them
regularly.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from flask import Flask, abort, flash, g, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, SelectField, StringField, ValidationError
from wtforms.validators import InputRequired, Length, Optional

from warren.admin_web.forms.console_form import REQUIRED, ConsoleForm, TimeField, select_choices
from warren.admin_web.links import came_from
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.commands.cluster_commands import (
    MAX_REASON_LENGTH,
    NEVER,
    PauseOutcome,
    check_reason,
)
from warren.scheduler.views.process_view import node_view
from warren.sql.alarms import alarm_listing
from warren.sql.instants import MINUTE_MS
from warren.sql.models import App
from warren.sql.registry import pauses, presence
from warren.sql.registry.pauses import EVERY_APP, PauseRow, ShownPause


class ConditionKind(StrEnum):
    """What is wrong."""

    PAUSED = "paused"
    APP_PAUSED = "app"
    NO_SCHEDULER = "schedulers"
    NO_BROKER = "broker"
    UNDELIVERED = "alarms"


@dataclass(frozen=True, slots=True)
class Condition:
    """A problem since `since_ms` (0 = always); pauses have further facts, and alarms a `count`."""

    kind: ConditionKind
    since_ms: int
    who: str = ""
    reason: str = ""
    until_ms: int = 0
    app_id: int = 0
    app: str = ""
    count: int = 0


class ClusterConditions:
    """Reads the current conditions; cheap enough for every page."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._broker_lost_at_ms = 0

    def read(self, app_ids: Collection[int] | None) -> list[Condition]:
        """Return all conditions, the worst first; pauses and alarms of these apps, None = all."""
        conditions = self._services.database.read(lambda session: self._stored(session, app_ids))
        if lost_at_ms := self._broker_loss():
            conditions.append(Condition(ConditionKind.NO_BROKER, lost_at_ms))
        return conditions

    def _stored(self, session: Session, app_ids: Collection[int] | None) -> list[Condition]:
        now_ms = self._services.now_ms()
        rows = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        conditions = []
        if not any(node_view(row, now_ms).is_online for row in rows):
            last = max((row.beat_at for row in rows), default=0)
            conditions.append(Condition(ConditionKind.NO_SCHEDULER, last))
        if count := alarm_listing.count_undelivered(session, app_ids, now_ms):
            conditions.append(Condition(ConditionKind.UNDELIVERED, 0, count=count))
        return conditions + [_paused(pause) for pause in pauses.in_force(session, now_ms, app_ids)]

    def _broker_loss(self) -> int:
        """Return since when this console has had no connection to the broker; 0 if it has one."""
        if self._services.is_broker_up():
            self._broker_lost_at_ms = 0
        elif not self._broker_lost_at_ms:
            self._broker_lost_at_ms = self._services.now_ms()
        return self._broker_lost_at_ms


def _paused(shown_pause: ShownPause) -> Condition:
    return Condition(
        ConditionKind.PAUSED if shown_pause.app is None else ConditionKind.APP_PAUSED,
        shown_pause.since_at,
        shown_pause.paused_by,
        shown_pause.reason,
        shown_pause.until_at or 0,
        shown_pause.app_id,
        shown_pause.app or "",
    )


class ConditionPages:
    """Banners for everybody who has signed in, on every page."""

    name = "conditions"

    def __init__(self, conditions: ClusterConditions) -> None:
        self._conditions = conditions

    @route("/conditions", Right.VIEW)
    def show(self) -> str:
        """Show what is wrong with the cluster; empty if nothing is."""
        return render_template("conditions.html", viewer=visitor())

    def install(self, app: Flask) -> None:
        """Provide the conditions to the layout."""
        app.jinja_env.globals["conditions"] = self._read

    def _read(self) -> list[Condition]:
        """Return the conditions that the visitor may see; read once a request."""
        if "conditions" not in g:
            g.conditions = self._conditions.read(visitor().app_ids)
        conditions: list[Condition] = g.conditions
        return conditions


_LAST_YEAR = 2200
_SPANS = [
    ("", lazy_gettext("I resume it")),
    ("30", lazy_gettext("in 30 minutes")),
    ("60", lazy_gettext("in 1 hour")),
    ("120", lazy_gettext("in 2 hours")),
    ("240", lazy_gettext("in 4 hours")),
    ("480", lazy_gettext("in 8 hours")),
    ("1440", lazy_gettext("in 24 hours")),
]


class PauseForm(ConsoleForm):
    """Asks for a pause's reason and end, in the visitor's time zone.

    Args:
        now_ms: the current time.
        zone: of the times that are entered.

    """

    reason = StringField(
        lazy_gettext("Reason"),
        [
            InputRequired(REQUIRED),
            Length(
                max=MAX_REASON_LENGTH,
                message=lazy_gettext("A reason can have up to 200 characters."),
            ),
        ],
    )
    span = SelectField(lazy_gettext("Until"), choices=select_choices(_SPANS), default="")
    until = TimeField(lazy_gettext("or at this time"), [Optional()])

    def __init__(self, *args: Any, now_ms: int, zone: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._now_ms = now_ms
        self._zone = ZoneInfo(zone)

    @property
    def until_ms(self) -> int:
        """When the pause ends by itself, or NEVER."""
        if self.until.data:
            return _epoch_ms(self.until.data, self._zone)
        return self._now_ms + int(self.span.data) * MINUTE_MS if self.span.data else NEVER

    def validate_reason(self, field: Field) -> None:
        """Refuse control characters, line breaks included."""
        try:
            check_reason((field.data or "")[:MAX_REASON_LENGTH])
        except ValueError:
            raise ValidationError(gettext("A reason cannot contain control characters.")) from None

    def validate_until(self, field: Field) -> None:
        """Refuse a time in the past, or together with a duration."""
        if not field.data:
            return
        if self.span.data:
            raise ValidationError(gettext("Choose either a duration or a time."))
        is_near = field.data.year <= _LAST_YEAR
        if not is_near or _epoch_ms(field.data, self._zone) <= self._now_ms:
            raise ValidationError(gettext("Choose a time in the future."))

    def show(self, pause: PauseRow) -> None:
        """Fill in an existing pause."""
        self.reason.data = pause.reason
        if pause.until_at:
            self.until.data = datetime.fromtimestamp(pause.until_at / 1000, self._zone)


def _epoch_ms(entered: datetime, zone: ZoneInfo) -> int:
    return int(entered.replace(tzinfo=zone).timestamp() * 1000)


class PausePages:
    """Administrators pause the cluster; operators pause their apps."""

    name = "pauses"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/schedulers/pause/ask", Right.ADMINISTER)
    def ask(self) -> str:
        """Show the form to pause the cluster."""
        return self._show(None)

    @route("/schedulers/pause", Right.ADMINISTER, methods=("POST",))
    def pause(self) -> Response | tuple[str, int]:
        """Stop sending runs, everywhere."""
        return self._pause(None)

    @route("/schedulers/resume", Right.ADMINISTER, methods=("POST",))
    def resume(self) -> Response:
        """Resume sending runs."""
        changed = self._services.commands(visitor().actor).cluster.resume()
        flash(gettext("Dispatch resumed.") if changed else gettext("Dispatch was not paused."))
        return redirect(came_from() or _place(None), 303)

    @route("/apps/<id:app_id>/pause/ask", Right.OPERATE)
    def ask_app(self, app_id: int) -> str:
        return self._show(self._app(app_id))

    @route("/apps/<id:app_id>/pause", Right.OPERATE, methods=("POST",))
    def pause_app(self, app_id: int) -> Response | tuple[str, int]:
        """Stop sending runs of an app."""
        return self._pause(self._app(app_id))

    @route("/apps/<id:app_id>/resume", Right.OPERATE, methods=("POST",))
    def resume_app(self, app_id: int) -> Response:
        """Resume sending runs of an app."""
        app = self._app(app_id)
        changed = self._services.commands(visitor().actor).cluster.resume(app.id)
        if changed:
            flash(gettext("App %(name)s resumed.", name=app.name))
        else:
            flash(gettext("App %(name)s was not paused.", name=app.name))
        return redirect(came_from() or _place(app), 303)

    def _app(self, app_id: int) -> App:
        if not visitor().actor.knows(app_id):
            abort(404)
        app = self._services.database.read(lambda session: session.get(App, app_id))
        return app or abort(404)

    def _form(self) -> PauseForm:
        return PauseForm(request.form, now_ms=self._services.now_ms(), zone=self._times.zone())

    def _present(self, app: App | None) -> PauseRow | None:
        def read(session: Session) -> PauseRow | None:
            return pauses.of(session, app.id if app else EVERY_APP, self._services.now_ms())

        return self._services.database.read(read)

    def _show(self, app: App | None) -> str:
        form, present = self._form(), self._present(app)
        if present:
            form.show(present)
        return _page(form, app, is_paused=present is not None)

    def _pause(self, app: App | None) -> Response | tuple[str, int]:
        form = self._form()
        if not form.validate():
            return _page(form, app, is_paused=self._present(app) is not None), 422
        outcome = self._services.commands(visitor().actor).cluster.pause(
            app.id if app else EVERY_APP, reason=form.reason.data or "", until_ms=form.until_ms
        )
        flash(_outcome_text(outcome, app))
        return redirect(_place(app), 303)


def _page(form: PauseForm, app: App | None, *, is_paused: bool) -> str:
    return render_template(
        "pages/pauses_form.html", form=form, app=app, is_paused=is_paused, back=_place(app)
    )


def _place(app: App | None) -> str:
    return url_for("apps.index") if app else url_for("schedulers.index")


def _outcome_text(outcome: PauseOutcome, app: App | None) -> str:
    if outcome is PauseOutcome.ALREADY:
        return str(gettext("Nothing to save."))
    if outcome is PauseOutcome.CHANGED:
        return str(gettext("Saved."))
    if app:
        return str(gettext("App %(name)s paused.", name=app.name))
    return str(gettext("Dispatch paused."))
