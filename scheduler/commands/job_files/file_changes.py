"""The changes of a job file, as they are told, and the file itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from warren.scheduler.commands.job_changes import Applied, ChangeAction
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.schedules.registry import has_schedule
from warren.sql.batch import CHUNK
from warren.sql.jobs import job_names

#: Told about a new job whose schedule does not run because nobody said that it should.
STOPPED = "stopped (enabled is not set)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What applying a job file does to one app or job.

    Attributes:
        what: app or job.
        name: the app's name, or APP/NAME.
        details: a line for each changed field; of a new job, that it does not run by itself.
        diff: the lines of a unified diff of the script.

    """

    action: ChangeAction
    what: str
    name: str
    details: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A job file that has been read; with `prune`, jobs that it leaves out are deleted."""

    apps: Sequence[AppSpec]
    specs: Sequence[JobSpec]
    prune: bool

    def by_app(self) -> dict[str, AppSpec | None]:
        """Return all apps by name; None for an app that only jobs name."""
        unnamed = dict.fromkeys(spec.app for spec in self.specs)
        return unnamed | {app.name: app for app in self.apps}

    def left_out(self, session: Session, app_ids: Mapping[str, int]) -> dict[int, tuple[str, str]]:
        """Return app and name of the jobs that are to be deleted, by id and in order."""
        if not self.prune:
            return {}
        kept = {(app_ids[spec.app], spec.name) for spec in self.specs}
        apps = {app_id: app for app, app_id in app_ids.items()}
        stored = job_names.names_in_apps(session, apps)
        gone = [
            (apps[app_id], name, one) for one, app_id, name in stored if (app_id, name) not in kept
        ]
        return {job_id: (app, name) for app, name, job_id in sorted(gone)}


def parts(specs: Iterable[tuple[int, JobSpec]]) -> Iterator[list[tuple[int, JobSpec]]]:
    """Yield the numbered jobs in order, in parts; no job is twice in a part."""
    part: dict[tuple[str, str], tuple[int, JobSpec]] = {}
    for number, spec in specs:
        if len(part) == CHUNK or (spec.app, spec.name) in part:
            yield list(part.values())
            part = {}
        part[spec.app, spec.name] = number, spec
    yield list(part.values())


def app_change(name: str, *, is_new: bool, words: tuple[str, ...]) -> Change:
    """Return the change of an app; a new one has no details."""
    if is_new:
        return Change(action=ChangeAction.CREATE, what="app", name=name)
    return Change(action=ChangeAction.UPDATE, what="app", name=name, details=words)


def job_change(spec: JobSpec, applied: Applied, children: str | None) -> Change:
    """Return the change of a job; `children` says what changes about these."""
    name = f"{spec.app}/{spec.name}"
    change = Change(
        action=applied.action, what="job", name=name, details=applied.details, diff=applied.diff
    )
    if change.action is ChangeAction.CREATE:
        is_idle = spec.enabled is None and has_schedule(spec.schedule_kind)
        return replace(change, details=(STOPPED,)) if is_idle else change
    if children is None:
        return change
    is_switch = change.action in (ChangeAction.START, ChangeAction.STOP)
    state = (f"state: {change.action}",) if is_switch else change.details
    return replace(change, action=ChangeAction.UPDATE, details=(children, *state))


def deletion(app: str, name: str) -> Change:
    """Return the change of a job that is deleted."""
    return Change(action=ChangeAction.DELETE, what="job", name=f"{app}/{name}")
