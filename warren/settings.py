"""The settings: one frozen object, validated once, with every problem said at once.

Sources, strongest first: flags of the command line, `WARREN_…` variables, `warren.toml` in the
current folder. Nothing else of Warren reads the environment.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from broker.messages import ScriptLanguage
from warren.errors import CommandError, SettingsError
from warren.setting_rules import (
    check_broker_url,
    check_console_url,
    check_database_url,
    check_emails,
    check_glue,
    check_metrics_token,
    check_secret,
    check_smtp_url,
    check_timezone,
    check_webhook_url,
    local_timezone,
)

PREFIX = "WARREN_"
TOML_FILE = Path("warren.toml")
#: Where everything is kept unless a setting says otherwise.
HOME = Path(".warren")
DATABASE_FILE = HOME / "warren.db"
#: Never shown, not even when they are wrong.
_HIDDEN = frozenset(
    {"secret", "database_url", "broker_url", "smtp_url", "alarm_webhook", "metrics_token"}
)


def _default_slots() -> int:
    # A job process costs about 15 MB and most jobs wait more than they compute.
    return max(4, 2 * (os.cpu_count() or 1))


class Settings(BaseSettings):
    """Everything that can be set; each description says what is expected."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    database_url: Annotated[str, AfterValidator(check_database_url)] | None = Field(
        None,
        repr=False,
        description="a URL like mysql+pymysql://user:password@host:3306/warren or sqlite:///path",
    )
    broker_url: Annotated[str, AfterValidator(check_broker_url)] | None = Field(
        None,
        repr=False,
        description="a URL like amqp://user:password@host:5672/vhost, several of them parted by "
        "commas, or memory://",
    )
    secret: Annotated[str, AfterValidator(check_secret)] | None = Field(
        None, repr=False, description="at least 32 characters"
    )
    log_dir: Path = Field(HOME / "logs", description="the folder of the runs' logs")
    state_dir: Path = Field(HOME / "state", description="the folder of the executors' journals")
    slots: int = Field(
        default_factory=_default_slots, ge=1, le=1000, description="an integer from 1 to 1000"
    )
    grace_seconds: float = Field(5, ge=0, le=3600, description="seconds from 0 to 3600")
    drain_seconds: float = Field(10, ge=0, le=86_400, description="seconds from 0 to 86400")
    cpu_limit: float = Field(90, gt=0, le=100, description="per cent, above 0 and up to 100")
    memory_limit: float = Field(90, gt=0, le=100, description="per cent, above 0 and up to 100")
    timezone: Annotated[str, AfterValidator(check_timezone)] = Field(
        default_factory=local_timezone, description="an IANA time zone like Europe/Berlin"
    )
    glue: Annotated[str, AfterValidator(check_glue)] = Field(
        "all", description=f"all, off, or a list with commas of {', '.join(ScriptLanguage)}"
    )
    smtp_url: Annotated[str, AfterValidator(check_smtp_url)] | None = Field(
        None,
        repr=False,
        description="a URL like smtp+starttls://user:password@host:587?from=warren@example.com "
        "(or smtp://, smtps://)",
    )
    alarm_emails: Annotated[str, AfterValidator(check_emails)] | None = Field(
        None, description="e-mail addresses parted by commas"
    )
    alarm_webhook: Annotated[str, AfterValidator(check_webhook_url)] | None = Field(
        None, repr=False, description="an http(s) URL that leads to no link-local address"
    )
    alarm_limit: int = Field(10, ge=1, le=1000, description="an integer from 1 to 1000")
    absence_seconds: float = Field(60, ge=10, le=86_400, description="seconds from 10 to 86400")
    console_url: Annotated[str, AfterValidator(check_console_url)] | None = Field(
        None, description="an http(s) URL"
    )
    run_retention_days: int = Field(
        30, ge=0, le=36_500, description="a number of days from 0 to 36500; 0 keeps all"
    )
    host: str = Field("127.0.0.1", min_length=1, description="an address or name of this machine")
    port: int = Field(8080, ge=0, le=65_535, description="a port from 1 to 65535, or 0 for any")
    trusted_proxies: int = Field(0, ge=0, le=10, description="an integer from 0 to 10")
    metrics_token: Annotated[str, AfterValidator(check_metrics_token)] | None = Field(
        None, repr=False, description="at least 16 characters"
    )
    log_retention_days: int = Field(
        30, ge=1, le=36_500, description="a number of days from 1 to 36500"
    )
    quorum: bool = Field(False, description="true or false")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of jobs that name none, and of the times in tables."""
        return ZoneInfo(self.timezone)

    @property
    def script_languages(self) -> frozenset[str]:
        """The languages of the scripts that an executor runs."""
        if self.glue in ("all", "off"):
            return frozenset(ScriptLanguage if self.glue == "all" else ())
        return frozenset(language.strip() for language in self.glue.split(","))

    def needed_database_url(self) -> str:
        """Return the database to use: the one set, else that of `warren up` in this folder.

        Raises:
            CommandError: neither is there.

        """
        if self.database_url:
            return self.database_url
        if not DATABASE_FILE.exists():
            raise CommandError(
                f"no database: set WARREN_DATABASE_URL, or run `warren up` in this folder "
                f"(there is no {DATABASE_FILE} here)"
            )
        return f"sqlite:///{DATABASE_FILE.absolute()}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put flags before variables before warren.toml."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, _read_toml())


def read_settings(flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the validated settings; a flag that is None was not given.

    Raises:
        SettingsError: with a line for each problem, naming the flag, variable or key at fault.

    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    problems = _misspelt_variables()
    try:
        settings = Settings(**given)
    except ValidationError as error:
        _refuse(problems + [_words(problem, given) for problem in error.errors()])
    if problems:
        _refuse(problems)
    return settings


def needed_secret(settings: Settings) -> str:
    """Return the secret, or raise SettingsError naming its variable."""
    if settings.secret is None:
        _refuse([f"{PREFIX}SECRET: expected at least 32 characters, got nothing: it is not set"])
    return settings.secret


def needed_services(settings: Settings, *, database: bool) -> None:
    """Raise SettingsError unless all is set that a process outside `warren up` needs.

    `database` says whether it needs one: a scheduler does, an executor does not.
    """
    problems = []
    if database and settings.database_url is None:
        problems.append(f"{PREFIX}DATABASE_URL: expected {_kind('database_url')}, it is not set")
    if settings.broker_url is None:
        problems.append(f"{PREFIX}BROKER_URL: expected an amqp:// or amqps:// URL, it is not set")
    elif settings.broker_url == "memory://":
        problems.append(
            f"{PREFIX}BROKER_URL: memory:// works only inside `warren up`; "
            "expected an amqp:// or amqps:// URL"
        )
    if settings.secret is None:
        problems.append(f"{PREFIX}SECRET: expected at least 32 characters, it is not set")
    if problems:
        _refuse(problems)


def colour_is_unwanted() -> bool:
    """Return whether the user asked every program for plain text (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def variables() -> dict[str, str]:
    """Return each variable with what it expects; the documentation is checked against it."""
    return {f"{PREFIX}{name.upper()}": _kind(name) for name in Settings.model_fields}


def _kind(name: str) -> str:
    return Settings.model_fields[name].description or ""


def _read_toml() -> dict[str, Any]:
    try:
        return tomllib.loads(TOML_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError([f"{TOML_FILE}: cannot be read: {error}"]) from error


def _misspelt_variables() -> list[str]:
    # Others may well have variables of this prefix: only what is nearly ours is a mistake.
    known = [f"{PREFIX}{name.upper()}" for name in Settings.model_fields]
    unknown = [n for n in sorted(os.environ) if n.startswith(PREFIX) and n not in known]
    near = {name: difflib.get_close_matches(name, known, 1, 0.9) for name in unknown}
    return [
        f"unknown setting {name!r}, did you mean {match[0]!r}?"
        for name, match in near.items()
        if match
    ]


def _words(problem: Any, flags: Mapping[str, Any]) -> str:
    name = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        return f"{TOML_FILE}: {_unknown(name)}"
    detail = str(problem.get("ctx", {}).get("error", ""))
    shown = "" if name in _HIDDEN else f", got: {problem['input']!r}"
    return f"{_origin(name, flags)}: expected {_kind(name)}{shown}" + (
        f" ({detail})" if detail else ""
    )


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, list(Settings.model_fields), 1)
    return f"unknown setting {name!r}" + (f", did you mean {near[0]!r}?" if near else "")


def _origin(name: str, flags: Mapping[str, Any]) -> str:
    if name in flags:
        return "--" + name.replace("_", "-")
    variable = f"{PREFIX}{name.upper()}"
    if os.environ.get(variable):
        return variable
    return f"{TOML_FILE}: {name}"


def _refuse(problems: list[str]) -> NoReturn:
    raise SettingsError(problems)
