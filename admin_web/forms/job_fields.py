"""The form of a job: every field of a job file, read into the same value.

`warren.scheduler.jobs.rules` checks the values; this form shows the problems beside their fields.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from flask_babel import LazyString, gettext, lazy_gettext
from wtforms import (
    BooleanField,
    HiddenField,
    PasswordField,
    SelectField,
    StringField,
    TextAreaField,
)
from wtforms.fields.choices import SelectChoice  # type: ignore[attr-defined] # types are older

from warren.admin_web.flows import TypedFlow
from warren.admin_web.forms.console_form import (
    SECRET_HINT,
    ConsoleForm,
    choices_for,
    read_value,
    select_choices,
    shown,
    text_of,
)
from warren.admin_web.forms.param_form import ParamInput
from warren.admin_web.language import job_labels
from warren.admin_web.language.labels import problem_text
from warren.admin_web.local_times import zones
from warren.scheduler.alarms.message import STYLES
from warren.scheduler.jobs.spec import FIELDS, Choice, JobSpec, Line, Number, Share, Texts
from warren.scheduler.jobs.spec import Field as JobField
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.options import OPTIONS, ScheduleOptions
from warren.scheduler.schedules.registry import CronSchedule, shown_as
from warren.scheduler.schedules.schedule import ValueForm
from warren.sql.models.job_tables import NO_SCHEDULE

#: The form field for the value of a schedule.
_VALUE_FIELDS = {
    ValueForm.EXPRESSION: "cron",
    ValueForm.SECONDS: "seconds",
    ValueForm.INSTANT: "at",
    ValueForm.WORKDAY: "workday",
}
#: Fields that say "Required." when they are empty, instead of a job file's longer message.
_TYPED = frozenset({"name", "handler", "cron", "seconds", "at", "workday"})
#: The job type of a flow, beside the languages of scripts.
FLOW = "FLOW"
_HANDLER = ("", lazy_gettext("Handler (in the executor)"))
#: Names that WTForms uses itself: it calls a form's `process` when it creates one.
_TAKEN = {"process": "process_use"}
#: The declared fields in the form, by the names of the form's fields.
FORM_FIELDS: Mapping[str, JobField] = {
    item.key if item.kind.group in ("script", "alarm") else _TAKEN.get(name, name): item
    for name, item in FIELDS.items()
    if name not in ("schedule_value", "schedule_options", "script_source", "script_remark", "flow")
}


def _field(
    name: str, label: LazyString | str = "", hint: LazyString | str = "", **look: str
) -> Any:
    """Return the form field for a declared field, with its default; its label may be its title."""
    declared = FORM_FIELDS[name]
    kind, default = declared.kind, declared.default
    label = label or declared.title.capitalize()
    if isinstance(kind, Choice):
        return SelectField(
            label, validate_choice=False, default=default, description=hint, name=declared.name
        )
    if isinstance(kind, Texts):
        default = ", ".join(default)
    if isinstance(kind, Number):
        look, default = look | {"inputmode": "numeric"}, str(default)
    if isinstance(kind, Share):
        look, default = look | {"inputmode": "decimal"}, f"{default:g}"
    if isinstance(kind, Line):
        look |= {"maxlength": str(kind.longest)}
    return StringField(label, default=default, description=hint, render_kw=look)


class JobForm(ConsoleForm):
    """The fields of a job; the view sets the choices that depend on the installation."""

    app = SelectField(lazy_gettext("App"), validate_choice=False)
    name = _field("name", lazy_gettext("Name"), autocomplete="off")
    author = _field("author", lazy_gettext("Author"))
    tags = StringField(
        lazy_gettext("Tags"),
        description=lazy_gettext("Tags, separated by commas."),
    )
    schedule_kind = SelectField(
        lazy_gettext("Schedule"), validate_choice=False, default=CronSchedule.kind
    )
    cron = StringField(lazy_gettext("Cron expression"))
    seconds = StringField(lazy_gettext("Seconds"))
    at = StringField(lazy_gettext("Time"))
    workday = StringField(
        lazy_gettext("Working day and time"),
        description=lazy_gettext(
            "3 18:30 = the third of each month at 18:30; -1 18:30 = the last one."
        ),
    )
    calendar = SelectField(lazy_gettext("Calendar"), validate_choice=False, default="")
    on_holiday = SelectField(
        lazy_gettext("On a day off"),
        choices=select_choices(job_labels.ON_HOLIDAY.items()),
        validate_choice=False,
        default="",
    )
    window = StringField(
        lazy_gettext("Window"),
        description=lazy_gettext("Only due times in this window count, such as 08:00-20:00."),
    )
    jitter = StringField(
        lazy_gettext("Jitter of due times"),
        description=lazy_gettext(
            "Each run begins up to this much later, such as 5m; every scheduler agrees on when."
        ),
    )
    gap = SelectField(
        lazy_gettext("Times skipped by a clock change"),
        choices=select_choices(job_labels.GAPS.items()),
        validate_choice=False,
        default="",
    )
    begin = StringField(
        lazy_gettext("From"),
        description=lazy_gettext("The first day, or day and time: 2026-12-01 or 2026-12-01T08:00."),
    )
    until = StringField(
        lazy_gettext("Until"), description=lazy_gettext("The last day, or day and time.")
    )
    timezone = SelectField(lazy_gettext("Time zone"), validate_choice=False)
    run_date_days = _field(
        "run_date_days",
        lazy_gettext("Run date, in days"),
        lazy_gettext("-1 = the day before that of the due time."),
    )
    run_date_months = _field(
        "run_date_months",
        lazy_gettext("Run date, in months"),
        lazy_gettext("-1 = the month before; applied before the days."),
    )
    run_date_workdays = _field(
        "run_date_workdays",
        lazy_gettext("Run date, in working days"),
        lazy_gettext("-1 = the working day before; applied last."),
    )
    run_date_calendar = _field(
        "run_date_calendar",
        lazy_gettext("Calendar of the run date"),
        lazy_gettext("For these working days, and for workdays(…) in the template."),
    )
    language = SelectField(lazy_gettext("Job type"), validate_choice=False)
    handler = _field(
        "handler",
        lazy_gettext("Handler"),
        lazy_gettext("The name in @job(…) or in the executor's file."),
    )
    script = TextAreaField(
        lazy_gettext("Script"),
        description=lazy_gettext("If empty, the job gets a small example to start from."),
    )
    flow = TextAreaField(
        lazy_gettext("Flow"),
        description=lazy_gettext(
            "One line per node: the job that it runs, and the nodes that it runs after. "
            "For example load: {job: load, after: extract}"
        ),
    )
    param = TextAreaField(lazy_gettext("Parameter"))
    param_template = TextAreaField(
        lazy_gettext("Parameter template"),
        description=lazy_gettext(
            "Builds the parameter of each run instead, for example "
            "--day {{ run_date }} --month {{ months(run_date, -1) | format('%Y%m') }}."
        ),
    )
    route = _field("route", lazy_gettext("Route"))
    block = _field("block", lazy_gettext("If still running"))
    misfire = _field("misfire", lazy_gettext("Missed runs"))
    late_limit = _field(
        "late_limit",
        lazy_gettext("Late limit, in seconds"),
        lazy_gettext(
            "A run that is at most this late starts as usual. Later, it counts as missed."
        ),
    )
    catch_up_within = _field(
        "catch_up_within",
        lazy_gettext("Catch up, in seconds"),
        lazy_gettext("How far back missed runs are caught up. 86400 = one day."),
    )
    catch_up_most = _field(
        "catch_up_most",
        lazy_gettext("Catch up at most"),
        lazy_gettext("How many of the newest missed runs are caught up."),
    )
    delivery = _field("delivery", lazy_gettext("Delivery"))
    concurrency = _field(
        "concurrency",
        lazy_gettext("Max concurrent runs"),
        lazy_gettext("Counted as chosen below. Further runs are handled as chosen above."),
    )
    scope = _field("scope", lazy_gettext("Concurrent runs are counted"))
    limits = StringField(
        lazy_gettext("Limits"),
        description=lazy_gettext(
            "Names of limits that jobs share, separated by commas; partner-api:2 takes two."
        ),
    )
    priority = _field("priority", lazy_gettext("Priority"))
    max_waiting = _field(
        "max_waiting",
        lazy_gettext("Max waiting runs"),
        lazy_gettext(
            "Beyond that, scheduled runs are skipped and triggers refused. 0 = no maximum."
        ),
    )
    timeout = _field(
        "timeout",
        lazy_gettext("Timeout, in seconds"),
        lazy_gettext("0 = no timeout. On timeout the job and its child processes are killed."),
    )
    retries = _field("retries", lazy_gettext("Retries"))
    retry_delay = _field("retry_delay", lazy_gettext("Retry delay, in seconds"))
    retry_backoff = _field("retry_backoff", lazy_gettext("Backoff"))
    retry_most = _field(
        "retry_most",
        lazy_gettext("Longest retry delay, in seconds"),
        lazy_gettext("For an exponential backoff. 0 = one day."),
    )
    retry_jitter = _field(
        "retry_jitter",
        lazy_gettext("Jitter"),
        lazy_gettext("From 0 to 1: how much of each retry delay is random."),
    )
    process_use = _field("process_use", lazy_gettext("Process"))
    children = TextAreaField(lazy_gettext("Children"))
    emails = StringField(
        lazy_gettext("Alarm e-mail"),
        description=lazy_gettext(
            "Separate addresses with commas. If empty, those of the app or the cluster are used."
        ),
    )
    webhook = StringField(lazy_gettext("Alarm webhook"), render_kw={"autocomplete": "off"})
    style = SelectField(lazy_gettext("Webhook format"), validate_choice=False)
    secret = PasswordField(
        lazy_gettext("Signing secret"),
        description=SECRET_HINT,
        render_kw={"autocomplete": "new-password"},
    )
    webhook_url = StringField(
        lazy_gettext("Webhook"),
        description=lazy_gettext(
            "Called when a run has ended, after its last retry. If empty, the app's is used."
        ),
        render_kw={"autocomplete": "off"},
    )
    webhook_when = SelectField(
        lazy_gettext("Call the webhook"),
        choices=select_choices(job_labels.CALL_WHEN.items()),
        validate_choice=False,
        default="",
    )
    expect = StringField(
        lazy_gettext("Expectations"),
        description=lazy_gettext(
            "For example start_within: 5m, finish_by: 07:00, longest: 3 x usual, "
            "success_every: 26h. A broken expectation opens an incident and raises an alarm."
        ),
        render_kw={"autocomplete": "off", "spellcheck": "false"},
    )
    enabled = BooleanField(lazy_gettext("Enable now"))
    seen = HiddenField()

    #: How `param` is shown; the view sets it.
    params = ParamInput(form=None, text="")
    #: The parsed text of the flow; the view sets it if the job is a flow.
    typed_flow: TypedFlow | None = None
    #: The fields under "Where and how", "When it fails", "Run date", "Calendar and window" and
    #: "On completion".
    execution_fields = (
        *("route", "block", "concurrency", "scope", "limits", "priority", "max_waiting"),
        *("timeout", "process_use"),
    )
    failure_fields = (
        *("retries", "retry_delay", "retry_backoff", "retry_most", "retry_jitter"),
        *("delivery", "emails", "webhook", "style", "secret"),
    )
    date_fields = (
        *("run_date_days", "run_date_months", "run_date_workdays", "run_date_calendar"),
        "param_template",
    )
    option_fields = tuple(OPTIONS.values())
    end_fields = ("webhook_url", "webhook_when")
    expect_fields = ("expect",)
    #: Declared fields without a place above; they are labelled by their titles.
    other_fields: tuple[str, ...] = ()

    def set_choices(
        self,
        *,
        apps: Sequence[str],
        routes: Sequence[str],
        zone: str,
        types: Collection[str],
        calendars: Sequence[str],
    ) -> None:
        """Set the choices; `zone` is that of jobs that name none, `types` are the job types."""
        none = ("", lazy_gettext("none"))
        self.calendar.choices = choices_for(self.calendar, [none], calendars)
        self.app.choices = choices_for(self.app, (), apps)
        cluster = ("", lazy_gettext("cluster default: %(zone)s", zone=zone))
        self.timezone.choices = choices_for(self.timezone, [cluster], sorted(zones()))
        kinds = [(FLOW, job_labels.FLOW), *job_labels.LANGUAGES.items()]
        self.language.choices = select_choices(
            [_HANDLER, *((kind, name) for kind, name in kinds if kind in types)]
        )
        for name, item in FORM_FIELDS.items():
            if isinstance(item.kind, Choice):
                field: Any = self[name]
                named = job_labels.OPTIONS.get(item.name, {})
                others = [one for one in (item.default, *item.kind.known) if one not in named]
                added = routes if name == "route" else ()
                field.choices = choices_for(field, job_labels.choices(named), (*others, *added))
        # Each choice names the field for its value.
        self.schedule_kind.choices = [
            SelectChoice(kind, words, {"data-asks": _value_field(kind)})
            for kind, words in job_labels.choices(job_labels.SCHEDULE)
        ]
        auto_detect = ("", lazy_gettext("Auto-detect"))
        self.style.choices = choices_for(self.style, [auto_detect], STYLES)

    @classmethod
    def values_of(cls, spec: JobSpec) -> dict[str, object]:
        """Return a job's values for this form, except `enabled`: a copy starts out stopped."""
        values = {name: shown(getattr(spec, item.name)) for name, item in FORM_FIELDS.items()}
        if name := _value_field(spec.schedule_kind):
            values[name] = spec.schedule_value
        values |= {name: getattr(spec.schedule_options, name) for name in OPTIONS.values()}
        del values["enabled"]
        for name, item in FORM_FIELDS.items():
            if isinstance(item.kind, Texts) and name != "children":
                values[name] = ", ".join(getattr(spec, item.name))
        return values

    @property
    def is_flow(self) -> bool:
        return bool(self.language.data == FLOW)

    @property
    def script_source(self) -> str:
        """The script without carriage returns; empty if there is none."""
        source = (self.script.data or "").replace("\r\n", "\n")
        return source if source.strip() else ""

    @property
    def schedule(self) -> tuple[str, str, str]:
        """The schedule's kind, value and zone, as they were typed."""
        kind = self.schedule_kind.data or NO_SCHEDULE
        name = _value_field(kind)
        return kind, text_of(getattr(self, name)) if name else "", self.timezone.data or ""

    @property
    def set_options(self) -> list[str]:
        """The fields of options that are set."""
        return [name for name in self.option_fields if text_of(self[name])]

    @property
    def options(self) -> ScheduleOptions:
        """The options of the schedule, as they were typed."""
        return ScheduleOptions.of({key: text_of(self[OPTIONS[key]])[:100] for key in OPTIONS})

    def read(self) -> JobSpec:
        """Return the job in this form, without its script.

        An invalid number is shown beside its field, and replaced by its default.
        """
        kind, value, zone = self.schedule
        values = {item.name: read_value(self[name], item) for name, item in FORM_FIELDS.items()}
        values |= {"schedule_kind": kind, "schedule_value": value, "timezone": zone}
        values["schedule_options"] = self.options
        if values["script_language"]:
            values["handler"] = ""
        if self.is_flow:
            values |= {"script_language": "", "flow": self.typed_flow and self.typed_flow.graph}
        return JobSpec(**values)

    def show_problems(self, problems: Iterable[Problem]) -> None:
        """Show each problem beside its field, or above the form if it has none."""
        for problem in self.params.show(problems):
            field = getattr(self, self._field_of(problem), None)
            words = problem_text(problem)
            if field is self.flow and self.typed_flow:
                words = self.typed_flow.at_line(problem).text
            if field is None:
                self.add_error(words)
            elif field.name in _TYPED and not text_of(field):
                field.errors = (gettext("Required."),)
            else:
                field.errors = (*field.errors, words)

    def _field_of(self, problem: Problem) -> str:
        whole, _, part = problem.field.partition("/")
        if whole == "script":
            return "language"
        if whole == "flow":
            return whole
        if whole == "webhook" or f"{whole}_{part}" in FORM_FIELDS:
            return f"{whole}_{part}"
        if whole in ("expect", "param"):
            return whole
        if problem.field == "schedule":
            return _value_field(self.schedule_kind.data or NO_SCHEDULE) or "schedule_kind"
        return OPTIONS.get(part, part) or _TAKEN.get(whole, whole)


JobForm.other_fields = tuple(name for name in FORM_FIELDS if not hasattr(JobForm, name))
for _name in JobForm.other_fields:
    setattr(JobForm, _name, _field(_name))


def _value_field(kind: str) -> str:
    """Return the name of the form field for the value of a kind of schedule, if any."""
    return _VALUE_FIELDS.get(shown_as(kind).value_form, "")
