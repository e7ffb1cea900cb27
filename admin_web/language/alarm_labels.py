"""Labels of alarms: their states, causes and channels."""

from flask_babel import lazy_gettext

from warren.admin_web.language.labels import State
from warren.sql.alarms.alarm_listing import AlarmState
from warren.sql.alarms.alarms import MAIL, RUN_END

STATE = {
    AlarmState.UNDELIVERED: State(lazy_gettext("not delivered"), "bad", "triangle"),
    AlarmState.WAITING: State(lazy_gettext("waiting"), "info", "clock"),
    AlarmState.HELD: State(lazy_gettext("held back by the limit"), "warn", "pause"),
    AlarmState.DELIVERED: State(lazy_gettext("delivered"), "good", "check"),
    AlarmState.DISMISSED: State(lazy_gettext("dismissed"), "quiet", "minus"),
}
#: What an alarm is about, by the kind of its event.
CAUSE = {
    "failure": lazy_gettext("run failed"),
    "overdue": lazy_gettext("too many overdue runs"),
    "missed": lazy_gettext("due times missed"),
    "call": lazy_gettext("call refused"),
    "incident": lazy_gettext("expectation broken, or kept again"),
    "absence": lazy_gettext("no executor online"),
    "return": lazy_gettext("executor is back"),
    "ailing": lazy_gettext("executor in trouble"),
    "calendar": lazy_gettext("calendar ends soon"),
    "epoch": lazy_gettext("database has gone back"),
    "summary": lazy_gettext("summary of alarms"),
    "test": lazy_gettext("test"),
    "ended": lazy_gettext("run ended"),
}


def channel(name: str) -> str:
    """Return the name of an alarm's channel; that of a webhook is its format."""
    named = {MAIL: lazy_gettext("e-mail"), RUN_END: lazy_gettext("run webhook")}
    return str(named.get(name) or name)
