"""XXL-JOB's consistent hash ring: most jobs stay where they are when an executor comes or goes.

Each address has 100 nodes, `SHARD-<address>-NODE-<0..99>`; a hash is the first four bytes of an
MD5, little-endian; a job goes to the first node that is not below the hash of its decimal id.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import md5

_NODES = 100


def consistent_hash(job_id: int, addresses: Sequence[str]) -> str:
    """Return the address for a job on the ring of these addresses.

    Raises `ValueError` if there are no addresses.
    """
    if not addresses:
        raise ValueError("expected addresses to have at least one, got: none")
    nodes, owners = _ring(tuple(addresses))
    return addresses[owners[bisect_left(nodes, _hash(str(job_id))) % len(nodes)]]


@lru_cache(maxsize=64)
def _ring(addresses: tuple[str, ...]) -> tuple["array[int]", "array[int]"]:
    """Build the ring: sorted node hashes, with the index of the address of each.

    If two nodes have the same hash, the later address wins.
    64 rings of 50 executors take about 3 MB.
    """
    owner_of = {
        _hash(f"SHARD-{address}-NODE-{node}"): index
        for index, address in enumerate(addresses)
        for node in range(_NODES)
    }
    nodes = sorted(owner_of)
    return array("I", nodes), array("I", (owner_of[node] for node in nodes))


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "little")
