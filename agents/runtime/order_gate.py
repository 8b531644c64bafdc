"""At an agent's door: which messages of a dispatcher are decoded at all, by the authorities in a
file.

The file is read again when it changes, so authorities and revocation lists can be replaced without
a restart.
"""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agents.executor.trust.orders import EPOCH, REASONS, OrderCheck, Refused
from agents.runtime.settings import OrderSettings
from shared.model.token_buckets import TokenBuckets
from shared.security.leader_certificate import Authorities, Leader, leader_of, objection
from shared.security.seals import Audience, Header

LOG = structlog.get_logger("audit")
LOOK_S = 5.0  # between two looks whether the file has changed
TELL_S = 30.0  # between two lines about refusals for one reason, or about unsigned messages
_CERTIFICATES = 64  # that are remembered with what was found


class Trust:
    """The authorities of a file, or of a text."""

    def __init__(
        self, settings: OrderSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._looked_at = float("-inf")
        self._version: tuple[int, int, int] | None = None
        self._authorities: Authorities | str = "not read yet"
        self._leader = lru_cache(maxsize=_CERTIFICATES)(self._leader_of)

    def key_of(self, certificate: bytes, now: float) -> Ed25519PublicKey | str:
        """As `orders.KeyOf`."""
        self._look()
        if isinstance(self._authorities, str):
            return self._authorities
        found = self._leader(certificate)
        if not isinstance(found, Leader):
            return found
        return (
            objection(found, self._authorities, dt.datetime.fromtimestamp(now, dt.UTC)) or found.key
        )

    def _leader_of(self, certificate: bytes) -> Leader | str:
        return (
            self._authorities
            if isinstance(self._authorities, str)
            else leader_of(certificate, self._authorities)
        )

    def _look(self) -> None:
        """A file that cannot be read any more changes nothing: what was read before holds."""
        if self._clock() - self._looked_at < LOOK_S:
            return
        self._looked_at = self._clock()
        file = self._settings.ca_file
        try:
            if not file:
                pem = self._settings.authority.encode()
            elif (version := _version(file)) == self._version:
                return
            else:
                pem = Path(file).read_bytes()
                self._version = version
            authorities = Authorities.read(pem)
        except (OSError, ValueError) as error:
            problem = (
                f"this agent cannot read its authorities, {file or 'orders.authority'}: {error}"
            )
            if isinstance(self._authorities, str):
                self._authorities = problem
            LOG.warning("authorities not read", problem=problem)
            return
        if authorities != self._authorities:
            self._authorities = authorities
            self._leader.cache_clear()


def _version(file: str) -> tuple[int, int, int]:
    found = Path(file).stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


class OrderGate:
    """Refuses what the leader has not signed; where the settings name no authority, lets everything
    through.

    `refused` counts by reason. A refusal is told in the log `audit`, each reason twice a minute at
    most.
    """

    def __init__(
        self,
        settings: OrderSettings,
        audience: Callable[[], Audience],
        clock: Callable[[], float] = time.time,
        pace: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock` is of the day, `pace` of what never goes back."""
        self._check: OrderCheck | None = None
        if settings.verified:
            trust = Trust(settings, pace)
            unsigned = settings.unsigned == "take"
            self._check = OrderCheck(
                trust.key_of, take_unsigned=unsigned, skew_s=settings.clock_skew_s
            )
        self._audience = audience
        self._clock = clock
        self._pace = pace
        self.verified = 0
        self._lines = TokenBuckets(1, 1 / TELL_S)
        self.refused: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def let_in(self, kind: str, body: bytes, seal: bytes) -> Header | None:
        """What was signed; None where nothing has to be. Refused."""
        if self._check is None:
            return None
        try:
            header = self._check.check(kind, body, seal, self._audience(), self._clock())
        except Refused as refusal:
            self._tell(kind, refusal)
            raise
        self.verified += header is not None
        if header is None and self._lines.admit(self._pace()) is not None:
            LOG.warning(
                "an unsigned message is obeyed",
                kind=kind,
                problem="orders.unsigned is take: set it to refuse",
            )
        return header

    def same_epoch(self, kind: str, header: Header | None, epoch: int) -> None:
        """Refuse a message that says another epoch than its seal."""
        if header is not None and header.epoch != epoch:
            refusal = Refused(EPOCH, f"it was signed for epoch {header.epoch}, and says {epoch}")
            self._tell(kind, refusal)
            raise refusal

    def _tell(self, kind: str, refusal: Refused) -> None:
        self.refused[refusal.reason] += 1
        if (untold := self._lines.admit(self._pace(), refusal.reason)) is not None:
            about = {"reason": refusal.reason, "problem": str(refusal), "times": untold + 1}
            LOG.error("a message was not obeyed", kind=kind, **about)
