"""Column types and table options, with the variants of each database."""

from typing import Any

from sqlalchemy import BigInteger, Text
from sqlalchemy.types import TypeEngine

from warren.sql.dialects.supported import SUPPORTED


def _long_text() -> TypeEngine[str]:
    standard = Text()
    for dialect in SUPPORTED:
        if dialect.long_text is not None:
            standard = standard.with_variant(dialect.long_text, dialect.name)
    return standard


def _auto_id() -> TypeEngine[int]:
    standard = BigInteger()
    for dialect in SUPPORTED:
        if dialect.auto_id is not None:
            standard = standard.with_variant(dialect.auto_id, dialect.name)
    return standard


LONG_TEXT = _long_text()
AUTO_ID = _auto_id()
TABLE_OPTIONS: dict[str, Any] = {
    name: value for one in SUPPORTED for name, value in one.table_options.items()
}
#: For tables in which the id of a deleted row is never used again.
LASTING_ID_OPTIONS: dict[str, Any] = {
    name: value for one in SUPPORTED for name, value in one.lasting_id_options.items()
}
