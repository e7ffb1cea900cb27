"""Children of jobs; unknown ones are dropped, and so are links that close a circle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warren.broker.reasons.codes import Why
from warren.broker.reasons.reason import Reason
from warren.importing.xxl_job.source_rows import Row
from warren.scheduler.imports.findings import Finding, Verdict
from warren.scheduler.imports.items import ImportedJob
from warren.scheduler.jobs.circles import find_circle

_COLUMN = "child_jobid"


def link(
    items: Sequence[ImportedJob], rows: Mapping[int, Row]
) -> tuple[list[ImportedJob], list[Finding]]:
    """Return the jobs with their children, and findings; jobs in a circle are stopped."""
    known = {item.source_id for item in items}
    children: dict[int, list[int]] = {}
    stopped: dict[int, Reason] = {}
    findings: list[Finding] = []
    for job_id in sorted(known):
        row = rows[job_id]
        for part in filter(None, (part.strip() for part in row.text(_COLUMN).split(","))):
            child = int(part) if part.isascii() and part.isdecimal() else 0
            if child not in known:
                words = "no such job; dropped"
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
                words = f"it closes the circle {path}; dropped"
                findings.append(row.finding(Verdict.DIFFERS, _COLUMN, words, part))
                stopped |= dict.fromkeys(circle, Why.CIRCLE_CUT(path=path))
    for job_id, why in stopped.items():
        findings.append(rows[job_id].finding(Verdict.STOPPED, _COLUMN, str(why)))
    linked = [
        replace(
            item,
            child_ids=tuple(children.get(item.source_id, ())),
            stop_reasons=(
                *item.stop_reasons,
                *(
                    Why.COLUMN(column=_COLUMN, why=stopped[one])
                    for one in [item.source_id]
                    if one in stopped
                ),
            ),
        )
        for item in items
    ]
    return linked, findings
