"""The items of an import in Warren's terms, the report on them, and the outcome for each.

The readers of each source produce them. The report says whether an item of the source is the same
here, different, or left out.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum

import msgspec

from warren.broker.reasons import Reason
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.accounts.users import Role
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
