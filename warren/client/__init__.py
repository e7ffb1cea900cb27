"""`warren.Client` and `warren.AsyncClient`: the HTTP API from Python, with only the base install.

`calls` is the one table of calls and writes their requests, `exchange` decides what is sent
again, `clients` sends.
"""

from warren.broker.messages.values import Progress
from warren.client.answers import (
    ApiError,
    Job,
    LogPart,
    Run,
    RunFailed,
    Tick,
)
from warren.client.calls import Trigger
from warren.client.clients import AsyncClient, Client
from warren.resources.backfills import Backfill
from warren.resources.calendars import Calendar, CalendarYear
from warren.resources.cluster import Cluster, Executor, Scheduler
from warren.resources.job_files import Applied
from warren.resources.job_files import ChangeAnswer as Change
from warren.resources.limits import Limit

__all__ = [
    "ApiError",
    "Applied",
    "AsyncClient",
    "Backfill",
    "Calendar",
    "CalendarYear",
    "Change",
    "Client",
    "Cluster",
    "Executor",
    "Job",
    "Limit",
    "LogPart",
    "Progress",
    "Run",
    "RunFailed",
    "Scheduler",
    "Tick",
    "Trigger",
]
