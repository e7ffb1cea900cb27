"""The groups of XXL-JOB's jobs, which become apps, and the jobs' children.

Apps are named so that the gateway finds them; groups with manual addresses keep these. Children
that do not exist are dropped, and so are links that close a circle.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from warren.broker.messages.values import APP_PATTERN
from warren.broker.reasons.codes import Reason, Why
from warren.executor.gateway.allow_list import AllowList, RemoteUrl
from warren.executor.gateway.protocol import AddressRefused
from warren.importing.xxl_job.source_tables import Row
from warren.scheduler.flows.circles import find_circle
from warren.scheduler.imports.items import Finding, ImportedApp, ImportedJob, Verdict
from warren.scheduler.jobs.rules import RESERVED_APP_NAMES
from warren.scheduler.jobs.spec import AppSpec

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
                    Why.COLUMN(column=_COLUMN, why=stopped[source_id])
                    for source_id in [item.source_id]
                    if source_id in stopped
                ),
            ),
        )
        for item in items
    ]
    return linked, findings


_TITLE = 64
_ADDRESSES = 65_535
MANUAL = 1


@dataclass(slots=True)
class Groups:
    """The apps that groups become.

    `unreachable` are groups whose executors cannot join their app, because its name is not valid
    for an app.
    """

    items: list[ImportedApp] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


def read_groups(rows: Iterable[Row]) -> Groups:
    """Return the apps of all groups; groups whose names are equal here are merged."""
    groups = Groups()
    by_name: dict[str, ImportedApp] = {}
    for row in rows:
        name = _name(row, groups)
        spec = AppSpec(name=name, title=_title(row, groups), addresses=_addresses(row, groups))
        first = by_name.get(name)
        if first is None:
            by_name[name] = ImportedApp(source_id=row.id, spec=spec)
        else:
            by_name[name] = _merged(first, row.id, spec)
            words = f"merged with group {first.source_id}: both are app {name} here"
            groups.findings.append(row.finding(Verdict.DIFFERS, "app_name", words))
        groups.names[row.id] = name
    groups.items = list(by_name.values())
    return groups


def _name(row: Row, groups: Groups) -> str:
    there = row.text("app_name")
    # The same rule as the gateway's for registryKey.
    name = re.sub(r"[^a-z0-9-]", "-", there.strip().lower())
    if not re.fullmatch(APP_PATTERN, name) or name in RESERVED_APP_NAMES:
        name = f"app-{row.id}-{name}"[:64]
        groups.unreachable.add(row.id)
        words = f"no app's name; it is {name} here, and its jobs are stopped"
        groups.findings.append(row.finding(Verdict.DIFFERS, "app_name", words))
    elif name != there:
        words = f"it is {name} here; executors keep their name"
        groups.findings.append(row.finding(Verdict.DIFFERS, "app_name", words))
    return name


def _title(row: Row, groups: Groups) -> str | None:
    title = row.line("name")
    if len(title) > _TITLE:
        groups.findings.append(row.finding(Verdict.DIFFERS, "name", f"cut to {_TITLE} characters"))
    return title[:_TITLE].strip() or None


def _addresses(row: Row, groups: Groups) -> tuple[str, ...]:
    """Return the addresses of a manual group, in the form the gateway gives them."""
    if row.number("address_type") != MANUAL:
        return ()
    addresses: list[str] = []
    for text in filter(None, (part.strip() for part in row.text("address_list").split(","))):
        remote = _remote(text)
        if remote is None:
            words = "no URL of an executor"
            groups.findings.append(row.finding(Verdict.LEFT_OUT, "address_list", words, text))
        elif len(",".join([*addresses, remote.address])) > _ADDRESSES:
            words = "the list is too long here"
            groups.findings.append(row.finding(Verdict.LEFT_OUT, "address_list", words, text))
        elif remote.address not in addresses:
            addresses.append(remote.address)
            words = (
                f"{remote.address} here; it must register at a gateway, "
                f"WARREN_GATEWAY_ALLOW={remote.host}:{remote.port}"
            )
            groups.findings.append(row.finding(Verdict.DIFFERS, "address_list", words, text))
    if not addresses:
        words = "manual, and no address can be used: here it takes all that register"
        groups.findings.append(row.finding(Verdict.DIFFERS, "address_type", words))
    return tuple(addresses)


def _remote(text: str) -> RemoteUrl | None:
    """Return an executor's URL as the gateway parses it; None if it is not valid."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return AllowList.parse(f"{host}").check(parts.geturl())
    except (AddressRefused, ValueError):
        return None


def _merged(first: ImportedApp, source_id: int, spec: AppSpec) -> ImportedApp:
    addresses = tuple(dict.fromkeys((*first.spec.addresses, *spec.addresses)))
    if not (first.spec.addresses and spec.addresses):
        addresses = ()  # one of them uses all registered executors
    merged = replace(first.spec, addresses=addresses)
    return replace(first, spec=merged, merged_ids=(*first.merged_ids, source_id))
