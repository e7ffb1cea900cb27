"""The settings: one frozen object, read from all sources and validated once.

Sources in order of precedence: command-line flags, `WARREN_…` variables, `warren.toml` in the
current folder. No other setting comes from the environment, except the default time zone (`TZ`) and
OpenTelemetry's variables. Secrets may be in files (see `secret_files`), and are never shown; the
keys that a process needs are derived from the settings. This needs no library: executors are
installed beside handlers, and must not force a version of pydantic on them.
"""

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import structlog

from warren.broker.durations import read_duration
from warren.broker.messages import ScriptLanguage
from warren.broker.process_use import ProcessUse
from warren.broker.signing import AppKeys, ClusterKeys
from warren.errors import CommandError, SettingsError
from warren.executor.container import processors
from warren.executor.disk import DEFAULT_RESERVE, DEFAULT_SPOOL
from warren.resources.spelling import did_you_mean
from warren.settings.secret_files import (
    LINKS,
    SUFFIX,
    SecretFiles,
    check_allowed,
    plaintext_problems,
    read_secret_files,
)
from warren.settings.setting_rules import (
    CALLBACK_PATH,
    check_access_key,
    check_alarm_secret,
    check_api_token,
    check_broker_url,
    check_builtin,
    check_claim,
    check_client_id,
    check_client_secret,
    check_code_version,
    check_console_url,
    check_contact,
    check_database_url,
    check_destinations,
    check_emails,
    check_gateway_peers,
    check_gateway_tokens,
    check_glue,
    check_heartbeat_url,
    check_hooks,
    check_issuer,
    check_job_limits,
    check_local_sign_in,
    check_log_reserve,
    check_log_spool,
    check_log_store,
    check_log_store_endpoint,
    check_management_url,
    check_metrics_token,
    check_redirect_url,
    check_region,
    check_scopes,
    check_secret,
    check_smtp_url,
    check_timezone,
    check_webhook_url,
    has_password,
    local_timezone,
)

#: Returns the value or raises ValueError; its message, if any, is added to what is expected.
Reader = Callable[[Any], Any]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
#: Tracing is on if one of these is set.
ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NAME, _SWITCH = "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"


@dataclass(frozen=True, slots=True)
class Kind:
    """The words for what a setting is expected to be, and its reader."""

    expected: str
    read: Reader


def setting(
    read: Reader,
    expected: str,
    default: Any = None,
    *,
    make: Callable[[], Any] | None = None,
    secret: bool = False,
) -> Any:
    """Return a dataclass field; `make` computes a default that depends on the machine."""
    kind = {"kind": Kind(expected, read)}
    if make is not None:
        return field(default_factory=make, repr=not secret, metadata=kind)
    return field(default=default, repr=not secret, metadata=kind)


def kind_of(setting: Field[Any]) -> Kind | None:
    """Return the kind of a field; None if it is not a setting."""
    return setting.metadata.get("kind")


def text(check: Callable[[str], str] = str) -> Reader:
    """Return a reader of texts that pass a check."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError  # noqa: TRY004 - readers raise ValueError for any wrong value
        return check(value)

    return read


def some_text(value: str) -> str:
    """Return a text that is not empty."""
    if not value:
        raise ValueError
    return value


def folder(value: Any) -> Path:
    return Path(text()(value))


def boolean(value: Any) -> bool:
    """Return a boolean, from any of its usual spellings."""
    try:
        return _BOOLEANS[str(value).strip().lower()]
    except KeyError:
        raise ValueError from None


def whole(minimum: int, maximum: int) -> Reader:
    """Return a reader of integers within bounds."""

    def read(value: Any) -> int:
        if not _WHOLE.fullmatch(str(value).strip()) or not minimum <= int(value) <= maximum:
            raise ValueError
        return int(value)

    return read


def whole_or_auto(minimum: int, maximum: int) -> Reader:
    """Return a reader of integers within bounds; the word `auto` gives None."""
    read = whole(minimum, maximum)
    return lambda value: None if value == "auto" else read(value)


def number(minimum: float, maximum: float, *, above: bool = False) -> Reader:
    """Return a reader of numbers within bounds; `above`: excluding the minimum itself."""

    def read(value: Any) -> float:
        try:
            number = float(str(value))
        except ValueError:
            raise ValueError from None
        if not minimum <= number <= maximum or (above and number == minimum):
            raise ValueError
        return number

    return read


def seconds(minimum: float, maximum: float) -> Reader:
    """Return a reader of durations within bounds, in seconds or with a unit: `90`, `5m`."""

    def read(value: Any) -> float:
        try:
            seconds = read_duration(str(value))
        except ValueError:
            raise ValueError from None
        if not minimum <= seconds <= maximum:
            raise ValueError
        return seconds

    return read


def one_of(words: Collection[str]) -> Reader:
    """Return a reader of one of these words."""

    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read


def traced_service(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the name of this program in traces; None = tracing is off."""
    is_off = environ.get(_SWITCH, "").lower() == "true"
    if is_off or not any(environ.get(name) for name in ENDPOINTS):
        return None
    return environ.get(_NAME) or "warren"


PREFIX = "WARREN_"
TOML_FILE = Path("warren.toml")
#: The default folder of all files.
HOME = Path(".warren")
DATABASE_FILE = HOME / "warren.db"


def _default_slots() -> int:
    # A job process takes about 15 MB, and most jobs wait more than they compute.
    return max(4, 2 * processors())


#: The levels of jobs' log records.
JOB_LOG_LEVELS = ("debug", "info", "warning", "error")
_DESTINATIONS = (
    "networks like 10.0.0.0/8, addresses and host names, each with or without a port, "
    "separated by commas"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings; each field has its reader and the words for what is expected.

    `was_set` has the names of the settings that a flag, a variable or warren.toml sets, `by_flag`
    of those that a flag sets.
    """

    database_url: str | None = setting(
        text(check_database_url),
        "a URL like mysql+pymysql://user:password@host:3306/warren, several of them separated "
        "by commas, or like postgresql+psycopg://…, or sqlite:///path",
        secret=True,
    )
    broker_url: str | None = setting(
        text(check_broker_url),
        "a URL like amqp://user:password@host:5672/vhost, several of them separated "
        "by commas, or memory://",
        secret=True,
    )
    broker_management_url: str | None = setting(
        text(check_management_url),
        "an http(s) URL like https://user:password@host:15671, or without user and password",
        secret=True,
    )
    allow_plaintext: str | None = setting(
        text(check_allowed), f"{' or '.join(LINKS)}, or both separated by a comma"
    )
    secret: str | None = setting(text(check_secret), "at least 32 characters", secret=True)
    secret_previous: str | None = setting(text(check_secret), "at least 32 characters", secret=True)
    app_secret: str | None = setting(
        text(check_secret), "what `warren secrets app NAME` prints", secret=True
    )
    app_secret_previous: str | None = setting(
        text(check_secret), "what `warren secrets app NAME` prints", secret=True
    )
    log_dir: Path = setting(folder, "the folder of the runs' logs", HOME / "logs")
    log_reserve: str = setting(
        text(check_log_reserve),
        "a size like 64MB, a percentage like 5%, or both with `or`",
        DEFAULT_RESERVE,
    )
    log_store: str | None = setting(
        text(check_log_store), "a folder, file:///folder or s3://bucket/prefix"
    )
    log_store_endpoint: str | None = setting(
        text(check_log_store_endpoint), "a URL like https://s3.example.com:9000"
    )
    log_store_region: str | None = setting(text(check_region), "a region like eu-central-1")
    log_store_access_key: str | None = setting(
        text(check_access_key), "an access key of S3", secret=True
    )
    log_store_secret_key: str | None = setting(
        text(check_access_key), "the secret of the access key", secret=True
    )
    log_stdout: str | None = setting(one_of(("json",)), "json")
    log_spool: str = setting(text(check_log_spool), "a size like 1GB", DEFAULT_SPOOL)
    state_dir: Path = setting(folder, "the folder of the executors' journals", HOME / "state")
    slots: int = setting(whole(1, 1000), "an integer from 1 to 1000", make=_default_slots)
    process: str = setting(one_of(tuple(ProcessUse)), "job, handler or fresh", ProcessUse.JOB)
    code_version: str | None = setting(text(check_code_version), "a word of up to 64 characters")
    #: None = as many as fit.
    idle_processes: int | None = setting(
        whole_or_auto(0, 4000), "auto, or an integer from 0 to 4000"
    )
    spare_processes: int | None = setting(whole(0, 16), "an integer from 0 to 16")
    hooks: str | None = setting(
        text(check_hooks), "modules like acme_jobs.hooks, separated by commas"
    )
    builtin: str | None = setting(
        text(check_builtin), "http, command, or both separated by a comma"
    )
    http_hosts: str | None = setting(text(check_destinations), _DESTINATIONS)
    job_secrets: Path | None = setting(folder, "the path of a file with lines NAME=value")
    job_log_level: str = setting(one_of(JOB_LOG_LEVELS), "debug, info, warning or error", "info")
    job_user: str | None = setting(text(), "the name of a user of this machine")
    job_limits: str | None = setting(
        text(check_job_limits), "limits like memory=2G, cpu=600, open_files=1024"
    )
    grace_seconds: float = setting(
        seconds(0, 3600), "seconds from 0 to 3600, or a duration such as 5m", 5
    )
    drain_seconds: float = setting(
        seconds(0, 86_400), "seconds from 0 to 86400, or a duration such as 5m", 10
    )
    cpu_limit: float = setting(number(0, 100, above=True), "per cent, above 0 and up to 100", 90)
    memory_limit: float = setting(number(0, 100, above=True), "per cent, above 0 and up to 100", 90)
    timezone: str = setting(
        text(check_timezone), "an IANA time zone like Europe/Berlin", make=local_timezone
    )
    glue: str = setting(
        text(check_glue),
        f"all, off, or a comma-separated list of {', '.join(ScriptLanguage)}",
        "all",
    )
    smtp_url: str | None = setting(
        text(check_smtp_url),
        "a URL like smtp+starttls://user:password@host:587?from=warren@example.com "
        "(or smtp://, smtps://)",
        secret=True,
    )
    alarm_emails: str | None = setting(text(check_emails), "e-mail addresses separated by commas")
    alarm_webhook: str | None = setting(
        text(check_webhook_url),
        "an http(s) URL that does not point to a link-local address",
        secret=True,
    )
    alarm_secret: str | None = setting(
        text(check_alarm_secret), "up to 255 printable characters without spaces", secret=True
    )
    webhook_allow: str | None = setting(text(check_destinations), _DESTINATIONS)
    alarm_limit: int = setting(whole(1, 1000), "an integer from 1 to 1000", 10)
    absence_seconds: float = setting(
        seconds(10, 86_400), "seconds from 10 to 86400, or a duration such as 5m", 60
    )
    no_executor_seconds: float = setting(
        seconds(1, 86_400), "seconds from 1 to 86400, or a duration such as 5m", 60
    )
    console_url: str | None = setting(text(check_console_url), "an http(s) URL")
    heartbeat_url: str | None = setting(
        text(check_heartbeat_url),
        "an http(s) URL without a user name",
        secret=True,
    )
    run_retention_days: int = setting(
        whole(0, 36_500), "a number of days from 0 to 36500; 0 keeps all", 30
    )
    host: str = setting(text(some_text), "an address or name of this machine", "127.0.0.1")
    port: int = setting(whole(0, 65_535), "a port from 1 to 65535, or 0 for any", 8080)
    api_host: str = setting(text(some_text), "an address or name of this machine", "127.0.0.1")
    api_port: int = setting(whole(0, 65_535), "a port from 1 to 65535, or 0 for any", 8081)
    api_rate: float = setting(
        number(0, 100_000, above=True), "requests a second, above 0 and up to 100000", 50
    )
    api_trigger_rate: float = setting(
        number(0, 100_000, above=True), "triggers a second, above 0 and up to 100000", 10
    )
    api_url: str | None = setting(text(check_console_url), "an http(s) URL")
    api_token: str | None = setting(
        text(check_api_token), "what `warren tokens add` prints", secret=True
    )
    trusted_proxies: int = setting(whole(0, 10), "an integer from 0 to 10", 0)
    metrics_token: str | None = setting(
        text(check_metrics_token), "at least 16 characters", secret=True
    )
    metrics_jobs: int = setting(whole(0, 100_000), "an integer from 0 to 100000", 1_000)
    oidc_issuer: str | None = setting(
        text(check_issuer), "the https URL of the provider, such as https://login.example.com"
    )
    oidc_client_id: str | None = setting(text(check_client_id), "what the provider calls Warren")
    oidc_client_secret: str | None = setting(
        text(check_client_secret), "the secret that the provider has given to Warren", secret=True
    )
    oidc_redirect_url: str | None = setting(
        text(check_redirect_url), f"the console's https URL with {CALLBACK_PATH} at its end"
    )
    #: None = openid profile email, and offline_access if the provider offers it.
    oidc_scopes: str | None = setting(
        text(check_scopes), "words separated by spaces, among them openid"
    )
    oidc_groups_claim: str = setting(
        text(check_claim), "the name of a claim, such as groups or realm_access.roles", "groups"
    )
    oidc_token_hours: float = setting(
        number(0, 720, above=True), "hours, above 0 and up to 720", 12
    )
    oidc_contact: str | None = setting(text(check_contact), "a line of up to 200 characters")
    local_sign_in: str = setting(
        text(check_local_sign_in), "all, or names of users separated by commas", "all"
    )
    gateway_tokens: str | None = setting(
        text(check_gateway_tokens), "lines like `app: token` or `app: token key`", secret=True
    )
    gateway_allow: str | None = setting(text(check_destinations), _DESTINATIONS)
    gateway_peers: str | None = setting(
        text(check_gateway_peers), "the http(s) URLs of the other gateways, separated by commas"
    )
    gateway_host: str = setting(text(some_text), "an address of this machine", "127.0.0.1")
    gateway_port: int = setting(whole(0, 65_535), "a port from 1 to 65535, or 0 for any", 8082)
    gateway_slots: int = setting(whole(1, 1000), "an integer from 1 to 1000", 200)
    log_retention_days: int = setting(whole(1, 36_500), "a number of days from 1 to 36500", 30)
    quorum: bool | None = setting(boolean, "true or false", default=None)
    log_level: str = setting(
        one_of(("debug", "info", "warning", "error")), "debug, info, warning or error", "info"
    )
    was_set: frozenset[str] = frozenset()
    by_flag: frozenset[str] = frozenset()

    @property
    def wants_quorum(self) -> bool:
        """Whether new queues are quorum queues: by default if the broker has several hosts."""
        return "," in (self.broker_url or "") if self.quorum is None else self.quorum

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of jobs that name none, and of times in tables."""
        return ZoneInfo(self.timezone)

    @property
    def script_languages(self) -> frozenset[str]:
        """The script languages that an executor runs."""
        if self.glue in ("all", "off"):
            return frozenset(ScriptLanguage if self.glue == "all" else ())
        return frozenset(language.strip() for language in self.glue.split(","))

    def needed_database_url(self) -> str:
        """Return the database to use: the one set, else that of `warren up` in this folder.

        Raises:
            CommandError: there is neither.

        """
        if self.database_url:
            return self.database_url
        if not DATABASE_FILE.exists():
            if self.api_url:
                raise CommandError(
                    "this cannot be done through the API: it needs the database; "
                    "set WARREN_DATABASE_URL"
                )
            raise CommandError(
                f"no database: set WARREN_DATABASE_URL, or run `warren up` in this folder "
                f"(there is no {DATABASE_FILE} here); for an API: warren login URL"
            )
        return f"sqlite:///{DATABASE_FILE.absolute()}"


#: The kind of each setting, by its name.
KINDS = {field.name: kind for field in fields(Settings) if (kind := kind_of(field))}
#: The settings that are secrets.
_SECRETS = tuple(field.name for field in fields(Settings) if not field.repr)


MEMORY_BROKER_REFUSED = (
    "memory:// works only inside `warren up`; expected an amqp:// or amqps:// URL"
)


def secret_names() -> tuple[str, ...]:
    return _SECRETS


def needed_secret(settings: Settings) -> str:
    """Return the secret, or raise SettingsError naming its variable."""
    if settings.secret is None:
        _refuse([f"{PREFIX}SECRET: expected at least 32 characters, got nothing: it is not set"])
    return settings.secret


def needed_services(settings: Settings, *, database: bool, keys: bool = True) -> None:
    """Raise SettingsError unless everything is set that a process needs outside `warren up`.

    `database`: whether it needs a database and the master secret, as a scheduler does. `keys`:
    whether an executor's key must be set here; a gateway may have others.
    """
    problems = []
    if database and settings.database_url is None:
        problems.append(f"{PREFIX}DATABASE_URL: expected {_kind('database_url')}, it is not set")
    if settings.broker_url is None:
        problems.append(f"{PREFIX}BROKER_URL: expected an amqp:// or amqps:// URL, it is not set")
    elif settings.broker_url == "memory://":
        problems.append(f"{PREFIX}BROKER_URL: {MEMORY_BROKER_REFUSED}")
    if database and settings.secret is None:
        problems.append(f"{PREFIX}SECRET: expected at least 32 characters, it is not set")
    elif keys and not database and settings.app_secret is None and settings.secret is None:
        problems.append(f"{PREFIX}APP_SECRET: expected {_kind('app_secret')}, it is not set")
    if problems:
        _refuse(problems)


def variables() -> dict[str, str]:
    """Return each variable with what it expects; a test compares the documentation with it."""
    values = {f"{PREFIX}{name.upper()}": _kind(name) for name in KINDS}
    files = {f"{PREFIX}{name}{SUFFIX}".upper(): "the path of a file" for name in secret_names()}
    return values | files


def _kind(name: str) -> str:
    return KINDS[name].expected


def _refuse(problems: list[str]) -> NoReturn:
    raise SettingsError(problems)


log = structlog.get_logger()


def cluster_keys(settings: Settings) -> ClusterKeys:
    """Return the keys of all apps, for a scheduler or console.

    Raises:
        SettingsError: the master secret is not set.

    """
    return ClusterKeys(needed_secret(settings), settings.secret_previous)


def app_keys(settings: Settings, app: str) -> AppKeys:
    """Return the keys of an executor's app; derived from the master secret only if it has no other.

    Raises:
        SettingsError: neither is set.

    """
    if settings.secret is not None:
        # An attacker who controls this host could then act for every app.
        log.warning(
            "master_secret_received",
            app=app,
            reason="executors need WARREN_APP_SECRET only: warren secrets app " + app,
        )
    if settings.app_secret is not None:
        return AppKeys(app, settings.app_secret, settings.app_secret_previous)
    return AppKeys.derived(app, needed_secret(settings), settings.secret_previous)


def with_api(settings: Settings, url: str) -> Settings:
    """Return settings with which commands use the API at this URL, whatever else is set."""
    return replace(settings, api_url=url, by_flag=settings.by_flag - {"database_url"})


def api_access(settings: Settings) -> tuple[str, str]:
    """Return the API's URL and a token for it.

    Raises:
        SettingsError: one of them is not set.

    """
    if settings.api_url and settings.api_token:
        return settings.api_url, settings.api_token
    missing = [name for name in ("api_url", "api_token") if not getattr(settings, name)]
    raise SettingsError([f"{PREFIX}{name.upper()}: expected it to be set" for name in missing])


def read_settings(flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the validated settings; a flag that is None was not given.

    Raises:
        SettingsError: with a line for each problem, naming the flag, variable or key.

    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    toml = _read_toml()
    files = read_secret_files(secret_names(), os.environ, toml, PREFIX)
    values = _from_toml(toml) | _from_variables() | files.values | given
    problems = _misspelt_variables() + _exposed(given) + files.problems
    valid, invalid = _read_all(values, lambda name: _origin(name, given, files))
    if invalid:
        raise SettingsError(problems + invalid)
    settings = Settings(**valid, was_set=frozenset(valid), by_flag=frozenset(given))
    problems += plaintext_problems(settings, lambda name: _origin(name, given, files))
    problems += _log_store_problems(settings)
    if problems:
        raise SettingsError(problems)
    return settings


def _log_store_problems(settings: Settings) -> list[str]:
    """Return a line for each setting of a log store that lacks another one."""
    store = settings.log_store or ""
    of_s3 = ("endpoint", "region", "access_key", "secret_key")
    given = [name for name in of_s3 if getattr(settings, f"log_store_{name}")]
    name = f"{PREFIX}LOG_STORE"
    if given and not store.startswith("s3://"):
        words = ", ".join(f"{name}_{each.upper()}" for each in given)
        return [
            f"{name}: expected s3://bucket/prefix, as {words} is set, got: {store or 'nothing'}"
        ]
    keys = {"access_key", "secret_key"}
    if len(keys & set(given)) == 1:
        [missing] = keys - set(given)
        return [f"{name}_{missing.upper()}: expected it to be set, as its other half is"]
    return []


def _read_all(
    values: Mapping[str, Any], origin: Callable[[str], str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of valid settings, and a line for each invalid or unknown one."""
    values_ = {}
    faults = [f"{TOML_FILE}: {_unknown(name)}" for name in values if name not in KINDS]
    for name in (name for name in KINDS if name in values):
        try:
            values_[name] = KINDS[name].read(values[name])
        except ValueError as error:
            # Of a list, each bad item has its own line.
            faults += [
                _words(name, values[name], str(detail), origin(name))
                for detail in error.args or [""]
            ]
    return values_, faults


def config_folder() -> Path:
    """Return the folder of the user's configuration files (the XDG base directories)."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(named) if named.startswith("/") else Path.home() / ".config"


def has_browser() -> bool:
    """Return whether a browser can be opened where the user sees it."""
    if os.environ.get("BROWSER"):
        return True
    if os.environ.get("SSH_CONNECTION"):
        return False
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def colour_is_unwanted() -> bool:
    """Return whether the user wants no colours (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def _read_toml() -> dict[str, Any]:
    try:
        return tomllib.loads(TOML_FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SettingsError([f"{TOML_FILE}: cannot be read: {error}"]) from error


def _from_toml(keys: Mapping[str, Any]) -> dict[str, Any]:
    files = {name + SUFFIX for name in secret_names()}
    return {name: value for name, value in keys.items() if name not in files}


def environment_without_settings() -> dict[str, str]:
    """Return the environment, without Warren's settings, for a process that imports users' code."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def _from_variables() -> dict[str, Any]:
    """Return the values of environment variables; an empty one counts as not set."""
    values = {name: os.environ.get(PREFIX + name.upper()) for name in KINDS}
    return {name: value for name, value in values.items() if value}


def _misspelt_variables() -> list[str]:
    # Other programs may use this prefix too: only names similar to ours are mistakes.
    known = list(variables())
    unknown = [n for n in sorted(os.environ) if n.startswith(PREFIX) and n not in known]
    similar = {name: difflib.get_close_matches(name, known, 1, 0.9) for name in unknown}
    return [
        f"unknown setting {name!r}, did you mean {match[0]!r}?"
        for name, match in similar.items()
        if match
    ]


def _exposed(flags: Mapping[str, Any]) -> list[str]:
    """Return a line for each password on the command line: /proc shows it to all users and jobs."""
    return [
        f"{flag_of(name)}: expected a URL without a password, because the process list shows it; "
        f"set {PREFIX}{name.upper()} or {PREFIX}{name.upper()}{SUFFIX.upper()} instead"
        for name in secret_names()
        if name in flags and has_password(str(flags[name]))
    ]


def flag_of(name: str) -> str:
    """Return the command-line flag of a setting."""
    return "--" + name.replace("_", "-")


def _words(name: str, value: Any, detail: str, origin: str) -> str:
    is_hidden = "@" in str(value) and has_password(str(value))
    shown = "" if name in secret_names() or is_hidden else f", got: {value!r}"
    return f"{origin}: expected {KINDS[name].expected}{shown}" + (f" ({detail})" if detail else "")


def _unknown(name: str) -> str:
    return f"unknown setting {name!r}{did_you_mean(name, KINDS)}"


def _origin(name: str, flags: Mapping[str, Any], files: SecretFiles) -> str:
    if name in flags:
        return flag_of(name)
    if name in files.origins:
        return files.origins[name]
    variable = f"{PREFIX}{name.upper()}"
    if os.environ.get(variable):
        return variable
    return f"{TOML_FILE}: {name}"
