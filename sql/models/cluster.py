"""The tables of the cluster as a whole, from its id to its uptime and imports."""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, TABLE_OPTIONS
from warren.sql.models.base import Model


class ImportOrigin(Model):
    """One imported app, job or user, by its id at the source.

    The fingerprints are those of the item at the source and of ours, after the last import. A side
    whose fingerprint differs was changed since.
    """

    __tablename__ = "warren_import"
    __table_args__ = (
        UniqueConstraint("source", "kind", "source_id", name="i_import_source"),
        Index("i_import_target", "kind", "target_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    source: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(8))
    source_id: Mapped[int] = mapped_column(BigInteger)
    target_id: Mapped[int] = mapped_column(Integer)
    source_fingerprint: Mapped[str] = mapped_column("there", String(32))
    target_fingerprint: Mapped[str] = mapped_column("here", String(32))
    imported_at: Mapped[int] = mapped_column(BigInteger)


class Cluster(Model):
    """The only row: the id of the cluster, and fingerprints of its master secret.

    There are two while the secret is being changed, and none before the first process. The row also
    serves as a lock.
    """

    __tablename__ = "warren_cluster"
    __table_args__ = (TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    cluster_id: Mapped[str] = mapped_column(String(36))
    secret_fingerprint: Mapped[str | None] = mapped_column(String(64))
    other_fingerprint: Mapped[str | None] = mapped_column(String(64))


class Pause(Model):
    """A pause of dispatch, of the whole cluster (`app_id` 0) or of one app.

    `until_at` is its planned or past end; None = no end. `is_settled`: it is over, and all runs it
    held back are decided; the last of these rows are kept.
    """

    __tablename__ = "warren_pause"
    __table_args__ = (Index("i_pause_open", "is_settled", "app_id"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    app_id: Mapped[int] = mapped_column(Integer)
    since_at: Mapped[int] = mapped_column(BigInteger)
    until_at: Mapped[int | None] = mapped_column(BigInteger)
    paused_by: Mapped[str] = mapped_column(String(64))
    reason: Mapped[str] = mapped_column(String(200))
    is_settled: Mapped[int] = mapped_column(SmallInteger, default=0, server_default="0")


class Lease(Model):
    """A lease: which process holds it, and until when."""

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


class Epoch(Model):
    """A time since which run ids are counted anew, because the counter of run ids had gone back.

    That is after a failover that lost commits, or a restore. `told_by`: the executor or user that
    told so, if any; `found_id`: where the counter was found; `next_id`: the first id of this epoch.
    """

    __tablename__ = "warren_epoch"
    __table_args__ = (TABLE_OPTIONS,)

    began_at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    cause: Mapped[str] = mapped_column(String(16))
    told_by: Mapped[str] = mapped_column(String(255))
    found_id: Mapped[int] = mapped_column(BigInteger)
    next_id: Mapped[int] = mapped_column(BigInteger)


class Uptime(Model):
    """A span in which some scheduler could send; before it, since `down_since`, none could.

    `is_settled`: all planned runs that were due in that downtime are decided.
    """

    __tablename__ = "warren_uptime"
    __table_args__ = (Index("i_uptime_open", "is_settled"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    down_since: Mapped[int] = mapped_column(BigInteger)
    since_at: Mapped[int] = mapped_column(BigInteger)
    until_at: Mapped[int] = mapped_column(BigInteger)
    is_settled: Mapped[int] = mapped_column(SmallInteger, default=0)
