"""A client of the API in this process, on its database, as the user who runs this program.

So a command does the same, and prints the same, whether an API or this process carries it out.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from warren import __version__
from warren.admin_web.api.application import InProcess
from warren.admin_web.services import ApiLimits, ApiServices, JobFiles
from warren.client.clients import Client
from warren.client.exchange import Request, Response
from warren.database_access import now_ms, open_database
from warren.jobfile.export import job_file
from warren.jobfile.uploads import check_upload, read_upload
from warren.local_client import operator
from warren.log_store import make_stored_logs
from warren.resources.job_files import check_job_files
from warren.route_plugins import route_names
from warren.scheduler.actor import Actor
from warren.scheduler.membership.self_health import cluster_zone
from warren.settings.settings import Settings
from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.terminal.output import show_progress

#: What is about files alone.
_WITHOUT_DATABASE = {check_job_files.endpoint.rule}
#: Seconds between two looks at a run that is waited for.
POLL_SECONDS = 0.1


@contextmanager
def in_process(settings: Settings) -> Iterator[Client]:
    """Yield a client; the database is opened for the first call, and for the first that writes."""
    with ExitStack() as held:
        yield InProcessClient(_Databases(settings, held))


class InProcessClient(Client):
    """Calls an application in this process."""

    def __init__(self, applications: "_Databases") -> None:
        super().__init__(
            "http://in-process",
            "",
            pause=lambda seconds: time.sleep(min(seconds, POLL_SECONDS)),
            waits_for_room=False,
        )
        self._transport = applications


class _FewIds(RunIds):
    """Takes ids one by one, as a command plans few runs."""

    def reserve(self) -> None:
        """Reserve none."""


class _Databases:
    """The API on the database, opened for reading or for writing when it is first needed."""

    def __init__(self, settings: Settings, held: ExitStack) -> None:
        self._settings = settings
        self._held = held
        self._caller = Actor(who=operator())
        self._opened: dict[bool, InProcess] = {}

    def send(self, request: Request) -> Response:
        """Answer a request; raises what is wrong with the database."""
        if request.path in _WITHOUT_DATABASE:
            api = self._without_database()
        else:
            api = self._api(for_writing=request.method != "GET")
        status, headers, body = api.answer(
            request.method, request.path, request.headers, request.body
        )
        return Response(status, {name.lower(): value for name, value in headers.items()}, body)

    def close(self) -> None:
        """Do nothing: whoever opened it closes the database."""

    def _api(self, *, for_writing: bool) -> InProcess:
        if True in self._opened:  # what may be written may be read
            return self._opened[True]
        if for_writing not in self._opened:
            opened = open_database(self._settings, for_writing=for_writing)
            database = self._held.enter_context(opened)
            zone = self._settings.timezone
            self._opened[for_writing] = self._on(
                database,
                now_ms=lambda: now_ms(database),
                zone=lambda: database.read(lambda session: cluster_zone(session, zone)),
            )
        return self._opened[for_writing]

    def _without_database(self) -> InProcess:
        database = Database(file_url(Path(os.devnull)))  # it is never opened
        self._held.callback(database.close)
        zone = self._settings.timezone
        return self._on(database, now_ms=lambda: time.time_ns() // 1_000_000, zone=lambda: zone)

    def _on(
        self, database: Database, *, now_ms: Callable[[], int], zone: Callable[[], str]
    ) -> InProcess:
        services = ApiServices(
            database=database,
            now_ms=now_ms,
            cluster_zone=zone,
            is_broker_up=lambda: False,
            added_routes=route_names(),
            run_ids=_FewIds(database),
            stored_logs=make_stored_logs(self._settings, lazily=True),
            job_files=JobFiles(read=read_upload, check=check_upload, write=job_file),
            limits=ApiLimits(clear_seconds=math.inf),
            version=__version__,
            on_progress=show_progress,
        )
        return InProcess(services, self._caller)
