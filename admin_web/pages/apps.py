"""The pages and the form of apps: their executors and alarm targets."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, PasswordField, RadioField, SelectField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length, Optional, Regexp, ValidationError

from warren.admin_web import exports
from warren.admin_web.exports import ListFiles
from warren.admin_web.forms.console_form import (
    REQUIRED,
    SECRET_HINT,
    ConsoleForm,
    choices_for,
    select_choices,
)
from warren.admin_web.language import job_labels
from warren.admin_web.language.labels import problem_text
from warren.admin_web.pages.alarms import BUTTON, AlarmTests
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.broker.messages import ADDRESS_PATTERN, APP_PATTERN
from warren.scheduler.actor import Right
from warren.scheduler.alarms.addresses import MAX_EMAILS_LENGTH, check_webhook, is_email
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.alarms.message import STYLES
from warren.scheduler.alarms.targets import target_problems
from warren.scheduler.jobs.rules import address_problems, check_app_route, check_title
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.problems import Code, Problem, found
from warren.scheduler.routing.routes import Route
from warren.sql.listings import app_listing, dashboard
from warren.sql.models import App
from warren.sql.registry import apps, pauses
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import state

AUTOMATIC, LISTED = "automatic", "listed"
_SEPARATORS = re.compile(r"[\s,;]+")


class AppForm(ConsoleForm):
    """An app's settings; only NewAppForm asks for the name."""

    title = StringField(
        lazy_gettext("Title"),
        [Optional(), Length(max=64, message=lazy_gettext("A title can have up to 64 characters."))],
    )
    mode = RadioField(
        lazy_gettext("Executors"),
        choices=select_choices(
            [
                (AUTOMATIC, lazy_gettext("all registered executors")),
                (LISTED, lazy_gettext("only these addresses, in this order")),
            ]
        ),
        default=AUTOMATIC,
    )
    addresses = TextAreaField(lazy_gettext("Addresses"))
    route = SelectField(lazy_gettext("Route"), validate_choice=False, default="")
    emails = StringField(lazy_gettext("Alarm e-mail"))
    webhook = StringField(lazy_gettext("Alarm webhook"))
    style = SelectField(
        lazy_gettext("Webhook format"),
        choices=select_choices(
            [("", lazy_gettext("Auto-detect")), *((name, name) for name in STYLES)]
        ),
        default="",
    )
    secret = PasswordField(lazy_gettext("Signing secret"), description=SECRET_HINT)
    webhook_url = StringField(lazy_gettext("Webhook"))
    webhook_when = SelectField(
        lazy_gettext("Call the webhook"),
        choices=select_choices(job_labels.CALL_WHEN.items()),
        default="",
    )

    def set_routes(self, added: Sequence[str]) -> Self:
        """Set the routes to choose from, with those that are installed, and return the form."""
        own = [
            (route, option.name)
            for route, option in job_labels.ROUTE.items()
            if route != Route.SHARDING_BROADCAST
        ]
        self.route.choices = choices_for(self.route, own, added)
        self._added_routes = added
        return self

    def validate_route(self, field: Field) -> None:
        """Refuse a route that no app may have."""
        for problem in found(lambda: check_app_route(field.data or "", self._added_routes)):
            raise ValidationError(problem_text(problem))

    def validate_title(self, field: Field) -> None:
        """Refuse control characters."""
        try:
            check_title(field.data or "")
        except ValueError:
            raise ValidationError(gettext("A title cannot contain control characters.")) from None

    def validate_addresses(self, field: Field) -> None:
        """Refuse a list that is empty, too long, or has duplicates or invalid addresses."""
        if self.mode.data != LISTED:
            return
        listed = parts(field.data)
        if not listed:
            raise ValidationError(gettext("List at least one address."))
        for address in listed:
            if not re.fullmatch(ADDRESS_PATTERN, address):
                raise ValidationError(gettext("Not a valid address: %(text)s", text=address[:100]))
        if any(address_problems(listed)):
            raise ValidationError(gettext("An address is listed twice, or the list is too long."))

    def validate_emails(self, field: Field) -> None:
        """Refuse invalid e-mail addresses."""
        emails = parts(field.data)
        for email in emails:
            if not is_email(email):
                raise ValidationError(
                    gettext("Not a valid e-mail address: %(text)s", text=email[:100])
                )
        if len(",".join(emails)) > MAX_EMAILS_LENGTH:
            raise ValidationError(gettext("Too long."))

    def validate_webhook(self, field: Field) -> None:
        """Refuse a URL that alarms cannot be sent to."""
        _check_webhook(field.data)

    def validate_webhook_url(self, field: Field) -> None:
        """Refuse a URL that ends of runs cannot be sent to."""
        _check_webhook(field.data)

    def validate_webhook_when(self, field: Field) -> None:
        """Refuse a choice without a webhook."""
        if field.data and not self.webhook_url.data:
            raise ValidationError(gettext("Enter the webhook's URL first."))

    def validate_style(self, field: Field) -> None:
        """Refuse a format without a webhook."""
        if field.data and not self.webhook.data:
            raise ValidationError(gettext("A webhook format needs a webhook."))

    def validate_secret(self, field: Field) -> None:
        """Refuse an invalid secret, or one without a webhook that takes it."""
        targets = AlarmTargets(
            webhook=self.webhook.data or "", style=self.style.data or "", secret=field.data or ""
        )
        for problem in target_problems(targets):
            if problem.field == "alarm/secret":
                raise ValidationError(problem_text(problem))

    def spec(self, name: str) -> AppSpec:
        return AppSpec(
            name=name,
            title=self.title.data or name,
            addresses=parts(self.addresses.data) if self.mode.data == LISTED else (),
            route=self.route.data or "",
            alarm=AlarmTargets(
                emails=parts(self.emails.data),
                webhook=self.webhook.data or "",
                style=self.style.data or "",
                secret=self.secret.data or "",
            ),
            webhook=RunWebhook(url=self.webhook_url.data or "", when=self.webhook_when.data or ""),
        )


class NewAppForm(AppForm):
    """A new app's settings, with its name, which cannot be changed later."""

    app_name = StringField(
        lazy_gettext("Name"),
        [
            InputRequired(REQUIRED),
            Regexp(
                rf"^{APP_PATTERN}\Z",
                message=lazy_gettext(
                    "A name has 3 to 64 lower-case letters, digits or hyphens, "
                    "and begins with a letter."
                ),
            ),
        ],
    )


def _check_webhook(url: str | None) -> None:
    try:
        check_webhook(url or "https://example.com")
    except ValueError:
        raise ValidationError(
            gettext("A webhook must be a URL that begins with https:// or http://.")
        ) from None


def parts(text: str | None) -> tuple[str, ...]:
    """Split a text at commas, semicolons, spaces and line ends."""
    return tuple(part for part in _SEPARATORS.split(text or "") if part)


def form_of(app: App) -> AppForm:
    """Return a form with an app's current values."""
    addresses = apps.split(app.address_list)
    return AppForm(
        data={
            "title": app.title,
            "mode": LISTED if app.address_type == apps.MANUAL else AUTOMATIC,
            "addresses": "\n".join(addresses),
            "route": app.route or "",
            "emails": ", ".join(apps.split(app.alarm_email)),
            "webhook": app.alarm_webhook or "",
            "style": app.alarm_style or "",
            "webhook_url": app.webhook_url or "",
            "webhook_when": app.webhook_when or "",
        }
    )


LINES = 50
Form = TypeVar("Form", bound=AppForm)


@dataclass(slots=True)
class AppExecutors:
    """How many executors of an app are online, and how many are offline without signing off."""

    online: int = 0
    offline: int = 0

    def badge(self, jobs: int) -> tuple[str, str]:
        """Return the tone and the icon of its badge, for an app with this many jobs."""
        if not self.online:
            return ("bad", "cross") if jobs else ("quiet", "ring")
        return ("warn", "triangle") if self.offline else ("good", "check")


class AppPages:
    """Users who have an app see it; administrators change it."""

    name = "apps"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._tests = AlarmTests(services)

    @route("/apps", Right.VIEW)
    def index(self) -> str | Response:
        if exports.is_asked():
            return ListFiles(self._services).apps(visitor().app_ids)
        rows, executors, paused = self._services.database.read(self._read)
        return render_template(
            "pages/apps.html",
            rows=rows[:LINES],
            executors=executors,
            next=rows[LINES - 1][0].name if len(rows) > LINES else None,
            split=apps.split,
            paused=paused,
        )

    @route("/apps/new", Right.ADMINISTER)
    def new(self) -> str:
        return render_template(
            "pages/apps_edit.html", form=self._with_routes(NewAppForm()), app=None
        )

    @route("/apps/add", Right.ADMINISTER, methods=("POST",), form="apps.new")
    def create(self) -> Response | tuple[str, int]:
        form = self._with_routes(NewAppForm(request.form))
        if form.validate():
            try:
                self._services.commands(visitor().actor).apps.add(
                    form.spec(form.app_name.data or "")
                )
            except Problem as problem:
                if problem.code is Code.APP_NAME_TAKEN:
                    form.app_name.errors = (gettext("This app name is taken."),)
                elif problem.code is Code.APP_NAME_RESERVED:
                    form.app_name.errors = (problem_text(problem),)
                else:
                    raise
            else:
                flash(gettext("App %(name)s created.", name=form.app_name.data))
                return redirect(url_for("apps.index"), 303)
        return render_template("pages/apps_edit.html", form=form, app=None), 422

    @route("/apps/<id:app_id>", Right.ADMINISTER)
    def edit(self, app_id: int) -> str:
        app = self._find(app_id)
        form = self._with_routes(form_of(app))
        return render_template("pages/apps_edit.html", form=form, app=app)

    @route("/apps/<id:app_id>/change", Right.ADMINISTER, methods=("POST",))
    def change(self, app_id: int) -> Response | tuple[str, int]:
        app = self._find(app_id)
        form = self._with_routes(AppForm(request.form))
        if BUTTON in request.form:
            return self._test(form, app), 200
        if not form.validate():
            return render_template("pages/apps_edit.html", form=form, app=app), 422
        changed = self._services.commands(visitor().actor).apps.change(app_id, form.spec(app.name))
        flash(gettext("Saved.") if changed else gettext("Nothing to save."))
        return redirect(url_for("apps.edit", app_id=app_id), 303)

    @route("/apps/<id:app_id>/delete", Right.ADMINISTER, methods=("POST",))
    def delete(self, app_id: int) -> Response | tuple[str, int]:
        """Delete an app that is no longer used."""
        app = self._find(app_id)
        try:
            self._services.commands(visitor().actor).apps.delete(app_id)
        except Problem as problem:
            if problem.code is not Code.APP_IN_USE:
                raise
            form = self._with_routes(form_of(app))
            form.add_error(_refusal(problem.facts))
            return render_template("pages/apps_edit.html", form=form, app=app), 409
        flash(gettext("App %(name)s deleted.", name=app.name))
        return redirect(url_for("apps.index"), 303)

    def _test(self, form: AppForm, app: App) -> str:
        """Send a test to a target that was typed; show the form with the outcome."""
        typed = form.spec(app.name)
        problems = self._tests.send_typed(
            form,
            typed.alarm,
            typed.webhook,
            lambda commands, targets, webhook: commands.test_app(app.id, targets, webhook),
        )
        for problem in problems:
            form.add_error(problem_text(problem))
        return render_template("pages/apps_edit.html", form=form, app=app)

    def _with_routes(self, form: Form) -> Form:
        return form.set_routes(self._services.added_routes)

    def _read(
        self, session: Session
    ) -> tuple[list[tuple[App, int]], dict[str, AppExecutors], dict[int, ShownPause]]:
        app_ids, now_ms = visitor().app_ids, self._services.now_ms()
        after = request.args.get("after", "")[:64]
        rows = app_listing.listing(session, app_ids, after=after, limit=LINES + 1)
        executors: dict[str, AppExecutors] = defaultdict(AppExecutors)
        for row in dashboard.executors(session, app_ids):
            if state(row, now_ms).is_online:
                executors[row.app].online += 1
            else:
                executors[row.app].offline += 1
        held = pauses.in_force(session, now_ms, app_ids)
        return rows, executors, {pause.app_id: pause for pause in held}

    def _find(self, app_id: int) -> App:
        return self._services.database.read(lambda session: app_listing.by_id(session, app_id))


def _refusal(use: Mapping[str, Any]) -> str:
    """Return in words why an app cannot be deleted."""
    if use["job_count"]:
        names = ", ".join(use["jobs"]) + (" …" if use["job_count"] > len(use["jobs"]) else "")
        return str(
            gettext(
                "This app still has jobs (%(count)s): %(names)s. Delete them first.",
                count=use["job_count"],
                names=names,
            )
        )
    if use["executors"]:
        names = ", ".join(use["executors"])
        return str(
            gettext(
                "Executors of this app are still online: %(names)s. Stop them first.", names=names
            )
        )
    return str(
        gettext("This app still has unfinished runs. Wait for them to finish, or kill them.")
    )
