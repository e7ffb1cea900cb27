"""The front door: starts the command line, and gives users what they import in handlers.

Our own modules are imported only when they are needed: multiprocessing's spawn runs this module
again in each new interpreter, which must stay cheap and free of side effects.
"""

from typing import Any

__version__ = "0.2.0.dev0"
__all__ = [
    "ApiError",
    "AsyncClient",
    "CallFailed",
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

_OFFERED = {
    "job": "warren.executor.handlers.handler_registry",
    "JobContext": "warren.executor.handlers.context",
    "JobStopped": "warren.executor.handlers.context",
    "CallFailed": "warren.executor.handlers.context",
    "Retry": "warren.executor.handlers.declarations",
    "RetryLater": "warren.executor.handlers.context",
    "Schedule": "warren.executor.handlers.declarations",
    "at": "warren.executor.handlers.declarations",
    "cron": "warren.executor.handlers.declarations",
    "delay": "warren.executor.handlers.declarations",
    "every": "warren.executor.handlers.declarations",
    "workday": "warren.executor.handlers.declarations",
    "AsyncClient": "warren.client",
    "around_run": "warren.executor.handlers.hooks",
    "RunEnd": "warren.executor.handlers.hooks",
    "Client": "warren.client",
    "ApiError": "warren.client",
    "RunFailed": "warren.client",
}


def main() -> None:
    """Run the command line."""
    from warren.cli import main as command_line  # noqa: PLC0415 - lazy, see the module's docstring

    command_line()


def __getattr__(name: str) -> Any:
    """Return what users import, imported on first use."""
    if name not in _OFFERED:
        raise AttributeError(f"module 'warren' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - lazy, see the module's docstring

    return getattr(import_module(_OFFERED[name]), name)
