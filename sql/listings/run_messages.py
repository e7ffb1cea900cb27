"""Runs with the names of job and app, whole or as lines of a list; and searches in their messages.

Messages are compared without their numbers.
"""

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, case, func, literal, null, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from warren.sql.batch import chunks
from warren.sql.models import App, Job, Run, ScriptVersion
from warren.sql.rows import Query, among, contains, fetch, query
from warren.sql.runs.run_rows import DetailedRun

#: Characters of a message that are read for a line.
MESSAGE_LIMIT = 400
_TEXTS = ("param", "message", "trigger_message")


def details(**others: ColumnElement[Any]) -> Query:
    """Return the query of DetailedRun rows; `others` are columns to select instead."""
    of_run = ScriptVersion.id == Run.script_version
    return _runs(script_number=ScriptVersion.number, **others).outerjoin(ScriptVersion, of_run)


def lines() -> Query:
    """Return the query of DetailedRun rows with the beginnings of their messages alone."""
    beginnings = {
        name: func.coalesce(func.substr(getattr(Run, name), 1, MESSAGE_LIMIT), "")
        for name in ("message", "trigger_message")
    }
    return _runs(
        param=literal(""), log_tail=null(), result=null(), script_number=null(), **beginnings
    )


def _runs(**others: ColumnElement[Any] | InstrumentedAttribute[Any]) -> Query:
    texts = {name: func.coalesce(getattr(Run, name), "") for name in _TEXTS}
    of_job = {name: getattr(Job, name) for name in ("timezone", "route", "limits", "scope")}
    columns = {"job": Job.name, "app": App.name, **of_job, **texts, **others}
    return (
        query(DetailedRun, Run, **columns)
        .outerjoin(Job, Job.id == Run.job_id)
        .outerjoin(App, App.id == Run.app_id)
    )


def by_ids(session: Session, run_ids: Sequence[int]) -> list[DetailedRun]:
    """Return the lines of a few runs in the given order; deleted ones are left out."""
    runs = fetch(session, DetailedRun, lines().where(among(Run.id, run_ids))) if run_ids else []
    by_id = {run.id: run for run in runs}
    return [by_id[run_id] for run_id in run_ids if run_id in by_id]


#: Stands for any number in a search text.
NUMBER = "#"
#: Characters of a message that are compared: what tells errors apart often stands at the end.
COMPARED_LIMIT = 400
_CHUNK = 1_000
#: How messages begin whose first number tells errors apart.
BEFORE_CODES = ("exit code ", "ended with exit code ", "sys.exit(")
_DIGITS = re.compile("[0-9]+")
_CODE = re.compile("[0-9]{1,3}(?![0-9])")
_CODE_LENGTH = 4


def without_numbers(message: str, code: str = "") -> str:
    """Return the first line of a message, with `#` for each of its numbers.

    `code` is what `exit_code` has selected: its number replaces the first `#`.
    """
    text = _DIGITS.sub(NUMBER, _first_line(message))[:COMPARED_LIMIT].strip()
    found = _CODE.match(code)
    return text.replace(NUMBER, found[0], 1) if found else text


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0]


def with_text(session: Session, run_ids: Sequence[int], text: str) -> set[int]:
    """Return the runs among these whose message or routing message contains a text.

    Case is ignored. `#` in the text matches any number; such a text is searched only in the first
    line of messages.
    """
    search = _alike if NUMBER in text else _containing
    return {run_id for part in chunks(run_ids, _CHUNK) for run_id in search(session, part, text)}


def _containing(session: Session, run_ids: Sequence[int], text: str) -> Sequence[int]:
    matches = [contains(session, column, text) for column in (Run.message, Run.trigger_message)]
    matching = select(Run.id).where(among(Run.id, run_ids), or_(*matches))
    return session.execute(matching).scalars().all()


def _alike(session: Session, run_ids: Sequence[int], text: str) -> list[int]:
    parts = map(re.escape, text.strip().lower().split(NUMBER))
    wanted = re.compile(f"([0-9]++|{NUMBER})".join(parts))
    return [
        run_id
        for run_id, message in beginnings(session, run_ids).items()
        if wanted.search(_first_line(message).lower())
    ]


def beginnings(session: Session, run_ids: Sequence[int]) -> dict[int, str]:
    """Return the beginning of each run's message; of its routing message if it has none."""
    texts = select(Run.id, beginning()).where(among(Run.id, run_ids))
    return {run_id: text or "" for run_id, text in session.execute(texts)}


def beginning() -> ColumnElement[str]:
    """Return the SQL for the beginning of a run's message, or of its routing message."""
    # Longer, because the first line may follow empty ones.
    message = func.coalesce(func.nullif(Run.message, ""), Run.trigger_message)
    return func.substr(message, 1, 2 * COMPARED_LIMIT)


def exit_code() -> ColumnElement[str]:
    """Return the SQL for the exit code that a run's message begins with, and a little more."""
    message = Run.message
    codes = [
        (
            func.substr(message, 1, len(before)) == before,
            func.substr(message, len(before) + 1, _CODE_LENGTH),
        )
        for before in BEFORE_CODES
    ]
    return case(*codes, else_="")
