"""A dry run of a job file: it tells what applying does, refuses the same, and only reads."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.support.acting import NamedCommands
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.sql_rows import new_run, plan, statements
from warren.scheduler.actor import Right
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.problems import Code, Problem
from warren.sql.batch import CHUNK
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.jobs import due_jobs, job_links
from warren.sql.models import App, Job
from warren.sql.run_status import Kind

EACH_SECOND = {"schedule_kind": "CRON", "schedule_value": "* * * * * ?"}
#: No due time of it is over while the test runs, without anybody who plans it.
EACH_YEAR = {"schedule_kind": "CRON", "schedule_value": "0 0 0 1 1 ?"}
NEVER = {"schedule_kind": "AT", "schedule_value": "2001-01-01T00:00:00+00:00"}
STOPPED = "cancelled: 1 planned run, as the job stops"
SHELL = {"handler": "", "script_language": "shell"}
#: What a session says that only reads; SQLite has no locks of rows.
READS = re.compile(r"(SELECT|BEGIN$|PRAGMA|SET )(?!.*FOR UPDATE)", re.DOTALL)


def spec(name: str, **fields: Any) -> JobSpec:
    return JobSpec(name=name, **({"app": APP, "handler": "noop"} | fields))


def stored() -> list[JobSpec]:
    return [
        spec("edited", enabled=True, **EACH_SECOND),
        spec("rescheduled", enabled=True, **EACH_YEAR),
        spec("stopped", enabled=True, **EACH_SECOND),
        spec("started", **EACH_SECOND),
        spec("same", enabled=True, **EACH_SECOND),
        spec("parent", children=("same",)),
        spec("script", script_source="echo 1\n", **SHELL),
        spec("remark", script_source="echo 1\n", **SHELL),
        spec("plain", script_source="echo 1\n", **SHELL),
        spec("gone"),
        spec("busy", **EACH_SECOND),
    ]


def wanted() -> list[JobSpec]:
    return [
        spec("first", enabled=True, children=("last", "same", "new/other"), **EACH_SECOND),
        spec("edited", enabled=True, param="new", tags=("a",), **EACH_SECOND),
        spec("rescheduled", schedule_kind="FIX_RATE", schedule_value="60"),
        spec("stopped", enabled=False, **EACH_SECOND),
        spec("started", enabled=True, children=("same",), **EACH_SECOND),
        spec("same", enabled=True, **EACH_SECOND),
        spec("parent", timeout=5, children=("first",)),
        spec("script", script_source="echo 2\n", script_remark="two", **SHELL),
        spec("remark", script_source="echo 1\n", script_remark="why", **SHELL),
        spec("plain"),
        spec("busy", author="ops", enabled=False, **EACH_SECOND),
        spec("last", script_source="true\n", **SHELL),
        spec("other", app="new"),
        spec("last", script_source="false\n", enabled=False, **SHELL),
    ]


APPS = [AppSpec(name=APP, title="Demonstration", addresses=("one",)), AppSpec(name="new")]


def apply(
    commands: NamedCommands,
    specs: Sequence[JobSpec],
    apps: Sequence[AppSpec] = (),
    *,
    dry_run: bool = False,
    prune: bool = True,
) -> list[Change]:
    return commands.apply(apps, specs, dry_run=dry_run, prune=prune)


def rows(cluster: Cluster) -> list[tuple[Any, ...]]:
    """Return what is stored of all jobs."""

    listed = select(Job, App.name).join(App, App.id == Job.app_id).order_by(App.name, Job.name)

    def read(session: Session) -> list[tuple[Any, ...]]:
        return [
            (app, job.name, job.handler, job.param, job.is_enabled, job.script_version, children)
            for job, app in session.execute(listed)
            for children in [job_links.children_of(session, job.id)]
        ]

    return cluster.database.read(read)


def with_a_planned_run(cluster: Cluster, name: str) -> None:
    """Plan a tick of a job that is stopped, as a stop by itself leaves it."""
    [job] = cluster.jobs(name=name)
    cluster.set_job(name, stop_reason="it ended")
    plan(cluster.database, new_run(job_id=job.id, kind=Kind.SCHEDULE))


def test_a_dry_run_tells_what_applying_then_does(cluster: Cluster) -> None:
    commands = cluster.commands()
    apply(commands, stored())
    with_a_planned_run(cluster, "busy")

    foreseen = apply(commands, wanted(), APPS, dry_run=True)
    done = apply(commands, wanted(), APPS)

    assert foreseen == done
    told = {change.name: (change.action, *change.details) for change in done}
    assert told == {
        APP: ("update", "title", "addresses: one"),
        "new": ("create",),
        "demo/first": ("create",),
        "demo/edited": ("update", "tags: '' -> 'a'", "param: '' -> 'new'"),
        "demo/rescheduled": ("update", "schedule: cron 0 0 0 1 1 ? -> every 60 s"),
        "demo/stopped": ("stop",),
        "demo/started": ("update", "children: none -> same", "state: start"),
        "demo/same": ("unchanged",),
        "demo/parent": ("update", "children: same -> first", "timeout: 0 -> 5"),
        "demo/script": ("update", "script: shell, 7 bytes -> shell, 7 bytes"),
        "demo/remark": ("update", "script remark: '' -> 'why'"),
        "demo/plain": ("update", "handler: '' -> 'noop'", "script: shell, 7 bytes -> none"),
        "demo/busy": ("update", "author: '' -> 'ops'", "state: stop", STOPPED),
        "demo/last": ("update", "script: shell, 5 bytes -> shell, 6 bytes"),
        "new/other": ("create",),
        "demo/gone": ("delete",),
    }
    assert [one for change in done for one in change.diff if one.startswith(("-e", "+e"))] == [
        "-echo 1",
        "+echo 2",
        "-echo 1",
    ]
    again = apply(commands, [one for one in wanted() if one.name != "last"], APPS, prune=False)
    assert {change.action for change in again} == {"unchanged"}


def test_a_dry_run_only_reads(cluster: Cluster) -> None:
    commands = cluster.commands()
    apply(commands, stored())
    before = rows(cluster)

    with statements(cluster.database) as sent:
        assert apply(commands, wanted(), APPS, dry_run=True)

    assert [text for text, _ in sent if not READS.match(text)] == []
    assert rows(cluster) == before
    assert "new" not in {change.name for change in apply(commands, stored())}


REFUSED: dict[str, tuple[list[JobSpec], Code]] = {
    "an unknown child": ([spec("new", children=("nobody",))], Code.CHILDREN_UNKNOWN),
    "a child in an unknown app": ([spec("new", children=("no/same",))], Code.CHILDREN_UNKNOWN_NEAR),
    "too many children": (
        [
            spec("new", children=tuple(f"c{n}" for n in range(1_001))),
            *(spec(f"c{n}") for n in range(1_001)),
        ],
        Code.CHILDREN_TOO_MANY,
    ),
    "a circle of new jobs": (
        [spec("a", children=("b",)), spec("b", children=("c",)), spec("c", children=("b",))],
        Code.CIRCLE,
    ),
    "a circle through stored jobs": (
        [
            spec("parent", children=("same",)),
            spec("new", children=("parent",)),
            spec("same", enabled=True, children=("new",), **EACH_SECOND),
        ],
        Code.CIRCLE,
    ),
    "a child that is deleted": ([spec("new", children=("gone",))], Code.STILL_A_CHILD),
    "a stored parent's child that is deleted": (
        [spec("parent", children=("same",))],
        Code.STILL_A_CHILD,
    ),
    "a new job that never fires": ([spec("new", enabled=True, **NEVER)], Code.NEVER_FIRES),
    "a started job that never fires": ([spec("started", enabled=True, **NEVER)], Code.NEVER_FIRES),
    "an enabled job that never fires": ([spec("edited", **NEVER)], Code.NEVER_FIRES),
    "an enabled job without a schedule": ([spec("edited")], Code.NO_SCHEDULE),
    "a name of the API's": ([spec("new", app="by-id")], Code.APP_NAME_RESERVED),
}


@on_memory
@pytest.mark.parametrize("case", REFUSED)
def test_a_dry_run_refuses_what_applying_refuses(cluster: Cluster, case: str) -> None:
    commands = cluster.commands()
    apply(commands, stored())
    before = rows(cluster)
    specs, code = REFUSED[case]
    specs = [spec("innocent", enabled=True, **EACH_SECOND), *specs]

    said = []
    for dry_run in (True, False):
        with pytest.raises(Problem) as refused:
            apply(commands, specs, dry_run=dry_run)
        said.append((refused.value.code, refused.value.field, str(refused.value)))

    assert said[0] == said[1]
    assert said[0][0] is code
    assert rows(cluster) == before


@on_memory
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("rights", "specs", "apps"),
    [
        ({Right.VIEW}, [spec("new")], []),
        ({Right.OPERATE}, [spec("new", script_source="true", **SHELL)], []),
        ({Right.OPERATE}, [spec("script", script_source="false", **SHELL)], []),
        ({Right.OPERATE}, [spec("script")], []),
        ({Right.OPERATE}, [], [AppSpec(name=APP, title="Mine")]),
        ({Right.OPERATE}, [], [AppSpec(name="mine")]),
    ],
)
def test_a_dry_run_needs_the_rights_of_applying(
    cluster: Cluster,
    rights: set[Right],
    specs: list[JobSpec],
    apps: list[AppSpec],
    dry_run: bool,
) -> None:
    apply(cluster.commands(), stored())
    commands = NamedCommands(cluster.database, cluster.now_ms, rights=rights)

    with pytest.raises(Problem) as refused:
        apply(commands, specs, apps, dry_run=dry_run, prune=False)

    assert refused.value.code is Code.NO_RIGHT


@on_memory
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("app", ["other", "not-there"])
def test_a_dry_run_knows_no_app_of_somebody_else(
    cluster: Cluster,
    app: str,
    dry_run: bool,
) -> None:
    cluster.add_app("other")
    commands = NamedCommands(cluster.database, cluster.now_ms, app_ids={1})

    with pytest.raises(Problem) as refused:
        apply(commands, [spec("new", app=app)], dry_run=dry_run)

    assert refused.value.code is Code.UNKNOWN_APP


class TestWhileADryRunReads:
    """Somebody else works on the same jobs in the middle of it."""

    def test_a_planner_claims_the_job_that_would_change(self, cluster: Cluster) -> None:
        apply(cluster.commands(), [spec("tick", enabled=True, **EACH_SECOND)])
        changed = [spec("tick", enabled=True, param="new", **EACH_SECOND), *new(600)]

        claimed = self.during(cluster, changed, claim(cluster), dry_run=True)

        assert len(claimed) > 1
        assert set(map(tuple, claimed)) == {("tick",)}

    def test_a_planner_claims_it_until_all_else_is_written(self, cluster: Cluster) -> None:
        if cluster.database.dialect.is_embedded:
            pytest.skip("SQLite locks no single rows")
        before = [spec("tick", enabled=True, **EACH_SECOND), *slow(CHUNK, param="old")]
        apply(cluster.commands(), before)
        edited = replace(before[0], param="new")
        changed = [edited, *slow(CHUNK, param="new"), *new(600)]

        with statements(cluster.database) as sent:
            claimed = self.during(cluster, changed, claim(cluster), dry_run=False)

        texts = [text for text, _ in sent if "xxl_job_info" in text]
        last_new = max(n for n, text in enumerate(texts) if text.startswith("INSERT"))
        ours = [n for n, text in enumerate(texts) if "FOR UPDATE" in text and "SKIP" not in text]
        assert len(ours) == 2
        assert min(ours) > last_new
        # In the end, all jobs are locked until the commit.
        until_locked = list(takewhile(bool, claimed))
        assert len(until_locked) > 2
        assert set(map(tuple, until_locked)) == {("tick",)}

    @staticmethod
    def during(
        cluster: Cluster, specs: list[JobSpec], act: Callable[[], list[str]], *, dry_run: bool
    ) -> list[list[str]]:
        """Act whenever the time is asked for: for each part of the file, and before the end."""
        done: list[list[str]] = []

        def now_ms() -> int:
            done.append(act())
            return cluster.now_ms()

        commands = NamedCommands(cluster.database, now_ms, who="test")
        apply(commands, specs, dry_run=dry_run, prune=False)
        return done


def new(count: int) -> list[JobSpec]:
    return [spec(f"new{number}") for number in range(count)]


def slow(count: int, **fields: Any) -> list[JobSpec]:
    hourly = {"schedule_kind": "FIX_RATE", "schedule_value": "3600", "enabled": True}
    return [spec(f"slow{number}", **(hourly | fields)) for number in range(count)]


def claim(cluster: Cluster) -> Callable[[], list[str]]:
    """Return what a planner does: it locks the jobs due soon that nobody else has locked."""

    def claim_due(session: Session) -> list[str]:
        soon = database_now_ms(session) + 60_000
        return [job.name for job in due_jobs.claim_due(session, until_ms=soon, limit=10)]

    return lambda: cluster.database.write(claim_due)


class TestWhatChangesBetweenPreviewAndWriting:
    """The preview is outdated once the transaction begins."""

    @pytest.fixture
    def between(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[Callable[[], object]], None]:
        """Do something once, right before the next transaction that writes."""
        write = Database.write

        def arrange(act: Callable[[], object]) -> None:
            def first_act(unit: Any) -> Any:
                monkeypatch.undo()
                act()
                return write(cluster.database, unit)

            monkeypatch.setattr(cluster.database, "write", first_act)

        return arrange

    def test_a_job_that_somebody_has_made_is_changed(
        self, cluster: Cluster, between: Callable[[Callable[[], object]], None]
    ) -> None:
        other = cluster.commands()
        between(lambda: apply(other, [spec("new", param="theirs")], prune=False))

        [change] = apply(cluster.commands(), [spec("new", param="ours")])

        assert (change.action, *change.details) == ("update", "param: 'theirs' -> 'ours'")
        assert [job.param for job in cluster.jobs()] == ["ours"]

    def test_a_job_that_somebody_has_deleted_is_made_again(
        self, cluster: Cluster, between: Callable[[Callable[[], object]], None]
    ) -> None:
        family = [spec("parent", children=("child",)), spec("child")]
        apply(cluster.commands(), family)
        other = cluster.commands()
        between(lambda: other.delete("parent"))

        changes = apply(cluster.commands(), [replace(family[0], param="new"), family[1]])

        assert [change.action for change in changes] == ["create", "unchanged"]
        [child] = cluster.jobs(name="child")
        assert [row[-1] for row in rows(cluster) if row[1] == "parent"] == [(child.id,)]

    def test_a_child_that_somebody_has_deleted_is_unknown(
        self, cluster: Cluster, between: Callable[[Callable[[], object]], None]
    ) -> None:
        apply(cluster.commands(), [spec("child"), spec("other")])
        other = cluster.commands()
        between(lambda: other.delete("child"))

        with pytest.raises(Problem) as refused:
            apply(
                cluster.commands(),
                [spec("new", children=("child",)), spec("other", param="new")],
                prune=False,
            )

        assert refused.value.code is Code.CHILDREN_UNKNOWN
        assert refused.value.field == "jobs/0/children"
        assert [(job.name, job.param) for job in cluster.jobs()] == [("other", "")]

    def test_a_circle_that_somebody_has_half_closed_is_refused(
        self, cluster: Cluster, between: Callable[[Callable[[], object]], None]
    ) -> None:
        apply(cluster.commands(), [spec("a"), spec("b")])
        other = cluster.commands()
        between(lambda: apply(other, [spec("b", children=("a",))], prune=False))

        with pytest.raises(Problem) as refused:
            apply(cluster.commands(), [spec("a", children=("b",))], prune=False)

        assert refused.value.code is Code.CIRCLE


@pytest.mark.parametrize("schema_url", ["sqlite", "postgresql"], indirect=True)
def test_a_param_with_a_nul_is_unchanged_when_its_file_is_applied_again(schema_url: str) -> None:
    database = Database(schema_url)
    commands = NamedCommands(database, who="test")

    def applied(param: str) -> list[str]:
        changes = commands.apply([AppSpec(name=APP)], [spec("talks", param=param)])
        return [change.action for change in changes if change.what == "job"]

    assert [applied("a\0b"), applied("a\0b"), applied("a\0c")] == [
        ["create"],
        ["unchanged"],
        ["update"],
    ]
    database.close()
