"""A field of many jobs at once, on both databases: all of it or nothing, and the way back."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.support.acting import acting
from tests.support.sql_rows import side_by_side
from tests.support.stored_rows import Rows
from warren.resources.jobs import EditedField, EditMode
from warren.scheduler.actor import Right
from warren.scheduler.commands.commands import Commands
from warren.scheduler.commands.field_edits import MAX_EDITED, Edited, FieldEdit
from warren.scheduler.problems import Code, Problem, Refused
from warren.sql.accounts import audit_log
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.models import AuditEntry, Job

NOW = 1_700_000_000_000
TIMEOUT = FieldEdit.read(EditedField.TIMEOUT, 600)


@pytest.fixture
def rows(any_schema_url: str) -> Iterator[Rows]:
    rows = Rows(any_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def commands(rows: Rows) -> Commands:
    return acting(rows.database, lambda: NOW)


def values(rows: Rows, job_ids: Sequence[int], column: str) -> list[Any]:
    return rows.database.read(
        lambda session: [getattr(session.get_one(Job, job_id), column) for job_id in job_ids]
    )


def entries(rows: Rows) -> list[AuditEntry]:
    return list(rows.database.read(lambda s: audit_log.listing(s, AuditFilter())))[::-1]


def codes(problem: Refused) -> list[Code]:
    return [each.code for each in problem.problems]


def edited(
    commands: Commands, job_ids: Sequence[int], field: EditedField, value: Any, mode: str = "set"
) -> Edited:
    return commands.field_edits.apply(job_ids, FieldEdit.read(field, value, EditMode(mode)))


@pytest.mark.both
def test_all_jobs_get_the_value_and_one_action_takes_it_back(
    rows: Rows, commands: Commands
) -> None:
    ids = [rows.job(f"job-{n}", timeout=n) for n in range(20)]

    seen = {each.job_id: each.version for each in commands.field_edits.preview(ids, TIMEOUT)}
    done = commands.field_edits.apply(ids, TIMEOUT, seen=seen)
    changed = values(rows, ids, "timeout")
    undone = commands.field_edits.undo(done.id)

    assert done.jobs[3].words == ("timeout: 3 -> 600",)
    assert changed == [600] * 20
    assert values(rows, ids, "timeout") == list(range(20))
    assert (len(undone.jobs), undone.left) == (20, [])
    names = [(entry.action, entry.name) for entry in entries(rows)]
    assert names[20] == ("job.edit_many", "20 jobs")
    assert names[41] == ("job.undo_edit", "20 jobs")
    assert {action for action, _ in names[:20] + names[21:41]} == {"job.update"}


def test_an_undo_is_undone_too(rows: Rows, commands: Commands) -> None:
    ids = [rows.job("a", author="ann"), rows.job("b", author="bob")]
    done = edited(commands, ids, EditedField.AUTHOR, "carl")

    undo = commands.field_edits.undo(done.id)
    again = commands.field_edits.undo(undo.id)

    assert values(rows, ids, "author") == ["carl", "carl"]
    assert again.left == []


@pytest.mark.both
def test_jobs_that_were_edited_since_are_named_and_left(rows: Rows, commands: Commands) -> None:
    ids = [rows.job(name) for name in ("a", "b", "gone")]
    done = edited(commands, ids, EditedField.TIMEOUT, 600)
    edited(commands, ids[:1], EditedField.RETRIES, 3)
    commands.jobs.delete(ids[2:])

    undone = commands.field_edits.undo(done.id)
    twice = commands.field_edits.undo(done.id)

    assert values(rows, ids[:2], "timeout") == [600, 0]
    assert [(name, why.code) for name, why in undone.left] == [
        ("reports/gone", Code.NO_JOB_NAMED),
        ("reports/a", Code.JOB_CHANGED),
    ]
    assert twice.jobs == []
    assert sorted(name for name, _ in twice.left) == ["reports/a", "reports/b", "reports/gone"]


def test_a_started_or_stopped_job_counts_as_unedited(rows: Rows, commands: Commands) -> None:
    job_id = rows.job("a", schedule_kind="FIX_RATE", schedule_value="60")
    done = edited(commands, [job_id], EditedField.TIMEOUT, 600)
    commands.jobs.start(job_id)

    undone = commands.field_edits.undo(done.id)

    assert undone.left == []
    assert values(rows, [job_id], "is_enabled") == [1]


@pytest.mark.both
def test_nothing_is_changed_if_a_job_has_another_version_than_the_preview_saw(
    rows: Rows, commands: Commands
) -> None:
    ids = [rows.job("a"), rows.job("b")]
    seen = {each.job_id: each.version for each in commands.field_edits.preview(ids, TIMEOUT)}
    edited(commands, ids[1:], EditedField.AUTHOR, "ann")

    with pytest.raises(Refused) as refused:
        commands.field_edits.apply(ids, TIMEOUT, seen=seen)

    assert codes(refused.value) == [Code.JOB_CHANGED]
    assert "reports/b" in str(refused.value)
    assert values(rows, ids, "timeout") == [0, 0]


@pytest.mark.both
def test_of_two_edits_at_once_one_sees_that_jobs_have_changed(rows: Rows) -> None:
    """Both have read the jobs before either writes."""
    ids = [rows.job(f"job-{n}") for n in range(5)]
    commands = [acting(rows.database, lambda: NOW, who=who) for who in ("ann", "bob")]
    both_have_read = threading.Barrier(2)

    def edit(each: Commands, seconds: int) -> str:
        preview = each.field_edits.preview

        def read_as_the_other_does(*asked: Any) -> Any:
            found = preview(*asked)
            both_have_read.wait()
            return found

        each.field_edits.preview = read_as_the_other_does  # type: ignore[method-assign]
        try:
            each.field_edits.apply(ids, FieldEdit.read(EditedField.TIMEOUT, seconds))
        except Refused as refused:
            return str(codes(refused)[0].name)
        return "done"

    said = side_by_side(lambda: edit(commands[0], 60), lambda: edit(commands[1], 70))

    assert sorted(said) == ["JOB_CHANGED", "done"]
    assert len(set(values(rows, ids, "timeout"))) == 1


def test_every_fault_is_told_at_once_and_nothing_is_changed(rows: Rows, commands: Commands) -> None:
    ids = [
        rows.job("plain"),
        rows.job("templated", param_template="{{ run_date }}"),
        rows.job("tagged", param_template="{{ run_date }}"),
    ]

    with pytest.raises(Refused) as refused:
        edited(commands, ids, EditedField.PARAM, "x")
    with pytest.raises(Refused) as same:
        edited(commands, ids, EditedField.ROUTE, "NOWHERE")

    assert codes(refused.value) == [Code.IN_JOB, Code.IN_JOB]
    assert "job reports/tagged: expected either param or param_template" in str(refused.value)
    assert len(same.value.problems) == 1
    assert values(rows, ids, "param") == [None, None, None]
    assert entries(rows) == []


def test_tags_are_added_to_those_of_each_job_and_removed(rows: Rows, commands: Commands) -> None:
    ids = [rows.job("a", tags="x"), rows.job("b", tags="y,nightly"), rows.job("c")]

    edited(commands, ids, EditedField.TAGS, "nightly", "add")
    added = values(rows, ids, "tags")
    done = edited(commands, ids, EditedField.TAGS, ["x", "y"], "remove")

    assert added == ["x,nightly", "y,nightly", "nightly"]
    assert values(rows, ids, "tags") == ["nightly", "nightly", "nightly"]
    assert [bool(each.words) for each in done.jobs] == [True, True, False]


@pytest.mark.parametrize("field", [each for each in EditedField if each != "alarm_webhook"])
def test_an_undo_gives_back_every_field_that_is_not_secret(
    rows: Rows, commands: Commands, field: EditedField
) -> None:
    before = {
        "handler": "old",
        "param": "old",
        "route": "RANDOM",
        "timeout": 7,
        "retries": 7,
        "author": "old",
        "tags": "old",
        "alarm_email": "old@example.com",
    }
    ids = [rows.job("full", **before), rows.job("bare")]
    new = {"timeout": 9, "retries": 9, "route": "ROUND", "alarm_emails": "new@example.com"}
    columns = [*before]

    was = [values(rows, ids, column) for column in columns]
    done = edited(commands, ids, field, new.get(field, "new"))
    now = [values(rows, ids, column) for column in columns]
    undone = commands.field_edits.undo(done.id)

    assert now != was
    assert [each.can_be_undone for each in done.jobs] == [True, True]
    assert undone.left == []
    restored = [values(rows, ids, column) for column in columns]
    assert [[value or None for value in each] for each in restored] == [
        [value or None for value in each] for each in was
    ]


def test_a_webhook_takes_its_style_along_and_is_not_restored_from_what_is_not_kept(
    rows: Rows, commands: Commands
) -> None:
    old = {"alarm_webhook": "https://old.example.com/secret", "alarm_style": "slack"}
    ids = [rows.job("had", **old), rows.job("had-none")]

    done = edited(commands, ids, EditedField.ALARM_WEBHOOK, "https://new.example.com/x")
    undone = commands.field_edits.undo(done.id)

    assert [each.can_be_undone for each in done.jobs] == [False, True]
    assert values(rows, ids, "alarm_webhook") == ["https://new.example.com/x", ""]
    assert not any(values(rows, ids, "alarm_style"))
    assert [(name, why.code) for name, why in undone.left] == [("reports/had", Code.EDIT_NOT_KEPT)]
    assert "secret" not in "".join(f"{entry.before}{entry.after}" for entry in entries(rows))


def test_a_param_too_long_for_the_audit_log_is_said_to_be_beyond_undoing(
    rows: Rows, commands: Commands
) -> None:
    job_id = rows.job("long", param="x" * 2_001)

    done = edited(commands, [job_id], EditedField.PARAM, "short")
    undone = commands.field_edits.undo(done.id)

    assert not done.jobs[0].can_be_undone
    assert undone.jobs == []
    assert values(rows, [job_id], "param") == ["short"]


def test_only_jobs_of_the_actors_apps_are_edited_or_restored(
    rows: Rows, commands: Commands
) -> None:
    mine, theirs = rows.job("mine"), rows.job("theirs", "mails")
    limited = acting(rows.database, lambda: NOW, app_ids={rows.app()})
    both = edited(commands, [mine, theirs], EditedField.TIMEOUT, 600)
    foreign = edited(commands, [theirs], EditedField.RETRIES, 1)

    with pytest.raises(Refused) as refused:
        edited(limited, [mine, theirs], EditedField.TIMEOUT, 60)
    with pytest.raises(Problem) as unknown:
        limited.field_edits.undo(foreign.id)
    undone = limited.field_edits.undo(both.id)

    assert codes(refused.value) == [Code.NO_JOB]
    assert unknown.value.code is Code.NO_EDIT
    assert [each.name for each in undone.jobs] == ["reports/mine"]
    assert undone.left == []
    assert values(rows, [mine, theirs], "timeout") == [0, 600]


def test_it_needs_the_right_of_an_edit_of_one_job(rows: Rows) -> None:
    job_id = rows.job("a")
    viewer = acting(rows.database, lambda: NOW, rights={Right.VIEW})

    for act in (
        lambda: viewer.field_edits.preview([job_id], TIMEOUT),
        lambda: viewer.field_edits.apply([job_id], TIMEOUT),
        lambda: viewer.field_edits.undo(1),
    ):
        with pytest.raises(Problem) as refused:
            act()
        assert refused.value.code is Code.NO_RIGHT


@pytest.mark.parametrize(
    ("field", "value", "mode", "code"),
    [
        (EditedField.TIMEOUT, "ten", "set", Code.INTEGER),
        (EditedField.TIMEOUT, ["1"], "set", Code.INTEGER),
        (EditedField.TIMEOUT, "9" * 30, "set", Code.INTEGER),
        (EditedField.AUTHOR, ["a"], "set", Code.EDIT_TEXT),
        (EditedField.AUTHOR, "a", "add", Code.EDIT_OF_NO_LIST),
    ],
)
def test_a_value_that_is_none_of_the_field_is_refused(
    field: EditedField, value: Any, mode: str, code: Code
) -> None:
    with pytest.raises(Problem) as refused:
        FieldEdit.read(field, value, EditMode(mode))

    assert refused.value.code is code


def test_up_to_five_hundred_jobs_are_edited_at_once(rows: Rows, commands: Commands) -> None:
    ids = [rows.job(f"job-{n}") for n in range(MAX_EDITED)]

    done = commands.field_edits.apply(ids, TIMEOUT)
    with pytest.raises(Problem) as refused:
        commands.field_edits.preview([*ids, 10**6], TIMEOUT)

    assert len(done.jobs) == MAX_EDITED
    assert set(values(rows, ids, "timeout")) == {600}
    assert refused.value.code is Code.EDIT_TOO_MANY
