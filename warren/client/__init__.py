"""`warren.Client` and `warren.AsyncClient`: the HTTP API from Python, with only the base install.

`calls` is the one table of calls, `wire` writes their requests, `exchange` decides what is
sent again, `connections` and `streams` only send.
"""

from warren.broker.messages.values import Progress
from warren.client.answers import (
    Applied,
    Backfill,
    Change,
    Executor,
    Job,
    Limit,
    LogPart,
    Run,
    Tick,
)
from warren.client.clients import AsyncClient, Client
from warren.client.errors import ApiError, RunFailed
from warren.client.wire import Trigger

__all__ = [
    "ApiError",
    "Applied",
    "AsyncClient",
    "Backfill",
    "Change",
    "Client",
    "Executor",
    "Job",
    "Limit",
    "LogPart",
    "Progress",
    "Run",
    "RunFailed",
    "Tick",
    "Trigger",
]
