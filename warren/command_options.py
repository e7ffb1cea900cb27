"""Options that commands share: settings as flags, `--json`, examples in the help."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from warren.logs import configure_logs
from warren.settings.reading import read_settings

#: Each flag that sets a setting, with its help. No flag takes a secret: a list of processes
#: shows it to everybody.
SETTING_FLAGS = {
    "database_url": "Database, without a password, e.g. sqlite:///path.",
    "broker_url": "RabbitMQ, without a password; several parted by commas.",
    "log_dir": "Folder of the runs' logs.",
    "state_dir": "Folder of the executors' journals.",
    "slots": "Job processes at a time in one executor.",
    "grace_seconds": "Seconds between SIGTERM and SIGKILL.",
    "drain_seconds": "Seconds that running jobs get when an executor ends.",
    "cpu_limit": "Per cent of CPU above which an executor is busy.",
    "memory_limit": "Per cent of memory above which an executor is busy.",
    "glue": "Which scripts it runs: all, off, or languages parted by commas.",
    "host": "Address that the console listens at.",
    "port": "Port of the console; 0 = any that is free.",
    "api_host": "Address that the API listens at.",
    "api_port": "Port of the API; 0 = any that is free.",
    "gateway_allow": "Addresses that executors may register, parted by commas.",
    "gateway_host": "Address that the gateway listens at.",
    "gateway_port": "Port of the gateway; 0 = any that is free.",
    "gateway_slots": "Runs at a time at one registered executor.",
    "timezone": "Time zone of jobs that name none.",
    "log_level": "debug, info, warning or error.",
}

as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")


def takes_settings(*flags: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command these flags, and the settings as its first argument.

    The settings are read once, when the command is called.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(**arguments: Any) -> Any:
            settings = read_settings({name: arguments.pop(name) for name in flags})
            configure_logs(settings.log_level)
            return command(settings, **arguments)

        for name in reversed(flags):
            call = click.option(_flag(name), default=None, help=SETTING_FLAGS[name])(call)
        return call

    return decorate


def examples(*lines: str) -> str:
    """Return the end of a command's help: examples, a line each."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
