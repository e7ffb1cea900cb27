"""The page groups of the console; a new one is added to this list."""

from admin_web.pages.account import AccountPages
from admin_web.pages.apps import AppPages
from admin_web.pages.audit_trail import TrailPages
from admin_web.pages.clearing import ClearingPages
from admin_web.pages.dashboard import DashboardPages
from admin_web.pages.executors import ExecutorPages
from admin_web.pages.glue import GluePages
from admin_web.pages.health import HealthPages
from admin_web.pages.job_actions import JobActions
from admin_web.pages.jobs import JobPages
from admin_web.pages.ledger import LedgerPages
from admin_web.pages.runs import RunPages
from admin_web.pages.schedulers import SchedulerPages
from admin_web.pages.sign_in import SignInPages
from admin_web.pages.users import UserPages
from admin_web.parts import Parts
from admin_web.routes import PageGroup
from admin_web.sign_ins import SignIns


def page_groups(parts: Parts, sign_ins: SignIns) -> list[PageGroup]:
    """Return every page group, with what it needs."""
    return [
        SignInPages(parts, sign_ins),
        DashboardPages(parts),
        JobPages(parts),
        JobActions(parts),
        AccountPages(parts, sign_ins),
        RunPages(parts),
        ClearingPages(parts),
        GluePages(parts),
        AppPages(parts),
        ExecutorPages(parts),
        SchedulerPages(parts),
        UserPages(parts),
        TrailPages(parts),
        LedgerPages(parts),
        HealthPages(parts),
    ]
