"""What somebody may do is asked by each command itself, so that every door has it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.acting import acting
from tests.support.stored_rows import Rows
from warren.scheduler.actor import Actor, Right
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.job_file_preview import Change
from warren.scheduler.jobs.records import fingerprint
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.scheduler.problems import Code, Problem
from warren.scheduler.retention.clearing import ClearingCriteria
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.accounts.users import Rights, Role
from warren.sql.jobs import job_links

NOW_MS = 1_800_000_000_000
JOB = JobSpec(name="made", app="reports", handler="report")
SCRIPT = JobSpec(name="made", app="reports", script_language="shell", script_source="true")
Act = Callable[[Commands, int], object]

OPERATING: dict[str, Act] = {
    "create": lambda commands, _: commands.jobs.create(JOB),
    "update": lambda commands, job_id: commands.jobs.update(job_id, JOB, seen=""),
    "delete": lambda commands, job_id: commands.jobs.delete([job_id]),
    "start": lambda commands, job_id: commands.jobs.start(job_id),
    "stop": lambda commands, job_id: commands.jobs.stop(job_id),
    "trigger": lambda commands, job_id: commands.runs.trigger(job_id),
    "kill": lambda commands, _: commands.runs.kill(1),
    "clear": lambda commands, job_id: commands.clearing.clear(ClearingCriteria(job_id=job_id)),
    "drain": lambda commands, _: commands.cluster.drain(1),
    "apply": lambda commands, _: commands.job_files.apply([], [JOB], dry_run=False, prune=False),
}
SCRIPTING: dict[str, Act] = {
    "create": lambda commands, _: commands.jobs.create(SCRIPT),
    "apply": lambda commands, _: commands.job_files.apply([], [SCRIPT], dry_run=False, prune=False),
    "save": lambda commands, job_id: commands.scripts.save(job_id, "x", remark="r", based_on=1),
    "restore": lambda commands, job_id: commands.scripts.restore(job_id, 1, remark="r", based_on=1),
}
ADMINISTERING: dict[str, Act] = {
    "pause": lambda commands, _: commands.cluster.pause(),
    "resume": lambda commands, _: commands.cluster.resume(),
    "add app": lambda commands, _: commands.apps.add(AppSpec(name="shop")),
    "change app": lambda commands, _: commands.apps.change(1, AppSpec(name="reports")),
    "delete app": lambda commands, _: commands.apps.delete(1),
    "apply app": lambda commands, _: commands.job_files.apply(
        [AppSpec(name="reports", title="Mine")], [], dry_run=False, prune=False
    ),
    "add user": lambda commands, _: commands.users.add(
        "mallory", "correct horse", Rights(role=Role.ADMINISTRATOR)
    ),
    "set rights": lambda commands, _: commands.users.set_rights(1, Rights(role=Role.ADMINISTRATOR)),
    "disable": lambda commands, _: commands.users.disable(1),
    "enable": lambda commands, _: commands.users.enable(1),
    "delete user": lambda commands, _: commands.users.delete(1),
    "set another's password": lambda commands, _: commands.users.set_password(1, "battery staple"),
}


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def job_id(rows: Rows) -> int:
    job_id = rows.job("nightly", app="reports")
    chief = acting(rows.database, lambda: NOW_MS, who="chief")
    chief.users.add("alice", "correct horse", Rights(role=Role.ADMINISTRATOR))
    return job_id


def somebody(rows: Rows, role: Role, *apps: str, glue: bool = False, name: str = "bob") -> Commands:
    app_ids = tuple(rows.app(app) for app in apps)
    rights = Rights(role=role, app_ids=app_ids, may_edit_glue=glue)
    actor = Actor.of(name, rights, origin="10.0.0.1")
    return acting(
        rows.database,
        lambda: NOW_MS,
        who=actor.who,
        origin=actor.origin,
        app_ids=actor.app_ids,
        rights=actor.rights,
    )


def noted(rows: Rows) -> list[str]:
    found = rows.database.read(lambda s: audit_log.listing(s, AuditFilter(who="bob")))
    return [entry.action for entry in found]


def refusal(act: Act, commands: Commands, job_id: int) -> Code:
    with pytest.raises(Problem) as refused:
        act(commands, job_id)
    return refused.value.code


@pytest.mark.parametrize("act", [*OPERATING.values(), *SCRIPTING.values(), *ADMINISTERING.values()])
def test_a_viewer_changes_nothing(rows: Rows, job_id: int, act: Act) -> None:
    viewer = somebody(rows, Role.VIEWER, "reports")

    assert refusal(act, viewer, job_id) is Code.NO_RIGHT
    assert noted(rows) == []


@pytest.mark.parametrize("act", [*SCRIPTING.values(), *ADMINISTERING.values()])
def test_an_operator_changes_no_scripts_apps_and_users(rows: Rows, job_id: int, act: Act) -> None:
    operator = somebody(rows, Role.OPERATOR, "reports")

    assert refusal(act, operator, job_id) is Code.NO_RIGHT
    assert noted(rows) == []


@pytest.mark.parametrize(
    ("act", "code"),
    [
        ("create", Code.UNKNOWN_APP),
        ("update", Code.NO_JOB),
        ("delete", Code.NO_JOB),
        ("start", Code.NO_JOB),
        ("stop", Code.NO_JOB),
        ("trigger", Code.NO_JOB),
        ("clear", Code.NOTHING_TO_CLEAR),
        ("apply", Code.UNKNOWN_APP),
    ],
)
def test_to_an_operator_of_another_app_a_job_does_not_exist(
    rows: Rows, job_id: int, act: str, code: Code
) -> None:
    operator = somebody(rows, Role.OPERATOR, "mails")

    assert refusal(OPERATING[act], operator, job_id) is code
    assert noted(rows) == []


def test_an_operator_acts_on_the_jobs_of_their_apps(rows: Rows, job_id: int) -> None:
    operator = somebody(rows, Role.OPERATOR, "reports")

    made, run_id = operator.jobs.create(JOB), operator.runs.trigger(job_id)
    operator.runs.kill(run_id)
    operator.jobs.delete([made])

    assert noted(rows) == ["job.delete", "run.kill", "job.trigger", "job.create"]


BY_AN_EDIT: dict[str, Callable[[Commands, int, JobSpec, str], object]] = {
    "form": lambda commands, job_id, spec, seen: commands.jobs.update(job_id, spec, seen=seen),
    "job file": lambda commands, _, spec, __: commands.job_files.apply(
        [], [spec], dry_run=False, prune=False
    ),
}


@pytest.mark.parametrize("edit", BY_AN_EDIT.values(), ids=BY_AN_EDIT)
@pytest.mark.parametrize(
    "wanted", [JOB, replace(SCRIPT, script_source="false"), replace(SCRIPT, script_remark="mine")]
)
def test_an_operator_does_not_change_a_script_by_an_edit_of_its_job(
    rows: Rows, edit: Callable[[Commands, int, JobSpec, str], object], wanted: JobSpec
) -> None:
    writer = somebody(rows, Role.OPERATOR, "reports", glue=True, name="writer")
    job_id = writer.jobs.create(SCRIPT)
    operator = somebody(rows, Role.OPERATOR, "reports")
    seen = fingerprint(rows.database.read(lambda s: operator.jobs.read(s, job_id)[1]))

    with pytest.raises(Problem) as refused:
        edit(operator, job_id, wanted, seen)

    assert refused.value.code is Code.NO_RIGHT
    assert noted(rows) == []


@pytest.mark.parametrize("edit", BY_AN_EDIT.values(), ids=BY_AN_EDIT)
def test_an_operator_changes_the_rest_of_a_job_with_a_script(
    rows: Rows, edit: Callable[[Commands, int, JobSpec, str], object]
) -> None:
    writer = somebody(rows, Role.OPERATOR, "reports", glue=True, name="writer")
    job_id = writer.jobs.create(SCRIPT)
    operator = somebody(rows, Role.OPERATOR, "reports")
    seen = fingerprint(rows.database.read(lambda s: operator.jobs.read(s, job_id)[1]))

    edit(operator, job_id, replace(SCRIPT, retries=3), seen)

    assert noted(rows) == ["job.update"]


def test_whoever_must_choose_a_password_may_do_that_alone(rows: Rows, job_id: int) -> None:
    limited = Actor.of("alice", Rights(role=Role.ADMINISTRATOR), origin="10.0.0.1", is_limited=True)
    alice = acting(rows.database, lambda: NOW_MS, who="alice", rights=limited.rights)

    assert refusal(OPERATING["trigger"], alice, job_id) is Code.NO_RIGHT
    alice.users.set_password(1, "battery staple")
    assert limited.may(Right.ACCOUNT)
    assert not limited.may(Right.VIEW)


@pytest.mark.usefixtures("job_id")
def test_a_name_in_other_capitals_is_somebody_else(rows: Rows) -> None:
    namesake = somebody(rows, Role.VIEWER, "reports", name="Alice")

    with pytest.raises(Problem) as refused:
        namesake.users.set_password(1, "battery staple")

    assert refused.value.code is Code.NO_RIGHT


@pytest.mark.usefixtures("job_id")
def test_who_may_change_nobody_is_not_told_who_there_is(rows: Rows) -> None:
    viewer = somebody(rows, Role.VIEWER, "reports")

    for user_id in (1, 999):
        with pytest.raises(Problem) as refused:
            viewer.users.set_password(user_id, "battery staple")
        assert refused.value.code is Code.NO_RIGHT


class TestJobFileBesideForeignApps:
    """An operator of `reports` applies a job file; `mails` is somebody else's."""

    @staticmethod
    def apply(commands: Commands, *specs: JobSpec, prune: bool = False) -> list[Change]:
        return commands.job_files.apply([], specs, dry_run=False, prune=prune)

    def test_a_job_of_another_app_becomes_nobodys_child(self, rows: Rows) -> None:
        rows.job("theirs", app="mails")
        operator = somebody(rows, Role.OPERATOR, "reports")

        with pytest.raises(Problem) as refused:
            self.apply(operator, replace(JOB, children=("mails/theirs",)))

        assert refused.value.code is Code.CHILDREN_UNKNOWN
        assert noted(rows) == []

    def test_a_child_of_another_app_stays_one_and_is_not_named(
        self, rows: Rows, job_id: int
    ) -> None:
        theirs = rows.job("theirs", app="mails")
        chief = acting(rows.database, lambda: NOW_MS, who="chief")
        made = chief.jobs.create(replace(JOB, children=("mails/theirs",)))
        operator = somebody(rows, Role.OPERATOR, "reports")

        unchanged = self.apply(operator, JOB)
        changed = self.apply(operator, replace(JOB, children=("nightly",)))

        assert [change.action for change in unchanged] == ["unchanged"]
        assert [change.details for change in changed] == [("children: none -> nightly",)]
        assert rows.database.read(lambda s: job_links.children_of(s, made)) == (job_id, theirs)

    def test_a_circle_through_another_app_is_refused_and_not_named(self, rows: Rows) -> None:
        chief = acting(rows.database, lambda: NOW_MS, who="chief")
        rows.job("theirs", app="mails")
        rows.job("mine")
        chief.job_files.apply(
            [],
            [
                JobSpec(name="theirs", app="mails", handler="h", children=("reports/mine",)),
                replace(JOB, children=("mails/theirs",)),
            ],
            dry_run=False,
            prune=False,
        )
        operator = somebody(rows, Role.OPERATOR, "reports")

        with pytest.raises(Problem) as refused:
            self.apply(operator, replace(JOB, name="mine", handler="report", children=("made",)))

        assert refused.value.code is Code.HIDDEN_CIRCLE
        assert "theirs" not in str(refused.value)

    def test_a_parent_of_another_app_keeps_its_child_and_is_not_named(self, rows: Rows) -> None:
        chief = acting(rows.database, lambda: NOW_MS, who="chief")
        rows.job("mine")
        chief.jobs.create(
            JobSpec(name="theirs", app=_app(rows, "mails"), handler="h", children=("reports/mine",))
        )
        operator = somebody(rows, Role.OPERATOR, "reports")

        with pytest.raises(Problem) as refused:
            self.apply(operator, JOB, prune=True)

        assert refused.value.code is Code.STILL_A_HIDDEN_CHILD
        assert "theirs" not in str(refused.value)


def _app(rows: Rows, name: str) -> str:
    rows.app(name)
    return name
