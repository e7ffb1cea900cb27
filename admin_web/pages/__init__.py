"""The page groups of the console; a new one is added to this list."""

from admin_web.pages.account import AccountPages
from admin_web.pages.audit_trail import TrailPages
from admin_web.pages.dashboard import DashboardPages
from admin_web.pages.health import HealthPages
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
        AccountPages(parts, sign_ins),
        UserPages(parts),
        TrailPages(parts),
        HealthPages(parts),
    ]
