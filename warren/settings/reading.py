"""Reads the settings from all sources and reports all problems at once.

Sources in order of precedence: command-line flags, `WARREN_…` variables, `warren.toml` in the
current folder. No other setting comes from the environment, except the default time zone (`TZ`) and
OpenTelemetry's variables. Secrets may be in files (see `secret_files`).
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warren.errors import SettingsError
from warren.settings.secret_files import (
    BROKER,
    DATABASE,
    SUFFIX,
    SecretFiles,
    plaintext_problems,
    read_secret_files,
)
from warren.settings.setting_rules import has_password
from warren.settings.settings import (
    KINDS,
    PREFIX,
    TOML_FILE,
    Settings,
    secret_names,
    variables,
)


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
    origins = {
        DATABASE: _origin("database_url", given, files),
        BROKER: _origin("broker_url", given, files),
    }
    problems += plaintext_problems(settings, origins)
    if problems:
        raise SettingsError(problems)
    return settings


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
            faults.append(_words(name, values[name], str(error), origin(name)))
    return values_, faults


def config_folder() -> Path:
    """Return the folder of the user's configuration files (the XDG base directories)."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(named) if named.startswith("/") else Path.home() / ".config"


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
    shown = "" if name in secret_names() else f", got: {value!r}"
    return f"{origin}: expected {KINDS[name].expected}{shown}" + (f" ({detail})" if detail else "")


def _unknown(name: str) -> str:
    similar = difflib.get_close_matches(name, list(KINDS), 1)
    return f"unknown setting {name!r}" + (f", did you mean {similar[0]!r}?" if similar else "")


def _origin(name: str, flags: Mapping[str, Any], files: SecretFiles) -> str:
    if name in flags:
        return flag_of(name)
    if name in files.origins:
        return files.origins[name]
    variable = f"{PREFIX}{name.upper()}"
    if os.environ.get(variable):
        return variable
    return f"{TOML_FILE}: {name}"
