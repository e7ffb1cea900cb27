"""Finds the job that a path names, if the token may see it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from warren.admin_web.api.endpoint import Call
from warren.admin_web.api.endpoints.apps import app_id_of
from warren.admin_web.api.problem_answers import PreconditionFailed
from warren.admin_web.services import ApiServices
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.problems import lookup_problem
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_names
from warren.sql.listings import job_search
from warren.sql.listings.job_search import ListedJob

#: The path of a job.
JOB = "/jobs/<app>/<name>"


def job_id_of(services: ApiServices, call: Call, app: str, name: str) -> int:
    """Return the id of a job that a token may see.

    Raises:
        NotFound: there is no such job.

    """
    job_id = services.database.read_autocommit(lambda session: job_names.named(session, app, name))
    if job_id is None or not call.actor.knows_job(*job_id):
        with missing_app_first(services, call, app):
            raise NotFound(LookupFailure.NO_JOB_IN_APP, app=app[:100], name=name[:100])
    return job_id[1]


@contextmanager
def missing_app_first(services: ApiServices, call: Call, app: str) -> Iterator[None]:
    """If a job is not found in this block, raise that its app does not exist if that is so.

    Raises:
        NotFound: there is no such app or job.

    """
    try:
        yield
    except NotFound:
        app_id_of(services, call, app)
        raise


def job_id_to_match(services: ApiServices, call: Call, app: str, name: str) -> int:
    """Return the id of a job that, according to If-Match, the client has seen.

    Raises:
        PreconditionFailed: there is no such job.

    """
    try:
        return job_id_of(services, call, app, name)
    except NotFound as error:
        raise PreconditionFailed([lookup_problem(error)]) from error


def read_job(services: ApiServices, call: Call, job_id: int) -> tuple[ListedJob, JobSpec]:
    """Return a job as it is listed, and as it is declared.

    Raises:
        NotFound: there is none that the token may see.

    """
    commands, now_ms = services.commands(call.actor).jobs, services.now_ms()

    def read(session: Session) -> tuple[ListedJob, JobSpec]:
        _, spec, _ = commands.read(session, job_id)
        return job_search.show(session, job_id, call.actor.app_ids, now_ms=now_ms), spec

    return services.database.read(read)
