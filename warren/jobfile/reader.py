"""Reads a job file into values, with every problem and its line.

This module knows the grammar only. `warren.scheduler.jobs.rules` checks the values, and
`warren.scheduler.commands.job_files.job_file` applies them.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from warren.admin_web.api.problem_answers import Refusal
from warren.errors import InvalidEntry, JobFileError
from warren.jobfile.grammar import JobReader, read_targets, texts
from warren.jobfile.yaml_reader import (
    Entry,
    YamlReader,
    did_you_mean,
    is_null,
    line_of,
    read_tree,
    text,
    tree_of,
)
from warren.route_plugins import route_names
from warren.scheduler.alarms import target_rules
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.jobs import rules as job_rules
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.problems import Problem

#: The most problems that are reported; a file with more is probably no job file.
MAX_PROBLEMS = 50
_APP = ("name", "title", "addresses", "route", "alarm", "webhook")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """A valid job file.

    `app_lines` are the lines where jobs name their apps, `job_lines` those of each job's fields;
    `at` puts a line into words.
    """

    path: Path
    at: Callable[[int], str]
    apps: tuple[AppSpec, ...]
    specs: tuple[JobSpec, ...]
    app_lines: Mapping[str, int]
    job_lines: tuple[Mapping[str, int], ...]

    def check_apps(self, existing: Iterable[str], *, hint: str = "; name it under 'apps'") -> None:
        """Raise JobFileError if a job's app is neither in the file nor in `existing`.

        `hint` says what to do, if no known app has a similar name.
        """
        known = {app.name for app in self.apps} | set(existing)
        _raise(
            self.path,
            self.at,
            [
                InvalidEntry(line, f"unknown app {name!r}{did_you_mean(name, known) or hint}")
                for name, line in self.app_lines.items()
                if name not in known
            ],
        )

    def refused(self, problems: Iterable[Problem]) -> JobFileError:
        """Return the error for refused fields, such as `jobs/0/children`, with their lines."""
        return JobFileError(
            [f"{self.at(self._line_of(problem))}: {problem}" for problem in problems]
        )

    def _line_of(self, problem: Problem) -> int:
        _, number, field = [*problem.field.split("/"), ""][:3]
        lines = self.job_lines[int(number)]
        return lines.get(field, lines["name"])


def read_job_file(path: Path, *, now_ms: int, added_routes: Sequence[str] = ()) -> JobFile:
    """Return a job file; a cron schedule must still fire after `now_ms`.

    `added_routes` are the installed routes that are not built in.

    Raises:
        JobFileError: with a line `file:line: problem` for each problem.

    """
    return _read(path, lambda: read_tree(path), now_ms, added_routes)


def read_job_text(
    data: bytes,
    path: Path,
    *,
    now_ms: int,
    added_routes: Sequence[str] = (),
    at: Callable[[int], str] | None = None,
) -> JobFile:
    """Parse the bytes of a job file, as `read_job_file` does; `at` puts a line into words."""
    return _read(path, lambda: tree_of(data), now_ms, added_routes, at)


def _read(
    path: Path,
    read: Callable[[], yaml.Node],
    now_ms: int,
    added_routes: Sequence[str],
    at: Callable[[int], str] | None = None,
) -> JobFile:
    at = at or (lambda line: f"{path}:{line}")
    with _without_garbage_collection():
        walk = _FileReader(now_ms, added_routes)
        walk.file(_read_tree(path, at, read))
    _raise(path, at, walk.reader.wrong)
    return JobFile(
        path=path,
        at=at,
        apps=tuple(walk.apps.values()),
        specs=tuple(walk.specs),
        app_lines=walk.app_lines,
        job_lines=tuple(walk.job_lines),
    )


def _read_tree(path: Path, at: Callable[[int], str], read: Callable[[], yaml.Node]) -> yaml.Node:
    try:
        return read()
    except InvalidEntry as wrong:
        raise _refused(path, at, [wrong]) from wrong
    except OSError as error:
        raise JobFileError([f"cannot read {path}: {error.strerror or error}"]) from error


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turn off the garbage collector while the block runs.

    A large file becomes a million objects that stay alive, and every collection would visit them
    all.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _FileReader:
    """Walks through the tree once."""

    def __init__(self, now_ms: int, added_routes: Sequence[str]) -> None:
        self.reader = YamlReader()
        self._added_routes = added_routes
        self.apps: dict[str, AppSpec] = {}
        self.specs: list[JobSpec] = []
        self.app_lines: dict[str, int] = {}
        self.job_lines: list[Mapping[str, int]] = []
        self._job_reader = JobReader(self.reader, now_ms=now_ms, added_routes=added_routes)
        self._name_lines: dict[tuple[str, str], int] = {}

    def file(self, root: yaml.Node) -> None:
        """Read the whole file."""
        entries = self.reader.fields(root, "the file", ("apps", "jobs"), extensions=True)
        if not entries and not self.reader.wrong:
            self.reader.add_problem(line_of(root), "expected 'apps' or 'jobs', got neither")
        for node in self._list(entries.get("apps")):
            self._app(node)
        for node in self._list(entries.get("jobs")):
            self._job(node)

    def _list(self, entry: Entry | None) -> list[yaml.Node]:
        if entry is None or is_null(entry.node):
            return []
        return self.reader.items(entry)

    def _app(self, node: yaml.Node) -> None:
        entries = self.reader.fields(node, "an app", _APP)
        if isinstance(node, yaml.MappingNode) and "name" not in entries:
            self.reader.add_problem(line_of(node), "missing field 'name'")
        name = self.reader.value(text, entries.get("name"))
        title = self.reader.value(text, entries.get("title"))
        if name is None:
            return
        if name in self.apps:
            self.reader.add_problem(entries["name"].line, f"duplicate app {name[:100]!r}")
        self.reader.check(entries["name"].line, lambda: job_rules.check_app_name(name))
        if title is not None:
            self.reader.check(entries["title"].line, lambda: job_rules.check_title(title))
        self.apps[name] = AppSpec(
            name=name,
            title=title,
            addresses=self._addresses(entries.get("addresses")),
            route=self._route(entries.get("route")),
            alarm=self._alarm(entries.get("alarm")),
            webhook=self._webhook(entries.get("webhook")),
        )

    def _addresses(self, entry: Entry | None) -> tuple[str, ...]:
        if entry is None or is_null(entry.node):
            return ()
        addresses: tuple[str, ...] = self.reader.value(texts, entry) or ()
        self.reader.check(entry.line, lambda: job_rules.check_addresses(addresses))
        return addresses

    def _route(self, entry: Entry | None) -> str:
        if entry is None or is_null(entry.node):
            return ""
        route: str = self.reader.value(text, entry) or ""
        self.reader.check(entry.line, lambda: job_rules.check_app_route(route, self._added_routes))
        return route

    def _alarm(self, entry: Entry | None) -> AlarmTargets:
        said = read_targets(self.reader, entry, "alarm")
        targets = AlarmTargets(**{name.removeprefix("alarm_"): said[name] for name in said})
        self._add_problems(entry, target_rules.problems(targets))
        return targets

    def _webhook(self, entry: Entry | None) -> RunWebhook:
        said = read_targets(self.reader, entry, "webhook")
        webhook = RunWebhook(**{name.removeprefix("webhook_"): said[name] for name in said})
        self._add_problems(entry, target_rules.webhook_problems(webhook))
        return webhook

    def _add_problems(self, entry: Entry | None, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.reader.add_broken_rule(line_of(entry.node) if entry else 0, problem)

    def _job(self, node: yaml.Node) -> None:
        read = self._job_reader.read(node)
        if read is None:
            return
        spec, lines = read
        self.specs.append(spec)
        self.job_lines.append(lines)
        if spec.app:
            self.app_lines.setdefault(spec.app, lines["app"])
        if spec.app and spec.name:
            self._note_name(spec, lines["name"])

    def _note_name(self, spec: JobSpec, line: int) -> None:
        key = (spec.app, spec.name)
        if key in self._name_lines:
            name = f"{spec.name[:100]!r} in app {spec.app[:100]!r}"
            self.reader.add_problem(
                line, f"duplicate job {name}, first in line {self._name_lines[key]}"
            )
        self._name_lines.setdefault(key, line)


def _raise(path: Path, at: Callable[[int], str], wrong: list[InvalidEntry]) -> None:
    if wrong:
        raise _refused(path, at, wrong)


def _refused(path: Path, at: Callable[[int], str], wrong: list[InvalidEntry]) -> JobFileError:
    ordered = sorted(wrong, key=lambda problem: problem.line)
    lines = [f"{at(problem.line)}: {problem.text}" for problem in ordered[:MAX_PROBLEMS]]
    if len(ordered) > MAX_PROBLEMS:
        lines.append(f"{path}: and {len(ordered) - MAX_PROBLEMS} more problems")
    return JobFileError(lines, ordered)


def read_upload(data: bytes) -> tuple[Sequence[AppSpec], Sequence[JobSpec]]:
    """Return the apps and jobs of a job file.

    Raises:
        Refusal: with each problem, its line, and the code of the rule that it breaks.

    """
    now_ms = time.time_ns() // 1_000_000
    try:
        file = read_job_text(data, Path("job file"), now_ms=now_ms, added_routes=route_names())
    except JobFileError as error:
        raise _refusal(error) from error
    return file.apps, file.specs


def _refusal(error: JobFileError) -> Refusal:
    count, shown = len(error.problems), error.problems[:MAX_PROBLEMS]
    detail = f"the job file has {count} problems" if count > 1 else "the job file has a problem"
    if count > len(shown):
        detail += f"; these are the first {len(shown)}"
    errors = [
        {"line": change.line, "detail": change.text}
        | ({"code": change.rule} if change.rule else {})
        for change in shown
    ]
    return Refusal(422, detail, errors=errors)
