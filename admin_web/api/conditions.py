"""Conditional requests: entity tags, and the preconditions of changes."""

import hashlib

import msgspec
from flask import request
from werkzeug.datastructures import ETags

from warren.admin_web.api.problem_answers import Refusal
from warren.scheduler.jobs.past_spec import fingerprint
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import Code, Problem

#: Characters of an entity tag after the job's version.
_HASH_LENGTH = 16
HEADERS = {
    "If-Match": "The `ETag` that it must still have; `*` = any.",
    "If-None-Match": "`*`: it must not exist yet.",
}
#: The header of reads.
SEEN = {"If-None-Match": "The `ETag` that the caller has; 304 if it is still the same."}


def version(spec: JobSpec) -> str:
    """Return the version of a job's declaration, which a client must name to change it.

    Starting or stopping the job does not change it.
    """
    return fingerprint(spec)


def etag(spec: JobSpec, answer: msgspec.Struct) -> str:
    """Return the entity tag of an answer about a job: its version, and a hash of the rest."""
    digest = hashlib.sha256(msgspec.json.encode(answer)).hexdigest()[:_HASH_LENGTH]
    return f"{version(spec)}-{digest}"


def is_known() -> bool:
    """Return whether the request requires the job to exist; False = it must not.

    Raises:
        Refusal: 428, the request has neither header.

    """
    if request.if_none_match.star_tag:
        return False
    if "If-Match" in request.headers:
        return True
    raise Refusal(428, 'expected the header `If-Match: "…"`, or `If-None-Match: *` to make it')


def check(spec: JobSpec) -> str | None:
    """Check that the client has seen this version of a job; return the version, None = any.

    Only the version in the tag counts: the rest changes whenever the job runs, starts or stops.

    Raises:
        Problem: the job has another version.

    """
    wanted: ETags = request.if_match
    if wanted.star_tag:
        return None
    current = version(spec)
    if current not in {tag.partition("-")[0] for tag in wanted.as_set()}:
        raise Problem(Code.JOB_CHANGED, job=f"{spec.app}/{spec.name}")
    return current


def is_not_modified(tag: str) -> bool:
    """Return whether the client already has the answer with this tag."""
    return request.if_none_match.contains_weak(tag)
