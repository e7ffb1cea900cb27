"""The limits of one claim, as one value, so that tests can lower them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimLimits:
    """Limits of one transaction that routes runs.

    Attributes:
        runs: most runs claimed.
        shards: once a claim has this many triggers, further broadcasts wait for the next claim.
        script_characters: once a claim has this many characters of scripts, further scripts wait
            for the next claim.

    """

    runs: int = 500
    shards: int = 2_000
    script_characters: int = 8_000_000
