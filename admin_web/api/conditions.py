"""Conditional requests: entity tags, and what must be said before anything is changed."""

import hashlib

import msgspec
from flask import request
from werkzeug.datastructures import ETags

from admin_web.api.refusals import Refusal
from scheduler.jobs.spec import JobSpec
from scheduler.jobs.stored_spec import fingerprint

#: Characters of an entity tag behind the job's version.
_TOLD_LENGTH = 16
HEADERS = {
    "If-Match": "The `ETag` that it must still have; `*` = whatever it is.",
    "If-None-Match": "`*`: it must not be there yet.",
}


def version(spec: JobSpec) -> str:
    """Return how a job is described, not whether it is enabled: what a change must have seen."""
    return fingerprint(spec)


def etag(spec: JobSpec, answer: msgspec.Struct) -> str:
    """Return the entity tag of an answer about a job: its version, and what else it tells."""
    told = hashlib.sha256(msgspec.json.encode(answer)).hexdigest()[:_TOLD_LENGTH]
    return f"{version(spec)}-{told}"


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


def check(wanted_version: str) -> str | None:
    """Check that a job's version is the one that was seen; return it, None = any.

    Other parts of a tagged representation may have changed: a job runs, and is started and stopped.

    Raises:
        Refusal: 412, it is another one.

    """
    wanted: ETags = request.if_match
    if wanted.star_tag:
        return None
    if wanted_version not in {tag.partition("-")[0] for tag in wanted.as_set()}:
        raise Refusal(412, "it has been changed in the meantime: read it again")
    return wanted_version


def is_not_modified(tag: str) -> bool:
    """Return whether the client already has this version."""
    return request.if_none_match.contains_weak(tag)
