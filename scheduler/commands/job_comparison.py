"""Compares stored apps and jobs with the specs of a job file, without locks."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.orm import Session

from scheduler.commands.script_changes import has_script
from scheduler.jobs.fields import changed
from scheduler.jobs.spec import AppSpec, JobSpec
from scheduler.jobs.stored_spec import app_spec
from sql.jobs import child_links, jobs
from sql.models import App, Job


def is_app_as_described(app: App, wanted: AppSpec | None) -> bool:
    """Whether an app needs no change; `wanted` None = it only has to exist."""
    if wanted is None:
        return True
    stored = app_spec(app)
    is_titled = wanted.title is None or wanted.title == app.title
    return is_titled and _settings(stored) == _settings(wanted)


def _settings(app: AppSpec) -> tuple[object, ...]:
    return app.addresses, app.alarm, app.webhook


def is_as_described(job: Job, spec: JobSpec) -> bool:
    """Whether a job needs no change, apart from its children; the job need not be locked.

    A job whose schedule ended by itself and that is to be stopped may still have runs to cancel.
    """
    if changed(job, spec) or not has_script(job, spec):
        return False
    if spec.enabled is None or (spec.enabled and job.stop_reason is not None):
        return True
    is_enabled = job.is_enabled == 1
    return spec.enabled == is_enabled and job.stop_reason is None


class StoredJobs:
    """The stored jobs of some apps; `app_ids` are their ids by name."""

    def __init__(self, session: Session, app_ids: Mapping[str, int]) -> None:
        self._session = session
        self._app_ids = app_ids
        self._parents = child_links.with_children(session)

    def are_as_described(self, specs: Sequence[JobSpec]) -> bool:
        """Whether each of these jobs exists and matches its spec, children included."""
        keys = [(self._app_ids[spec.app], spec.name) for spec in specs]
        stored = jobs.find_many(self._session, keys)
        if not all(
            key in stored and is_as_described(stored[key], spec)
            for key, spec in zip(keys, specs, strict=True)
        ):
            return False
        parents = {job.id for job in stored.values()} & self._parents
        children = self._children(parents)
        return all(
            children.get(stored[key].id, ()) == _children_of(spec)
            for key, spec in zip(keys, specs, strict=True)
        )

    def _children(self, parents: Collection[int]) -> dict[int, tuple[tuple[str, str], ...]]:
        """Return each parent's children by app and name; both empty for a deleted child."""
        child_ids = child_links.children(self._session, parents)
        names = child_links.names(self._session, {one for ids in child_ids.values() for one in ids})
        return {
            parent: tuple(names.get(child, ("", "")) for child in ids)
            for parent, ids in child_ids.items()
        }


def _children_of(spec: JobSpec) -> tuple[tuple[str, str], ...]:
    parts = (child.rpartition("/") for child in spec.children)
    return tuple(dict.fromkeys((app if slash else spec.app, name) for app, slash, name in parts))
