# What type checkers see of the front door; __init__.py imports it when it is asked for.

from warren.client import ApiError as ApiError
from warren.client import AsyncClient as AsyncClient
from warren.client import Client as Client
from warren.client import RunFailed as RunFailed
from warren.executor.handlers.context import JobContext as JobContext
from warren.executor.handlers.context import JobStopped as JobStopped
from warren.executor.handlers.context import RetryLater as RetryLater
from warren.executor.handlers.declarations import Retry as Retry
from warren.executor.handlers.declarations import Schedule as Schedule
from warren.executor.handlers.declarations import at as at
from warren.executor.handlers.declarations import cron as cron
from warren.executor.handlers.declarations import delay as delay
from warren.executor.handlers.declarations import every as every
from warren.executor.handlers.declarations import workday as workday
from warren.executor.handlers.handler_registry import job as job
from warren.executor.handlers.hooks import RunEnd as RunEnd
from warren.executor.handlers.hooks import around_run as around_run

__version__: str
__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "JobContext",
    "JobStopped",
    "Retry",
    "RetryLater",
    "RunEnd",
    "RunFailed",
    "Schedule",
    "around_run",
    "at",
    "cron",
    "delay",
    "every",
    "job",
    "main",
    "workday",
]

def main() -> None: ...
