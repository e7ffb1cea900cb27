"""The tables as thin classes: XXL-JOB's eight, and Warren's own.

XXL-JOB's tables and columns keep their names and meanings; the attributes have the names of the
domain. `*_at` are epoch milliseconds in UTC; DATETIME columns are XXL-JOB's and are in UTC too.
"""

from warren.sql.models.alarms import Alarm, Incident, Watch
from warren.sql.models.base import Model
from warren.sql.models.business_day import Backfill, CalendarRow, Hold, Limit
from warren.sql.models.cluster import (
    ApiToken,
    App,
    AuditEntry,
    Cluster,
    Epoch,
    ExecutorLoad,
    Favourite,
    IdempotencyKey,
    ImportOrigin,
    Lease,
    Pause,
    Registration,
    SavedFilter,
    Sequence,
    SignIn,
    SignInLimit,
    StoredCatalogue,
    Uptime,
    User,
)
from warren.sql.models.jobs import (
    FlowJob,
    History,
    Job,
    JobChild,
    RouteMemory,
    ScriptVersion,
    SkippedTicks,
)
from warren.sql.models.runs import (
    AppDay,
    Call,
    DayReport,
    FlowNode,
    JobSuccess,
    MetricCount,
    Purge,
    Run,
)

__all__ = [
    "Alarm",
    "ApiToken",
    "App",
    "AppDay",
    "AuditEntry",
    "Backfill",
    "CalendarRow",
    "Call",
    "Cluster",
    "DayReport",
    "Epoch",
    "ExecutorLoad",
    "Favourite",
    "FlowJob",
    "FlowNode",
    "History",
    "Hold",
    "IdempotencyKey",
    "ImportOrigin",
    "Incident",
    "Job",
    "JobChild",
    "JobSuccess",
    "Lease",
    "Limit",
    "MetricCount",
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
    "StoredCatalogue",
    "Uptime",
    "User",
    "Watch",
]
