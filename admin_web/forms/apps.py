"""The form of an app, and the rules of its fields."""

import re

from flask_babel import gettext, lazy_gettext
from wtforms import Field, PasswordField, RadioField, SelectField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length, Optional, Regexp, ValidationError

from warren.admin_web.forms.console_form import REQUIRED, SECRET_HINT, ConsoleForm, select_choices
from warren.admin_web.language import job_labels
from warren.admin_web.language.labels import problem_text
from warren.broker.messages.values import ADDRESS_PATTERN, APP_PATTERN
from warren.scheduler.alarms.channels.mail_server import MAX_EMAILS_LENGTH, is_email
from warren.scheduler.alarms.channels.message import STYLES
from warren.scheduler.alarms.channels.webhook_url import check_webhook
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.alarms.targets import target_problems
from warren.scheduler.jobs.rules import check_addresses, check_title
from warren.scheduler.jobs.spec import AppSpec
from warren.scheduler.routing.routes import Route
from warren.sql.models import App
from warren.sql.registry import apps

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
    route = SelectField(
        lazy_gettext("Route"),
        choices=select_choices(
            (route, option.name)
            for route, option in job_labels.ROUTE.items()
            if route != Route.SHARDING_BROADCAST
        ),
        validate_choice=False,
        default="",
    )
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

    def validate_title(self, field: Field) -> None:
        """Refuse control characters."""
        try:
            check_title(field.data or "")
        except ValueError:
            raise ValidationError(gettext("A title cannot have control characters.")) from None

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
        try:
            check_addresses(listed)
        except ValueError:
            raise ValidationError(
                gettext("An address is listed twice, or the list is too long.")
            ) from None

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
        """Refuse what is no secret, or one without a webhook that takes it."""
        targets = AlarmTargets(
            webhook=self.webhook.data or "", style=self.style.data or "", secret=field.data or ""
        )
        for problem in target_problems(targets):
            if problem.field == "alarm/secret":
                raise ValidationError(problem_text(problem))

    def spec(self, name: str) -> AppSpec:
        """Return the valid form as an app with this name."""
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
