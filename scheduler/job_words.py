"""What an edit changes about a job, in the words of a job file."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sql.models import Job

#: Longest value shown, and what is shown of it before the first difference.
SHOWN_LENGTH, BEFORE_DIFFERENCE = 60, 15
#: Lines shown of a script's difference, and of how many lines there is one: finding it takes long.
DIFF_LINES, COMPARED_LINES = 60, 4_000

_FIELDS = {
    "alarm_email": "alarm emails",
    "alarm_webhook": "alarm webhook",
    "alarm_style": "alarm style",
    "misfire_strategy": "misfire",
    "executor_route_strategy": "route",
    "executor_handler": "handler",
    "executor_param": "param",
    "executor_block_strategy": "block",
    "executor_timeout": "timeout",
    "executor_fail_retry_count": "retries",
}
#: Names out of a fixed list, which need no quotes.
_NAMES = frozenset({"misfire", "route", "block", "delivery"})
_WHEN = ("schedule_type", "schedule_conf")


def differences(job: Job, changed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a line for each field that changed; `job` still is as it was."""
    return tuple(_lines(job, changed))


def script_difference(before: str, after: str) -> tuple[str, ...]:
    """Return the lines of a unified diff of two sources, the end left out of a long one."""
    old, new = _source_lines(before), _source_lines(after)
    if len(old) + len(new) > COMPARED_LINES:
        return () if before == after else (f"{len(old)} lines -> {len(new)} lines",)
    found = difflib.unified_diff(old, new, "stored", "new", lineterm="")
    lines = [line.replace("\r", "␍") for line in found]
    if len(lines) > DIFF_LINES:
        return (*lines[:DIFF_LINES], f"… and {len(lines) - DIFF_LINES} lines more")
    return tuple(lines)


def schedule_words(kind: str, conf: str | None) -> str:
    """Return a schedule as it stands in a job file."""
    return {
        "CRON": f"cron {conf}",
        "FIX_RATE": f"every {conf} s",
        "FIX_DELAY": f"delay {conf} s",
        "AT": f"at {conf}",
    }.get(kind, "none")


def _lines(job: Job, changed: Mapping[str, Any]) -> Iterator[str]:
    if not changed.keys().isdisjoint(_WHEN):
        before = schedule_words(job.schedule_type, job.schedule_conf)
        after = schedule_words(*(changed.get(name, getattr(job, name)) for name in _WHEN))
        yield f"schedule: {before} -> {after}"
    for name, value in changed.items():
        if name not in _WHEN:
            field = _FIELDS.get(name, name)
            before, after = _shown_pair(field, getattr(job, name), value)
            yield f"{field}: {before} -> {after}"


def _shown_pair(field: str, before: Any, after: Any) -> tuple[str, str]:
    if field == "alarm webhook":
        return _origin(before), _origin(after)
    if field == "fresh_process":
        return str(bool(before)).lower(), str(bool(after)).lower()
    if isinstance(after, int) or field in _NAMES:
        return str(before), str(after)
    return _texts(before or "", after or "")


def _texts(before: str, after: str) -> tuple[str, str]:
    """Return two texts in quotes; of long ones, the part where they begin to differ."""
    if max(len(before), len(after)) <= SHOWN_LENGTH:
        return repr(before), repr(after)
    both = list(zip(before, after, strict=False))
    alike = next((at for at, (one, other) in enumerate(both) if one != other), len(both))
    start = max(0, alike - BEFORE_DIFFERENCE)
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    end = start + SHOWN_LENGTH
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _origin(url: str | None) -> str:
    """Return the part of a webhook that is no secret."""
    if not url:
        return "none"
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}/…"


def _source_lines(source: str) -> Sequence[str]:
    return source.removesuffix("\n").split("\n") if source else []
