"""Edits of one field of many jobs: what would change, all of it or nothing, and the way back.

A preview reads without locks; what it found is written only if no job has another version by then.
The audit log has an entry for each job, and one for all, by whose id the edit is undone: its jobs
get the values of before, except for those that were edited since.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from warren.broker.durations import whole_seconds
from warren.resources.jobs import EditedField, EditMode
from warren.scheduler.actor import Right
from warren.scheduler.commands.command_context import Action, CommandContext
from warren.scheduler.commands.job_changes import JobChanges
from warren.scheduler.commands.job_commands import JobCommands
from warren.scheduler.commands.job_edits import edit_of
from warren.scheduler.jobs.records import FIELD_OF, fingerprint, is_kept, is_missing
from warren.scheduler.jobs.spec import FIELDS, Field, JobSpec, Number, Texts, is_duration
from warren.scheduler.problems import Code, FieldName, Problem, Refused, counted, found
from warren.sql.accounts import audit_log
from warren.sql.jobs import job_rows
from warren.sql.models import AuditEntry, Job
from warren.sql.registry import apps

#: The most jobs of one edit.
MAX_EDITED = 500
#: The most digits of a number that is read.
_MAX_DIGITS = 18
#: The actions after which a job is no longer as an edit left it.
_EDITS = (Action.JOB_UPDATE.value, Action.GLUE_SAVE.value)
_MANY = (Action.JOB_EDIT_MANY.value, Action.JOB_UNDO_EDIT.value)


@dataclass(frozen=True, slots=True)
class FieldEdit:
    """A new value of a field, or what is added to a list or removed from it."""

    field: Field
    value: Any
    mode: EditMode = EditMode.SET

    @classmethod
    def read(
        cls, name: EditedField, value: str | int | Sequence[str], mode: EditMode = EditMode.SET
    ) -> "FieldEdit":
        """Return the edit that sets a field to a value, which may be a text in any case.

        Raises:
            Problem: the value is none of the field, or the field is no list.

        """
        field, what = FIELDS[name], FieldName(name)
        is_list = isinstance(field.kind, Texts)
        if mode is not EditMode.SET and not is_list:
            raise Problem(Code.EDIT_OF_NO_LIST, "mode", what=what, got=mode.value)
        if is_list:
            texts = [value] if isinstance(value, int) else value
            parts = texts.split(",") if isinstance(texts, str) else map(str, texts)
            return cls(field, tuple(part.strip() for part in parts if part.strip()), mode)
        if isinstance(field.kind, Number):
            return cls(field, _number(field, field.kind, value))
        if not isinstance(value, str | int):
            raise Problem(Code.EDIT_TEXT, "value", what=what)
        return cls(field, str(value))

    def applied(self, spec: JobSpec) -> JobSpec:
        """Return a job with the edit, which neither starts nor stops it."""
        before = getattr(spec, self.field.name)
        after = self._after(before)
        values = {self.field.name: after}
        if self.field.name == EditedField.ALARM_WEBHOOK and before != after:
            values["alarm_style"] = ""  # as the new webhook's address says
        return replace(spec, enabled=None, **values)

    def _after(self, before: Any) -> Any:
        if self.mode is EditMode.ADD:
            return tuple(dict.fromkeys([*before, *self.value]))
        if self.mode is EditMode.REMOVE:
            return tuple(each for each in before if each not in self.value)
        return self.value


def _number(field: Field, kind: Number, value: str | int | Sequence[str]) -> int:
    text = str(value).strip()
    seconds = whole_seconds(text, needs_unit=True) if is_duration(field) else None
    if seconds is not None:
        return seconds
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        bounds = {"least": kind.least, "most": kind.most}
        what = FieldName(field.name)
        raise Problem(Code.INTEGER, field.pointer, what=what, **bounds, got=text[:100])
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEdit:
    """What an edit changes about a job.

    Attributes:
        name: APP/NAME.
        version: the job's `fingerprint` before.
        spec: the job afterwards.
        words: a line for each change; none = it is like that already.
        can_be_undone: whether the audit log keeps what it replaces: no secrets or very long texts.

    """

    job_id: int
    name: str
    version: str
    before: JobSpec
    spec: JobSpec
    words: tuple[str, ...]
    can_be_undone: bool


@dataclass(frozen=True, slots=True)
class Edited:
    """An edit of many jobs; `id` undoes it, 0 = nothing has changed."""

    id: int
    jobs: Sequence[JobEdit]


@dataclass(frozen=True, slots=True)
class Undone:
    """The jobs that are as they were before an edit, and those that are not, with the reason."""

    id: int
    jobs: Sequence[JobEdit]
    left: Sequence[tuple[str, Problem]]


@dataclass(frozen=True, slots=True)
class PastEdit:
    """An edit of many jobs, or the undoing of one: the names of its jobs by id.

    `field` is empty if it undid an edit. Names of jobs that the actor may not see are left out.
    Undoing it now would change `undoable` jobs and leave those in `left`, with the reasons.
    """

    id: int
    field: str
    names: Mapping[int, str]
    undoable: int
    left: Sequence[tuple[str, Problem]]

    @property
    def is_undo(self) -> bool:
        return not self.field


class FieldEditCommands:
    """Edits a field of many jobs on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._jobs = JobCommands(context)
        self._changes = JobChanges(context)

    def preview(self, job_ids: Sequence[int], edit: FieldEdit) -> list[JobEdit]:
        """Return what an edit would change, in the order of the ids; nothing is stored.

        Raises:
            Refused: with all that is wrong: a job does not exist or would be invalid.

        """
        self._context.actor.demand(Right.OPERATE)
        if len(job_ids) > MAX_EDITED:
            raise Problem(Code.EDIT_TOO_MANY, most=MAX_EDITED)

        def unit(session: Session) -> list[JobEdit]:
            known = self._jobs.read_many(session, job_ids)
            if unknown := [job_id for job_id in job_ids if job_id not in known]:
                raise Refused(Problem(Code.NO_JOB, id=job_id) for job_id in unknown)
            both = [(known[job_id], edit.applied(known[job_id][1])) for job_id in job_ids]
            edits = [_job_edit(job, before, after) for (job, before), after in both]
            wrong = {
                each.name: problems
                for each in edits
                if each.words and (problems := self._problems(session, known[each.job_id][0], each))
            }
            if wrong:
                raise Refused(_told(wrong, sum(bool(each.words) for each in edits)))
            return edits

        return self._context.database.read(unit)

    def apply(
        self, job_ids: Sequence[int], edit: FieldEdit, *, seen: Mapping[int, str] | None = None
    ) -> Edited:
        """Edit jobs, all or none.

        Args:
            job_ids: the jobs.
            edit: what changes.
            seen: the `version` that each job must still have; None = do not check.

        Raises:
            Refused: as for `preview`, or jobs have changed since.

        """
        edits = self.preview(job_ids, edit)
        if seen is not None:
            _refuse([each for each in edits if seen.get(each.job_id) != each.version])
        about = {"field": edit.field.name, "mode": edit.mode.value}

        def unit(session: Session) -> int:
            _refuse(self._changed_since(session, edits))
            return self._store(session, edits, Action.JOB_EDIT_MANY, about)

        return Edited(self._context.write(Right.OPERATE, unit), edits)

    def find(self, edit_id: int) -> PastEdit:
        """Return an edit of jobs that still exist.

        Raises:
            Problem: there is none that the actor may see.

        """

        def unit(session: Session) -> PastEdit:
            entry = audit_log.of_actions(session, edit_id, _MANY)
            about = json.loads(entry.after or "{}") if entry else {}
            known = self._jobs.read_many(session, about.get("job_ids", ()))
            if not known:
                raise Problem(Code.NO_EDIT, id=edit_id)
            names = {id_: f"{spec.app}/{spec.name}" for id_, (_, spec) in known.items()}
            edits, left = self._past(session, edit_id)
            undoable = sum(bool(each.words) for each in edits)
            return PastEdit(edit_id, about.get("field", ""), names, undoable, left)

        return self._context.database.read(unit)

    def undo(self, edit_id: int) -> Undone:
        """Give jobs the values that they had before an edit, and name those that are left.

        Raises:
            Problem: there is no such edit of jobs that the actor may see.

        """
        self._context.actor.demand(Right.OPERATE)
        edits, left = self._context.database.read(lambda session: self._past(session, edit_id))

        def unit(session: Session) -> Undone:
            changed = {each.job_id for each in self._changed_since(session, edits)}
            back = [each for each in edits if each.job_id not in changed]
            undo_id = self._store(session, back, Action.JOB_UNDO_EDIT, {"undone": edit_id})
            more = [_changed(each) for each in edits if each.job_id in changed]
            return Undone(undo_id, back, [*left, *more])

        return self._context.write(Right.OPERATE, unit)

    def _problems(self, session: Session, job: Job, edit: JobEdit) -> tuple[Problem, ...]:
        return found(lambda: self._jobs.check(session, edit.spec, job.app_id, job))

    def _changed_since(self, session: Session, edits: Sequence[JobEdit]) -> list[JobEdit]:
        """Lock the jobs that are to change; return those that no longer have the version."""
        ids = [each.job_id for each in edits if each.words]
        job_rows.lock_rows(session, ids)
        now = self._jobs.read_many(session, ids)
        return [
            each
            for each in edits
            if each.words
            and (each.job_id not in now or fingerprint(now[each.job_id][1]) != each.version)
        ]

    def _store(
        self,
        session: Session,
        edits: Sequence[JobEdit],
        action: Action,
        about: Mapping[str, Any],
    ) -> int:
        """Change jobs; return the id of the entry about all of them, 0 if none changes."""
        wanted = [(each.job_id, each.spec) for each in edits if each.words]
        if not wanted:
            return 0
        now_ms = self._context.now_ms()
        self._changes.change(session, wanted, now_ms)
        after = {**about, "job_ids": [job_id for job_id, _ in wanted]}
        name, log = counted(len(wanted), "job"), self._context.audit_log
        return audit_log.add_after(session, log.values(action, name, now_ms=now_ms, after=after))

    def _past(
        self, session: Session, edit_id: int
    ) -> tuple[list[JobEdit], list[tuple[str, Problem]]]:
        """Return the edits that undo one, and the jobs that it cannot be undone for."""
        entry = audit_log.of_actions(session, edit_id, _MANY)
        job_ids = json.loads(entry.after or "{}")["job_ids"] if entry else []
        known = self._jobs.read_many(session, job_ids)
        newest = audit_log.newest_of_jobs(session, job_ids, _EDITS)
        edits: list[JobEdit] = []
        left = self._gone(session, [newest[id_] for id_ in job_ids if id_ not in known])
        if entry is None or not (known or left):
            raise Problem(Code.NO_EDIT, id=edit_id)
        for job_id, (job, present) in known.items():
            last, name = newest[job_id], f"{present.app}/{present.name}"
            if last.id > entry.id or (last.at, last.who) != (entry.at, entry.who):
                left.append((name, Problem(Code.JOB_CHANGED, job=name)))
                continue
            values, missing = _before(last)
            each = _job_edit(job, present, replace(present, enabled=None, **values))
            problems = [
                Problem(Code.EDIT_NOT_KEPT, job=name, what=FieldName(field)) for field in missing
            ]
            if problems := [*problems, *self._problems(session, job, each)]:
                left.append((name, problems[0]))
            else:
                edits.append(each)
        return edits, left

    def _gone(self, session: Session, entries: Sequence[AuditEntry]) -> list[tuple[str, Problem]]:
        """Return the deleted jobs among those of these entries that the actor might see."""
        actor = self._context.actor
        if actor.job_ids is not None:
            return []
        own = apps.ids_by_name(session, actor.app_ids)
        gone = {entry.object_id: entry.name for entry in entries}
        there = job_rows.by_ids(session, gone)
        names = [
            name
            for job_id, name in gone.items()
            if job_id not in there and name.partition("/")[0] in own
        ]
        return [(name, Problem(Code.NO_JOB_NAMED, name=name)) for name in names]


def _job_edit(job: Job, before: JobSpec, after: JobSpec) -> JobEdit:
    edit = edit_of(job, after)
    return JobEdit(
        job_id=job.id,
        name=f"{before.app}/{before.name}",
        version=fingerprint(before),
        before=before,
        spec=after,
        words=edit.words,
        can_be_undone=all(is_kept(job, field) for field in edit.fields),
    )


def _before(entry: AuditEntry) -> tuple[dict[str, Any], list[str]]:
    """Return the values before an edit, and the names of fields whose values were not kept."""
    values: dict[str, Any] = {}
    missing = []
    for column, stored in json.loads(entry.before or "{}").items():
        field = FIELD_OF.get(column)
        if field is None:
            continue
        if is_missing(field.name, stored):
            missing.append(field.name)
        else:
            values[field.name] = field.kind.value(stored)
    return values, missing


def _changed(edit: JobEdit) -> tuple[str, Problem]:
    return edit.name, Problem(Code.JOB_CHANGED, job=edit.name)


def _refuse(changed: Sequence[JobEdit]) -> None:
    """Refuse an edit if jobs have changed since they were looked at."""
    if changed:
        raise Refused(_changed(each)[1] for each in changed)


def _told(wrong: Mapping[str, Sequence[Problem]], edited: int) -> list[Problem]:
    """Return what is wrong with jobs: once what is wrong with each of them, else by job."""
    jobs_with: dict[tuple[str, str], list[str]] = defaultdict(list)
    problems: dict[tuple[str, str], Problem] = {}
    for name, of_job in wrong.items():
        for problem in of_job:
            key = (problem.field, str(problem))
            jobs_with[key].append(name)
            problems[key] = problem
    told = []
    for key, names in jobs_with.items():
        problem = problems[key]
        if len(names) == edited:
            told.append(problem)
        else:
            told += [
                Problem(Code.IN_JOB, problem.field, job=name, why=problem.reason) for name in names
            ]
    return told
