"""The tables of users and what belongs to them: sessions, preferences, tokens, audit entries."""

from sqlalchemy import BigInteger, Index, Integer, SmallInteger, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LASTING_ID_OPTIONS, LONG_TEXT, TABLE_OPTIONS
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


class User(Model):
    """A user of the console, or the owner of a program's tokens.

    `role` 0 = operator (XXL-JOB's normal user), 1 = administrator, 2 = viewer; `permission` holds
    the ids of the apps that an operator or viewer may see, separated by commas.
    """

    __tablename__ = "xxl_job_user"
    __table_args__ = (
        UniqueConstraint("username", name="i_username"),
        # The audit log names users by id too.
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column("username", String(50))
    password: Mapped[str] = mapped_column(String(255))
    token: Mapped[str | None] = mapped_column(String(100))
    role: Mapped[int] = mapped_column(SmallInteger)
    permission: Mapped[str | None] = mapped_column(Text)
    may_edit_glue: Mapped[int] = mapped_column(SmallInteger, default=0)
    must_change_password: Mapped[int] = mapped_column(SmallInteger, default=0)
    is_disabled: Mapped[int] = mapped_column(SmallInteger, default=0)
    locale: Mapped[str | None] = mapped_column(String(16))
    timezone: Mapped[str | None] = mapped_column(String(64))
    theme: Mapped[str | None] = mapped_column(String(16))
    #: Grows with each change of password, rights or state; sessions of earlier ones are invalid.
    generation: Mapped[int] = mapped_column(Integer, default=0)


class SignIn(Model):
    """One session of a user at the console; only the hash of its cookie is stored."""

    __tablename__ = "warren_session"
    __table_args__ = (
        UniqueConstraint("token_hash", name="i_session_token"),
        Index("i_session_user", "user_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    token_hash: Mapped[str] = mapped_column(String(64))
    user_id: Mapped[int] = mapped_column(Integer)
    generation: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(BigInteger)
    seen_at: Mapped[int] = mapped_column(BigInteger)
    address: Mapped[str] = mapped_column(String(64))
    agent: Mapped[str] = mapped_column(String(255))


class SignInLimit(Model):
    """The budget of one account or address for wrong passwords; full again at `full_until`."""

    __tablename__ = "warren_guess"
    __table_args__ = (TABLE_OPTIONS,)

    subject: Mapped[str] = mapped_column(String(80), primary_key=True)
    full_until: Mapped[int] = mapped_column(BigInteger)


class AuditEntry(Model):
    """One entry of the audit log; rows are only ever added.

    `origin` is the client's address or `cli`; `before` and `after` are JSON objects.
    """

    __tablename__ = "warren_trail"
    __table_args__ = (
        Index("i_trail_at", "at"),
        Index("i_trail_who", "who", "id"),
        Index("i_trail_object", "kind", "name", "id"),
        Index("i_trail_action", "action", "object_id", "id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    at: Mapped[int] = mapped_column(BigInteger)
    who: Mapped[str] = mapped_column(String(64))
    origin: Mapped[str] = mapped_column(String(64))
    action: Mapped[str] = mapped_column(String(32))
    kind: Mapped[str] = mapped_column(String(16))
    object_id: Mapped[int] = mapped_column(BigInteger, default=0)
    name: Mapped[str] = mapped_column(String(255))
    before: Mapped[str | None] = mapped_column(LONG_TEXT)
    after: Mapped[str | None] = mapped_column(LONG_TEXT)
