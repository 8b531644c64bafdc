"""What tenants are charged, on disk: after a restart it counts for clusters that have not been
heard yet.

One JSON file, replaced as a whole, with a checksum. It is never behind: before orders leave that
charge a tenant more than the file says, it is written anew, with an eighth on top so that this is
rare; a few seconds later it is exact again. A file that is damaged, or of other tenants, counts as
none, and so does one that cannot be written: it is taken away. Both are logged.
"""

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import msgspec
import structlog

from dispatcher.scheduling.framework import ClusterInfo
from dispatcher.scheduling.quota import QuotaLedger, owners_of
from dispatcher.scheduling.unsynced_usage import PersistedUsage
from shared.model.tenant import Tenant

log = structlog.get_logger("quota")

_EVERY_S = 5.0
_MORE = 8  # one part in so many on top
_NOTHING: Mapping[str, int] = {}
_Usage = dict[str, dict[str, dict[str, int]]]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """`owners` names the tenants and their namespaces; `crc` is of `usage` as it stands in the
    file.
    """

    version: int
    owners: str
    crc: int
    usage: msgspec.Raw


_DECODE = msgspec.json.Decoder(_File).decode
_USAGE = msgspec.json.Decoder(_Usage).decode
_ENCODE = msgspec.json.Encoder(order="sorted").encode
_VERSION = 1


def _owners_of(tenants: Sequence[Tenant]) -> str:
    return blake2b(_ENCODE(owners_of(tenants)), digest_size=8).hexdigest()


def read_quota(path: Path, tenants: Sequence[Tenant]) -> PersistedUsage | None:
    """What the file says, None if there is none that can be used; the log says why."""
    try:
        found = _DECODE(path.read_bytes())
        if found.version != _VERSION or found.crc != crc32(bytes(found.usage)):
            raise ValueError(
                "another version" if found.version != _VERSION else "its checksum is wrong"
            )
        usage = _USAGE(found.usage)
    except FileNotFoundError:
        log.info("no quota in use is remembered", path=str(path))
        return None
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        log.warning(
            "the quota in use cannot be read: it is unknown", path=str(path), problem=str(error)
        )
        return None
    if found.owners != _owners_of(tenants):
        log.warning(
            "tenants have changed: the quota in use that is remembered means nothing",
            path=str(path),
        )
        return None
    return usage


class QuotaFile:
    """Keeps `path` up to date with a ledger. `clusters`: the fleet's, as they are now;
    `remembered`: what it says.
    """

    def __init__(
        self,
        path: Path,
        ledger: QuotaLedger,
        clusters: Sequence[ClusterInfo],
        remembered: PersistedUsage | None,
    ) -> None:
        self._path = path
        self._ledger = ledger
        self._clusters = clusters
        self._owners = _owners_of(ledger.tenants)
        self._of = ledger.generation  # of tenants
        self._written: PersistedUsage = remembered or {}
        self._at = float("-inf")
        self._broken = False
        self._gone = False  # as nobody is charged
        self._left = False  # an old file that cannot be taken away was told of

    @property
    def failing(self) -> bool:
        """Whether it could not be written when that was last tried."""
        return self._broken

    def keep(self, now: float) -> None:
        """To be called before orders leave. A full or broken disk costs the file, never a decision."""
        if not self._ledger.tenants:
            self._take_away()
            return
        if self._of != self._ledger.generation:
            self._of = self._ledger.generation
            self._owners = _owners_of(self._ledger.tenants)
            self._written = {}
            self._at = float("-inf")
        unsynced = self._ledger.unsynced
        raised = unsynced.raised
        unsynced.raised = set()
        behind = [row for row in raised if self._behind(*row)]
        if (self._broken or not behind) and now - self._at < _EVERY_S:
            return
        unsynced.refresh(self._clusters)
        usage = unsynced.known()
        for tenant, home in behind:
            if home in usage:
                usage[home][tenant] = _more(usage[home][tenant])
        if usage != self._written or self._broken:
            self._write(usage)
        self._at = now

    def _take_away(self) -> None:
        """Without tenants nobody is charged: what the file says must not count when some come back."""
        if self._gone:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            self._failed(error)
            return
        self._gone = True
        self._broken = False
        self._written = {}

    def _behind(self, tenant: str, home: str) -> bool:
        written = self._written.get(home, {}).get(tenant, _NOTHING)
        charged = self._ledger.unsynced.charged(tenant, home)
        return any(amount > written.get(resource, 0) for resource, amount in charged.items())

    def _write(self, usage: _Usage) -> None:
        body = _ENCODE(usage)
        whole = _ENCODE(_File(_VERSION, self._owners, crc32(body), msgspec.Raw(body)))
        beside = self._path.with_name(self._path.name + ".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            self._failed(error)
            return
        if self._broken:
            log.warning("the quota in use is written again", path=str(self._path))
        self._written = usage
        self._broken = False
        self._gone = False
        self._left = False

    def _failed(self, error: OSError) -> None:
        if not self._broken:
            log.error(
                "the quota in use cannot be written: after a restart tenants wait for clusters "
                "that are silent",
                path=str(self._path),
                problem=str(error),
                fix="make room, or mend quota.ledger; it is tried again every few seconds",
            )
        self._broken = True
        self._written = {}
        try:
            self._path.unlink(missing_ok=True)
        except OSError as worse:
            if not self._left and os.path.lexists(
                self._path
            ):  # a disk that is read-only says so of what is not there
                self._left = True
                log.error(
                    "and the old file cannot be taken away: remove it",
                    path=str(self._path),
                    problem=str(worse),
                )


def _more(amounts: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount + -(-amount // _MORE) for resource, amount in amounts.items()}
