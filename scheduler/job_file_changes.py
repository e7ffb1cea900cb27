"""A whole job file into rows: apps, jobs, their children, and what the file no longer names.

One transaction, the caller's, under the lock that keeps two saves from making a circle.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from scheduler import lineage
from scheduler.alarms.policy import AlarmTargets
from scheduler.job_changes import JobChanges
from scheduler.job_spec import AppSpec, JobSpec
from scheduler.trail import Action, Trail
from sql import alarm_targets, apps, families, jobs
from sql.errors import NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What applying a job file did, or would do.

    `action` is create, update, start, stop, delete or unchanged; `what` is app or job; `name` is
    the app's name, or APP/NAME. `details` has a line for each field that changed, `diff` the lines
    of a unified diff of its script.
    """

    action: str
    what: str
    name: str
    details: tuple[str, ...] = ()
    diff: tuple[str, ...] = ()


class JobFileChanges:
    """Applies job files; `may_touch` tells of an app's id whether it is open to whoever acts."""

    def __init__(
        self,
        changes: JobChanges,
        trail: Trail,
        *,
        now_ms: Callable[[], int],
        may_touch: Callable[[int], bool],
    ) -> None:
        self._changes = changes
        self._trail = trail
        self._now_ms = now_ms
        self._may_touch = may_touch

    def apply(
        self,
        session: Session,
        wanted_apps: Sequence[AppSpec],
        specs: Sequence[JobSpec],
        *,
        prune: bool,
    ) -> list[Change]:
        """Make apps and jobs as described; return what changed, in order.

        Raises:
            NotFound: an app is none of those that may be touched.
            ValueError: a job could never fire, its children are unknown or form a circle, or one
                that is to be deleted is another's child.

        """
        families.lock(session)
        changes = []
        app_ids = {}
        known = apps.ids_by_name(session)
        unnamed = {spec.app: None for spec in specs}
        for name, app in (unnamed | {app.name: app for app in wanted_apps}).items():
            app_ids[name], words = _apply_app(session, name, app)
            if not self._may_touch(app_ids[name]):
                raise NotFound(f"no app named {name!r}")
            if words or name not in known:
                change = Change(action="create", what="app", name=name)
                if name in known:
                    change = replace(change, action="update", details=words)
                changes.append(change)
                self._trail.note(
                    session,
                    Action(f"app.{change.action}"),
                    name,
                    object_id=app_ids[name],
                    now_ms=self._now_ms(),
                    after={"changed": list(words)},
                )
        applied = [self._apply_job(session, app_ids[spec.app], spec) for spec in specs]
        changes += self._link(session, specs, app_ids, applied)
        if prune:
            kept = {(app_ids[spec.app], spec.name) for spec in specs}
            changes += self._prune(session, app_ids, kept)
        return changes

    def _apply_job(self, session: Session, app_id: int, spec: JobSpec) -> Change:
        action, details, diff = self._changes.apply(session, app_id, spec, self._now_ms())
        name = f"{spec.app}/{spec.name}"
        return Change(action=action, what="job", name=name, details=details, diff=diff)

    def _link(
        self,
        session: Session,
        specs: Sequence[JobSpec],
        app_ids: dict[str, int],
        applied: Sequence[Change],
    ) -> list[Change]:
        """Make jobs the children of others, now that all of them are there."""
        changes, linked = [], []
        for spec, change in zip(specs, applied, strict=True):
            job_id, words = self._changes.link(session, app_ids[spec.app], spec, self._now_ms())
            changes.append(_also(change, words) if words else change)
            linked += [job_id] if words else []
        lineage.refuse_circles(session, linked)
        return changes

    def _prune(
        self, session: Session, app_ids: dict[str, int], kept: set[tuple[int, str]]
    ) -> list[Change]:
        doomed = [
            (job, app)
            for job, app in jobs.listing(session)
            if job.job_group in app_ids.values() and (job.job_group, job.job_desc) not in kept
        ]
        if not doomed:
            return []
        lineage.refuse_orphans(session, {job.id for job, _ in doomed})
        for job, _ in doomed:
            self._changes.delete(session, jobs.lock(session, job.id), self._now_ms())
        return [
            Change(action="delete", what="job", name=f"{app}/{job.job_desc}") for job, app in doomed
        ]


def _also(change: Change, words: str) -> Change:
    """Return a change of which there is more to say."""
    if change.action == "create":
        return change
    state = (f"state: {change.action}",) if change.action in ("start", "stop") else change.details
    return replace(change, action="update", details=(words, *state))


def _apply_app(session: Session, name: str, wanted: AppSpec | None) -> tuple[int, tuple[str, ...]]:
    """Make an app as described; return its id and what changed, in words."""
    app_id, is_changed = apps.ensure(session, name, wanted.title if wanted else None)
    words = ["title"] if is_changed else []
    if wanted and apps.list_addresses(session, app_id, wanted.addresses):
        words.append(f"addresses: {', '.join(wanted.addresses) or 'all that register'}")
    if wanted and alarm_targets.set_app(session, app_id, **_alarm_columns(wanted.alarm)):
        words.append("alarm")
    return app_id, tuple(words)


def _alarm_columns(alarm: AlarmTargets) -> dict[str, str]:
    return {"emails": ",".join(alarm.emails), "webhook": alarm.webhook, "style": alarm.style}
