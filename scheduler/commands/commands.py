"""All commands, for console, command line and API alike."""

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


class Commands:
    """The commands of one actor, grouped by what they act on.

    Each command checks a right, takes ids, refuses with `Problem` or `Refused`, and writes an audit
    log entry in its own transaction.
    """

    def __init__(self, context: CommandContext) -> None:
        self.alarms = AlarmCommands(context)
        self.apps = AppCommands(context)
        self.backfills = BackfillCommands(context)
        self.bulk_jobs = BulkJobCommands(context)
        self.bulk_runs = BulkRunCommands(context)
        self.calendars = CalendarCommands(context)
        self.clearing = ClearingCommands(context)
        self.cluster = ClusterCommands(context)
        self.incidents = IncidentCommands(context)
        self.job_files = JobFileCommands(context)
        self.jobs = JobCommands(context)
        self.limits = LimitCommands(context)
        self.runs = RunCommands(context)
        self.scripts = ScriptCommands(context)
        self.tokens = TokenCommands(context)
        self.users = UserCommands(context)
