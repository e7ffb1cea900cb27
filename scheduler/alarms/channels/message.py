"""The text of an alarm, the same for every channel. Pure."""

import re
from dataclasses import dataclass
from functools import singledispatch
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from warren.broker.log_text import shown_end
from warren.broker.messages.to_scheduler import Ailment
from warren.scheduler.alarms.events import (
    TAIL_LENGTH,
    Absence,
    Ailing,
    CalendarEnding,
    Failure,
    IncidentNews,
    Missed,
    NewEpoch,
    News,
    Overdue,
    RefusedCall,
    Return,
    Summary,
    TickNews,
    Trial,
)
from warren.sql.instants import moment

TAIL_LINES = 15
_SUBJECT_LENGTH = 180
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BREAK = re.compile(r"\s+")
_ADVICE = {
    Ailment.JOURNAL: "it starts nothing until there is space on the disk of WARREN_STATE_DIR",
    Ailment.DISK: "the logs of runs stop until more than WARREN_LOG_RESERVE is free",
    Ailment.CONTACT: "it starts nothing until the broker confirms its heartbeats",
    Ailment.REPORTS: "it starts nothing until the broker takes them",
    Ailment.SPARES: "runs start without them; the warning spares_failed in its log says why",
}


#: What is wrong, by the rule that is broken.
_BROKEN = {
    "start_within": "The job has not started in time.",
    "finish_by": "The job has not succeeded in time.",
    "longest": "A run takes longer than expected; it goes on.",
    "success_every": "The job has had no success for longer than expected.",
    "waiting": "Runs of the job wait for long although executors are online.",
}
#: The end of the subject and the lead, by the state of an incident.
_INCIDENT_WORDS = {
    "opened": ("is broken", "You get another message when it is over."),
    "reminder": ("is still broken", "Nobody has acknowledged it: warren incidents ack."),
    "closed": ("is kept again", "The incident is over."),
}


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The console's address, for links, and the time zone for jobs that name none."""

    timezone: str
    console_url: str = ""

    def link(self, run_id: int) -> str:
        """Return the URL of a run in the console, or "" without a console."""
        return f"{self.console_url.rstrip('/')}/runs/{run_id}" if self.console_url else ""

    def when(self, at_ms: int, timezone: str = "") -> str:
        """Return an instant with its offset and zone, in UTC if the zone does not exist."""
        name = timezone or self.timezone
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            name, zone = "UTC", ZoneInfo("UTC")
        shown = moment(at_ms, zone)
        return f"{shown.isoformat(sep=' ', timespec='seconds')} ({name})"


@dataclass(frozen=True, slots=True)
class Message:
    """An alarm as text: a subject and a few lines, with `facts` for programs."""

    subject: str
    text: str
    facts: dict[str, Any]


def message(news: News, context: MessageContext) -> Message:
    """Return the text for an event, without control characters from the job's own texts."""
    title, body = _words(news, context)
    subject = f"[warren] {_BREAK.sub(' ', _CONTROL.sub(' ', title)).strip()}"
    facts = msgspec.to_builtins(news)
    if isinstance(news, Failure | RefusedCall | TickNews) and context.console_url:
        facts["url"] = context.link(news.run_id)
    return Message(subject[:_SUBJECT_LENGTH], _CONTROL.sub("?", body), facts)


@singledispatch
def _words(news: News, _context: MessageContext) -> tuple[str, str]:
    raise TypeError(f"expected news, got: {news!r}")


@_words.register
def _failure(news: Failure, context: MessageContext) -> tuple[str, str]:
    facts = {
        "job": f"{news.app}/{news.job}",
        "run": f"{news.run_id}, attempt {news.attempts}",
        "shard": news.shard,
        "due": context.when(news.scheduled_at, news.timezone),
        "ended": context.when(news.finished_at, news.timezone),
        "status": news.status,
        "address": news.address or "none",
        "message": news.message,
        "see": context.link(news.run_id),
    }
    lines = _facts(facts)
    if tail := shown_end(news.log_tail, TAIL_LENGTH):
        shown = tail.split("\n")[-TAIL_LINES:]
        lines += ["", "The end of its log:", *(f"  {line}" for line in shown)]
    return f"{news.app}/{news.job} failed: {news.status}", "\n".join(lines)


@_words.register
def _ended(news: TickNews, context: MessageContext) -> tuple[str, str]:
    text = f"Run {news.run_id} ended at {context.when(news.finished_at)}: {news.message}"
    return f"{news.app}/{news.job} ended: {news.status}", text


@_words.register
def _trial(news: Trial, context: MessageContext) -> tuple[str, str]:
    name = f"{news.app}/{news.job}" if news.job else news.app
    alarms = f"Alarms of {name}" if name else "Alarms"
    text = (
        f"{news.who} sent this test at {context.when(news.at)}. Nothing has failed.\n"
        f"{alarms} will arrive here in the same way."
    )
    return f"{name}: test alarm" if name else "test alarm", text


@_words.register
def _overdue(news: Overdue, context: MessageContext) -> tuple[str, str]:
    text = (
        f"{news.overdue} runs of {news.app}/{news.job} are waiting to be sent and are overdue.\n"
        "Until there are fewer, its due times are skipped and recorded, starting at "
        f"{context.when(news.skipped_from, news.timezone)}."
    )
    return f"{news.app}/{news.job}: due times are skipped", text


@_words.register
def _missed(news: Missed, context: MessageContext) -> tuple[str, str]:
    first, last = (context.when(at, news.timezone) for at in (news.first_at, news.last_at))
    times = f"The due time {first} was" if news.count == 1 else f"{news.count} due times were"
    facts = {
        "job": f"{news.app}/{news.job}",
        "due" if news.count == 1 else "first": first,
        "last": "" if news.count == 1 else last,
        "reason": news.why,
    }
    lead = f"{times} skipped: nothing ran. No further alarm follows about this outage."
    return f"{news.app}/{news.job}: due times were missed", "\n".join([lead, "", *_facts(facts)])


@_words.register
def _refused_call(news: RefusedCall, context: MessageContext) -> tuple[str, str]:
    facts = {
        "job": f"{news.app}/{news.job}",
        "run": str(news.run_id),
        "called": f"{news.app}/{news.called}, call no. {news.number} of the run",
        "reason": news.message,
        "see": context.link(news.run_id),
    }
    lead = "A run has called another job, and nothing runs. The run itself goes on."
    title = f"{news.app}/{news.job}: its call of {news.called} was refused"
    return title, "\n".join([lead, "", *_facts(facts)])


@_words.register
def _incident(news: IncidentNews, context: MessageContext) -> tuple[str, str]:
    def when(at_ms: int) -> str:
        return context.when(at_ms, news.timezone) if at_ms else ""

    rule = f"{news.rule}: {news.expected}"
    facts = {
        "job": f"{news.app}/{news.job}",
        "expected": rule,
        "since": when(news.due_at),
        "opened": when(news.opened_at),
        "closed": when(news.closed_at),
        "incident": str(news.incident_id),
    }
    end, lead = _INCIDENT_WORDS[news.state]
    if news.state != "closed":
        lead = f"{_BROKEN[news.rule]} {lead}"
    elif news.note:
        lead = f"{lead} {news.note}"
    return f"{news.app}/{news.job}: {news.rule} {end}", "\n".join([lead, "", *_facts(facts)])


@_words.register
def _absence(news: Absence, _context: MessageContext) -> tuple[str, str]:
    text = (
        f"No executor of app {news.app} has been online for {news.seconds} s.\n"
        f"{news.jobs} of its jobs are enabled; their runs end UNDELIVERED until one is back."
    )
    return f"{news.app}: no executor online", text


@_words.register
def _return(news: Return, context: MessageContext) -> tuple[str, str]:
    text = (
        f"App {news.app} has an executor again. "
        f"The alarm that it had none was raised at {context.when(news.since)}."
    )
    return f"{news.app}: an executor is back", text


@_words.register
def _ailing(news: Ailing, _context: MessageContext) -> tuple[str, str]:
    lines = [
        f"Executor {news.address} of app {news.app} has reported trouble for {news.seconds} s:",
        *(f"- {_trouble(ailment)}" for ailment in news.ailments),
        "Routes skip it while another executor of the app is healthy.",
    ]
    troubles = ", ".join(news.ailments)
    return f"{news.app}: executor {news.address} reports trouble: {troubles}", "\n".join(lines)


def _trouble(name: str) -> str:
    ailment = Ailment.named(name)
    return f"{ailment.why()}: {_ADVICE[ailment]}" if ailment else name


@_words.register
def _calendar_ending(news: CalendarEnding, _context: MessageContext) -> tuple[str, str]:
    more = news.jobs - len(news.names)
    names = ", ".join(news.names) + (f" and {more} more" if more else "")
    text = (
        f"Calendar {news.calendar} knows no day after {news.until}. "
        f"Then the jobs of app {news.app} that use it stop: {names}.\n"
        "Give it the next year's days: warren calendars apply."
    )
    return f"{news.app}: calendar {news.calendar} ends on {news.until}", text


@_words.register
def _new_epoch(news: NewEpoch, context: MessageContext) -> tuple[str, str]:
    text = (
        f"At {context.when(news.at)} the counter of run ids was found at {news.found_id}, behind "
        f"ids that had been given out{_told_by(news.told_by)}. Ids go on at {news.next_id}.\n"
        "So the database has lost what was committed last, in a failover or a restore: runs may "
        "be missing, and what they did may be done again. `warren audit` names the due times.\n"
        "Executors of Warren 0.1.0 get no runs any more until they are upgraded."
    )
    return f"{news.app}: the database has gone back", text


def _told_by(who: str) -> str:
    return f" (told by {who})" if who else ""


@_words.register
def _summary(news: Summary, context: MessageContext) -> tuple[str, str]:
    name = f"{news.app}/{news.job}" if news.job else news.app
    facts = {
        "job" if news.job else "app": name,
        "first": context.when(news.first_at),
        "last": context.when(news.last_at),
        "runs": ", ".join(map(str, news.run_ids)) + (" (the latest)" if news.run_ids else ""),
        "see": context.link(news.run_ids[-1]) if news.run_ids else "",
    }
    lead = f"{news.count} more alarms were held back because there were too many in one hour."
    return f"{name}: {news.count} more alarms", "\n".join([lead, "", *_facts(facts)])


def _facts(facts: dict[str, str]) -> list[str]:
    return [f"{name + ':':<9}{value}" for name, value in facts.items() if value]
