"""Words for what is stored, in the viewer's language: states, reasons and problems.

States differ in icon as well as colour, for people who cannot tell colours apart.

Reasons are stored before it is known who will read them. A page translates the sentence and inserts
the facts; output of jobs, and texts without a reason, are shown unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import Flask
from flask_babel import LazyString, gettext, lazy_gettext

from warren.broker.messages import HealthIssue
from warren.broker.reasons import Fact, Reason, Words
from warren.broker.stored_reasons import from_json
from warren.scheduler.commands.reruns import Outcome
from warren.scheduler.membership.self_health import SelfIssue
from warren.scheduler.problems import Code, FieldName, Problem, Word
from warren.scheduler.routing.routes import ROUTE_WORDS
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.views.run_view import NodeState
from warren.sql.accounts.users import Role
from warren.sql.alarms.alarm_listing import AlarmState
from warren.sql.alarms.alarms import MAIL, RUN_END
from warren.sql.registry.presence import ProcessState
from warren.sql.run_status import KIND_WORDS, Kind, RunStatus

CAUSE = {
    Kind.SCHEDULE: lazy_gettext("Triggered by its schedule."),
    Kind.MISFIRE: lazy_gettext("Makes up for missed runs."),
    Kind.MANUAL: lazy_gettext("Triggered by a user."),
    Kind.API: lazy_gettext("Triggered through the API."),
    Kind.RETRY: lazy_gettext("The previous attempt did not succeed."),
    Kind.PARENT: lazy_gettext("Its parent job succeeded."),
    Kind.RERUN: lazy_gettext("Repeats an earlier run for its due time."),
    Kind.NODE: lazy_gettext("A node of a flow, started after the nodes before it."),
    Kind.BACKFILL: lazy_gettext("Belongs to a backfill."),
}
RESULT = {
    RunStatus.PLANNED: lazy_gettext("Waiting for its due time or for a free executor."),
    RunStatus.ROUTED: lazy_gettext("An executor was chosen. The trigger is being sent."),
    RunStatus.SENT: lazy_gettext("Waiting at the executor."),
    RunStatus.RUNNING: lazy_gettext("The job is running."),
    RunStatus.SUCCEEDED: lazy_gettext("Finished without errors."),
    RunStatus.SKIPPED: lazy_gettext("Its handler decided so. See the message."),
    RunStatus.FAILED: lazy_gettext("Failed. See the message."),
    RunStatus.TIMED_OUT: lazy_gettext("Stopped because it exceeded its timeout."),
    RunStatus.KILLED: lazy_gettext("Killed. None of its processes is left running."),
    RunStatus.REFUSED: lazy_gettext("The executor refused it. See the message."),
    RunStatus.LOST: lazy_gettext(
        "Its executor was lost. The run may have started; how far it got is unknown."
    ),
    RunStatus.UNDELIVERED: lazy_gettext("Never started: no executor accepted it."),
    RunStatus.CANCELLED: lazy_gettext("Cancelled before it was dispatched."),
}


def install(app: Flask) -> None:
    """Provide `stored_text`, for texts in rows, and `reason_text` to an app's templates."""
    app.jinja_env.globals.update(stored_text=stored_text, reason_text=reason_text)


def stored_text(text: str | None, why: str | None) -> str:
    """Return a stored text, or the beginning of one, in the viewer's language.

    `why` is the reason stored beside it; it is used only if its sentence begins with the text.
    """
    text = text or ""
    reason = from_json(why) if text else None
    if reason is None or not (str(reason).startswith(text) or reason.as_before().startswith(text)):
        return text
    return reason_text(reason)


def reason_text(words: Words) -> str:
    """Return a reason in the viewer's language; plain texts are returned unchanged."""
    if not isinstance(words, Reason):
        return words
    facts = {name: _named(name, _fact(fact)) for name, fact in words.facts.items()}
    return str(gettext(words.code.sentence)) % facts


def _named(name: str, fact: str | float) -> str | int | float:
    """Return the word for a fact such as `schedule`; other facts are returned unchanged."""
    known = _FACT_NAMES.get(name, {})
    return str(known[fact]) if fact in known else fact


def _fact(fact: Fact) -> str | int | float:
    if isinstance(fact, Word | FieldName):
        return str(gettext(str(fact)))
    if isinstance(fact, tuple):
        sign: str = gettext("; ")
        return sign.join(map(reason_text, fact))
    return reason_text(fact) if isinstance(fact, Reason) else fact


def problem_text(problem: Problem) -> str:
    """Return a problem as a sentence in the viewer's language."""
    return reason_text(problem.reason)


@dataclass(frozen=True, slots=True)
class State:
    """A state on a page: its word, its tone (a CSS class) and its icon."""

    word: LazyString
    tone: str
    shape: str


STATUS = {
    RunStatus.PLANNED: State(lazy_gettext("queued"), "quiet", "ring"),
    RunStatus.ROUTED: State(lazy_gettext("routed"), "info", "arrow"),
    RunStatus.SENT: State(lazy_gettext("sent"), "info", "arrow"),
    RunStatus.RUNNING: State(lazy_gettext("running"), "busy", "play"),
    RunStatus.SUCCEEDED: State(lazy_gettext("succeeded"), "good", "check"),
    RunStatus.SKIPPED: State(lazy_gettext("nothing to do"), "quiet", "minus"),
    RunStatus.FAILED: State(lazy_gettext("failed"), "bad", "cross"),
    RunStatus.TIMED_OUT: State(lazy_gettext("timed out"), "bad", "clock"),
    RunStatus.KILLED: State(lazy_gettext("killed"), "warn", "square"),
    RunStatus.REFUSED: State(lazy_gettext("refused"), "warn", "minus"),
    RunStatus.LOST: State(lazy_gettext("lost"), "bad", "question"),
    RunStatus.UNDELIVERED: State(lazy_gettext("undelivered"), "bad", "triangle"),
    RunStatus.CANCELLED: State(lazy_gettext("cancelled"), "quiet", "minus"),
}
#: States of a flow's nodes: those of runs, and their own.
NODE: Mapping[str, State] = {
    **{status.value: state for status, state in STATUS.items()},
    NodeState.WAITING: State(lazy_gettext("not yet begun"), "quiet", "dots"),
    NodeState.BYPASSED: State(lazy_gettext("bypassed"), "quiet", "bypass"),
    NodeState.KEPT: State(lazy_gettext("kept"), "info", "kept"),
}
KIND = {kind: lazy_gettext(words) for kind, words in KIND_WORDS.items()}
MISFIRE_POLICY = {
    MisfirePolicy.DO_NOTHING: lazy_gettext("skip"),
    MisfirePolicy.FIRE_ONCE_NOW: lazy_gettext("run once immediately"),
    MisfirePolicy.CATCH_UP: lazy_gettext("catch up"),
}
ROUTE_NAMES: Mapping[Any, LazyString] = {
    route: lazy_gettext(words) for route, words in ROUTE_WORDS.items()
}
#: The words for facts of reasons that are words in English; 0.1.0 stored their names.
_FACT_NAMES: Mapping[str, Mapping[Any, LazyString]] = {
    "kind": KIND | {words: KIND[kind] for kind, words in KIND_WORDS.items()},
    "policy": MISFIRE_POLICY,
    "route": {**ROUTE_NAMES, **{words: ROUTE_NAMES[route] for route, words in ROUTE_WORDS.items()}},
}
#: Why runs are left out when many are run again.
LEFT_OUT = {
    Outcome.RECOVERED: lazy_gettext("Resolved: a later attempt succeeded"),
    Outcome.OPEN: lazy_gettext("Still open, or being repeated"),
    Outcome.REPEATED: lazy_gettext("Already repeated, by a later attempt or by this form"),
    Outcome.JOB_GONE: lazy_gettext("Job deleted"),
    Outcome.VERSION_GONE: lazy_gettext("Version of the script no longer kept"),
    Outcome.REFUSED: lazy_gettext("Its param or date cannot be made"),
    Outcome.UNKNOWN: lazy_gettext("Not found, or no permission"),
}
#: States of registered processes.
PROCESS = {
    ProcessState.ALIVE: State(lazy_gettext("online"), "good", "check"),
    ProcessState.DRAINING: State(lazy_gettext("draining"), "warn", "square"),
    ProcessState.SILENT: State(lazy_gettext("offline"), "bad", "question"),
    ProcessState.ABSENT: State(lazy_gettext("never connected"), "quiet", "ring"),
}
#: Problems that executors report about themselves.
HEALTH_ISSUE = {issue.lower(): issue.why() for issue in HealthIssue}
#: Likewise for schedulers.
SELF_ISSUE = {issue.value: issue.why() for issue in SelfIssue}
#: The state of a disabled user.
DISABLED = State(lazy_gettext("disabled"), "warn", "minus")
ROLE = {
    Role.ADMINISTRATOR.name.lower(): lazy_gettext("administrator"),
    Role.OPERATOR.name.lower(): lazy_gettext("operator"),
    Role.VIEWER.name.lower(): lazy_gettext("viewer"),
}
PASSWORD_FLAW = {
    Code.WEAK_LENGTH: lazy_gettext("Use 8 to 200 characters."),
    Code.WEAK_NAME: lazy_gettext("The password cannot be the user name."),
    Code.WEAK_COMMON: lazy_gettext("This password is too common."),
    Code.WEAK_ENCODING: lazy_gettext("The password contains invalid characters."),
}
#: States of tokens.
TOKEN = {
    "good": lazy_gettext("active"),
    "expired": lazy_gettext("expired"),
    "revoked": lazy_gettext("revoked"),
    "disabled": lazy_gettext("disabled"),
}
#: Scopes of tokens.
SCOPE = {
    "read": lazy_gettext("read: view everything except logs"),
    "logs": lazy_gettext("logs: read run logs"),
    "trigger": lazy_gettext("trigger: run jobs"),
    "operate": lazy_gettext("operate: start, stop, kill, drain, pause apps"),
    "write": lazy_gettext("write: create, edit and delete jobs"),
    "scripts": lazy_gettext("scripts: edit scripts"),
    "admin": lazy_gettext("admin: manage apps, pause dispatch, read the audit log"),
}
#: Actions in the audit log; unknown ones are shown as they are stored.
ACTION = {
    "app.create": lazy_gettext("created app"),
    "app.update": lazy_gettext("edited app"),
    "job.create": lazy_gettext("created job"),
    "job.update": lazy_gettext("edited job"),
    "job.start": lazy_gettext("started job"),
    "job.stop": lazy_gettext("stopped job"),
    "job.delete": lazy_gettext("deleted job"),
    "job.trigger": lazy_gettext("triggered job"),
    "run.move": lazy_gettext("moved run"),
    "run.again": lazy_gettext("re-ran runs"),
    "run.kill": lazy_gettext("killed run"),
    "run.clear": lazy_gettext("cleared runs"),
    "backfill.make": lazy_gettext("made backfill of"),
    "backfill.pause": lazy_gettext("paused backfill of"),
    "backfill.resume": lazy_gettext("resumed backfill of"),
    "backfill.cancel": lazy_gettext("cancelled backfill of"),
    "alarm.test": lazy_gettext("tested an alarm target"),
    "alarm.resend": lazy_gettext("sent alarms again"),
    "alarm.dismiss": lazy_gettext("dismissed alarms"),
    "app.pause": lazy_gettext("paused app"),
    "app.resume": lazy_gettext("resumed app"),
    "cluster.pause": lazy_gettext("paused dispatch"),
    "cluster.resume": lazy_gettext("resumed dispatch"),
    "user.add": lazy_gettext("created user"),
    "user.password": lazy_gettext("changed password"),
    "user.rights": lazy_gettext("changed permissions"),
    "user.disable": lazy_gettext("disabled user"),
    "user.enable": lazy_gettext("enabled user"),
    "user.delete": lazy_gettext("deleted user"),
    "identity.link": lazy_gettext("linked user to identity"),
    "identity.unlink": lazy_gettext("unlinked user from identity"),
    "identity.end": lazy_gettext("access ended by provider"),
    "rules.apply": lazy_gettext("changed rules for groups"),
    "app.delete": lazy_gettext("deleted app"),
    "executor.drain": lazy_gettext("drained executor"),
    "executor.forget": lazy_gettext("removed executor"),
    "limit.create": lazy_gettext("created limit"),
    "limit.update": lazy_gettext("changed limit"),
    "limit.delete": lazy_gettext("deleted limit"),
    "incident.ack": lazy_gettext("acknowledged incident"),
    "glue.save": lazy_gettext("saved script"),
    "token.add": lazy_gettext("created token"),
    "token.revoke": lazy_gettext("revoked token"),
    "login.allow": lazy_gettext("allowed warren login"),
    "login.refuse": lazy_gettext("refused warren login"),
    "session.open": lazy_gettext("signed in"),
    "session.refuse": lazy_gettext("sign-in failed"),
    "session.forge": lazy_gettext("forged cookie rejected"),
    "session.end": lazy_gettext("signed out"),
}
#: Kinds of objects in the audit log.
OBJECT = {
    "alarm": lazy_gettext("alarm"),
    "app": lazy_gettext("app"),
    "backfill": lazy_gettext("backfill"),
    "executor": lazy_gettext("executor"),
    "glue": lazy_gettext("script"),
    "incident": lazy_gettext("incident"),
    "job": lazy_gettext("job"),
    "run": lazy_gettext("run"),
    "cluster": lazy_gettext("cluster"),
    "user": lazy_gettext("user"),
    "identity": lazy_gettext("identity"),
    "rules": lazy_gettext("rules for groups"),
    "token": lazy_gettext("token"),
    "login": lazy_gettext("command line"),
    "session": lazy_gettext("sign-in"),
}


ALARM_STATE = {
    AlarmState.UNDELIVERED: State(lazy_gettext("not delivered"), "bad", "triangle"),
    AlarmState.WAITING: State(lazy_gettext("waiting"), "info", "clock"),
    AlarmState.HELD: State(lazy_gettext("held back by the limit"), "warn", "pause"),
    AlarmState.DELIVERED: State(lazy_gettext("delivered"), "good", "check"),
    AlarmState.DISMISSED: State(lazy_gettext("dismissed"), "quiet", "minus"),
}
#: What an alarm is about, by the kind of its event.
ALARM_CAUSE = {
    "failure": lazy_gettext("run failed"),
    "overdue": lazy_gettext("too many overdue runs"),
    "missed": lazy_gettext("due times missed"),
    "call": lazy_gettext("call refused"),
    "incident": lazy_gettext("expectation broken, or met again"),
    "absence": lazy_gettext("no executor online"),
    "return": lazy_gettext("executor is back"),
    "ailing": lazy_gettext("executor in trouble"),
    "scheduler": lazy_gettext("scheduler in trouble"),
    "calendar": lazy_gettext("calendar ends soon"),
    "epoch": lazy_gettext("database has gone back"),
    "summary": lazy_gettext("summary of alarms"),
    "test": lazy_gettext("test"),
    "ended": lazy_gettext("run ended"),
}


def alarm_channel(name: str) -> str:
    """Return the name of an alarm's channel; that of a webhook is its format."""
    named = {MAIL: lazy_gettext("e-mail"), RUN_END: lazy_gettext("run webhook")}
    return str(named.get(name) or name)
