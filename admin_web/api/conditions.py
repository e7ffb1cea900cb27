"""Conditional requests: entity tags, and what must be said before anything is changed."""

from flask import request
from werkzeug.datastructures import ETags

from admin_web.api.refusals import Refusal
from scheduler.jobs.spec import JobSpec
from scheduler.jobs.stored_spec import fingerprint

HEADERS = {
    "If-Match": "The `ETag` that it must still have; `*` = whatever it is.",
    "If-None-Match": "`*`: it must not be there yet.",
}


def etag(spec: JobSpec) -> str:
    """Return the entity tag of a job: how it is described, not whether it is enabled."""
    return fingerprint(spec)


def is_known() -> bool:
    """Return whether something must exist; False = it must not.

    Raises:
        Refusal: 428, the request says neither.

    """
    if request.if_none_match.star_tag:
        return False
    if "If-Match" in request.headers:
        return True
    raise Refusal(428, 'expected the header `If-Match: "…"`, or `If-None-Match: *` to make it')


def check(tag: str) -> str | None:
    """Check that an entity tag is the one wanted; return the fingerprint in it, None = any.

    Raises:
        Refusal: 412, it is another one.

    """
    wanted: ETags = request.if_match
    if wanted.star_tag:
        return None
    if not wanted.contains(tag):
        raise Refusal(412, "it was changed meanwhile: read it again")
    return tag


def is_not_modified(tag: str) -> bool:
    """Return whether whoever asks has this very version."""
    return request.if_none_match.contains_weak(tag)
