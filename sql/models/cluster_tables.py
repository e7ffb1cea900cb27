"""The tables of the cluster as a whole, of its apps and processes, and of its users."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    DateTime,
    Index,
    Integer,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from warren.sql.dialects.supported import AUTO_ID, LASTING_ID_OPTIONS, LONG_TEXT, TABLE_OPTIONS
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
    serves as a lock. `server` names the server, or the cluster of servers, that the database was
    last written on; None = unknown.
    """

    __tablename__ = "warren_cluster"
    __table_args__ = (TABLE_OPTIONS,)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    cluster_id: Mapped[str] = mapped_column(String(36))
    secret_fingerprint: Mapped[str | None] = mapped_column(String(64))
    other_fingerprint: Mapped[str | None] = mapped_column(String(64))
    server: Mapped[str | None] = mapped_column(String(80))


class Pause(Model):
    """A pause of dispatch, of the whole cluster (`app_id` 0) or of one app.

    `until_at` is its planned or past end; None = no end. `is_settled`: it has ended, and all runs
    it held back are decided; the last of these rows are kept.
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
    """A time from which run ids begin at a higher number, because their counter had gone back.

    That happens after a failover that lost commits, or a restore. `told_by`: the executor or user
    that reported it, if any; `found_id`: where the counter was found; `next_id`: the first id of
    this epoch.
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


class App(Model):
    """A named group of executors; `address_type` 0 = they register themselves, 1 = a fixed list."""

    __tablename__ = "xxl_job_group"
    __table_args__ = (
        UniqueConstraint("app_name", name="i_app_name"),
        # The runs of a deleted app keep its id, so no other app may get it.
        {**TABLE_OPTIONS, **LASTING_ID_OPTIONS},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column("app_name", String(64))
    title: Mapped[str] = mapped_column(String(64))
    address_type: Mapped[int] = mapped_column(SmallInteger, default=0)
    address_list: Mapped[str | None] = mapped_column(Text)
    alarm_email: Mapped[str | None] = mapped_column(String(255))
    alarm_webhook: Mapped[str | None] = mapped_column(String(512))
    alarm_style: Mapped[str | None] = mapped_column(String(16))
    #: What its robot's signatures are made with; never read back by people.
    alarm_secret: Mapped[str | None] = mapped_column(String(255))
    webhook_url: Mapped[str | None] = mapped_column(String(512))
    webhook_when: Mapped[str | None] = mapped_column(String(16))
    #: The route of jobs that name none; None = CONSISTENT_HASH.
    route: Mapped[str | None] = mapped_column(String(50))
    update_time: Mapped[datetime | None] = mapped_column(DateTime)


class Registration(Model):
    """A registered process: executors under EXECUTOR, schedulers and consoles under ADMIN.

    Under DEPARTED are addresses of executors that have said goodbye.
    """

    __tablename__ = "xxl_job_registry"
    __table_args__ = (
        UniqueConstraint("registry_group", "registry_key", "registry_value", name="i_g_k_v"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    kind: Mapped[str] = mapped_column("registry_group", String(50))
    app: Mapped[str] = mapped_column("registry_key", String(64))
    address: Mapped[str] = mapped_column("registry_value", String(255))
    update_time: Mapped[datetime | None] = mapped_column(DateTime)
    boot_id: Mapped[str] = mapped_column(String(40), default="")
    boot_at: Mapped[int] = mapped_column(BigInteger, default=0)
    beat_at: Mapped[int] = mapped_column(BigInteger, default=0)
    load: Mapped[str | None] = mapped_column(LONG_TEXT)
    draining: Mapped[int] = mapped_column(SmallInteger, default=0)
    #: When the drain of this boot was requested; 0 = it was not.
    drain_asked_at: Mapped[int] = mapped_column(BigInteger, default=0)
    #: The broker's account that speaks for this boot, empty if it names none; NULL = not known yet.
    account: Mapped[str | None] = mapped_column(String(255))
    #: The fingerprint of what this boot can run; None or empty = it does not say.
    catalogue: Mapped[str | None] = mapped_column(String(32))


class StoredCatalogue(Model):
    """What executors with this fingerprint can run, as JSON."""

    __tablename__ = "warren_catalogue"
    __table_args__ = TABLE_OPTIONS

    fingerprint: Mapped[str] = mapped_column(String(32), primary_key=True)
    contents: Mapped[str] = mapped_column(LONG_TEXT)
    told_at: Mapped[int] = mapped_column(BigInteger)


class ExecutorLoad(Model):
    """The last load that an executor reported within a minute, by the id of its registration."""

    __tablename__ = "warren_executor_load"
    __table_args__ = (Index("i_load_minute", "minute_at"), TABLE_OPTIONS)

    executor_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    minute_at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    slots: Mapped[int] = mapped_column(Integer)
    running: Mapped[int] = mapped_column(Integer)
    waiting: Mapped[int] = mapped_column(Integer)
    cpu_percent: Mapped[int] = mapped_column(SmallInteger)
    memory_percent: Mapped[int] = mapped_column(SmallInteger)


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


class CommandLogin(Model):
    """A command's wish for a token of its own, until a user has decided and the command has it.

    `key_hash` is that of the code that the user types, or of the link that the command opens; with
    a link, `port` is where the command waits on 127.0.0.1 for the user's browser to bring a code.
    """

    __tablename__ = "warren_command_login"
    __table_args__ = (
        UniqueConstraint("key_hash", name="i_command_login_key"),
        UniqueConstraint("challenge", name="i_command_login_challenge"),
        Index("i_command_login_until", "until_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    key_hash: Mapped[str] = mapped_column(String(64))
    challenge: Mapped[str] = mapped_column(String(64))
    machine: Mapped[str] = mapped_column(String(64))
    address: Mapped[str] = mapped_column(String(64))
    days: Mapped[int] = mapped_column(Integer)
    port: Mapped[int | None] = mapped_column(Integer)
    state: Mapped[str] = mapped_column(String(64), default="")
    until_at: Mapped[int] = mapped_column(BigInteger)
    #: WAITING, ALLOWED or REFUSED.
    decision: Mapped[str] = mapped_column(String(16), default="WAITING")
    #: Who typed the code or decided, and that user's generation then.
    user_id: Mapped[int | None] = mapped_column(Integer)
    generation: Mapped[int | None] = mapped_column(Integer)
    scopes: Mapped[str] = mapped_column(String(128), default="")
    #: The hash of what the browser brings.
    code_hash: Mapped[str | None] = mapped_column(String(64))


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
    #: Until when sessions by single sign-on and tokens hold; NULL = the user has no identity.
    sso_until: Mapped[int | None] = mapped_column(BigInteger)
    tokens_until: Mapped[int | None] = mapped_column(BigInteger)


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
    #: Whether it came by single sign-on; then, encrypted, the ID token, which its end tells.
    is_sso: Mapped[int] = mapped_column(SmallInteger, default=0, server_default="0")
    id_token: Mapped[str | None] = mapped_column(LONG_TEXT, deferred=True)


class Identity(Model):
    """Who a user is at the provider of single sign-on: an issuer and its name for the person.

    `key_hash` is of both, because databases compare texts loosely. `group_names` is a JSON array of
    the groups that were last read, the refresh token is encrypted, and `fault` says why groups
    could not be read last.
    """

    __tablename__ = "warren_identity"
    __table_args__ = (
        UniqueConstraint("key_hash", name="i_identity_key"),
        UniqueConstraint("user_id", name="i_identity_user"),
        Index("i_identity_due", "next_read_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    key_hash: Mapped[str] = mapped_column(String(64))
    user_id: Mapped[int] = mapped_column(Integer)
    issuer: Mapped[str] = mapped_column(String(255))
    subject: Mapped[str] = mapped_column(String(255))
    linked_at: Mapped[int] = mapped_column(BigInteger)
    linked_by: Mapped[str] = mapped_column(String(64))
    signed_in_at: Mapped[int | None] = mapped_column(BigInteger)
    read_at: Mapped[int | None] = mapped_column(BigInteger)
    #: When to read the groups again; while a process does, when another one may.
    next_read_at: Mapped[int] = mapped_column(BigInteger, default=0)
    group_names: Mapped[str | None] = mapped_column(LONG_TEXT)
    refresh_token: Mapped[str | None] = mapped_column(LONG_TEXT)
    fault: Mapped[str | None] = mapped_column(String(255))


class GroupRule(Model):
    """What the members of one group of the provider may do, in the form of a `User`'s rights."""

    __tablename__ = "warren_group_rule"
    __table_args__ = (UniqueConstraint("key_hash", name="i_group_rule_key"), TABLE_OPTIONS)

    id: Mapped[int] = mapped_column(AUTO_ID, primary_key=True)
    key_hash: Mapped[str] = mapped_column(String(64))
    group_name: Mapped[str] = mapped_column(String(255))
    role: Mapped[int] = mapped_column(SmallInteger)
    permission: Mapped[str | None] = mapped_column(Text)
    may_edit_glue: Mapped[int] = mapped_column(SmallInteger)


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
