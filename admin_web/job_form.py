"""The form of a job: every field of a job file, read into the same value.

What a value may be is `scheduler.job_rules`' business; here its objections find their fields.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flask_babel import gettext, lazy_gettext
from wtforms import BooleanField, Field, HiddenField, SelectField, StringField, TextAreaField

from admin_web import job_words
from admin_web.forms import ConsoleForm
from admin_web.moments import zones
from admin_web.offers import offered
from admin_web.said import said
from scheduler.alarms.policy import AlarmTargets
from scheduler.alarms.webhook_style import STYLES
from scheduler.job_rules import Problem
from scheduler.job_spec import JobSpec
from scheduler.schedule import ScheduleKind

_NUMBER = re.compile(r"-?[0-9]{1,9}")
_NUMBERS = ("concurrency", "timeout", "retries", "retry_delay")
_NO_NUMBER = lazy_gettext("A whole number is asked for.")
#: Which field holds the configuration of a kind of schedule.
_CONF = {"CRON": "cron", "FIX_RATE": "seconds", "FIX_DELAY": "seconds", "AT": "at"}
#: What is asked for and left empty is told in fewer words than a job file's.
_TYPED = frozenset({"name", "handler", "cron", "seconds", "at"})
_HANDLER = ("", lazy_gettext("a handler of the executor"))


class JobForm(ConsoleForm):
    """Asks how a job shall be; choices that depend on the installation come from the view."""

    app = SelectField(lazy_gettext("App"), validate_choice=False)
    name = StringField(lazy_gettext("Name"))
    author = StringField(lazy_gettext("Author"))
    schedule_kind = SelectField(lazy_gettext("Schedule"), validate_choice=False, default="CRON")
    cron = StringField(lazy_gettext("Cron expression"))
    seconds = StringField(lazy_gettext("Seconds"))
    at = StringField(lazy_gettext("Instant"))
    timezone = SelectField(lazy_gettext("Time zone"), validate_choice=False)
    language = SelectField(lazy_gettext("What runs"), validate_choice=False)
    handler = StringField(lazy_gettext("Handler"))
    param = TextAreaField(lazy_gettext("Parameter"))
    route = SelectField(lazy_gettext("Route"), validate_choice=False, default="FIRST")
    block = SelectField(
        lazy_gettext("While one still runs"), validate_choice=False, default="SERIAL_EXECUTION"
    )
    misfire = SelectField(lazy_gettext("Missed times"), validate_choice=False, default="DO_NOTHING")
    delivery = SelectField(
        lazy_gettext("When an executor dies"), validate_choice=False, default="AT_MOST_ONCE"
    )
    concurrency = StringField(lazy_gettext("Runs at the same time"), default="1")
    timeout = StringField(lazy_gettext("Time limit, in seconds"), default="0")
    retries = StringField(lazy_gettext("Retries"), default="0")
    retry_delay = StringField(lazy_gettext("Seconds before a retry"), default="0")
    fresh_process = BooleanField(lazy_gettext("A fresh process for each run"))
    children = TextAreaField(lazy_gettext("Children"))
    emails = StringField(lazy_gettext("Alarm by e-mail"))
    webhook = StringField(lazy_gettext("Alarm by webhook"))
    style = SelectField(lazy_gettext("Style of the webhook"), validate_choice=False)
    enabled = BooleanField(lazy_gettext("Start it at once"))
    seen = HiddenField()

    def offer(self, *, apps: Sequence[str], routes: Sequence[str], zone: str) -> None:
        """Fill in what can be chosen; `zone` is that of jobs that name none."""
        self.app.choices = _with(self.app, [(app, app) for app in apps])
        self.schedule_kind.choices = offered(_named(job_words.SCHEDULE))
        cluster = (("", lazy_gettext("the cluster's: %(zone)s", zone=zone)),)
        self.timezone.choices = _with(
            self.timezone, [*cluster, *((one, one) for one in sorted(zones()))]
        )
        self.language.choices = offered([_HANDLER, *job_words.LANGUAGES.items()])
        known = [*_named(job_words.ROUTE), *((one, one) for one in routes)]
        self.route.choices = _with(self.route, known)
        self.block.choices = offered(_named(job_words.BLOCK))
        self.misfire.choices = offered(_named(job_words.MISFIRE))
        self.delivery.choices = offered(_named(job_words.DELIVERY))
        told = ("", lazy_gettext("as its host tells"))
        self.style.choices = _with(self.style, [told, *((one, one) for one in STYLES)])

    @classmethod
    def values_of(cls, spec: JobSpec) -> dict[str, object]:
        """Return a job as this form shows it."""
        values: dict[str, object] = {
            name: getattr(spec, name)
            for name in ("app", "name", "author", "schedule_kind", "timezone", "handler", "param")
        }
        values |= {name: getattr(spec, name) for name in ("route", "block", "misfire", "delivery")}
        values |= {name: str(getattr(spec, name)) for name in _NUMBERS}
        if spec.schedule_kind in _CONF:
            values[_CONF[spec.schedule_kind]] = spec.schedule_conf
        return values | {
            "language": spec.script_language,
            "fresh_process": spec.fresh_process,
            "children": "\n".join(spec.children),
            "emails": ", ".join(spec.alarm.emails),
            "webhook": spec.alarm.webhook,
            "style": spec.alarm.style,
        }

    @property
    def schedule(self) -> tuple[str, str, str]:
        """The kind of schedule, its configuration, its zone; as they were typed."""
        kind = self.schedule_kind.data or ScheduleKind.NONE.value
        conf = _text(getattr(self, _CONF[kind])) if kind in _CONF else ""
        return kind, conf, self.timezone.data or ""

    def read(self) -> JobSpec:
        """Return the job that was asked for, without a script's source.

        A number that is none is said beside its field, and its default stands for it.
        """
        kind, conf, zone = self.schedule
        language = self.language.data or ""
        numbers: dict[str, Any] = {name: self._number(getattr(self, name)) for name in _NUMBERS}
        return JobSpec(
            app=self.app.data or "",
            name=_text(self.name),
            author=_text(self.author),
            schedule_kind=kind,
            schedule_conf=conf,
            timezone=zone,
            handler="" if language else _text(self.handler),
            script_language=language,
            # Browsers send line ends of two characters.
            param=(self.param.data or "").replace("\r\n", "\n"),
            route=self.route.data or "",
            block=self.block.data or "",
            misfire=self.misfire.data or "",
            delivery=self.delivery.data or "",
            fresh_process=bool(self.fresh_process.data),
            children=tuple(_parts(self.children, "\n")),
            alarm=AlarmTargets(
                emails=tuple(_parts(self.emails, ",")),
                webhook=_text(self.webhook),
                style=self.style.data or "",
            ),
            enabled=bool(self.enabled.data),
            **numbers,
        )

    def object_to(self, problems: Iterable[Problem]) -> None:
        """Show each problem beside its field; above all of them, what has none."""
        for problem in problems:
            field = getattr(self, self._field_of(problem), None)
            words = said(problem.text)
            if field is None:
                self.complain(words)
            elif field.name in _TYPED and not _text(field):
                field.errors = (gettext("Fill this in."),)
            else:
                field.errors = (*field.errors, words)

    def _number(self, field: Field) -> int:
        text = _text(field)
        if not _NUMBER.fullmatch(text):
            field.errors = (_NO_NUMBER,)
            text = str(field.default)
        return int(text)

    def _field_of(self, problem: Problem) -> str:
        if problem.field == "schedule":
            return _CONF.get(self.schedule_kind.data or "", "schedule_kind")
        if problem.field == "script":
            return "language"
        if problem.field == "alarm":
            return next((one for one in ("emails", "style") if one in problem.text), "webhook")
        return problem.field


def _named(advice: Mapping[Any, job_words.Advice]) -> list[tuple[Any, str]]:
    return [(str(value), one.name) for value, one in advice.items()]


def _with(field: Field, choices: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Return choices with the one that is there already, such as a route that was taken away."""
    present = field.data
    if present and present not in {value for value, _ in choices}:
        return offered([*choices, (present, present)])
    return offered(choices)


def _text(field: Field) -> str:
    return (field.data or "").strip()


def _parts(field: Field, separator: str) -> Iterable[str]:
    return (part.strip() for part in (field.data or "").split(separator) if part.strip())
