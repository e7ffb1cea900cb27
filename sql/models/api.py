"""The tables of API tokens and idempotency keys."""

from sqlalchemy import BigInteger, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.columns import AUTO_ID, LASTING_ID_OPTIONS, TABLE_OPTIONS
from warren.sql.models.base import Model


class ApiToken(Model):
    """A token with which a program acts for a user; only its hash is stored.

    `scopes` are separated by commas; `permission` holds the ids of apps, `jobs` those of jobs,
    NULL = all that the owner may see. Names are never reused, because the audit log names tokens.
    """

    __tablename__ = "warren_token"
    __table_args__ = (
        UniqueConstraint("token_hash", name="i_token_hash"),
        UniqueConstraint("name", name="i_token_name"),
        Index("i_token_user", "user_id"),
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    token_hash: Mapped[str] = mapped_column(String(64))
    name: Mapped[str] = mapped_column(String(50))
    user_id: Mapped[int] = mapped_column(Integer)
    scopes: Mapped[str] = mapped_column(String(128))
    permission: Mapped[str | None] = mapped_column(Text)
    jobs: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str] = mapped_column(String(64))
    expires_at: Mapped[int] = mapped_column(BigInteger)
    used_at: Mapped[int | None] = mapped_column(BigInteger)
    used_from: Mapped[str | None] = mapped_column(String(64))
    revoked_at: Mapped[int | None] = mapped_column(BigInteger)
    revoked_by: Mapped[str | None] = mapped_column(String(64))


class IdempotencyKey(Model):
    """A key that a program sent with a trigger, and the run that was planned for it."""

    __tablename__ = "warren_idempotency"
    __table_args__ = (
        UniqueConstraint("user_id", "idempotency_key", name="i_idempotency"),
        Index("i_idempotency_at", "created_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    user_id: Mapped[int] = mapped_column(Integer)
    key: Mapped[str] = mapped_column("idempotency_key", String(128))
    body_hash: Mapped[str] = mapped_column(String(64))
    run_id: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[int] = mapped_column(BigInteger)
