"""Typed rows: the fields of a NamedTuple give the columns of a query and the types of its rows.

    class Named(NamedTuple):
        id: int
        app: str

    fetch(session, Named, query(Named, Job, app=App.name).join(App, App.id == Job.app_id))

Reading the attributes of such a tuple is several times faster than those of SQLAlchemy's rows.
"""

from collections.abc import Collection, Hashable, Mapping
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import BigInteger, ColumnElement, Select, bindparam, false, select
from sqlalchemy import Column as SchemaColumn
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session

from warren.sql.dialects.supported import of
from warren.sql.models import Model


def contains(session: Session, column: Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a text, in any case.

    Collations are case-sensitive; people are not.
    """
    if "\0" in text:
        # The pattern might end at the NUL and match everything; no text of ours contains one.
        return false()
    return of(session).lower(column).contains(text.lower(), autoescape=True)


def among(number: Any, values: Collection[int]) -> ColumnElement[bool]:
    """Return the condition that a whole number is one of these, which the statement spells out.

    As parameters, 500 ids would take the client over twice the time, and PostgreSQL longer too.
    """
    spelled = bindparam(None, values, BigInteger(), expanding=True, literal_execute=True)
    condition: ColumnElement[bool] = number.in_(spelled)
    return condition


R = TypeVar("R", bound=NamedTuple)
Query: TypeAlias = Select[*tuple[Any, ...]]
Column: TypeAlias = ColumnElement[Any] | InstrumentedAttribute[Any] | type[Model]


def query(row: type[NamedTuple], model: type[Model], **others: Column) -> Query:
    """Return a query for rows of this type; fields not in `others` are columns of the model.

    Raises:
        TypeError: a field's type differs from its column's, apart from None, or `others` has a
            name that is not a field.

    """
    if unknown := others.keys() - _types(row).keys():
        raise TypeError(f"expected fields of {row.__name__}, got: {', '.join(sorted(unknown))}")
    chosen: list[Column] = []
    for name, kind in _types(row).items():
        column = others[name] if name in others else getattr(model, name)
        if isinstance(column, InstrumentedAttribute) and kind != _type_of(column):
            raise TypeError(f"expected {row.__name__}.{name} to be of type {_type_of(column)}")
        chosen.append(column)
    return select(*chosen)


@cache
def columns_of(row: type[NamedTuple], model: type[Model]) -> tuple[SchemaColumn[Any], ...]:
    """Return the columns of the model's table that `query` selects.

    Raises:
        TypeError: a field's type differs from its column's.

    """
    query(row, model)
    return tuple(model.__mapper__.columns[name] for name in row._fields)


def fetch(session: Session, row: type[R], wanted: Query) -> list[R]:
    """Execute a query made by `query` and return its rows as this type."""
    return list(map(row._make, session.execute(wanted)))


def fetch_one(session: Session, row: type[R], wanted: Query) -> R | None:
    """Return the only row of a query; None if it has no row."""
    values = session.execute(wanted).one_or_none()
    return None if values is None else row._make(values)


def fetch_plain(
    session: Session, row: type[R], wanted: Query, parameters: Mapping[str, Any]
) -> list[R]:
    """Return the same as `fetch`, bypassing the ORM; for queries that are executed very often.

    Changes that the session has not flushed are not seen.
    """
    return list(map(row._make, session.connection().execute(wanted, parameters).all()))


@cache
def _types(row: Hashable) -> dict[str, Any]:
    """Return the types of a class's attributes, ignoring None."""
    return {name: _plain(hint) for name, hint in get_type_hints(row).items()}


def _type_of(column: InstrumentedAttribute[Any]) -> Any:
    model: Any = column.class_
    return _types(model)[column.key]


def _plain(hint: Any) -> Any:
    """Return `int` for `int`, `int | None`, `Mapped[int]` and `Mapped[int | None]`."""
    inner = get_args(hint)[0] if get_origin(hint) is Mapped else hint
    return next((kind for kind in get_args(inner) if kind is not NoneType), inner)
