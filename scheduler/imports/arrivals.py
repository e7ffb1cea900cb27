"""What an import brings, in Warren's terms; the readers of each source make it."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import date, datetime

import msgspec

from broker.reasons.reason import Reason
from scheduler.imports.findings import Finding
from scheduler.jobs.spec import AppSpec, JobSpec
from sql.accounts.users import Role
from sql.run_status import RunStatus

_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class AppArrival:
    """An app; further groups of the source that are the same app here are `merged_ids`."""

    source_id: int
    spec: AppSpec
    merged_ids: tuple[int, ...] = ()

    @property
    def there(self) -> str:
        """Return the fingerprint of the source's side."""
        return digest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionArrival:
    """An earlier version of a script."""

    language: str
    source: str
    remark: str
    saved_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArrival:
    """A job. Its children are ids of the source; `spec` names none and starts nothing.

    `stop_reasons`: why it may not be started as it is. `is_running`: it was started there;
    `next_tick_ms` is then the first tick that nobody has decided yet, 0 = unknown.
    """

    source_id: int
    spec: JobSpec
    child_ids: tuple[int, ...] = ()
    stop_reasons: tuple[Reason, ...] = ()
    versions: tuple[VersionArrival, ...] = ()
    added_at: datetime | None = None
    updated_at: datetime | None = None
    is_running: bool = False
    next_tick_ms: int = 0

    @property
    def there(self) -> str:
        """Return the fingerprint of the source's side, whether it is started or not."""
        return digest(
            replace(self, added_at=None, updated_at=None, is_running=False, next_tick_ms=0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserArrival:
    """A user, with the ids at the source of the apps that they may see."""

    source_id: int
    name: str
    role: Role
    app_ids: tuple[int, ...] = ()

    @property
    def there(self) -> str:
        """Return the fingerprint of the source's side."""
        return digest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayArrival:
    """How the runs of one day ended."""

    source_id: int
    day: date
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArrival:
    """A run that is over, with job and app by their ids at the source; instants in ms."""

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
class Arrivals:
    """All that arrives but the runs, and what was found on the way."""

    apps: list[AppArrival] = field(default_factory=list)
    jobs: list[JobArrival] = field(default_factory=list)
    users: list[UserArrival] = field(default_factory=list)
    days: list[DayArrival] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    highest_run_id: int = 0


def digest(value: object) -> str:
    """Return a fingerprint of a dataclass, or of what JSON can hold."""
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:32]


def numbered(name: str, number: int) -> str:
    """Return a job's name that its id tells from others of the same name."""
    suffix = f" #{number}"
    return name[: _LONGEST_NAME - len(suffix)] + suffix
