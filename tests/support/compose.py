"""Reads docker-compose.yml and files on top of it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: The keys that restrict a container.
_CONFINING = {
    *("cap_add", "cap_drop", "init", "mem_limit", "pids_limit", "privileged"),
    *("read_only", "security_opt", "tmpfs", "user"),
}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


@dataclass(frozen=True, kw_only=True)
class Service:
    """A service; `volumes` maps places in the container to what is mounted there."""

    name: str
    image: str
    command: list[str]
    entrypoint: list[str]
    environment: dict[str, str]
    volumes: list[tuple[str, str]]
    depends_on: dict[str, str]
    healthcheck: list[str]
    restart: str
    stop_grace_seconds: float
    confinement: dict[str, Any]

    @property
    def is_warren(self) -> bool:
        """Whether it uses this project's image."""
        return self.image == "warren"

    @property
    def is_one_shot(self) -> bool:
        """Whether it is expected to exit."""
        return self.restart == "no"


def variables(text: str) -> dict[str, str | None]:
    """Return the variables in a file with their defaults; None = required."""
    return {
        name: None if sign == "?" else default for name, sign, default in _VARIABLE.findall(text)
    }


def read_services(
    paths: Sequence[Path], given: Mapping[str, str], *, profile: str = ""
) -> dict[str, Service]:
    """Return the services that start, or those of a profile, with variables replaced.

    Later files are put on top of the first, as Docker does.
    """

    def replace(match: re.Match[str]) -> str:
        name, sign, words = match.groups()
        if given.get(name):
            return given[name]
        assert sign == "-", f"{name}: {words}"
        return str(words)

    services: dict[str, dict[str, Any]] = {}
    for path in paths:
        tree = yaml.safe_load(_VARIABLE.sub(replace, path.read_text()))
        for name, found in tree["services"].items():
            services[name] = _on_top(services.get(name, {}), found)
    return {
        name: _service(name, found)
        for name, found in services.items()
        if found.get("profiles", []) == ([profile] if profile else [])
    }


def _on_top(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower) | dict(upper)
    for key in lower.keys() & upper.keys():
        if key in {"environment", "depends_on", "healthcheck"}:
            merged[key] = lower[key] | upper[key]
        elif key == "volumes":
            merged[key] = [*lower[key], *upper[key]]
    return merged


def in_order(services: Mapping[str, Service]) -> Iterator[Service]:
    """Yield the services, each after its dependencies."""
    left = dict(services)
    done: set[str] = set()
    while left:
        ready = [one for one in left.values() if set(one.depends_on) <= done]
        assert ready, f"a circle among {sorted(left)}"
        for one in ready:
            yield left.pop(one.name)
            done.add(one.name)


def _service(name: str, found: Mapping[str, Any]) -> Service:
    check = found.get("healthcheck", {}).get("test", [])
    volumes = [volume.split(":")[:2] for volume in found.get("volumes", ())]
    assert not check or check[0] == "CMD"
    return Service(
        name=name,
        image=found["image"],
        command=found.get("command", []),
        entrypoint=found.get("entrypoint", []),
        environment=found.get("environment", {}),
        volumes=[(source, target) for source, target in volumes],
        depends_on={on: how["condition"] for on, how in found.get("depends_on", {}).items()},
        healthcheck=check[1:],
        restart=found["restart"],
        confinement={key: value for key, value in found.items() if key in _CONFINING},
        stop_grace_seconds=float(found.get("stop_grace_period", "10s").removesuffix("s")),
    )
