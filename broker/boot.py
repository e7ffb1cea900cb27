"""How a boot of an executor is named."""

from typing import NamedTuple


class Boot(NamedTuple):
    """One start of the executor that has this address in its app."""

    app: str
    address: str
    boot_id: str
