"""The tables of apps, registered processes and their load."""

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
