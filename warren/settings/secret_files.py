"""Secrets in files, named by `WARREN_SECRET_FILE`, or by `secret_file` in warren.toml.

The environment of a process is visible in /proc; a file has permissions. Every secret setting can
be given this way.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = "_file"
#: Bytes of a file at most; no secret or list of URLs comes near it.
LARGEST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """The content of the files: values, where each comes from, and a line for each problem."""

    values: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_secret_files(
    secrets: Collection[str], variables: Mapping[str, str], keys: Mapping[str, Any], prefix: str
) -> SecretFiles:
    """Read the files that environment `variables` and `keys` of warren.toml name.

    A variable beats a key, no matter whether it names the file or holds the value itself. It is a
    problem if the same source gives both.
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
