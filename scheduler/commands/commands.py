"""All commands, for console, command line and API alike."""

from functools import cached_property

from warren.scheduler.commands.account_commands import TokenCommands, UserCommands
from warren.scheduler.commands.alarm_commands import AlarmCommands, IncidentCommands, MuteCommands
from warren.scheduler.commands.backfill_commands import BackfillCommands
from warren.scheduler.commands.bulk_commands import (
    BulkJobCommands,
    BulkRunCommands,
    ClearingCommands,
)
from warren.scheduler.commands.calendar_commands import CalendarCommands
from warren.scheduler.commands.cluster_commands import AppCommands, ClusterCommands
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.field_edits import FieldEditCommands
from warren.scheduler.commands.identity_commands import IdentityCommands, RuleCommands
from warren.scheduler.commands.job_commands import JobCommands
from warren.scheduler.commands.job_files import JobFileCommands
from warren.scheduler.commands.limit_commands import LimitCommands
from warren.scheduler.commands.run_commands import RunCommands
from warren.scheduler.commands.script_commands import ScriptCommands


class Commands:
    """The commands of one actor, grouped by what they act on.

    Each command checks a right, takes ids, refuses with `Problem` or `Refused`, and writes an audit
    log entry in its own transaction. A request needs one group of twenty, so each is created on
    first use.
    """

    alarms = cached_property(lambda self: AlarmCommands(self.context))
    apps = cached_property(lambda self: AppCommands(self.context))
    backfills = cached_property(lambda self: BackfillCommands(self.context))
    bulk_jobs = cached_property(lambda self: BulkJobCommands(self.context))
    bulk_runs = cached_property(lambda self: BulkRunCommands(self.context))
    calendars = cached_property(lambda self: CalendarCommands(self.context))
    clearing = cached_property(lambda self: ClearingCommands(self.context))
    cluster = cached_property(lambda self: ClusterCommands(self.context))
    field_edits = cached_property(lambda self: FieldEditCommands(self.context))
    identities = cached_property(lambda self: IdentityCommands(self.context))
    incidents = cached_property(lambda self: IncidentCommands(self.context))
    job_files = cached_property(lambda self: JobFileCommands(self.context))
    jobs = cached_property(lambda self: JobCommands(self.context))
    limits = cached_property(lambda self: LimitCommands(self.context))
    mutes = cached_property(lambda self: MuteCommands(self.context))
    rules = cached_property(lambda self: RuleCommands(self.context))
    runs = cached_property(lambda self: RunCommands(self.context))
    scripts = cached_property(lambda self: ScriptCommands(self.context))
    tokens = cached_property(lambda self: TokenCommands(self.context))
    users = cached_property(lambda self: UserCommands(self.context))

    def __init__(self, context: CommandContext) -> None:
        self.context = context
