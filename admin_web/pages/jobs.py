"""Jobs: the list, a job's own page, and the form that makes or changes one."""

from collections.abc import Mapping
from dataclasses import replace

from flask import flash, redirect, render_template, request, url_for
from flask_babel import gettext
from werkzeug.wrappers import Response

from admin_web import job_words
from admin_web.job_card import JobCard, read_card
from admin_web.job_filter import LINES, JobFilterForm, wanted
from admin_web.job_form import JobForm
from admin_web.job_preview import Preview, preview
from admin_web.parts import Parts
from admin_web.routes import route
from admin_web.script_starts import start_of
from admin_web.visitors import Right, visitor
from scheduler import job_rules, upcoming
from scheduler.job_commands import JobRefused
from scheduler.job_spec import AppSpec, JobSpec
from scheduler.stored_spec import fingerprint
from sql import job_search
from sql.errors import Conflict
from sql.rows import AnyRow

Page = Response | str | tuple[str, int]


class JobPages:
    """Jobs of the apps of whoever looks."""

    name = "jobs"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/jobs", Right.VIEW)
    def index(self) -> Page:
        """Show jobs, a page at a time."""
        known, now_ms = visitor(), self._parts.now_ms()
        form = JobFilterForm(request.args)
        apps = self._parts.database.read(lambda s: job_search.app_names(s, known.app_ids))
        form.offer(apps)
        if not form.validate():
            return render_template("pages/jobs.html", form=form, jobs=[], further=None), 422
        asked = wanted(form, known)
        jobs = self._parts.database.read(lambda s: job_search.search(s, asked, now_ms=now_ms))
        further = job_search.place(jobs[LINES - 1], asked.order) if len(jobs) > LINES else None
        return render_template(
            "pages/jobs.html",
            job_words=job_words,
            form=form,
            jobs=jobs[:LINES],
            further=further,
            next_fire=self._next_fire,
            is_waiting=upcoming.is_waiting,
        )

    @route("/jobs/<id:job_id>", Right.VIEW)
    def show(self, job_id: int) -> str:
        """Show a job."""
        card = self._card(job_id)
        return render_template(
            "pages/jobs_show.html", job_words=job_words, card=card, yaml=self._yaml(card.spec)
        )

    @route("/jobs/<id:job_id>/yaml", Right.OPERATE)
    def export(self, job_id: int) -> Response:
        """Give a job as a job file."""
        spec = self._card(job_id).spec
        headers = {"Content-Disposition": f'attachment; filename="job-{job_id}.yaml"'}
        return Response(self._yaml(spec), mimetype="application/yaml", headers=headers)

    @route("/jobs/new", Right.OPERATE)
    def new(self) -> str:
        """Ask for a new job."""
        given = {"author": visitor().name, "app": request.args.get("app", "")}
        return self._form(self._filled(given), action=url_for("jobs.create"))

    @route("/jobs/create", Right.OPERATE, methods=("POST",))
    def create(self) -> Page:
        """Make a job."""
        form = self._filled()
        return self._make(form, url_for("jobs.create"), start_of(form.language.data or ""))

    @route("/jobs/<id:job_id>/copy", Right.OPERATE)
    def copy(self, job_id: int) -> str:
        """Ask for a job like another one."""
        spec = self._card(job_id).spec
        name = gettext("%(name)s copy", name=spec.name)
        form = self._filled(JobForm.values_of(spec) | {"name": name, "author": visitor().name})
        return self._form(form, action=url_for("jobs.create_copy", job_id=job_id), origin=spec)

    @route("/jobs/<id:job_id>/copy/create", Right.OPERATE, methods=("POST",))
    def create_copy(self, job_id: int) -> Page:
        """Make a job like another one, with the source of its script."""
        origin, form = self._card(job_id).spec, self._filled()
        source = origin.script_source
        if form.language.data != origin.script_language:
            source = start_of(form.language.data or "")
        action = url_for("jobs.create_copy", job_id=job_id)
        return self._make(form, action, source, origin=origin)

    @route("/jobs/<id:job_id>/edit", Right.OPERATE)
    def edit(self, job_id: int) -> str:
        """Ask what shall change."""
        spec = self._card(job_id).spec
        form = self._filled(JobForm.values_of(spec) | {"seen": fingerprint(spec)})
        return self._form(form, action=url_for("jobs.save", job_id=job_id), job_id=job_id)

    @route("/jobs/<id:job_id>/save", Right.OPERATE, methods=("POST",))
    def save(self, job_id: int) -> Page:
        """Change a job."""
        stored, form = self._card(job_id).spec, self._filled()
        # Neither can be changed by the form, whatever was sent.
        form.app.data, form.language.data = stored.app, stored.script_language
        action = url_for("jobs.save", job_id=job_id)
        spec = replace(
            form.read(), script_source=stored.script_source, script_remark=stored.script_remark
        )
        if not self._is_to_be_saved(form, spec):
            return self._form(form, action=action, job_id=job_id), _code()
        try:
            words = self._parts.job_commands(visitor()).update(
                job_id, spec, seen=form.seen.data or ""
            )
        except JobRefused as refused:
            form.object_to(refused.problems)
        except Conflict:
            form.complain(
                gettext(
                    "Somebody else changed this job while you did. Nothing was saved: "
                    "look at the job in another tab, then save again to have it your way."
                )
            )
            form.seen.data = fingerprint(self._card(job_id).spec)
        else:
            flash(gettext("Saved.") if words else gettext("Nothing was different."))
            return redirect(url_for("jobs.show", job_id=job_id), 303)
        return self._form(form, action=action, job_id=job_id), 422

    @route("/jobs/preview", Right.VIEW)
    def preview(self) -> str:
        """Show what a schedule means that is being typed."""
        found = self._preview(JobForm(request.args))
        return render_template("pages/jobs_preview.html", preview=found)

    def _make(
        self, form: JobForm, action: str, source: str, *, origin: JobSpec | None = None
    ) -> Page:
        spec = form.read()
        if spec.script_language:
            spec = replace(spec, script_source=source)
            if not visitor().may(Right.EDIT_GLUE):
                form.language.errors = (gettext("You may not write scripts."),)
        if not self._is_to_be_saved(form, spec):
            return self._form(form, action=action, origin=origin), _code()
        try:
            job_id = self._parts.job_commands(visitor()).create(spec)
        except JobRefused as refused:
            form.object_to(refused.problems)
            return self._form(form, action=action, origin=origin), 422
        flash(gettext("The job was made."))
        return redirect(url_for("jobs.show", job_id=job_id), 303)

    def _is_to_be_saved(self, form: JobForm, spec: JobSpec) -> bool:
        """Whether a form can be tried; else everything that is wrong with it is said at once."""
        if "preview" in request.form:
            return False
        if not form.errors:
            return True
        form.object_to(
            job_rules.problems(
                spec, now_ms=self._parts.now_ms(), added_routes=self._parts.added_routes
            )
        )
        return False

    def _form(
        self, form: JobForm, *, action: str, job_id: int = 0, origin: JobSpec | None = None
    ) -> str:
        return render_template(
            "pages/jobs_form.html",
            job_words=job_words,
            form=form,
            action=action,
            job_id=job_id,
            origin=origin,
            preview=self._preview(form),
        )

    def _filled(self, given: Mapping[str, object] | None = None) -> JobForm:
        form = JobForm(None if given is not None else request.form, data=given)
        known = visitor()
        apps = self._parts.database.read(lambda s: job_search.app_names(s, known.app_ids))
        form.offer(apps=apps, routes=self._parts.added_routes, zone=self._parts.timezone)
        return form

    def _preview(self, form: JobForm) -> Preview | None:
        kind, conf, zone = form.schedule
        zone = zone or self._parts.timezone
        return preview(kind, conf, zone, now_ms=self._parts.now_ms())

    def _card(self, job_id: int) -> JobCard:
        known = visitor()
        return self._parts.database.read(lambda s: read_card(s, self._parts, known, job_id))

    def _yaml(self, spec: JobSpec) -> str:
        """Return a job file; it holds what opens something elsewhere, so not all may read it."""
        if self._parts.job_file is None or not visitor().may(Right.OPERATE):
            return ""
        lines = self._parts.job_file([AppSpec(name=spec.app)], [spec])
        return "".join(f"{line}\n" for line in lines)

    def _next_fire(self, job: AnyRow) -> int | None:
        return upcoming.next_fire(job, now_ms=self._parts.now_ms(), timezone=self._parts.timezone)


def _code() -> int:
    return 200 if "preview" in request.form else 422
