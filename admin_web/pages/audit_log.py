"""The audit log page: who did what, when and from where, with values before and after."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from flask import Response, render_template, request
from flask_babel import lazy_gettext
from sqlalchemy.orm import Session
from wtforms import SelectField, StringField
from wtforms.validators import Length, Optional

from warren.admin_web import exports, history
from warren.admin_web.forms.console_form import ALL, ConsoleForm, DayField, select_choices
from warren.admin_web.history import Names, names_in, values_of
from warren.admin_web.language import labels
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.models import AuditEntry

LINES = 50
_COLUMNS = ("id", "at", "who", "origin", "action", "kind", "object_id", "name", "before", "after")


class AuditFilterForm(ConsoleForm):
    """Asks which entries to show."""

    who = StringField(lazy_gettext("User"), [Optional(), Length(max=64)])
    kind = SelectField(
        lazy_gettext("Object"), choices=select_choices([ALL, *labels.OBJECT.items()]), default=""
    )
    name = StringField(lazy_gettext("Name"), [Optional(), Length(max=255)])
    since = DayField(lazy_gettext("From date"), [Optional()])
    until = DayField(lazy_gettext("To date"), [Optional()])


class AuditPages:
    """The audit log, for administrators."""

    name = "audit_log"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/audit", Right.ADMINISTER)
    def show(self) -> Response | str | tuple[str, int]:
        """Show the audit log, newest entry first."""
        form = AuditFilterForm(request.args)
        if not form.validate():
            return render_template("pages/audit.html", form=form, entries=[], older=None), 422
        wanted = self._wanted(form)
        if exports.is_asked():
            return exports.answer("audit-log", _COLUMNS, self._rows(wanted))
        entries, names = self._services.database.read(lambda session: self._read(session, wanted))
        older = entries[LINES - 1].id if len(entries) > LINES else None
        return render_template(
            "pages/audit.html",
            form=form,
            entries=entries[:LINES],
            older=older,
            differences=partial(history.differences, names=names),
            link=history.link,
        )

    def _read(self, session: Session, wanted: AuditFilter) -> tuple[Sequence[AuditEntry], Names]:
        entries = audit_log.listing(session, wanted)
        records = [values_of(text) for entry in entries for text in (entry.before, entry.after)]
        return entries, names_in(session, records, visitor(), self._local_times.format)

    def _rows(self, wanted: AuditFilter) -> Iterator[exports.Row]:
        def read(place: int | None, limit: int) -> tuple[list[exports.Row], int | None]:
            asked = replace(wanted, before_id=place, limit=limit)
            audit_entries = self._services.database.read(lambda s: audit_log.listing(s, asked))
            rows: list[exports.Row] = [
                {name: getattr(entry, name) for name in _COLUMNS}
                | {"before": values_of(entry.before), "after": values_of(entry.after)}
                for entry in audit_entries
            ]
            return rows, audit_entries[-1].id if len(audit_entries) == limit else None

        return exports.pages(read)

    def _wanted(self, form: AuditFilterForm) -> AuditFilter:
        return AuditFilter(
            who=form.who.data or None,
            kind=form.kind.data or None,
            name=form.name.data or None,
            since_ms=self._midnight_ms(form.since.data),
            until_ms=self._midnight_ms(form.until.data, days=1),
            before_id=id_argument("before"),
            limit=LINES + 1,
        )

    def _midnight_ms(self, day: date | None, *, days: int = 0) -> int | None:
        """Return when the day that is `days` after `day` begins; None without one or after 9999."""
        if day is None or day > date.max - timedelta(days=days):
            return None
        zone = ZoneInfo(self._services.timezone)
        midnight = datetime.combine(day + timedelta(days=days), time(), zone)
        return int(midnight.timestamp() * 1000)
