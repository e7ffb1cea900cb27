"""Edits one field of many jobs: choose it, see what changes in each, save, and undo it."""

import re
from collections.abc import Mapping, Sequence

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from werkzeug.wrappers import Response
from wtforms import SelectField, StringField, TextAreaField

from warren.admin_web.forms.console_form import ConsoleForm, select_choices
from warren.admin_web.forms.job_fields import FORM_FIELDS, JobForm
from warren.admin_web.language import job_labels
from warren.admin_web.language.labels import problem_text
from warren.admin_web.pages.bulk import (
    ChosenJobs,
    chosen_jobs,
    is_about_all,
    list_url,
    sent_filter,
    ticked_ids,
)
from warren.admin_web.pages.job_pages import shown_setting
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import LARGEST, route
from warren.admin_web.visitors import visitor
from warren.resources.jobs import EditedField, EditMode
from warren.scheduler.actor import Right
from warren.scheduler.commands.field_edits import (
    MAX_EDITED,
    FieldEdit,
    FieldEditCommands,
    JobEdit,
)
from warren.scheduler.jobs.spec import FIELDS
from warren.scheduler.problems import Problem, Refused

Page = Response | str | tuple[str, int]
_SEEN = re.compile(r"([0-9]{1,16}):([0-9a-f]{32})")
_FORM_NAMES = {item.name: name for name, item in FORM_FIELDS.items()}
#: The choices of a list: the whole of it, or a part.
_MODES = {
    EditMode.ADD: lazy_gettext("%(field)s: add"),
    EditMode.REMOVE: lazy_gettext("%(field)s: remove"),
}


class FieldEditForm(ConsoleForm):
    """Asks which field gets which value; a param may have lines, and a route is chosen."""

    field = SelectField(lazy_gettext("Field"), validate_choice=False)
    value = StringField(lazy_gettext("Value"))
    param = TextAreaField(lazy_gettext("Parameter"))
    route = SelectField(lazy_gettext("Route"), validate_choice=False)

    def set_choices(self, added_routes: Sequence[str]) -> None:
        """Set the fields and the routes to choose from."""
        routes = [*job_labels.choices(job_labels.ROUTE), *((name, name) for name in added_routes)]
        self.route.choices = select_choices(routes)
        self.field.choices = select_choices(
            (f"{field}:{mode}", words)
            for field in EditedField
            for mode, words in _modes(field).items()
        )

    @property
    def edit(self) -> FieldEdit:
        """What was asked for.

        Raises:
            Problem: the value is none of the field.

        """
        name, _, mode = str(self.field.data or "").partition(":")
        if name not in [*EditedField] or mode not in [*EditMode]:
            abort(400)
        own = {EditedField.PARAM: self.param, EditedField.ROUTE: self.route}
        text = str(own.get(EditedField(name), self.value).data or "")
        text = text.replace("\r\n", "\n") if name == EditedField.PARAM else text.strip()
        return FieldEdit.read(EditedField(name), text, EditMode(mode))


def _modes(field: EditedField) -> Mapping[EditMode, str]:
    label = field_label(field)
    more = _MODES if field in (EditedField.TAGS, EditedField.ALARM_EMAILS) else {}
    return {EditMode.SET: label} | {
        mode: str(words) % {"field": label} for mode, words in more.items()
    }


def field_label(name: str) -> str:
    """Return the name of a field as the form of a job has it."""
    return str(JobForm()[_FORM_NAMES[name]].label.text)


class JobEditPages:
    """Edits many jobs of the visitor's apps at once."""

    name = "job_edits"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/jobs/edit", Right.OPERATE)
    def ask(self) -> Page:
        """Ask for the field and its value; the jobs are in the URL, as a sign-in may come first."""
        chosen = ChosenJobs(ticked_ids(), is_all=True)
        if is_about_all():
            found = chosen_jobs(self._services)
            is_all = found.is_all and len(found.job_ids) <= MAX_EDITED
            chosen = ChosenJobs(found.job_ids[:MAX_EDITED], is_all)
        if not chosen.job_ids:
            flash(gettext("No job was selected."), "error")
            return redirect(list_url("jobs.index"), 303)
        return self._page(self._form(), chosen.job_ids, is_all=chosen.is_all)

    @route("/jobs/edit/preview", Right.OPERATE, methods=("POST",), form="job_edits.ask")
    def preview(self) -> Page:
        """Show what changes in each job, or all that is wrong."""
        form, job_ids = self._form(), [*_sent_jobs()]
        try:
            edits = self._commands.preview(job_ids, form.edit)
        except Refused as refused:
            return self._page(form, job_ids, faults=refused.problems), 422
        return self._page(form, job_ids, edits=edits)

    @route("/jobs/edit/save", Right.OPERATE, methods=("POST",), form="job_edits.ask")
    def save(self) -> Page:
        """Save what was shown, unless a job has changed since."""
        form, seen = self._form(), _sent_jobs()
        try:
            edited = self._commands.apply([*seen], form.edit, seen=seen)
        except Refused as refused:
            return self._page(form, [*seen], faults=refused.problems), 422
        if not edited.id:
            flash(gettext("Nothing to change: these jobs are already set that way."))
            return redirect(url_for("jobs.index"), 303)
        return redirect(url_for("job_edits.done", edit=edited.id), 303)

    @route("/jobs/edit/done", Right.OPERATE)
    def done(self) -> Page:
        """Show what was changed, with the button that undoes it."""
        edit_id = request.args.get("edit", type=int) or 0
        try:
            past = self._commands.find(edit_id if 0 < edit_id <= LARGEST else 0)
        except Problem:
            abort(404)
        return render_template(
            "pages/job_edits_done.html",
            past=past,
            label=field_label(past.field) if past.field else "",
        )

    @route("/jobs/edit/undo", Right.OPERATE, methods=("POST",), form="job_edits.done")
    def undo(self) -> Page:
        """Give jobs their values of before, and name those that were edited since."""
        edit_id = request.form.get("edit", type=int) or 0
        try:
            undone = self._commands.undo(edit_id if 0 < edit_id <= LARGEST else 0)
        except Problem:
            abort(404)
        for name, why in undone.left:
            flash(f"{name}: {problem_text(why)}", "warning")
        if not undone.id:
            flash(gettext("Nothing was undone."), "error")
        return redirect(url_for("job_edits.done", edit=undone.id or edit_id), 303)

    @property
    def _commands(self) -> FieldEditCommands:
        return self._services.commands(visitor().actor).field_edits

    def _form(self) -> FieldEditForm:
        form = FieldEditForm(request.form)
        form.set_choices(self._services.added_routes)
        return form

    def _page(
        self,
        form: FieldEditForm,
        job_ids: Sequence[int],
        *,
        is_all: bool = True,
        edits: Sequence[JobEdit] | None = None,
        faults: Sequence[Problem] = (),
    ) -> str:
        known = {} if edits is None else {each.job_id: each.version for each in edits}
        changing = [each for each in edits or () if each.words]
        return render_template(
            "pages/job_edits.html",
            form=form,
            count=len(job_ids),
            is_all=is_all,
            seen=",".join(f"{job_id}:{known.get(job_id, '0' * 32)}" for job_id in job_ids),
            edits=edits,
            changing=changing,
            lines=[(each, *_values(form.edit, each)) for each in changing],
            lasting=sum(not each.can_be_undone for each in changing),
            faults=faults,
            back=list_url("jobs.index") if sent_filter() else url_for("jobs.index"),
        )


def _values(edit: FieldEdit, each: JobEdit) -> tuple[str, str]:
    """Return the values of a field before and after, in words."""
    field = FIELDS[edit.field.name]
    before, after = (
        shown_setting(field, getattr(spec, field.name), may_see_secrets=True)
        for spec in (each.before, each.spec)
    )
    return before, after


def _sent_jobs() -> dict[int, str]:
    """Return the versions of jobs that the page wrote into the form, by id."""
    sent = _SEEN.findall(request.form.get("seen", ""))
    if not sent:
        abort(400)
    return {int(job_id): version for job_id, version in sent[: MAX_EDITED + 1]}
