"""The script pages: editor, versions, comparison, test run.

Time and size of a comparison are bounded: identical beginnings and ends are cut off first, and a
middle too large to be compared line by line is shown as removed and added as a whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, islice, zip_longest

from flask import abort, flash, redirect, render_template, request, url_for
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import Field, HiddenField, StringField, TextAreaField
from wtforms.validators import InputRequired, Length, ValidationError

from warren.admin_web.forms.console_form import ConsoleForm, sent_once
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import id_argument, route
from warren.admin_web.visitors import visitor
from warren.broker.messages import ScriptLanguage
from warren.scheduler.actor import Right
from warren.scheduler.commands.triggers import Trigger
from warren.scheduler.jobs.script_cache import REMARK_LENGTH, check_source, language_of
from warren.scheduler.names import is_line
from warren.scheduler.problems import Code, Problem
from warren.scheduler.views.process_view import ExecutorView, executor_views
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.instants import epoch_ms
from warren.sql.jobs import script_versions
from warren.sql.jobs.script_versions import StoredVersion
from warren.sql.listings import app_listing, recent
from warren.sql.models import Job
from warren.sql.registry import apps
from warren.sql.registry.presence import ProcessState
from warren.sql.runs.run_rows import DetailedRun

#: Lines of each side that are compared at most, without identical beginnings and ends.
COMPARED = 3_000
#: Lines shown around each change, and lines shown at most.
AROUND = 3
SHOWN = 5_000


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference.

    `kind` is same, out, in or gap; a gap replaces identical lines that are left out. `old` and
    `new` are line numbers from 1 on; None if that side does not have the line.
    """

    kind: str
    old: int | None = None
    new: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Lines in order; `is_cut`: there are more than are shown."""

    lines: list[Line]
    added: int
    removed: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """Lines side by side; None = no line on that side."""

    old: Line | None
    new: Line | None

    @property
    def is_gap(self) -> bool:
        """Whether it stands for lines that are left out."""
        return self.old is not None and self.old.kind == "gap"


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `old_from` to `old_to` of one version and `new_from` to `new_to` of the other."""

    is_same: bool
    old_from: int
    old_to: int
    new_from: int
    new_to: int


def difference(old: str, new: str) -> Difference:
    """Return the differences between two scripts."""
    before, after = old.splitlines(), new.splitlines()
    blocks = list(_blocks(before, after))
    every = (line for block in _with_gaps(blocks) for line in _lines(block, before, after))
    lines = list(islice(every, SHOWN + 1))
    changed = [block for block in blocks if not block.is_same]
    return Difference(
        lines=lines[:SHOWN],
        added=sum(block.new_to - block.new_from for block in changed),
        removed=sum(block.old_to - block.old_from for block in changed),
        is_cut=len(lines) > SHOWN,
    )


def side_by_side(lines: Sequence[Line]) -> Iterator[Pair]:
    """Yield the lines of a difference in pairs: removed ones beside added ones."""
    for is_change, group in groupby(lines, key=lambda line: line.kind in ("out", "in")):
        stretch = list(group)
        if not is_change:
            yield from (Pair(line, line) for line in stretch)
            continue
        out = [line for line in stretch if line.kind == "out"]
        put_in = [line for line in stretch if line.kind == "in"]
        yield from (Pair(*both) for both in zip_longest(out, put_in))


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[_Block]:
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    yield _Block(True, 0, head, 0, head)
    middle = old[head:old_end], new[head:new_end]
    if max(map(len, middle)) > COMPARED:
        yield _Block(False, head, old_end, head, new_end)
    else:
        # Keeps autojunk on: without it, many repeated lines would take quadratic time.
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, *middle).get_opcodes():
            yield _Block(tag == "equal", head + i1, head + i2, head + j1, head + j2)
    yield _Block(True, old_end, len(old), new_end, len(new))


def _alike(sequence: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines at the beginning are identical."""
    pairs = enumerate(zip(sequence, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(sequence), len(other)))


def _with_gaps(blocks: Sequence[_Block]) -> Iterator[_Block | None]:
    """Yield the blocks; None replaces the middle of long identical ones."""
    present = [block for block in blocks if block.old_to > block.old_from or not block.is_same]
    if all(block.is_same for block in present):
        return
    for place, block in enumerate(present):
        count = block.old_to - block.old_from
        before = 0 if place == 0 else AROUND
        after = 0 if place == len(present) - 1 else AROUND
        if not block.is_same or count <= before + after + 1:
            yield block
            continue
        if before:
            yield _part(block, 0, before)
        yield None
        if after:
            yield _part(block, count - after, count)


def _part(block: _Block, start: int, end: int) -> _Block:
    return _Block(
        True,
        block.old_from + start,
        block.old_from + end,
        block.new_from + start,
        block.new_from + end,
    )


def _lines(block: _Block | None, old: Sequence[str], new: Sequence[str]) -> Iterator[Line]:
    if block is None:
        yield Line("gap")
    elif block.is_same:
        for offset in range(block.old_to - block.old_from):
            at_old, at_new = block.old_from + offset, block.new_from + offset
            yield Line("same", at_old + 1, at_new + 1, old[at_old])
    else:
        for number in range(block.old_from, block.old_to):
            yield Line("out", old=number + 1, text=old[number])
        for number in range(block.new_from, block.new_to):
            yield Line("in", new=number + 1, text=new[number])


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
    """Users of an app see its scripts; those with the right edit them."""

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
        """Save a version, unless another user has saved one in the meantime."""
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

        def read(session: Session) -> tuple[StoredVersion, StoredVersion]:
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
        ) -> tuple[list[StoredVersion], list[ExecutorView], DetailedRun | None]:
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


def _saved_at(version: StoredVersion) -> int:
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
