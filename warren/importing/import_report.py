"""Prints what an import found and did: as lines, or as JSON objects."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from warren.importing.xxl_job.cut_over import OpenRun
from warren.scheduler.imports.items import Finding, ImportAction, Outcome, Verdict, counted
from warren.views.terminal import print_json, visible

_IMPORTANT = (
    ImportAction.CONFLICT,
    ImportAction.DELETED,
    ImportAction.LEFT_OUT,
    ImportAction.START,
    ImportAction.STOP,
)


def print_findings(findings: Iterable[Finding], *, as_json: bool) -> None:
    """Print every finding as JSON, or the important ones as lines, with counts."""
    listed = list(findings)
    for finding in listed:
        if as_json:
            print_json({"type": "finding", **asdict(finding)})
        elif finding.verdict is not Verdict.SAME:
            print(visible(finding_line(finding)))
    if not as_json:
        counts = counted(listed)
        print("found: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: the verdict, its place, and the reason."""
    place = f"{finding.table} {finding.id}" if finding.id else finding.table
    value = f" {finding.value!r}" if finding.value else ""
    return f"{finding.verdict:8}  {place} {finding.column}{value}: {finding.words}"


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    facts = asdict(outcome)
    return {"type": "outcome", "did": facts.pop("action"), **facts}


def print_outcomes(outcomes: Sequence[Outcome], *, as_json: bool, is_preview: bool) -> None:
    """Print every outcome as JSON, or the important ones as lines, with counts."""
    for outcome in outcomes:
        if as_json:
            print_json(_outcome_json(outcome))
        elif outcome.action in _IMPORTANT or outcome.words:
            words = f": {outcome.words}" if outcome.words else ""
            print(visible(f"{outcome.action:8}  {outcome.what} {outcome.name}{words}"))
    if as_json:
        return
    for what, counts in _by_what(outcomes).items():
        counts_text = ", ".join(f"{count} {did}" for did, count in counts.items())
        print(f"{'would be' if is_preview else 'done'}: {what}s: {counts_text}")


def print_runs(counts: Mapping[str, int], *, as_json: bool, is_preview: bool) -> None:
    """Print how many runs were imported, and how many were left out and why."""
    if as_json:
        print_json({"type": "runs", **counts})
        return
    added, *left = counts.items()
    words = ", ".join(f"{count} {what}" for what, count in left if count)
    verb = "would be imported" if is_preview else "imported"
    print(f"runs: {added[1]} {verb}" + (f"; left out: {words}" if words else ""))


def print_open_runs(runs: Sequence[OpenRun], *, as_json: bool) -> None:
    """Print the runs whose result nobody will get: each as JSON, or as lines, with counts."""
    for run in runs:
        if as_json:
            print_json({"type": "open_run", **asdict(run)})
        else:
            place = f"run {run.run_id} of job {run.job_id} at {run.address or 'no address'}"
            print(visible(f"{run.pending:9}  {place}, since {run.since}: {run.words}"))
    if runs and not as_json:
        counts = Counter(run.pending for run in runs)
        counts_text = ", ".join(f"{count} {pending}" for pending, count in counts.items())
        print(f"not over in XXL-JOB: {counts_text}")


def _by_what(outcomes: Iterable[Outcome]) -> dict[str, Counter[ImportAction]]:
    counts: dict[str, Counter[ImportAction]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.what, Counter())[outcome.action] += 1
    return counts
