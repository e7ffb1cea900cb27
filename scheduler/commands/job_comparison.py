"""Compares apps and jobs with a file's descriptions, without locks."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.orm import Session

from scheduler.commands.script_changes import has_script
from scheduler.jobs.fields import changed
from scheduler.jobs.spec import AppSpec, JobSpec
from scheduler.jobs.stored_spec import app_spec
from sql.jobs import child_links, jobs
from sql.models import App, Job


def is_app_as_described(app: App, wanted: AppSpec | None) -> bool:
    """Whether there is nothing to do to an app; None = it only has to be there."""
    if wanted is None:
        return True
    stored = app_spec(app)
    is_titled = wanted.title is None or wanted.title == app.title
    return is_titled and _told(stored) == _told(wanted)


def _told(app: AppSpec) -> tuple[object, ...]:
    return app.addresses, app.alarm, app.webhook


def is_as_described(job: Job, spec: JobSpec) -> bool:
    """Whether there is nothing to do to a job but for its children; it need not be locked for that.

    One that ended by itself and is to be stopped may have runs to cancel.
    """
    if changed(job, spec) or not has_script(job, spec):
        return False
    if spec.enabled is None or (spec.enabled and job.stop_reason is not None):
        return True
    is_enabled = job.is_enabled == 1
    return spec.enabled == is_enabled and job.stop_reason is None


class StoredJobs:
    """The jobs of some apps, given by name and id, to compare with descriptions of them."""

    def __init__(self, session: Session, app_ids: Mapping[str, int]) -> None:
        self._session = session
        self._app_ids = app_ids
        self._parents = child_links.with_children(session)

    def are_as_described(self, specs: Sequence[JobSpec]) -> bool:
        """Whether each of them is there, and is so with its children."""
        keys = [(self._app_ids[spec.app], spec.name) for spec in specs]
        found = jobs.find_many(self._session, keys)
        if not all(
            key in found and is_as_described(found[key], spec)
            for key, spec in zip(keys, specs, strict=True)
        ):
            return False
        parents = {job.id for job in found.values()} & self._parents
        children = self._children(parents)
        return all(
            children.get(found[key].id, ()) == _children_of(spec)
            for key, spec in zip(keys, specs, strict=True)
        )

    def _children(self, parents: Collection[int]) -> dict[int, tuple[tuple[str, str], ...]]:
        """Return the children of jobs by app and name; "" for one that was deleted."""
        found = child_links.children(self._session, parents)
        names = child_links.names(self._session, {one for ids in found.values() for one in ids})
        return {
            parent: tuple(names.get(child, ("", "")) for child in ids)
            for parent, ids in found.items()
        }


def _children_of(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    parts = (child.rpartition("/") for child in spec.children)
    return tuple(dict.fromkeys((app if slash else spec.app, name) for app, slash, name in parts))
