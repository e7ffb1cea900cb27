"""The script pages: editor, versions, comparison, test run."""

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, HiddenField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length, ValidationError

from warren.admin_web.forms.console_form import ConsoleForm, sent_once
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.views.script_diff import difference, side_by_side
from warren.admin_web.visitors import visitor
from warren.broker.messages.values import ScriptLanguage
from warren.scheduler.actor import Right
from warren.scheduler.app_names import is_line
from warren.scheduler.commands.bulk.triggers import Trigger
from warren.scheduler.jobs.script_cache import REMARK_LENGTH, check_source, language_of
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views.process_view import ExecutorView, executor_views
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.instants import epoch_ms
from warren.sql.jobs import script_versions
from warren.sql.jobs.script_versions import ListedVersion, VersionSource
from warren.sql.listings import app_listing, recent
from warren.sql.listings.recent import DetailedRun
from warren.sql.models import Job
from warren.sql.registry import apps
from warren.sql.registry.presence import ProcessState

#: Short messages about problems with a script.
_FLAWS = {
    Code.SOURCE_EMPTY: lazy_gettext("The script is empty."),
    Code.SOURCE_NUL: lazy_gettext("A script must be text, but it contains a NUL character."),
}
_TOO_LONG = lazy_gettext("A script can have up to 512 kB.")
_REMARK = lazy_gettext("Describe the change in up to 128 characters.")


class ScriptForm(ConsoleForm):
    """A script and a note about the change."""

    source = TextAreaField(lazy_gettext("Source"))
    remark = StringField(
        lazy_gettext("Change note"),
        [InputRequired(_REMARK), Length(max=REMARK_LENGTH, message=_REMARK)],
    )
    based_on = HiddenField()

    def validate_remark(self, field: Field) -> None:
        """Refuse control characters."""
        if not is_line(field.data or "", REMARK_LENGTH):
            raise ValidationError(_REMARK)


class GluePages:
    """Users who have an app see its scripts; those with the right edit them."""

    name = "glue"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    @route("/glue/<id:job_id>", Right.VIEW)
    def show(self, job_id: int) -> str:
        """Show the current version in an editor, and the earlier versions."""
        job, app = self._find(job_id)
        form = _form_of(job)
        return self._page(job, app, form)

    @route("/glue/<id:job_id>/save", Right.EDIT_GLUE, methods=("POST",))
    def save(self, job_id: int) -> Response | tuple[str, int]:
        """Save a version, unless somebody else has saved one in the meantime."""
        job, app = self._find(job_id)
        form = ScriptForm(request.form)
        source = _line_ends(form.source.data or "", job)
        flaw = _source_problem(source)
        if not form.validate() or flaw:
            form.source.errors = (flaw,) if flaw else ()
            return self._page(job, app, form), 422
        try:
            saved = self._services.commands(visitor().actor).scripts.save(
                job_id,
                source,
                remark=form.remark.data or "",
                based_on=_number(form.based_on.data),
            )
        except Problem as problem:
            if problem.code is not Code.SCRIPT_CHANGED:
                raise
            mine = _number(form.based_on.data)
            # After seeing this page, the user may overwrite that version.
            form.based_on.data = str(problem.facts["version_id"])
            form.add_error(_conflict_text(problem))
            return self._page(job, app, form, mine=mine), 409
        if saved is None:
            flash(gettext("Nothing to save."))
        else:
            flash(gettext("Version %(n)s saved. New runs use it.", n=saved))
        return redirect(url_for("glue.show", job_id=job_id), 303)

    @route("/glue/<id:job_id>/versions/<id:version_id>", Right.VIEW)
    def version(self, job_id: int, version_id: int) -> str:
        """Show one version."""
        job, _app = self._find(job_id)
        read = self._services.database.read
        version = read(lambda session: script_versions.version(session, job_id, version_id))
        return render_template(
            "pages/glue_version.html", job=job, version=version, saved_at=_saved_at
        )

    @route("/glue/<id:job_id>/compare", Right.VIEW)
    def compare(self, job_id: int) -> str:
        """Show the differences between two versions."""
        job, _app = self._find(job_id)
        old_id, new_id = id_argument("old"), id_argument("new")
        if old_id is None or new_id is None:
            abort(404)

        def read(session: Session) -> tuple[VersionSource, VersionSource]:
            version = script_versions.version
            return version(session, job_id, old_id), version(session, job_id, new_id)

        old, new = self._services.database.read(read)
        difference_ = difference(old.source or "", new.source or "")
        is_wide = request.args.get("view") == "side"
        return render_template(
            "pages/glue_compare.html",
            job=job,
            old=old,
            new=new,
            found=difference_,
            pairs=list(side_by_side(difference_.lines)) if is_wide else [],
        )

    @route("/glue/<id:job_id>/restore", Right.EDIT_GLUE, methods=("POST",))
    def restore(self, job_id: int) -> Response | tuple[str, int]:
        """Make an earlier version the current one, as a new version."""
        job, app = self._find(job_id)
        version = _number(request.form.get("version"))
        read = self._services.database.read
        number = read(lambda session: script_versions.version(session, job_id, version)).number
        try:
            saved = self._services.commands(visitor().actor).scripts.restore(
                job_id,
                version,
                remark=gettext("version %(n)s restored", n=number),
                based_on=_number(request.form.get("based_on")),
            )
        except Problem as problem:
            if problem.code is not Code.SCRIPT_CHANGED:
                raise
            form = _form_of(job)
            form.add_error(_conflict_text(problem))
            return self._page(job, app, form), 409
        if saved is None:
            flash(gettext("Nothing to save."))
        else:
            flash(gettext("Version %(old)s restored as version %(new)s.", old=number, new=saved))
        return redirect(url_for("glue.show", job_id=job_id), 303)

    @route("/glue/<id:job_id>/try", Right.EDIT_GLUE, methods=("POST",))
    def try_out(self, job_id: int) -> Response | tuple[str, int]:
        """Run the saved version once, on a chosen executor."""
        job, app = self._find(job_id)
        address = request.form.get("address", "")
        param = request.form.get("param", "").replace("\r\n", "\n")
        try:
            made = self._services.commands(visitor().actor).runs.trigger_once(
                job_id,
                Trigger(param=param, addresses=[address] if address else []),
                once=sent_once(visitor().user_id),
            )
        except Problem as problem:
            if problem.code is not Code.WANTED_ADDRESS:
                raise
            form = _form_of(job)
            form.add_error(gettext("This executor is gone. Choose another one."))
            return self._page(job, app, form), 422
        flash(gettext("Run %(id)s is queued.", id=made.run_id))
        return redirect(url_for("glue.show", job_id=job_id, run=made.run_id, _anchor="try"), 303)

    def _find(self, job_id: int) -> tuple[Job, str]:
        """Return a job with a script, and its app's name.

        Raises:
            NotFound: there is none that the visitor may see.

        """
        read = self._services.database.read
        job, app = read(lambda session: script_versions.of_job(session, job_id))
        app_ids = visitor().app_ids
        if app_ids is not None and job.app_id not in app_ids:
            raise NotFound(LookupFailure.NO_SCRIPT, id=job_id)
        return job, app

    def _page(self, job: Job, app: str, form: ScriptForm, *, mine: int = 0) -> str:
        now_ms = self._services.now_ms()

        def read(
            session: Session,
        ) -> tuple[list[ListedVersion], list[ExecutorView], DetailedRun | None]:
            rows = app_listing.registrations(session, app)
            listed = apps.listed(session).get(job.app_id)
            known = executor_views(rows, {app: listed} if listed else {}, now_ms)
            return script_versions.versions(session, job.id), known, _run(session, job.id)

        versions, known, run = self._services.database.read(read)
        return render_template(
            "pages/glue.html",
            job=job,
            app=app,
            form=form,
            mine=mine,
            versions=versions,
            number=next(
                (version.number for version in versions if version.id == job.script_version), 0
            ),
            executors=[
                job for job in known if job.state is ProcessState.ALIVE and job.listed is not False
            ],
            run=run,
            saved_at=_saved_at,
            script_language=language_of(job.script_type),
        )


def _form_of(job: Job) -> ScriptForm:
    return ScriptForm(data={"source": job.script_source, "based_on": str(job.script_version)})


def _run(session: Session, job_id: int) -> DetailedRun | None:
    """Return the test run that was just started; None if it belongs to another job."""
    run_id = id_argument("run")
    if run_id is None:
        return None
    try:
        run = recent.run(session, run_id)
    except NotFound:
        return None
    return run if run.job_id == job_id else None


def _saved_at(version: ListedVersion | VersionSource) -> int:
    return epoch_ms(version.add_time) if version.add_time else 0


def _source_problem(source: str) -> str:
    """Return what is wrong with a script; empty if nothing is."""
    try:
        check_source(source)
    except Problem as problem:
        return str(_FLAWS.get(problem.code, _TOO_LONG))
    return ""


def _line_ends(source: str, job: Job) -> str:
    r"""Return a source from a form, which has `\r\n`, with the line ends of the job's script."""
    plain = source.replace("\r\n", "\n")
    is_kept = language_of(job.script_type) == ScriptLanguage.POWERSHELL
    if is_kept and "\r\n" in (job.script_source or ""):
        return plain.replace("\n", "\r\n")
    return plain


def _conflict_text(problem: Problem) -> str:
    return str(
        gettext(
            "%(who)s saved version %(n)s in the meantime. Nothing was changed. Compare it with "
            "yours, then save again.",
            who=problem.facts["who"],
            n=problem.facts["version"],
        )
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - ids
