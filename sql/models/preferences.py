"""The tables of users' favourite jobs and saved filters."""

from sqlalchemy import Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.columns import AUTO_ID, TABLE_OPTIONS
from warren.sql.models.base import Model


class Favourite(Model):
    """A favourite job of a user."""

    __tablename__ = "warren_favourite"
    __table_args__ = (Index("i_favourite_job", "job_id"), TABLE_OPTIONS)

    user_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)


class SavedFilter(Model):
    """A named filter of a list; `query` is the query string of its link."""

    __tablename__ = "warren_filter"
    __table_args__ = (
        UniqueConstraint("user_id", "page", "name", name="i_filter_name"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    user_id: Mapped[int] = mapped_column(Integer)
    page: Mapped[str] = mapped_column(String(16))
    name: Mapped[str] = mapped_column(String(64))
    query: Mapped[str] = mapped_column(String(1024))
