"""Scripts as pages: an editor, its versions, what differs between two, a run to try it."""

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import HiddenField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length

from admin_web.forms import ConsoleForm
from admin_web.keys import key_of
from admin_web.parts import Parts
from admin_web.processes import Process, executors
from admin_web.routes import route
from admin_web.script_difference import difference, side_by_side
from admin_web.visitors import Right, visitor
from broker.messages import ScriptLanguage
from scheduler.glue_commands import SavedMeanwhile
from scheduler.script_source import REMARK_LENGTH, check_source
from scheduler.scripts import language_of
from sql import app_listing, apps, glue, listings, scripts
from sql.errors import NotFound
from sql.instants import epoch_ms
from sql.models import Job
from sql.rows import AnyRow

_REMARK = lazy_gettext("Say in up to 128 characters what has changed.")


class ScriptForm(ConsoleForm):
    """A source and what has changed in it."""

    source = TextAreaField(lazy_gettext("Source"))
    remark = StringField(
        lazy_gettext("What has changed"),
        [InputRequired(_REMARK), Length(max=REMARK_LENGTH, message=_REMARK)],
    )
    based_on = HiddenField()


class GluePages:
    """Seen by everybody who has the job's app; saved by those who may edit scripts."""

    name = "glue"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @route("/glue/<id:job_id>", Right.VIEW)
    def show(self, job_id: int) -> str:
        """Show the current version in an editor, and the versions before it."""
        job, app = self._find(job_id)
        form = ScriptForm(data={"source": job.glue_source, "based_on": str(job.glue_id)})
        return self._page(job, app, form)

    @route("/glue/<id:job_id>/save", Right.EDIT_GLUE, methods=("POST",))
    def save(self, job_id: int) -> Response | tuple[str, int]:
        """Save a version, unless somebody else has saved one meanwhile."""
        job, app = self._find(job_id)
        form = ScriptForm(request.form)
        source = _line_ends(form.source.data or "", job)
        problem = _problem(source)
        if not form.validate() or problem:
            form.source.errors = (problem,) if problem else ()
            return self._page(job, app, form), 422
        try:
            saved = self._parts.glue_commands(visitor()).save(
                job_id,
                source,
                remark=form.remark.data or "",
                based_on=_number(form.based_on.data),
            )
        except SavedMeanwhile as other:
            mine = _number(form.based_on.data)
            # Whoever has read this page may save over it.
            form.based_on.data = str(other.glue_id)
            form.complain(_meanwhile(other))
            return self._page(job, app, form, mine=mine), 409
        if saved is None:
            flash(gettext("Nothing was different."))
        else:
            flash(gettext("Version %(n)s is saved; runs planned from now on have it.", n=saved))
        return redirect(url_for("glue.show", job_id=job_id), 303)

    @route("/glue/<id:job_id>/versions/<id:glue_id>", Right.VIEW)
    def version(self, job_id: int, glue_id: int) -> str:
        """Show one version."""
        job, _app = self._find(job_id)
        read = self._parts.database.read
        found = read(lambda session: glue.version(session, job_id, glue_id))
        return render_template(
            "pages/glue_version.html", job=job, version=found, saved_at=_saved_at
        )

    @route("/glue/<id:job_id>/compare", Right.VIEW)
    def compare(self, job_id: int) -> str:
        """Show what differs between two versions."""
        job, _app = self._find(job_id)
        old_id, new_id = key_of("old"), key_of("new")
        if old_id is None or new_id is None:
            abort(404)

        def read(session: Session) -> tuple[AnyRow, AnyRow]:
            version = glue.version
            return version(session, job_id, old_id), version(session, job_id, new_id)

        old, new = self._parts.database.read(read)
        found = difference(old.glue_source or "", new.glue_source or "")
        is_wide = request.args.get("view") == "side"
        return render_template(
            "pages/glue_compare.html",
            job=job,
            old=old,
            new=new,
            found=found,
            pairs=list(side_by_side(found.lines)) if is_wide else [],
        )

    @route("/glue/<id:job_id>/restore", Right.EDIT_GLUE, methods=("POST",))
    def restore(self, job_id: int) -> Response | tuple[str, int]:
        """Make an earlier version the current one, as a new version."""
        job, app = self._find(job_id)
        glue_id = _number(request.form.get("version"))
        try:
            saved = self._parts.glue_commands(visitor()).restore(
                job_id,
                glue_id,
                remark=gettext("version %(n)s restored", n=glue_id),
                based_on=_number(request.form.get("based_on")),
            )
        except SavedMeanwhile as other:
            form = ScriptForm(data={"source": job.glue_source, "based_on": str(job.glue_id)})
            form.complain(_meanwhile(other))
            return self._page(job, app, form), 409
        if saved is None:
            flash(gettext("Nothing was different."))
        else:
            flash(gettext("Version %(old)s is back as version %(new)s.", old=glue_id, new=saved))
        return redirect(url_for("glue.show", job_id=job_id), 303)

    @route("/glue/<id:job_id>/try", Right.EDIT_GLUE, methods=("POST",))
    def try_out(self, job_id: int) -> Response | tuple[str, int]:
        """Run the saved version once, on a chosen executor."""
        job, app = self._find(job_id)
        address = request.form.get("address", "")
        param = request.form.get("param", "")
        try:
            run_id = self._parts.commands(visitor()).trigger(
                f"{app}/{job.job_desc}", param=param, addresses=[address] if address else []
            )
        except ValueError:
            form = ScriptForm(data={"source": job.glue_source, "based_on": str(job.glue_id)})
            form.complain(gettext("This executor is not there any more. Choose another one."))
            return self._page(job, app, form), 422
        return redirect(url_for("glue.show", job_id=job_id, run=run_id, _anchor="try"), 303)

    def _find(self, job_id: int) -> tuple[Job, str]:
        """Return a job with a script, and its app's name; 404 when it is none of the visitor's."""
        found = self._parts.database.read(lambda session: scripts.of_job(session, job_id))
        app_ids = visitor().app_ids
        if app_ids is not None and found.Job.job_group not in app_ids:
            raise NotFound(f"job {job_id} has no script")
        return found.Job, found.app

    def _page(self, job: Job, app: str, form: ScriptForm, *, mine: int = 0) -> str:
        now_ms = self._parts.now_ms()

        def read(session: Session) -> tuple[list[AnyRow], list[Process], AnyRow | None]:
            rows = app_listing.registrations(session, app)
            listed = apps.listed(session).get(job.job_group)
            known = executors(rows, {app: listed} if listed else {}, now_ms)
            return list(glue.versions(session, job.id)), known, _run(session, job.id)

        versions, known, run = self._parts.database.read(read)
        return render_template(
            "pages/glue.html",
            job=job,
            app=app,
            form=form,
            mine=mine,
            versions=versions,
            executors=[one for one in known if one.state == "alive" and one.listed is not False],
            run=run,
            saved_at=_saved_at,
            script_language=language_of(job.glue_type),
        )


def _run(session: Session, job_id: int) -> AnyRow | None:
    """Return the run that was just tried; one of another job is none."""
    run_id = key_of("run")
    if run_id is None:
        return None
    found = [run for run in listings.by_ids(session, [run_id]) if run.job_id == job_id]
    return found[0] if found else None


def _saved_at(version: AnyRow) -> int:
    return epoch_ms(version.add_time) if version.add_time else 0


def _problem(source: str) -> str:
    """Return what is wrong with a source, empty when nothing is."""
    try:
        check_source(source)
    except ValueError:
        if not source.strip():
            return str(gettext("A script is not empty."))
        if "\0" in source:
            return str(gettext("A script is text: there is a NUL character in it."))
        return str(gettext("A script takes up to 512 kB."))
    return ""


def _line_ends(source: str, job: Job) -> str:
    r"""Return what a form sent, which always has `\r\n`, with the line ends that the script has."""
    plain = source.replace("\r\n", "\n")
    is_kept = language_of(job.glue_type) == ScriptLanguage.POWERSHELL
    if is_kept and "\r\n" in (job.glue_source or ""):
        return plain.replace("\n", "\r\n")
    return plain


def _meanwhile(other: SavedMeanwhile) -> str:
    return str(
        gettext(
            "%(who)s has saved version %(n)s meanwhile. Nothing was changed: compare it with what "
            "you have, then save again.",
            who=other.who,
            n=other.glue_id,
        )
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - ids
