"""Options shared by commands: settings as flags, `--json`, examples in the help."""

import json
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from warren.broker.durations import read_duration
from warren.logs import configure_logs
from warren.settings.settings import flag_of, read_settings

#: The flags that override settings, with their help. None takes a secret, because anyone can read
#: it in the list of processes.
SETTING_FLAGS = {
    "database_url": "Database URL without a password, e.g. sqlite:///path.",
    "broker_url": "RabbitMQ URL without a password; several separated by commas.",
    "log_dir": "Folder for run logs.",
    "state_dir": "Folder for the executors' journals.",
    "slots": "How many runs one executor runs at a time.",
    "grace_seconds": "Seconds between SIGTERM and SIGKILL, or 90s, 5m.",
    "drain_seconds": "Seconds for running jobs to finish at shutdown, or 90s, 5m.",
    "cpu_limit": "CPU percentage above which an executor is busy.",
    "memory_limit": "Memory percentage above which an executor is busy.",
    "glue": "Scripts to allow: all, off, or languages separated by commas.",
    "host": "Address the console listens on.",
    "port": "Port of the console; 0 means any free one.",
    "api_host": "Address the API listens on.",
    "api_port": "Port of the API; 0 means any free one.",
    "gateway_allow": "Addresses executors may register, separated by commas.",
    "gateway_host": "Address the gateway listens on.",
    "gateway_port": "Port of the gateway; 0 means any free one.",
    "gateway_slots": "Runs at a time on one registered executor.",
    "timezone": "Time zone of displayed times and of jobs without one.",
    "log_level": "debug, info, warning or error.",
}

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


def takes_settings(*flags: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add these flags to a command, and pass it the settings as first argument.

    The settings are read once, when the command is called.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def call(**arguments: Any) -> Any:
            settings = read_settings({name: arguments.pop(name) for name in flags})
            configure_logs(settings.log_level)
            return command(settings, **arguments)

        for name in reversed(flags):
            call = click.option(flag_of(name), default=None, help=SETTING_FLAGS[name])(call)
        return call

    return decorate


class Duration(click.ParamType):  # type: ignore[type-arg] # not generic in older versions
    """A duration within bounds, in seconds or with a unit: `90`, `90s`, `5m`, `2h`, `1d`."""

    name = "duration"

    def __init__(self, least: float = 0, most: float = 10**9) -> None:
        self._least, self._most = least, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            seconds = read_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= self._most:
            bounds = f"{self._least:g} to {self._most:g}"
            self.fail(f"expected {bounds} seconds, got: {value!r}", param, ctx)
        return seconds


def examples(*lines: str) -> str:
    """Return the end of a command's help: one example per line."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def read_values(
    _context: click.Context, _option: click.Parameter, given: Sequence[str]
) -> dict[str, Any]:
    """Return values by name; each is JSON, or else a text."""
    values: dict[str, Any] = {}
    for assignment in given:
        name, equals, text = assignment.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"expected NAME=VALUE, got: {assignment!r}")
        if name in values:
            raise click.BadParameter(f"expected each name once, got: {name!r} twice")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


#: Values of `${NAME}` in job files.
value_files = click.option(
    "--values",
    "value_paths",
    metavar="FILE",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Take the values of ${NAME} from this YAML file; may be repeated, later ones win.",
)
file_values = click.option(
    "--set",
    "values",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set the value of ${NAME}; may be repeated, and wins over --values.",
)
#: Values of a typed handler's params.
param_values = click.option(
    "--set",
    "values",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_values,
    help="Set one of the handler's params; may be repeated. VALUE is JSON, or else plain text.",
)
