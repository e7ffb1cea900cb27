"""All commands, for console, command line and API alike."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from warren.scheduler.commands.alarms.alarm_commands import AlarmCommands, IncidentCommands
from warren.scheduler.commands.apps import AppCommands
from warren.scheduler.commands.bulk.bulk_jobs import BulkJobCommands
from warren.scheduler.commands.bulk.bulk_runs import BulkRunCommands
from warren.scheduler.commands.business_day.backfills import BackfillCommands
from warren.scheduler.commands.business_day.calendars import CalendarCommands
from warren.scheduler.commands.business_day.limits import LimitCommands
from warren.scheduler.commands.clearing import ClearingCommands
from warren.scheduler.commands.cluster import ClusterCommands
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.job_files.job_file import JobFileCommands
from warren.scheduler.commands.jobs import JobCommands
from warren.scheduler.commands.runs import RunCommands
from warren.scheduler.commands.scripts import ScriptCommands
from warren.scheduler.commands.tokens.token_commands import TokenCommands
from warren.scheduler.commands.users import UserCommands

T = TypeVar("T")


class _Group(Generic[T]):
    """An attribute that is made when it is first read: a request needs one group of sixteen."""

    def __init__(self, make: Callable[[CommandContext], T]) -> None:
        self._make = make

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, commands: Any, _owner: type) -> T:
        group = self._make(commands.context)
        vars(commands)[self._name] = group  # found before this descriptor from now on
        return group


class Commands:
    """The commands of one actor, grouped by what they act on.

    Each command checks a right, takes ids, refuses with `Problem` or `Refused`, and writes an audit
    log entry in its own transaction.
    """

    alarms = _Group(AlarmCommands)
    apps = _Group(AppCommands)
    backfills = _Group(BackfillCommands)
    bulk_jobs = _Group(BulkJobCommands)
    bulk_runs = _Group(BulkRunCommands)
    calendars = _Group(CalendarCommands)
    clearing = _Group(ClearingCommands)
    cluster = _Group(ClusterCommands)
    incidents = _Group(IncidentCommands)
    job_files = _Group(JobFileCommands)
    jobs = _Group(JobCommands)
    limits = _Group(LimitCommands)
    runs = _Group(RunCommands)
    scripts = _Group(ScriptCommands)
    tokens = _Group(TokenCommands)
    users = _Group(UserCommands)

    def __init__(self, context: CommandContext) -> None:
        self.context = context
