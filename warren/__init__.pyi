# What type checkers see of the front door; __init__.py imports it when it is asked for.

from warren.client import ApiError as ApiError
from warren.client import Client as Client
from warren.client import RunFailed as RunFailed
from warren.executor.handlers.context import JobContext as JobContext
from warren.executor.handlers.context import JobStopped as JobStopped
from warren.executor.handlers.handler_registry import job as job

__version__: str
__all__ = ["ApiError", "Client", "JobContext", "JobStopped", "RunFailed", "job", "main"]

def main() -> None: ...
