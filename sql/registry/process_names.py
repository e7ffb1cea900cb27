"""The names of schedulers and consoles: the host's, and a suffix that is new at each start."""

_HOST = 48
_SUFFIX = 6


def process_name(host: str, boot_id: str) -> str:
    """Return the name of a process."""
    return f"{host[:_HOST]}-{boot_id[:_SUFFIX]}"


def is_of_host(name: str, host: str) -> bool:
    """Whether a process runs on this host; `web-2-…` does not run on `web`."""
    return name.rpartition("-")[0] == host[:_HOST]
