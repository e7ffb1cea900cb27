"""Executes UPDATE and DELETE statements; objects that the session has loaded do not follow."""

from collections.abc import Iterable
from typing import Any, cast

from sqlalchemy import CursorResult, Delete, Update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.dialects.hints import PRIMARY_KEY, update_by_index
from warren.sql.models import Model


def modify(session: Session, statement: Update | Delete) -> int:
    """Execute a statement; return how many rows it matched."""
    result = session.execute(statement, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount


def modify_by_ids(
    session: Session, model: type[Model], ids: Iterable[int], statement: Update
) -> int:
    """Execute an UPDATE for the rows with these ids; return how many it matched."""
    column, by_id = model.__mapper__.columns["id"], update_by_index(statement, PRIMARY_KEY)
    return sum(modify(session, by_id.where(column.in_(chunk))) for chunk in chunks(ids))
