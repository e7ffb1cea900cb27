"""What runs wait for: the limits that jobs share, and the due runs that are not sent yet."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, StringField, ValidationError
from wtforms.validators import InputRequired, Optional, Regexp

from warren.admin_web.forms.console_form import REQUIRED, AppFilterForm, ConsoleForm
from warren.admin_web.forms.run_filter import place_of
from warren.admin_web.language.labels import problem_text
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import Visitor, visitor
from warren.broker.durations import seconds_of, whole_seconds
from warren.broker.reasons import Reason
from warren.scheduler.actor import Right
from warren.scheduler.limits import LimitSpec
from warren.scheduler.limits import problems as limit_problems
from warren.scheduler.problems import Problem, Refused
from warren.scheduler.views import blockers, limit_view
from warren.sql import limits
from warren.sql.errors import LookupFailed
from warren.sql.registry.apps import ids_by_name
from warren.sql.runs.run_rows import DetailedRun

_DIGITS = r"^[0-9]{1,9}\Z"
_NUMBER = Regexp(_DIGITS, message=lazy_gettext("Enter a whole number."))


class LimitForm(ConsoleForm):
    """The fields of a limit; the rules for them are those of the command."""

    limit_name = StringField(lazy_gettext("Name"), [InputRequired(REQUIRED)])
    at_once = StringField(lazy_gettext("At once"), [Optional(), _NUMBER])
    rate = StringField(lazy_gettext("Rate"), [Optional(), _NUMBER])
    per = StringField(lazy_gettext("Per"), [Optional()])

    def validate_per(self, field: Field) -> None:
        """Reject durations that are not whole seconds."""
        if whole_seconds(field.data or "") is None:
            raise ValidationError(gettext("Enter a duration such as 30s, 1m or 1h."))

    @property
    def spec(self) -> LimitSpec:
        """The limit in this form; 1 stands for what cannot be read, which has an error."""
        return LimitSpec(
            name=(self.limit_name.data or "").strip(),
            at_once=_read(self.at_once, _whole),
            rate=_read(self.rate, _whole),
            per=_read(self.per, whole_seconds),
        )

    def show(self, problems: Iterable[Problem]) -> None:
        """Show each problem beside its field, unless that has an error, or above the fields."""
        wrong = {name for name, field in self._fields.items() if field.errors}
        for problem in problems:
            name = "limit_name" if problem.field == "name" else problem.field
            if name not in self._fields:
                self.add_error(problem_text(problem))
            elif name not in wrong:
                field = self[name]
                field.errors = [*field.errors, problem_text(problem)]


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(_DIGITS, text) else None


def _read(field: Field, read: Callable[[str], int | None]) -> int | None:
    """Return the number in a field, 1 if there is something else, None if it is empty."""
    text = (field.data or "").strip()
    return (read(text) or (1 if field.errors else 0)) if text else None


class LimitPages:
    """Everybody sees the limits; administrators change them."""

    name = "limits"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/limits", Right.VIEW)
    def index(self) -> str:
        """Show the limits by name, and the form that adds or changes one."""
        return self._page(LimitForm())

    @route("/limits/save", Right.ADMINISTER, methods=("POST",))
    def save(self) -> Response | tuple[str, int]:
        """Add a limit, or change the one of that name."""
        form = LimitForm(request.form)
        if not form.validate():
            form.show(limit_problems(form.spec))
            return self._page(form), 422
        try:
            self._services.commands(visitor().actor).limits.apply(form.spec)
        except Refused as refused:
            form.show(refused.problems)
            return self._page(form), 422
        flash(gettext("Saved."))
        return redirect(url_for("limits.index"), 303)

    @route("/limits/<limit>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, limit: str) -> Response:
        """Delete a limit that no job names and no run holds."""
        try:
            self._services.commands(visitor().actor).limits.delete(limit)
        except LookupFailed:
            raise
        except Refused as refused:
            flash(problem_text(refused.problems[0]), "error")
        else:
            flash(gettext("Limit %(name)s deleted.", name=limit))
        return redirect(url_for("limits.index"), 303)

    def _page(self, form: LimitForm) -> str:
        now_ms, actor = self._services.now_ms(), visitor().actor
        views = self._services.database.read(
            lambda session: limit_view.read(session, actor, now_ms=now_ms)
        )
        return render_template("pages/limits.html", form=form, limits=views, seconds_of=seconds_of)


LINES = 100


class WaitingRun(NamedTuple):
    """A run, and what it waits for; nothing = it is about to be sent."""

    run: DetailedRun
    waits_for: list[Reason]


class QueuePages:
    """The queue of the visitor's apps."""

    name = "queue"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._times = LocalTimes(services.cluster_zone, services.now_ms)

    @route("/queue", Right.VIEW)
    def index(self) -> str:
        """Show due runs that are not sent yet, the longest waiting first."""
        form, known = AppFilterForm(request.args), visitor()
        waiting = self._services.database.read(lambda session: self._read(session, known, form))
        last = waiting[LINES - 1].run if len(waiting) > LINES else None
        return render_template(
            "pages/queue.html",
            form=form,
            waiting=waiting[:LINES],
            further=f"{last.due_at}-{last.id}" if last else "",
        )

    def _read(self, session: Session, known: Visitor, form: AppFilterForm) -> list[WaitingRun]:
        now_ms = self._services.now_ms()
        app_ids = ids_by_name(session, known.app_ids)
        form.set_apps(app_ids)
        place = place_of(request.args.get("after"))
        rows = limits.queue(
            session,
            [app_ids.get(form.app.data, 0)] if form.app.data else known.app_ids,
            None,
            now_ms=now_ms,
            most=LINES + 1,
            after=(place[0], place[1]) if place else None,
        )
        waits = limit_view.waits_for(session, rows, known.actor, now_ms=now_ms)
        why = blockers.read(session, known.app_ids, now_ms=now_ms, format_time=self._times.format)
        return [WaitingRun(run, waits.get(run.id) or why.of_job(run.app or "")) for run in rows]
