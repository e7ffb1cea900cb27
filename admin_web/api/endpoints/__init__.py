"""The groups of views; add new ones to this list."""

from warren.admin_web.api.endpoint import Group
from warren.admin_web.api.endpoints.activity import (
    ActivityEndpoints,
    BoardEndpoints,
    IncidentEndpoints,
    LedgerEndpoints,
)
from warren.admin_web.api.endpoints.apps import AppEndpoints
from warren.admin_web.api.endpoints.backfills import BackfillEndpoints
from warren.admin_web.api.endpoints.calendars import CalendarEndpoints
from warren.admin_web.api.endpoints.cluster import ClusterEndpoints, MetaEndpoints
from warren.admin_web.api.endpoints.job_files import JobFileEndpoints
from warren.admin_web.api.endpoints.jobs import JobEndpoints, JobSwitchEndpoints
from warren.admin_web.api.endpoints.limits import LimitEndpoints
from warren.admin_web.api.endpoints.logins import LoginEndpoints
from warren.admin_web.api.endpoints.runs import RunEndpoints, TriggerEndpoints
from warren.admin_web.services import ApiServices


def groups(services: ApiServices) -> list[Group]:
    """Return every group."""
    return [
        MetaEndpoints(services),
        LoginEndpoints(services),
        AppEndpoints(services),
        JobEndpoints(services),
        JobSwitchEndpoints(services),
        TriggerEndpoints(services),
        RunEndpoints(services),
        BackfillEndpoints(services),
        JobFileEndpoints(services),
        CalendarEndpoints(services),
        ClusterEndpoints(services),
        LimitEndpoints(services),
        BoardEndpoints(services),
        LedgerEndpoints(services),
        ActivityEndpoints(services),
        IncidentEndpoints(services),
    ]
