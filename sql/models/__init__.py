"""The tables as thin classes: XXL-JOB's eight, and Warren's own.

XXL-JOB's tables and columns keep their names and meanings; the attributes have the names of the
domain. `*_at` are epoch milliseconds in UTC; DATETIME columns are XXL-JOB's and are in UTC too.
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
