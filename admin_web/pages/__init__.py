"""The page groups of the console; add new ones to this list."""

from warren.admin_web.access.sign_ins import SignIns
from warren.admin_web.pages.account import (
    AccountPages,
    CommandLoginPages,
    PreferencePages,
    SignInPages,
)
from warren.admin_web.pages.alarms import AlarmPages, IncidentPages, MutePages
from warren.admin_web.pages.apps import AppPages
from warren.admin_web.pages.backfills import BackfillForms, BackfillPages
from warren.admin_web.pages.board import BoardPages
from warren.admin_web.pages.broadcasts import BroadcastPages
from warren.admin_web.pages.bulk import BulkJobPages, BulkRunPages, BulkWork, job_parts
from warren.admin_web.pages.calendars import CalendarPages
from warren.admin_web.pages.clearing import ClearingPages
from warren.admin_web.pages.dashboard import DashboardPages
from warren.admin_web.pages.executors import ExecutorPages, SchedulerPages
from warren.admin_web.pages.find import FindPages
from warren.admin_web.pages.glue import GluePages
from warren.admin_web.pages.history import AuditPages, JobHistoryPages
from warren.admin_web.pages.job_actions import JobActions
from warren.admin_web.pages.job_edits import JobEditPages
from warren.admin_web.pages.job_form import JobFormPages
from warren.admin_web.pages.job_pages import JobPages
from warren.admin_web.pages.ledger import LedgerPages
from warren.admin_web.pages.limits import LimitPages, QueuePages
from warren.admin_web.pages.monitoring import HealthPages
from warren.admin_web.pages.run_pages import RunErrorPages, RunPages
from warren.admin_web.pages.single_sign_on import GroupRulePages, SingleSignOnPages
from warren.admin_web.pages.timeline import TimelinePages
from warren.admin_web.pages.users import TokenPages, UserPages
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import PageGroup


def page_groups(services: ConsoleServices, sign_ins: SignIns) -> list[PageGroup]:
    job_work = BulkWork(services, job_parts)
    return [
        SignInPages(services, sign_ins),
        SingleSignOnPages(services, sign_ins),
        BoardPages(services),
        MutePages(services),
        DashboardPages(services),
        JobPages(services),
        JobFormPages(services),
        JobActions(services, job_work),
        JobEditPages(services),
        AccountPages(services, sign_ins),
        CommandLoginPages(services),
        RunPages(services),
        RunErrorPages(services),
        BroadcastPages(services),
        BulkRunPages(services),
        BulkJobPages(services, job_work),
        PreferencePages(services),
        FindPages(services),
        JobHistoryPages(services),
        TimelinePages(services),
        QueuePages(services),
        AlarmPages(services),
        ClearingPages(services),
        GluePages(services),
        AppPages(services),
        ExecutorPages(services),
        SchedulerPages(services),
        CalendarPages(services),
        LimitPages(services),
        TokenPages(services),
        UserPages(services),
        GroupRulePages(services),
        AuditPages(services),
        LedgerPages(services),
        HealthPages(services),
        IncidentPages(services),
        BackfillPages(services),
        BackfillForms(services),
    ]
