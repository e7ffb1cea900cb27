"""Finds rows by a part of a text, in any case, in the same way on every database."""

from typing import Any

from sqlalchemy import ColumnElement, false, func


def contains(column: Any, text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a text, in any case.

    Collations are case-sensitive; people are not.
    """
    if "\0" in text:
        # SQLite ends the pattern there, so that it would match everything. No text of ours has one.
        return false()
    return func.lower(column).contains(text.lower(), autoescape=True)
