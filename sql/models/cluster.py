"""The cluster as a whole: its state, its leases, its counters and when it was up."""

from sqlalchemy import BigInteger, SmallInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from sql.dialects.columns import AUTO_ID, TABLE_OPTIONS
from sql.models.base import Model


class Cluster(Model):
    """The one row that says which cluster this database is, and whether dispatch is paused."""

    __tablename__ = "warren_cluster"
    __table_args__ = (TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    cluster_id: Mapped[str] = mapped_column(String(36))
    paused_at: Mapped[int] = mapped_column(BigInteger, default=0)
    paused_by: Mapped[str | None] = mapped_column(String(64))


class Lease(Model):
    """Who may do a thing that one process does at a time, and until when."""

    __tablename__ = "xxl_job_lock"
    __table_args__ = (TABLE_OPTIONS,)

    lock_name: Mapped[str] = mapped_column(String(50), primary_key=True)
    holder: Mapped[str | None] = mapped_column(String(64))
    until_at: Mapped[int] = mapped_column(BigInteger, default=0)


class Sequence(Model):
    """The next free id of a counter."""

    __tablename__ = "warren_sequence"
    __table_args__ = (TABLE_OPTIONS,)

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    next_id: Mapped[int] = mapped_column(BigInteger)


class Uptime(Model):
    """A stretch of time in which some scheduler could send; nobody could since `down_since`.

    `is_settled`: no planned run is left that nobody could send in time before it.
    """

    __tablename__ = "warren_uptime"
    __table_args__ = (TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    down_since: Mapped[int] = mapped_column(BigInteger)
    since_at: Mapped[int] = mapped_column(BigInteger)
    until_at: Mapped[int] = mapped_column(BigInteger)
    is_settled: Mapped[int] = mapped_column(SmallInteger, default=0)
