"""The table of imported items: their ids at the source, and fingerprints of both sides."""

from sqlalchemy import BigInteger, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.columns import AUTO_ID, TABLE_OPTIONS
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
