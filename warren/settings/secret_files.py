"""Secrets in files: `WARREN_SECRET_FILE` names one, or `secret_file` in warren.toml.

A process's environment is shown in /proc, a file is read by who may read it. Every setting that is
a secret has such a second name.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = "_file"
#: Bytes of a file that are read at most; no secret and no list of URLs comes near it.
LARGEST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """What the files say: the values, where each comes from, and a line for each problem."""

    values: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_secret_files(
    secrets: Collection[str], variables: Mapping[str, str], keys: Mapping[str, Any], prefix: str
) -> SecretFiles:
    """Read the files that `variables` of the environment and `keys` of warren.toml name.

    A variable beats a key, the file's name no less than the value itself; both of them in one
    place contradict each other.
    """
    found = SecretFiles()
    for name in secrets:
        variable = f"{prefix}{name.upper()}"
        in_variable, in_key = f"{variable}{SUFFIX.upper()}", f"warren.toml: {name}{SUFFIX}"
        if path := variables.get(in_variable):
            _take(
                found, name, in_variable, path, doubled=variable if variables.get(variable) else ""
            )
        elif (path := keys.get(name + SUFFIX)) and not variables.get(variable):
            _take(found, name, in_key, str(path), doubled=name if keys.get(name) else "")
    return found


def _take(found: SecretFiles, name: str, origin: str, path: str, *, doubled: str) -> None:
    found.origins[name] = origin
    if doubled:
        found.problems.append(f"{origin}: {doubled} is set too; leave one of them out")
        return
    try:
        found.values[name] = _read(Path(path))
    except OSError as error:
        found.problems.append(f"{origin}: cannot read {path!r}: {error.strerror}")
    except ValueError as error:
        found.problems.append(f"{origin}: expected {path!r} to be a text file {error}")


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError(f"of up to {LARGEST_BYTES:,} bytes")
    try:
        text = data.decode().strip()
    except UnicodeDecodeError:
        raise ValueError("in UTF-8") from None
    if not text:
        raise ValueError("with the secret in it; it is empty")
    return text
