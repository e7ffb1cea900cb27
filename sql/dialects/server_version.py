"""The error message for a server that is too old."""


def too_old(name: str, version: tuple[int, ...], needed: tuple[int, ...]) -> str | None:
    """Return an error message if `version` is below `needed`; otherwise None."""
    if version >= needed:
        return None
    return f"expected {name} to be {_text(needed)} or newer, got: {_text(version)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
