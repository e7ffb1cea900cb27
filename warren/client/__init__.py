"""`warren.Client` and `warren.AsyncClient`: the HTTP API from Python, with only the base install.

`calls` is the one table of calls and writes their requests, `exchange` decides what is sent
again, `clients` sends.
"""

from warren.client.calls import Trigger
from warren.client.clients import AsyncClient, Client
from warren.client.exchange import ApiError, RunFailed
from warren.resources.backfills import Backfill
from warren.resources.calendars import Calendar, CalendarYear
from warren.resources.cluster import Cluster, Executor, Scheduler
from warren.resources.job_files import Applied
from warren.resources.job_files import ChangeAnswer as Change
from warren.resources.jobs import Job
from warren.resources.limits import Limit
from warren.resources.runs import LogAnswer as LogPart
from warren.resources.runs import Progress, Run
from warren.resources.runs import TickEnd as Tick

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
