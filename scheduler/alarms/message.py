"""The text of an alarm, and how each kind of webhook wants it. Pure.

The formats are from their pages on custom robots and incoming webhooks. A robot that requires a
keyword finds `warren` in the first line.
"""

import base64
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from warren.broker.log_lines import shown_end
from warren.broker.messages import HealthIssue
from warren.scheduler.alarms.events import (
    TAIL_LENGTH,
    Absence,
    CalendarEnding,
    Failure,
    IncidentNews,
    Missed,
    NewEpoch,
    News,
    Overdue,
    RefusedCall,
    Return,
    SchedulerUnwell,
    Summary,
    TickNews,
    Trial,
    Unhealthy,
)
from warren.scheduler.membership.self_health import SelfIssue
from warren.scheduler.problems import counted
from warren.sql.epochs import Cause
from warren.sql.instants import moment

TAIL_LINES = 15
_SUBJECT_LENGTH = 180
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BREAK = re.compile(r"\s+")
_ADVICE = {
    HealthIssue.JOURNAL: "it starts nothing until there is space on the disk of WARREN_STATE_DIR",
    HealthIssue.DISK: "the logs of runs stop until more than WARREN_LOG_RESERVE is free",
    HealthIssue.CONTACT: "it starts nothing until the broker confirms its heartbeats",
    HealthIssue.REPORTS: "it starts nothing until the broker takes them",
    HealthIssue.QUEUE: "it gets no runs; the warning queue_not_declared of a scheduler says why",
    HealthIssue.SPARES: "runs start without them; the warning spares_failed in its log says why",
    HealthIssue.LOG_STORE: "they wait at the executor; log_store_not_reached in its log says why",
    HealthIssue.ADDRESS: "it gets nothing until then",
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
    are, their = ("is", "its") if news.jobs == 1 else ("are", "their")
    text = (
        f"No executor of app {news.app} has been online for {news.seconds} s.\n"
        f"{news.jobs} of its jobs {are} enabled; {their} runs end UNDELIVERED until one is back."
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
def _unhealthy(news: Unhealthy, _context: MessageContext) -> tuple[str, str]:
    lines = [
        f"Executor {news.address} of app {news.app} has had trouble for {news.seconds} s:",
        *(f"- {_trouble(issue)}" for issue in news.health_issues),
        "Routes skip it while another executor of the app is healthy.",
    ]
    troubles = ", ".join(news.health_issues)
    return f"{news.app}: executor {news.address} reports trouble: {troubles}", "\n".join(lines)


@_words.register
def _scheduler_unwell(news: SchedulerUnwell, _context: MessageContext) -> tuple[str, str]:
    named = {issue.value: issue for issue in SelfIssue}
    servers = f" ({', '.join(news.servers)})" if news.servers else ""
    known = [named[problem] for problem in news.problems if problem in named]
    lines = [
        f"Scheduler {news.node} has had trouble for {news.seconds} s:",
        *(f"- {issue.why()}{servers * (issue is SelfIssue.SERVER)}" for issue in known),
    ]
    if any(issue.stops_sending for issue in known):
        lines.append("Until then, runs wait as rows, unless another scheduler can send them.")
    if SelfIssue.SERVER in known:
        lines.append("Set that server read-only, or make it a replica of the new one.")
    troubles = ", ".join(news.problems)
    subject = f"{news.app}: scheduler {news.node} reports trouble: {troubles}"
    return subject, "\n".join(lines)


def _trouble(name: str) -> str:
    issue = HealthIssue.named(name)
    return f"{issue.why()}: {_ADVICE[issue]}" if issue else name


@_words.register
def _calendar_ending(news: CalendarEnding, _context: MessageContext) -> tuple[str, str]:
    more = news.jobs - len(news.names)
    names = ", ".join(news.names) + (f" and {more} more" if more else "")
    text = (
        f"Calendar {news.calendar} ends on {news.until}. "
        f"Then the jobs of app {news.app} that use it stop: {names}.\n"
        "Give it the next year's days: warren calendars apply."
    )
    return f"{news.app}: calendar {news.calendar} ends on {news.until}", text


@_words.register
def _new_epoch(news: NewEpoch, context: MessageContext) -> tuple[str, str]:
    if news.cause == Cause.PROMOTED:
        text = (
            f"Since {context.when(news.at)} the database is on another server: {news.told_by}. "
            f"Run ids continue at {news.next_id}, and the previous server is refused.\n"
            "If it had not replicated everything that was committed, runs may be missing, and what "
            "they did may be done again: `warren audit` lists the due times.\n"
            "Executors of Warren 0.1.0 get no more runs until they are upgraded."
        )
        return f"{news.app}: the database is on another server", text
    text = (
        f"At {context.when(news.at)} the counter of run ids was found at {news.found_id}, behind "
        f"ids that had already been used{_told_by(news.told_by)}. Ids continue at {news.next_id}.\n"
        "So the database has lost its latest commits, in a failover or a restore: runs may be "
        "missing, and what they did may be done again. `warren audit` lists the due times.\n"
        "Executors of Warren 0.1.0 get no more runs until they are upgraded."
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
    more = counted(news.count, "more alarm")
    were = "was" if news.count == 1 else "were"
    lead = f"{more} {were} held back because there were too many in one hour."
    return f"{name}: {more}", "\n".join([lead, "", *_facts(facts)])


def _facts(facts: dict[str, str]) -> list[str]:
    return [f"{name + ':':<9}{value}" for name, value in facts.items() if value]


GENERIC = "json"
#: Whose robots may require a signature.
SIGNED = ("dingtalk", "feishu")
#: The style of each service, by its host.
_HOSTS = {
    "oapi.dingtalk.com": "dingtalk",
    "api.dingtalk.com": "dingtalk",
    "open.feishu.cn": "feishu",
    "open.larksuite.com": "feishu",
    "qyapi.weixin.qq.com": "wecom",
    "hooks.slack.com": "slack",
}
#: The codes with which robots refuse what they would refuse again, by their pages: a missing
#: keyword, a wrong signature, address or token, a text that is not allowed, a robot or group that
#: is gone. Feishu's 9499 is not one of them, as it may also mean too many requests.
_FOR_GOOD = {
    "dingtalk": {
        *(310000, 300001, 300005, 400013, 400101, 400102, 400105, 400106),
        *(430101, 430102, 430103, 430104),
    },
    "feishu": {19001, 19002, 19021, 19022, 19024},
    "wecom": {93000},
}
#: The hosts of Power Automate, whose workflows post cards into Teams, and of the older connectors.
_TEAMS_HOSTS = (".logic.azure.com", ".api.powerplatform.com", ".webhook.office.com")
_TEAMS_PATH = re.compile(r"/(workflows|webhookb2)/")
#: WeCom takes 2,048 bytes of text, the others 20 kB and more.
_WECOM_BYTES = 2_048
_TEXT_LENGTH = 6_000
_LARGEST_CODE = 999_999_999


def style_of(url: str, style: str = "") -> str:
    """Return the given style, else that of the URL's host."""
    if style:
        return style
    host = _host(url)
    if host.endswith(_TEAMS_HOSTS) and _TEAMS_PATH.search(urlsplit(url).path):
        return "teams"
    return _HOSTS.get(host, GENERIC)


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def webhook_body(style: str, message: Message, alarm_id: int) -> bytes:
    """Return the body; `alarm_id` is the same when an alarm is sent again."""
    return msgspec.json.encode(_BODIES[style](message, alarm_id))


def signed_body(style: str, body: bytes, secret: str, now: float) -> tuple[bytes, str]:
    """Return a body and what is added to the URL's query, with a robot's signature.

    DingTalk takes it in the query, in milliseconds, Feishu and Lark in the body, in seconds, with
    the text that DingTalk signs as the key.
    """
    at = str(int(now * 1_000) if style == "dingtalk" else int(now))
    text = f"{at}\n{secret}".encode()
    if style == "dingtalk":
        sign = hmac.digest(secret.encode(), text, "sha256")
        return body, urlencode({"timestamp": at, "sign": base64.b64encode(sign)})
    sign = base64.b64encode(hmac.digest(text, b"", "sha256"))
    own = {"timestamp": at, "sign": sign.decode()}
    return msgspec.json.encode(own | msgspec.json.decode(body, type=dict[str, Any])), ""


class Refusal(NamedTuple):
    """What a service reports with status 200; `is_final` if it would refuse the same again."""

    words: str = ""
    is_final: bool = False


def webhook_refusal(style: str, url: str, answer: bytes) -> Refusal:
    """Return the error that a service reports with status 200; without words if there is none.

    DingTalk and WeCom send `errcode`, Feishu `code`; anything but 0 is an error. Only the code is
    repeated, and only if it is a number: whoever chose the URL may see it, and the URL may lead to
    an internal service. The rest of what the service's own host says is no secret.
    """
    if style not in _FOR_GOOD:
        return Refusal()
    try:
        body = msgspec.json.decode(answer)
    except (ValueError, RecursionError):
        return Refusal("its answer is not JSON")
    if not isinstance(body, dict):
        return Refusal("its answer is not a JSON object")
    code = next((body[key] for key in ("errcode", "code", "StatusCode") if key in body), None)
    if code == 0:
        return Refusal()
    if not isinstance(code, int) or abs(code) > _LARGEST_CODE:
        return Refusal("its answer has no code 0")
    text = body.get("errmsg") or body.get("msg") if style == _HOSTS.get(_host(url)) else None
    words = f"it answered code {code}" + (f": {text}" if isinstance(text, str) else "")
    return Refusal(words, code in _FOR_GOOD[style])


def _generic(message: Message, alarm_id: int) -> dict[str, Any]:
    own = {"id": alarm_id, "subject": message.subject, "text": message.text}
    return own | message.facts


def _dingtalk(message: Message, _alarm_id: int) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": _text(message)}}


def _feishu(message: Message, _alarm_id: int) -> dict[str, Any]:
    return {"msg_type": "text", "content": {"text": _text(message)}}


def _wecom(message: Message, _alarm_id: int) -> dict[str, Any]:
    text = _text(message).encode()[:_WECOM_BYTES].decode(errors="ignore")
    return {"msgtype": "text", "text": {"content": text}}


def _slack(message: Message, _alarm_id: int) -> dict[str, Any]:
    text = _text(message).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def _teams(message: Message, _alarm_id: int) -> dict[str, Any]:
    """Return a message with an Adaptive Card.

    A TextRun is not Markdown, so a job's output makes no links; each line is a block of its own,
    because clients treat line breaks differently.
    """
    title = {"type": "TextRun", "text": message.subject, "weight": "Bolder"}
    lines = message.text[:_TEXT_LENGTH].split("\n")
    texts = [{"type": "TextRun", "text": line or " ", "fontType": "Monospace"} for line in lines]
    blocks = [{"type": "RichTextBlock", "inlines": [text]} for text in (title, *texts)]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": message.subject,
        "msteams": {"width": "Full"},
        "body": [*blocks[:2], *({**block, "spacing": "None"} for block in blocks[2:])],
    }
    if url := message.facts.get("url"):
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Run", "url": url}]
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


def _text(message: Message) -> str:
    return f"{message.subject}\n{message.text}"[:_TEXT_LENGTH]


_BODIES: dict[str, Callable[[Message, int], dict[str, Any]]] = {
    GENERIC: _generic,
    "dingtalk": _dingtalk,
    "feishu": _feishu,
    "wecom": _wecom,
    "slack": _slack,
    "teams": _teams,
}
STYLES = tuple(_BODIES)
