"""The other gateways: executors may register at any of them, and each is served by one.

    registration, sign-off ──> served by another? it records it
    callback               ──> does another have the run? it records it
    a gateway that ends    ──> another continues its executors, with their boots and journals
    a gateway that is back ──> gives another that has taken over the journals of what it left

A request is passed on at most once. A handover is signed with the key of its app.
"""

import asyncio
import hmac
import time
import zlib
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec
import structlog

from warren.broker.signing import AppKeys, derived_key
from warren.executor.gateway.protocol import (
    BadRequest,
    RemoteResult,
    callback_of,
    registration_of,
)
from warren.executor.gateway.remote_logs import Note

#: Marks a call that another gateway has passed on.
PASSED_ON_HEADER = "X-Warren-Passed-On"
SIGNATURE_HEADER = "X-Warren-Signature"
#: How long another gateway may take to answer: executors wait for 3 s.
ANSWER_SECONDS = 1.0
#: How long it may take to start serving an executor that is handed over.
HANDOVER_SECONDS = 15.0
#: The largest handover; and how old it may be, as clocks differ.
HANDOVER_BYTES = 268_435_456
SIGNED_SECONDS = 300.0

_UNCLEAR = (aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError, KeyError, TypeError)

log = structlog.get_logger()


class Handover(msgspec.Struct, frozen=True):
    """An executor that another gateway is to continue; `journal` is compressed, empty for none.

    If it `is_served` there already, as another boot, only the journal counts.
    """

    app: str
    note: Note
    journal: bytes = b""
    is_served: bool = False

    @classmethod
    def of(cls, app: str, note: Note, journal: bytes, *, is_served: bool = False) -> "Handover":
        """Return the handover of an executor with this journal."""
        return cls(app, note, zlib.compress(journal, 1) if journal else b"", is_served)

    @property
    def journal_bytes(self) -> bytes:
        """The journal's content.

        Raises:
            BadRequest: it is malformed, or too large.

        """
        if not self.journal:
            return b""
        expander = zlib.decompressobj()
        try:
            content = expander.decompress(self.journal, HANDOVER_BYTES)
        except zlib.error as error:
            raise BadRequest(f"cannot read the journal: {error}") from error
        if not expander.eof:
            raise BadRequest("the journal is incomplete or too large")
        return content


def read_handover(body: bytes) -> Handover:
    """Parse a handover; raises BadRequest if it is malformed."""
    try:
        return msgspec.json.decode(body, type=Handover)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadRequest(f"cannot read the handover: {error}") from error


class Signatures:
    """Signs handovers, and accepts each once."""

    def __init__(self, keys: Mapping[str, AppKeys]) -> None:
        self._keys = keys
        #: Those accepted, and until when (epoch seconds) they would be valid.
        self._seen: dict[str, float] = {}

    def sign(self, app: str, body: bytes) -> str:
        at = f"{time.time():.3f}"
        return f"{at},{_signature(self._keys[app].of(app)[0], at, body).decode()}"

    def check(self, app: str, body: bytes, signature: str) -> None:
        """Accept a handover.

        Raises:
            BadRequest: it is not signed with the app's key, too old, or was here before.

        """
        at, _, given = signature.partition(",")
        keys = self._keys[app].of(app) if app in self._keys else ()
        valid = [hmac.compare_digest(_signature(key, at, body), given.encode()) for key in keys]
        now = time.time()
        # What is signed begins with a number.
        if not any(valid) or abs(now - float(at)) > SIGNED_SECONDS or given in self._seen:
            raise BadRequest("the handover is not signed with the app's key, or not a new one")
        self._seen = {item: until for item, until in self._seen.items() if until > now}
        self._seen[given] = now + 2 * SIGNED_SECONDS


def _signature(key: bytes, at: str, body: bytes) -> bytes:
    message = f"{at},".encode() + body
    return hmac.digest(derived_key(key, "gateway/handover"), message, "sha256").hex().encode()


class Peers:
    """Calls the other gateways, by their URLs. Used from one event loop.

    `tokens` are the apps' access tokens, which are the same at all gateways.
    """

    def __init__(
        self, urls: Sequence[str], tokens: Mapping[str, str], signatures: Signatures
    ) -> None:
        self._urls = urls
        self._tokens = tokens
        self._signatures = signatures
        self._session: aiohttp.ClientSession | None = None
        #: Those that did not answer the last call.
        self._missing: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._urls)

    async def register(self, app: str, url: str, appname: str) -> bool:
        """Return whether one of them serves an executor; it records the registration."""
        body = registration_of(app, url)
        return True in await self._ask_all("registry", app, body, appname=appname)

    async def sign_off(self, app: str, url: str) -> None:
        """Notify the other gateways that an executor signed off."""
        await self._ask_all("registryRemove", app, registration_of(app, url))

    async def pass_on(self, app: str, results: Sequence[RemoteResult]) -> list[RemoteResult]:
        """Offer them results of unknown runs of an app's token; return those that none recorded."""
        if not self._urls or not results:
            return list(results)
        answers = await self._ask_all("callback", app, callback_of(results))
        taken = {run_id for answer in answers if isinstance(answer, list) for run_id in answer}
        if taken:
            log.info("remote_callbacks_passed_on", count=len(taken))
        return [result for result in results if result.run_id not in taken]

    async def find(self) -> str:
        """Return the URL of one that takes over executors; empty if there is none."""
        app = next(iter(self._tokens))
        answers = await self._ask_all("handover", app, b"")
        return next(
            (url for url, is_holder in zip(self._urls, answers, strict=True) if is_holder), ""
        )

    async def hand_over(self, url: str, handover: Handover) -> bool | None:
        """Hand an executor over to one of them; return None if it may have arrived."""
        body = msgspec.json.encode(handover)
        signature = self._signatures.sign(handover.app, body)
        headers = {SIGNATURE_HEADER: signature}
        answer = await self._ask(
            url, "handover", handover.app, body, headers=headers, seconds=HANDOVER_SECONDS
        )
        return None if answer is None else answer is True

    async def bequeath(self, handover: Handover) -> bool:
        """Give what an executor left to the one that serves it now; return whether one took it."""
        for url in self._urls:
            if await self.hand_over(url, handover):
                return True
        return False

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask_all(self, name: str, app: str, body: bytes, *, appname: str = "") -> list[Any]:
        headers = {"XXL-JOB-APPNAME": appname} if appname else {}
        asked = [self._ask(url, name, app, body, headers=headers) for url in self._urls]
        return await asyncio.gather(*asked)

    async def _ask(
        self,
        url: str,
        name: str,
        app: str,
        body: bytes,
        *,
        headers: dict[str, str],
        seconds: float = ANSWER_SECONDS,
    ) -> Any:
        """Return the answer; False if the gateway certainly did nothing, None if it may have."""
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.post(
                f"{url}/api/{name}",
                data=body,
                headers={
                    "XXL-JOB-ACCESS-TOKEN": self._tokens[app],
                    "Content-Type": "application/json",
                    PASSED_ON_HEADER: "1",
                    **headers,
                },
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
            ) as response:
                if response.status != HTTPStatus.OK:
                    self._miss(url, f"HTTP status {response.status}")
                    return None
                answer = msgspec.json.decode(await response.read())
                self._missing.discard(url)
                return answer["content"] if answer["code"] == HTTPStatus.OK else False
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            self._miss(url, str(error))
            return False
        except _UNCLEAR as error:
            self._miss(url, str(error) or type(error).__name__)
            return None

    def _miss(self, url: str, why: str) -> None:
        """Log that a gateway does not answer: once, until it answers again."""
        if url not in self._missing:
            self._missing.add(url)
            log.warning("peer_missed", url=url, why=why)
