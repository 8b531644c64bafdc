"""A Ray actor as the link to one shard: never raises, waits for an answer a short time alone, brings back what died."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import ray
import structlog
from ray.exceptions import GetTimeoutError, RayError

from dispatcher.scheduling.shards.frames import Frame

log = structlog.get_logger("shards")

ANSWER_S = 0.5  # one decision waits no longer; the shard is asked again when the answer has come
STUCK_S = 10.0  # after that the shard is ended and begins anew
AGAIN_S = 1.0  # between attempts to bring it back
_SLOW_START_S = 60.0
_SMALL = 1 << 16  # bytes: below, Ray takes them as they are faster than as an array; above, it does not copy an array


class RayShard:
    """Satisfies `coordinator.ShardLink`. `create` makes the actor; `policy`: its configuration in every life."""

    def __init__(self, number: int, create: Callable[[], Any], policy: bytes, *, answer_s: float = ANSWER_S) -> None:
        self.number, self._create, self._policy, self._answer_s = number, create, policy, answer_s
        self.life = 0
        self.seconds = 0.0  # that it has worked
        self._actor: Any = None
        self._starting: Any = None  # the configuration that is under way
        self._last: Any = None  # the last order
        self._late_since: float | None = None
        self._since, self._again_at, self._warned_slow = monotonic(), 0.0, False
        self._begin()

    def configure(self, policy: bytes) -> None:
        """Other profiles from the next question on."""
        self._policy = policy
        self._configure()

    # --- its lives ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Configure a new life; the actor is made if there is none."""
        self.life += 1
        self._last = self._late_since = None
        self._since, self._warned_slow = monotonic(), False
        self._configure()

    def _configure(self) -> None:
        try:
            if self._actor is None:
                self._actor = self._create()
            self._starting = self._actor.configure.remote(self._policy)
        except Exception as error:  # Ray itself is away
            self._lost(error)

    def _lost(self, error: BaseException) -> None:
        """It is gone, or cannot be reached: `up` begins anew after a while."""
        if self._again_at <= monotonic():
            log.warning("a shard is lost; decisions go on without it", shard=self.number, error=_first_line(error))
        self._last = self._late_since = self._starting = None
        self._again_at = monotonic() + AGAIN_S

    @property
    def up(self) -> bool:
        """Whether it is configured and takes orders."""
        if self._again_at:
            if monotonic() < self._again_at:
                return False
            self._again_at = 0.0
            self._begin()
        if self._starting is not None:
            if not _done(self._starting):
                self._note_slow()
                return False
            reference, self._starting = self._starting, None
            try:
                ray.get(reference)
            except Exception as error:
                self._lost(error)
                return False
            log.info("a shard is ready", shard=self.number, life=self.life)
        return True

    def _note_slow(self) -> None:
        if not self._warned_slow and monotonic() - self._since > _SLOW_START_S:
            self._warned_slow = True
            log.warning("a shard waits for a Ray node that offers the resource 'shard'", shard=self.number)

    @property
    def state(self) -> str:
        """In a word: up, late, starting."""
        return ("up" if self._late_since is None else "late") if self.up else "starting"

    # --- orders ------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Up, and not late with an answer."""
        return self.up and not self._late()

    def _late(self) -> bool:
        if self._late_since is None:
            return False
        if self._settled():
            self._late_since = None
            return not self.up
        if monotonic() - self._late_since > STUCK_S:
            log.warning("a shard hangs and is ended", shard=self.number)
            try:
                ray.kill(self._actor, no_restart=False)
            except Exception as error:
                self._lost(error)
            else:
                self._begin()
        return True

    def _settled(self) -> bool:
        """Whether nothing is under way; an order that turns out to have failed is noted."""
        if self._last is None:
            return True
        if not _done(self._last):
            return False
        reference, self._last = self._last, None
        try:
            ray.get(reference)
        except Exception as error:
            self._lost(error)
        return True

    @property
    def idle(self) -> bool:
        """Ready, and the last order has been taken in."""
        return self.ready and self._settled() and self.up

    def send(self, order: Frame) -> None:
        """Hand an order to Ray."""
        try:
            body = order.body if order.body.nbytes > _SMALL else order.body.tobytes()
            self._last = self._actor.take.remote(order.head, body)
        except Exception as error:
            self._lost(error)

    def answer(self) -> Frame | None:
        """What was told to the last order; None when the shard is lost, or late."""
        if self._last is None:
            return None
        try:
            head, body, seconds = ray.get(self._last, timeout=self._answer_s)
        except GetTimeoutError:
            self._late_since = monotonic()
            return None
        except Exception as error:
            self._lost(error)
            return None
        self._last = None
        self.seconds += seconds
        return Frame(head, body)


def _done(reference: Any) -> bool:
    try:
        done, _ = ray.wait([reference], timeout=0)
    except (RayError, ValueError):
        return True
    return bool(done)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else repr(error))[:300]
