# What type checkers see of the front door; __init__.py imports it when it is asked for.

from warren.client import ApiError as ApiError
from warren.client import AsyncClient as AsyncClient
from warren.client import Client as Client
from warren.client import RunFailed as RunFailed
from warren.executor.handlers.context import JobContext as JobContext
from warren.executor.handlers.context import JobStopped as JobStopped
from warren.executor.handlers.handler_registry import job as job
from warren.executor.handlers.hooks import RunEnd as RunEnd
from warren.executor.handlers.hooks import around_run as around_run
from warren.executor.handlers.retries import Retry as Retry
from warren.executor.handlers.retries import RetryLater as RetryLater

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
    "around_run",
    "job",
    "main",
]

def main() -> None: ...
