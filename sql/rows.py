"""Types of what a query of named columns gives; attributes are the columns' names."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import Row

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
Rows: TypeAlias = Sequence[AnyRow]
