"""What of a job the sender of an errand may see."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from warren.errands.desk import Desk
from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.jobs.spec import FIELDS, JobSpec
from warren.sql.jobs import child_links
from warren.sql.registry import apps

_SECRETS = tuple(name for name, field in FIELDS.items() if field.kind.is_secret)


def visible_children(desk: Desk, session: Session, job_ids: Iterable[int]) -> dict[int, list[str]]:
    """Return the children of jobs as APP/NAME, without those of apps that do not exist for it."""
    children = child_links.children_names(session, job_ids)
    app_ids = desk.actor.app_ids
    if app_ids is None:
        return children
    known = set(apps.ids_by_name(session, app_ids))
    return {
        job_id: [name for name in names if name.partition("/")[0] in known]
        for job_id, names in children.items()
    }


def visible_spec(desk: Desk, spec: JobSpec) -> JobSpec:
    """Return a job with webhooks cut down to their hosts, unless the sender may change it."""
    if desk.shows_secrets:
        return spec
    cut: dict[str, Any] = {name: without_secret(getattr(spec, name)) for name in _SECRETS}
    return replace(spec, **cut)
