"""The tables of what Prometheus reads: counts of runs and skips, and jobs' last successes."""

from sqlalchemy import BigInteger, Integer, String
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import TABLE_OPTIONS
from warren.sql.models.base import Model


class MetricCount(Model):
    """One number that only grows, of one app: of a status, of a bucket, or a sum."""

    __tablename__ = "warren_metric"
    __table_args__ = (TABLE_OPTIONS,)

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    app_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    label: Mapped[str] = mapped_column(String(16), primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)


class JobSuccess(Model):
    """When a run of a job last succeeded; only of jobs that have metrics of their own."""

    __tablename__ = "warren_job_success"
    __table_args__ = (TABLE_OPTIONS,)

    job_id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    succeeded_at: Mapped[int] = mapped_column(BigInteger)
