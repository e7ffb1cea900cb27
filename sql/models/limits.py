"""The tables of limits that jobs share, and of the runs that hold them."""

from sqlalchemy import BigInteger, Double, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import LASTING_ID_OPTIONS, TABLE_OPTIONS
from warren.sql.models.base import Model


class Limit(Model):
    """How many runs of all jobs that name it may be on their way or running, and how often.

    `at_once` units may be held at a time; `rate` units may be taken per `per_ms`, from a bucket
    that has `tokens` since `refilled_at`. NULL = no such limit. A job whose scope is the cluster
    has a limit of its own, which is without a name; its `concurrency` says how many.
    """

    __tablename__ = "warren_limit"
    __table_args__ = (
        UniqueConstraint("name", name="i_limit_name"),
        UniqueConstraint("job_id", name="i_limit_job"),
        # Claims remember ids by name; a new limit of that name must not have the old one's.
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str | None] = mapped_column(String(64))
    job_id: Mapped[int | None] = mapped_column(Integer)
    at_once: Mapped[int | None] = mapped_column(Integer)
    rate: Mapped[int | None] = mapped_column(Integer)
    per_ms: Mapped[int | None] = mapped_column(BigInteger)
    tokens: Mapped[float | None] = mapped_column(Double)
    refilled_at: Mapped[int | None] = mapped_column(BigInteger)
    changed_at: Mapped[int] = mapped_column(BigInteger, default=0)


class Hold(Model):
    """What a run takes of a limit, from the claim that routes it until it has ended."""

    __tablename__ = "warren_hold"
    __table_args__ = (Index("i_hold_run", "run_id"), TABLE_OPTIONS)

    limit_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    run_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    weight: Mapped[int] = mapped_column(Integer)
