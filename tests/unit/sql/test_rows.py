"""Typed rows: a NamedTuple's fields choose a query's columns and are held against their types."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from warren.sql.models import App, Job, Model
from warren.sql.rows import fetch, fetch_one, query


class Named(NamedTuple):
    """A job with its app's name."""

    id: int
    author: str | None
    app: str


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    Model.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(App(id=1, name="reports", title=""))
        session.add_all(Job(id=number, app_id=1, name=f"job-{number}") for number in (1, 2))
        yield session


def test_rows_have_the_columns_that_their_fields_name(session: Session) -> None:
    wanted = query(Named, Job, app=App.name).join(App, App.id == Job.app_id).order_by(Job.id)

    assert fetch(session, Named, wanted) == [Named(1, None, "reports"), Named(2, None, "reports")]
    assert fetch_one(session, Named, wanted.where(Job.id == 2)) == Named(2, None, "reports")
    assert fetch_one(session, Named, wanted.where(Job.id == 3)) is None


def test_a_field_must_have_the_type_of_its_column() -> None:
    class Wrong(NamedTuple):
        id: int
        author: int

    with pytest.raises(TypeError, match=r"expected Wrong.author to be of type <class 'str'>"):
        query(Wrong, Job)


def test_a_field_must_be_a_column_or_be_given() -> None:
    with pytest.raises(AttributeError, match="app"):
        query(Named, Job)


def test_a_column_must_be_for_a_field() -> None:
    with pytest.raises(TypeError, match="expected fields of Named, got: apps"):
        query(Named, Job, app=App.name, apps=App.name)
