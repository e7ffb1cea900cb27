"""Words about a server that is too old for what the statements here need."""


def too_old(name: str, version: tuple[int, ...], needed: tuple[int, ...]) -> str | None:
    """Return a complaint about a version below the one that is needed."""
    if version >= needed:
        return None
    return f"expected {name} to be {_text(needed)} or newer, got: {_text(version)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
