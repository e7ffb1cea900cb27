"""The items of an import in Warren's terms, what becomes of each app and job, and the report on it.

The readers of each source produce them. The report says whether an item of the source is the same
here, different, or left out.

For everything imported before, two fingerprints are stored: of the item at the source and of the
item here. If only the source has changed since, the item is updated. If both have changed, ours is
kept, unless the import overwrites. What has not changed at the source is never written. Deciding
reads, but writes nothing.
"""

import hashlib
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from enum import StrEnum

import msgspec
from sqlalchemy.orm import Session

from warren.broker.reasons import Reason
from warren.scheduler.jobs.records import app_spec, fingerprint, job_spec
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.accounts.users import Role
from warren.sql.imports import origins
from warren.sql.imports.origins import APP, JOB, Origin
from warren.sql.jobs import job_links
from warren.sql.models import App, Job
from warren.sql.run_status import RunStatus


class ImportAction(StrEnum):
    """What an import does with one item."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    #: Changed both here and at the source; ours is kept.
    CONFLICT = "conflict"
    #: It was imported before and has been deleted here.
    DELETED = "deleted here"
    START = "start"
    STOP = "stop"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome for one item; `what` is app, job, user or day."""

    action: ImportAction
    what: str
    source_id: int
    target_id: int
    name: str
    words: str = ""


class Verdict(StrEnum):
    """How an imported item compares with the source."""

    SAME = "same"
    DIFFERS = "differs"
    STOPPED = "stopped"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report: table, id, column and value at the source, and the verdict."""

    verdict: Verdict
    table: str
    id: int
    column: str = ""
    value: str = ""
    words: str = ""


def counted(findings: Iterable[Finding]) -> dict[Verdict, int]:
    counts = Counter(finding.verdict for finding in findings)
    return {verdict: counts[verdict] for verdict in Verdict}


_MAX_NAME_LENGTH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedApp:
    """An app; `merged_ids` are other groups of the source that become the same app here."""

    source_id: int
    spec: AppSpec
    merged_ids: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the app at the source."""
        return digest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedVersion:
    """An earlier version of a script."""

    language: str
    source: str
    remark: str
    saved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedJob:
    """A job; its `spec` has no children and does not enable it.

    Attributes:
        source_id: the job's id at the source.
        spec: the job in Warren's terms.
        child_ids: the ids of its children at the source.
        stop_reasons: why the imported job must stay stopped; empty = it may be started.
        versions: earlier versions of its script.
        added_at: when it was created at the source.
        updated_at: when it was last changed there.
        is_running: whether its schedule is started there.
        next_tick_ms: its next tick there, in epoch milliseconds; 0 = unknown or not started.

    """

    source_id: int
    spec: JobSpec
    child_ids: tuple[int, ...] = ()
    stop_reasons: tuple[Reason, ...] = ()
    versions: tuple[ImportedVersion, ...] = ()
    added_at: datetime | None = None
    updated_at: datetime | None = None
    is_running: bool = False
    next_tick_ms: int = 0

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the job at the source, without whether it is started."""
        return digest(
            replace(self, added_at=None, updated_at=None, is_running=False, next_tick_ms=0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedUser:
    """A user; `app_ids` are the source's ids of the apps that they may see."""

    source_id: int
    name: str
    role: Role
    app_ids: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the user at the source."""
        return digest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDay:
    """The numbers of successful and failed runs of one day."""

    source_id: int
    day: date
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A finished run; `job_id` is the source's, instants are epoch milliseconds."""

    source_id: int
    job_id: int
    status: RunStatus
    codes: tuple[int, int]
    address: str
    handler: str
    param: str
    sharding: str
    triggered_ms: int
    finished_ms: int
    trigger_message: str
    message: str


@dataclass(slots=True, kw_only=True)
class ImportItems:
    """Everything that an import brings in, except the runs, and the reader's findings.

    `others` are the jobs of apps that are not imported now; an earlier import may have left some of
    them without children that this one brings.
    """

    apps: list[ImportedApp] = field(default_factory=list)
    jobs: list[ImportedJob] = field(default_factory=list)
    others: list[ImportedJob] = field(default_factory=list)
    users: list[ImportedUser] = field(default_factory=list)
    days: list[ImportedDay] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    highest_run_id: int = 0


def digest(value: object) -> str:
    """Return a fingerprint of a dataclass or another value that JSON can hold."""
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:32]


def numbered(name: str, number: int) -> str:
    """Return a job's name with its id appended, to make it unique."""
    suffix = f" #{number}"
    return name[: _MAX_NAME_LENGTH - len(suffix)] + suffix


#: Fields that both sides write in different ways, or that only one has.
_NOT_COMPARED = ("app", "children", "enabled")
#: The highest id that the columns of apps and jobs hold.
HIGHEST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AppStep:
    """What to do with an app; `target_id` is its id here."""

    action: ImportAction
    item: ImportedApp
    target_id: int
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """What to do with a job; `target_id` is its id here, `spec` its new state."""

    action: ImportAction
    item: ImportedJob
    target_id: int
    spec: JobSpec
    words: str = ""

    @property
    def is_written(self) -> bool:
        """Whether this step writes the job."""
        return self.action in (ImportAction.CREATE, ImportAction.UPDATE)

    @property
    def is_linked(self) -> bool:
        """Whether the job is to have the children that it has at the source."""
        return self.is_written or self.action is ImportAction.UNCHANGED


class IdSpace:
    """Assigns ids: the source's id if it is free here, else a new one above all ids."""

    def __init__(self, highest: int, wanted: Collection[int]) -> None:
        self._next = max([highest, *wanted]) + 1

    def give(self, wanted: int, taken: Collection[int]) -> int:
        """Return an id for an item whose id at the source is `wanted`."""
        if 0 < wanted <= HIGHEST_ID and wanted not in taken:
            return wanted
        self._next += 1
        return self._next - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Decider:
    """Decides for one import.

    `source` is the name of the source. With `overwrite`, items that changed on both sides become
    what they are there.
    """

    source: str
    overwrite: bool
    app_ids: IdSpace
    job_ids: IdSpace

    @classmethod
    def make(
        cls, session: Session, items: ImportItems, *, source: str, overwrite: bool
    ) -> "Decider":
        highest_app, highest_job = origins.highest_ids(session)
        return cls(
            source=source,
            overwrite=overwrite,
            app_ids=IdSpace(highest_app, [app.source_id for app in items.apps]),
            job_ids=IdSpace(highest_job, [job.source_id for job in items.jobs]),
        )

    def app(self, session: Session, item: ImportedApp) -> AppStep:
        """Decide about an app.

        Raises:
            ValueError: the last import brought an app with this id but another name.

        """
        known = origins.apps(session)
        origin = origins.read(session, self.source, APP).get(item.source_id)
        imported = known.get(origin.target_id) if origin else None
        if origin and imported and imported.name == item.spec.name:
            return self._known_app(item, origin, imported)
        if imported and not self.overwrite:
            raise ValueError(
                f"group {item.source_id} is {item.spec.name} now and was {imported.name} at "
                f"the last import from {self.source!r}: for another XXL-JOB use --source, "
                "to let its version win --overwrite"
            )
        named = next((app for app in known.values() if app.name == item.spec.name), None)
        if named is None:
            taken = origins.taken_app_ids(
                session, [item.source_id], origin=origin, source=self.source
            )
            target_id = self.app_ids.give(item.source_id, taken)
            words = _id_words(item.source_id, target_id)
            return AppStep(action=ImportAction.CREATE, item=item, target_id=target_id, words=words)
        words = joined(
            "it already existed here and is left unchanged", _id_words(item.source_id, named.id)
        )
        return AppStep(action=ImportAction.UNCHANGED, item=item, target_id=named.id, words=words)

    def _known_app(self, item: ImportedApp, origin: Origin, app: App) -> AppStep:
        action, words = ImportAction.UNCHANGED, ""
        if _is_changed_there(item, origin):
            target = app_fingerprint(app)
            action, words = decide_change(origin, target, overwrite=self.overwrite)
        return AppStep(action=action, item=item, target_id=app.id, words=words)

    def jobs(self, session: Session, app_id: int, items: Sequence[ImportedJob]) -> list[JobStep]:
        """Decide about the jobs of one app, which may not exist yet."""
        known = origins.read_some(session, self.source, JOB, [item.source_id for item in items])
        owners = origins.app_ids(session, [origin.target_id for origin in known.values()])
        stored = _StoredJobs(
            session,
            [
                origin.target_id
                for item in items
                if (origin := known.get(item.source_id)) and _is_changed_there(item, origin)
            ],
        )
        unknown = [item.source_id for item in items if item.source_id not in known]
        taken = origins.taken_job_ids(session, unknown)
        names = origins.names_in(session, app_id)
        steps = []
        for item in items:
            origin = known.get(item.source_id)
            owner = owners.get(origin.target_id) if origin else None
            if origin is None:
                target_id = self.job_ids.give(item.source_id, taken)
                step = _new_job(item, target_id, names)
            elif owner is None and self.overwrite and _is_changed_there(item, origin):
                words = "it was deleted here and changed there; it is imported again"
                step = _new_job(item, origin.target_id, names, words)
            elif owner is None:
                step = _step(ImportAction.DELETED, item, origin.target_id, "it was deleted here")
            elif owner != app_id:
                words = (
                    f"it is in app {item.spec.app} there now; "
                    "to move it, delete it here and import with --overwrite"
                )
                step = _step(ImportAction.CONFLICT, item, origin.target_id, words)
            else:
                step = self._known_job(item, origin, stored, names)
            if step.is_written:
                names[step.spec.name] = step.target_id
            steps.append(step)
        return steps

    def _known_job(
        self, item: ImportedJob, origin: Origin, stored: "_StoredJobs", names: Mapping[str, int]
    ) -> JobStep:
        action, words = ImportAction.UNCHANGED, ""
        if _is_changed_there(item, origin):
            target = stored.fingerprint(origin.target_id, item.spec.app)
            action, words = decide_change(origin, target, overwrite=self.overwrite)
            if words:
                words = f"{words}: {', '.join(stored.differing(origin.target_id, item.spec))}"
        return _named(_step(action, item, origin.target_id, words), names)


class _StoredJobs:
    """The current state of some jobs here."""

    def __init__(self, session: Session, job_ids: Sequence[int]) -> None:
        self._jobs = origins.jobs(session, job_ids)
        self._children = job_links.children(session, job_ids)

    def differing(self, job_id: int, spec: JobSpec) -> list[str]:
        """Return the fields of a job that differ here, or `children`."""
        ours = job_spec(self._jobs[job_id], spec.app, ())
        changed = [
            field.name
            for field in fields(spec)
            if field.name not in _NOT_COMPARED
            and getattr(ours, field.name) != getattr(spec, field.name)
        ]
        return changed or ["children"]

    def fingerprint(self, job_id: int, app: str) -> str:
        """Return the fingerprint of a stored job, given its app's name."""
        return job_fingerprint(self._jobs[job_id], app, self._children.get(job_id, ()))


def decide_change(origin: Origin, target: str, *, overwrite: bool) -> tuple[ImportAction, str]:
    """Return what to do with an item that has changed there, and why.

    `target` is its present fingerprint here.
    """
    if origin.target_fingerprint == target:
        return ImportAction.UPDATE, ""
    if overwrite:
        return ImportAction.UPDATE, "it was changed on both sides; the version there replaces it"
    return ImportAction.CONFLICT, "it was changed on both sides; the version here is kept"


def incomplete(fingerprint: str) -> str:
    """Return what is stored instead of a job's fingerprint at the source until it is linked."""
    return f"~{fingerprint[1:]}"


def app_fingerprint(app: App) -> str:
    """Return the fingerprint of an app's present state here."""
    return digest(app_spec(app))


def job_fingerprint(job: Job, app: str, child_ids: Sequence[int]) -> str:
    """Return the fingerprint of a job's present state here, without whether it is started."""
    return fingerprint(job_spec(job, app, [f"#{child}" for child in child_ids]))


def _is_changed_there(item: ImportedApp | ImportedJob, origin: Origin) -> bool:
    return origin.source_fingerprint not in (item.fingerprint, incomplete(item.fingerprint))


def _new_job(
    item: ImportedJob, target_id: int, names: Mapping[str, int], words: str = ""
) -> JobStep:
    words = joined(words, _id_words(item.source_id, target_id))
    return _named(_step(ImportAction.CREATE, item, target_id, words), names)


def _step(action: ImportAction, item: ImportedJob, target_id: int, words: str = "") -> JobStep:
    return JobStep(action=action, item=item, target_id=target_id, spec=item.spec, words=words)


def _named(step: JobStep, names: Mapping[str, int]) -> JobStep:
    """Make the name of a job that is written unique within its app, by its id there or here."""
    owner = names.get(step.spec.name, step.target_id)
    if not step.is_written or owner == step.target_id:
        return step
    name = next(
        free_name
        for number in itertools.chain((step.item.source_id,), itertools.count(step.target_id))
        if names.get(free_name := numbered(step.spec.name, number), step.target_id)
        == step.target_id
    )
    words = joined(step.words, "another job here has its name")
    return replace(step, spec=replace(step.spec, name=name), words=words)


def joined(*words: str) -> str:
    """Return the parts of a report on one item as one text."""
    return "; ".join(filter(None, words))


def _id_words(wanted: int, target_id: int) -> str:
    return "" if wanted == target_id else f"its id {wanted} is {target_id} here"
