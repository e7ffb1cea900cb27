"""Which job a path names, as far as it exists for a token."""

from sqlalchemy.orm import Session

from admin_web.api.api_services import ApiServices
from admin_web.api.endpoint import Call
from admin_web.api.endpoints.apps import app_id_of
from admin_web.api.refusals import Refusal
from scheduler.jobs.spec import JobSpec
from sql.errors import NotFound
from sql.jobs import jobs as jobs_table
from sql.listings import job_search
from sql.listings.recent import ListedJob

#: The path of a job.
JOB = "/jobs/<app>/<name>"


def job_id_of(services: ApiServices, call: Call, app: str, name: str, if_absent: int = 404) -> int:
    """Return the id of a job that exists for a token.

    Raises:
        NotFound: there is none.
        Refusal: the same, where another status than 404 is wanted.

    """
    try:
        return _found(services, call, app, name)
    except NotFound as error:
        if if_absent == 404:  # noqa: PLR2004 - not found
            raise
        raise Refusal(if_absent, f"{error}, so it has no version to match") from error


def _found(services: ApiServices, call: Call, app: str, name: str) -> int:
    found = services.database.look(lambda session: jobs_table.named(session, app, name))
    if found is None or not call.actor.knows_job(*found):
        app_id_of(services, call, app)  # Else it is the app that is not there.
        raise NotFound(f"no job named {name[:100]!r} in app {app[:100]!r}")
    return found[1]


def read_job(services: ApiServices, call: Call, job_id: int) -> tuple[ListedJob, JobSpec]:
    """Return a job as it is listed, and as it is declared.

    Raises:
        NotFound: there is none that exists for the token.

    """
    commands, now_ms = services.commands(call.actor).jobs, services.now_ms()

    def read(session: Session) -> tuple[ListedJob, JobSpec]:
        _, spec, _ = commands.read(session, job_id)
        return job_search.show(session, job_id, call.actor.app_ids, now_ms=now_ms), spec

    return services.database.read(read)
