"""The words of an alarm, the same for every channel. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import singledispatch
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from scheduler.alarms.news import Absence, Failure, News, Return, Summary

TAIL_LINES = 15
_SUBJECT_LENGTH = 180
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_BREAK = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the words are read: times of jobs without a zone, and links, depend on it."""

    timezone: str
    console_url: str = ""

    def link(self, run_id: int) -> str:
        """Return the address of a run in the console, "" when there is no console."""
        return f"{self.console_url.rstrip('/')}/runs/{run_id}" if self.console_url else ""

    def when(self, at_ms: int, timezone: str = "") -> str:
        """Return an instant with its offset and zone; of a zone that is gone, in UTC."""
        name = timezone or self.timezone
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            name, zone = "UTC", ZoneInfo("UTC")
        moment = datetime.fromtimestamp(at_ms / 1000, zone)
        return f"{moment.isoformat(sep=' ', timespec='seconds')} ({name})"


@dataclass(frozen=True, slots=True)
class Message:
    """An alarm in words: one line, and a few more; `facts` are for programs."""

    subject: str
    text: str
    facts: dict[str, Any]


def message(news: News, place: Place) -> Message:
    """Return the words for news. No control character of a job's own texts is left in them."""
    title, body = _words(news, place)
    subject = f"[warren] {_BREAK.sub(' ', _CONTROL.sub(' ', title)).strip()}"
    facts = msgspec.to_builtins(news)
    if isinstance(news, Failure) and place.console_url:
        facts["url"] = place.link(news.run_id)
    return Message(subject[:_SUBJECT_LENGTH], _CONTROL.sub("?", body), facts)


@singledispatch
def _words(news: News, _place: Place) -> tuple[str, str]:
    raise TypeError(f"expected news, got: {news!r}")


@_words.register
def _failure(news: Failure, place: Place) -> tuple[str, str]:
    facts = {
        "job": f"{news.app}/{news.job}",
        "run": f"{news.run_id}, attempt {news.attempts}",
        "shard": news.shard,
        "due": place.when(news.scheduled_at, news.timezone),
        "ended": place.when(news.finished_at, news.timezone),
        "status": news.status,
        "address": news.address or "none",
        "message": news.message,
        "see": place.link(news.run_id),
    }
    lines = _facts(facts)
    tail = news.log_tail.rstrip().splitlines()[-TAIL_LINES:]
    if tail:
        lines += ["", "The end of its log:", *(f"  {line}" for line in tail)]
    return f"{news.app}/{news.job} failed: {news.status}", "\n".join(lines)


@_words.register
def _absence(news: Absence, _place: Place) -> tuple[str, str]:
    text = (
        f"No executor of app {news.app} has been online for {news.seconds} s.\n"
        f"{news.jobs} of its jobs are enabled; their runs end UNDELIVERED until one is back."
    )
    return f"{news.app}: no executor online", text


@_words.register
def _return(news: Return, place: Place) -> tuple[str, str]:
    text = (
        f"App {news.app} has an executor again; "
        f"that it had none was told at {place.when(news.since)}."
    )
    return f"{news.app}: an executor is back", text


@_words.register
def _summary(news: Summary, place: Place) -> tuple[str, str]:
    name = f"{news.app}/{news.job}" if news.job else news.app
    facts = {
        "job" if news.job else "app": name,
        "first": place.when(news.first_at),
        "last": place.when(news.last_at),
        "runs": ", ".join(map(str, news.run_ids)) + (" are the last" if news.run_ids else ""),
        "see": place.link(news.run_ids[-1]) if news.run_ids else "",
    }
    lead = f"{news.count} more alarms were held back, as there were too many in one hour."
    return f"{name}: {news.count} more alarms", "\n".join([lead, "", *_facts(facts)])


def _facts(facts: dict[str, str]) -> list[str]:
    return [f"{name + ':':<9}{value}" for name, value in facts.items() if value]
