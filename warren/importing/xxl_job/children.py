"""Children of jobs: unknown ones are dropped, and the link that closes a circle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduler.imports.arrivals import JobArrival
from scheduler.imports.findings import Finding, Verdict
from scheduler.jobs.dependencies import find_circle
from warren.importing.xxl_job.rows import Row

_COLUMN = "child_jobid"


def link(
    arrivals: Sequence[JobArrival], rows: Mapping[int, Row]
) -> tuple[list[JobArrival], list[Finding]]:
    """Give jobs their children; those of a circle are stopped."""
    known = {arrival.source_id for arrival in arrivals}
    children: dict[int, list[int]] = {}
    stopped: dict[int, str] = {}
    findings: list[Finding] = []
    for job_id in sorted(known):
        row = rows[job_id]
        for part in filter(None, (part.strip() for part in row.text(_COLUMN).split(","))):
            child = int(part) if part.isascii() and part.isdecimal() else 0
            if child not in known:
                words = "there is no such job; dropped"
                findings.append(row.finding(Verdict.DIFFERS, _COLUMN, words, part))
                continue
            listed = children.setdefault(job_id, [])
            if child in listed:
                continue
            listed.append(child)
            circle = find_circle(job_id, children)
            if circle:
                listed.remove(child)
                path = " -> ".join(map(str, circle))
                words = f"the circle {path} is cut here; dropped"
                findings.append(row.finding(Verdict.DIFFERS, _COLUMN, words, part))
                stopped |= dict.fromkeys(circle, f"it was in the circle {path}")
    for job_id, words in stopped.items():
        findings.append(rows[job_id].finding(Verdict.STOPPED, _COLUMN, words))
    linked = [
        replace(
            arrival,
            child_ids=tuple(children.get(arrival.source_id, ())),
            stop_reasons=(
                *arrival.stop_reasons,
                *(f"{_COLUMN}: {stopped[one]}" for one in [arrival.source_id] if one in stopped),
            ),
        )
        for arrival in arrivals
    ]
    return linked, findings
