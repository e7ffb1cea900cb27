"""What a provider of single sign-on is to the console: where to send people, and who they are.

`access.openid_connect` has the one that speaks OpenID Connect; nothing here needs its libraries.
"""

from dataclasses import dataclass
from typing import Protocol

from warren.scheduler.commands.identity_commands import Person


class ProviderError(Exception):
    """The provider did not do what it was asked; the text says what in one line.

    `refresh_token` is the one to ask with from now on, if it gave one nevertheless.
    """

    refresh_token: str | None = None


class ProviderAway(ProviderError):
    """It does not answer, or not in time."""


class SignInInvalid(ProviderError):
    """What came back proves nobody's sign-in."""


class GroupsMissing(ProviderError):
    """It says who the person is, but not all groups: there are too many for its tokens."""


class AccessEnded(ProviderError):
    """It no longer takes a refresh token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One way to the provider and back: what proves that both ends belong together."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a provider says of a person who signed in there, or whose groups it was asked again.

    `signed_in_at` is when the person proved to it who they are, in epoch seconds; None = it does
    not say. `has_groups`: whether it said anything about groups.
    """

    person: Person
    has_groups: bool
    refresh_token: str | None
    id_token: str
    signed_in_at: int | None = None


class Provider(Protocol):
    """A provider of single sign-on; each call that may wait for it is bounded."""

    @property
    def issuer(self) -> str:
        """The provider's name in its tokens."""

    def new_attempt(self) -> Attempt:
        """Return the secrets of a new attempt."""

    def sign_in_url(self, attempt: Attempt, *, is_fresh: bool = False) -> str:
        """Return where to send a browser; `is_fresh`: the person must sign in there again.

        Raises:
            ProviderAway: it does not answer.

        """

    def redeem(self, attempt: Attempt, code: str, *, issuer: str | None) -> Proof:
        """Return who came back with a code, and with an issuer if the provider names itself.

        Raises:
            ProviderError: nobody is proved to have, or the provider does not answer.

        """

    def read_again(self, refresh_token: str, subject: str) -> Proof:
        """Return what the provider says of a person now.

        Raises:
            AccessEnded: it no longer takes the refresh token.
            ProviderError: it does not answer, or not as expected.

        """

    def sign_out_url(self, id_token: str, back_to: str) -> str | None:
        """Return where a browser ends its session at the provider; None = it offers no such place.

        It waits for the provider only if that was not asked for anything before.
        """

    def check(self) -> str:
        """Return in words what the provider offers.

        Raises:
            ProviderError: it does not answer, or lacks what is needed.

        """

    def seal(self, text: str, owner: str) -> str:
        """Return a text encrypted, so that only this cluster reads it, and for this owner only."""

    def unseal(self, sealed: str, owner: str) -> str | None:
        """Return an encrypted text; None if it is not ours, or not this owner's."""
