"""How an agent measures the way to other clusters' agents, and answers theirs. Round-trip times are
not measured by default; whether pods are reached is, between clusters of one `network`.
"""

import ipaddress

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agents.telemetry.web import METADATA, Network
from shared.model.probe_address import ProbeAddress, read_address

USUAL_PORT = 7490
PODS_PORT = 7491


class LinkSettings(BaseModel):
    """Round-trip times between clusters; see docs/links.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: str = Field(
        default="",
        description="IP:port where probes are answered, such as 0.0.0.0:7490; empty: none.",
    )
    address: str = Field(
        default="",
        description="IP:port under which other clusters reach that; empty: nobody is told of one.",
    )
    allow: tuple[str, ...] = Field(
        default=(),
        description="Networks whose agents are probed, such as 192.0.2.0/24, or with a port, "
        "192.0.2.0/24:7490; "
        "without: port 7490 alone. Empty: nobody is probed.",
    )
    interval_s: float = Field(
        default=10.0,
        ge=1.0,
        le=3600.0,
        description="Seconds between two probes of one cluster; its pods are tried a third as "
        "often.",
    )

    pod_address: str = Field(
        default="",
        description="IP of the agent's own pod, where it answers agents of the same pod network "
        "(`network`); empty: `--node-ip`, which the chart gives.",
    )
    pod_port: int = Field(
        default=PODS_PORT,
        ge=0,
        le=65_535,
        description="Port of that, the same in all clusters of a pod network, at which others are "
        "tried; 0: it neither answers nor tries.",
    )

    @field_validator("listen", "address")
    @classmethod
    def _address(cls, given: str) -> str:
        if given:
            read_address(given)
        return given

    @field_validator("pod_address")
    @classmethod
    def _ip(cls, given: str) -> str:
        if given and (
            (ip := ipaddress.ip_address(given)).is_unspecified
            or ip.is_multicast
            or getattr(ip, "scope_id", None)
        ):
            raise ValueError(f"must be the address that other pods have of it, not {given!r}")
        return given

    @field_validator("allow")
    @classmethod
    def _networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for one in given:
            read_network(one)
        return given

    def may_probe(self, address: ProbeAddress) -> bool:
        """Whether somebody else's word that an agent is there is enough to connect to it."""
        if (
            address.ip.is_multicast
            or address.ip.is_unspecified
            or any(address.ip in one for one in METADATA)
        ):
            return False
        allowed = [
            network for network, port in map(read_network, self.allow) if port == address.port
        ]
        named = any(one.num_addresses == 1 for one in allowed if address.ip in one)
        if (address.ip.is_loopback or address.ip.is_link_local) and not named:
            return False
        return any(address.ip in one for one in allowed)


def read_network(text: str) -> tuple[Network, int]:
    """'192.0.2.0/24:7490' or '2001:db8::/32' as network and port; ValueError says what is wrong."""
    network, slash, rest = text.partition("/")
    length, colon, port = rest.partition(":")
    try:
        found = ipaddress.ip_network(f"{network}/{length}" if slash else network)
        number = int(port) if colon else USUAL_PORT
        if not 0 < number < 65536:
            raise ValueError
    except ValueError:
        wrong = (
            f"{text[:64]!r} is no network such as 192.0.2.0/24, 2001:db8::/32 or, with a port, "
            "192.0.2.7/32:7490"
        )
        raise ValueError(wrong) from None
    return found, number
