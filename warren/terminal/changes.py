"""What job files change, in words."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from warren.resources.job_files import Applied, ChangeAnswer
from warren.terminal.output import print_json, print_line, visible, warn

_PAST = {
    "create": "created",
    "update": "updated",
    "start": "started",
    "stop": "stopped",
    "delete": "deleted",
}
#: The signs of changes that are not edits.
_SIGNS = {"create": "+", "delete": "-"}


def print_applied(applied: Applied, *, as_json: bool = False) -> None:
    """Print each change and how many there are, with warnings on standard error."""
    for line in applied.over:
        warn(line)
    about = defaultdict[str, list[str]](list)
    for warning in applied.warnings:
        about[warning.job].append(warning.message)
    for change in applied.changes:
        if as_json:
            print_json(change_json(change, about))
        else:
            for text, sign in change_lines(change, dry_run=applied.dry_run):
                print_line(text, sign)
    if not as_json:
        print_line(f"{len(applied.changes)} changed, {applied.unchanged} unchanged")
    for line in warning_lines((warning.job, warning.message) for warning in applied.warnings):
        warn(line)


def change_json(change: ChangeAnswer, about: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a change as a JSON object, with the warnings about its job."""
    warnings = [*about.get(change.name, ())] if change.what == "job" else []
    return msgspec.structs.asdict(change) | {"warnings": warnings}


def change_lines(change: ChangeAnswer, *, dry_run: bool) -> Iterator[tuple[str, str]]:
    """Give the lines of a change, and of the differences below it, each with its sign."""
    sign = _SIGNS.get(change.action, "~")
    verb = f"would {change.action}" if dry_run else _PAST.get(change.action, change.action)
    head = f"{sign} {verb} {change.what} {change.name}"
    if change.action == "create":
        yield visible(", ".join([head, *change.details])), sign
    else:
        yield visible(head), sign
        for words in change.details:
            yield f"    {words}", ""
    for line in change.diff:
        yield f"      {line}", line[:1]


def warning_lines(warnings: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each different warning, from pairs of a job and a warning about it."""
    jobs: dict[str, list[str]] = {}
    for job, words in warnings:
        jobs.setdefault(words, []).append(job)
    return [f"job {names[0]!r}{_more(names)}: {words}" for words, names in jobs.items()]


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
