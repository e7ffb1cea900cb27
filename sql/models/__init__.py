"""The tables as thin maps: XXL-JOB's eight by their names, and Warren's own.

Columns that XXL-JOB has keep its names and meanings; their attributes have the domain's names.
`*_at` of a run and of Warren's own tables are epoch milliseconds in UTC; DATETIME columns are
XXL-JOB's and hold UTC too.
"""

from sql.models.accounts import AuditEntry, SignIn, SignInLimit, User
from sql.models.alarms import Alarm
from sql.models.api import ApiToken, IdempotencyKey
from sql.models.apps import App, ExecutorLoad, Registration
from sql.models.base import Model
from sql.models.cluster import Cluster, Lease, Pause, Sequence, Uptime
from sql.models.imports import ImportOrigin
from sql.models.jobs import Job, JobChild, RouteMemory, ScriptVersion
from sql.models.preferences import Favourite, SavedFilter
from sql.models.runs import AppDay, DayReport, Purge, Run
from sql.models.schedules import History, SkippedTicks

__all__ = [
    "Alarm",
    "ApiToken",
    "App",
    "AppDay",
    "AuditEntry",
    "Cluster",
    "DayReport",
    "ExecutorLoad",
    "Favourite",
    "History",
    "IdempotencyKey",
    "ImportOrigin",
    "Job",
    "JobChild",
    "Lease",
    "Model",
    "Pause",
    "Purge",
    "Registration",
    "RouteMemory",
    "Run",
    "SavedFilter",
    "ScriptVersion",
    "Sequence",
    "SignIn",
    "SignInLimit",
    "SkippedTicks",
    "Uptime",
    "User",
]
