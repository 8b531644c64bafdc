"""Where the gateways of the fleet's dispatchers are, whom to trust there, and who we are."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

_GATEWAY = re.compile(r"wss://[^/\s]+(/[^\s]*)?")
_HOST = re.compile(r"[a-z0-9_.:%-]+")  # a name or an address


def _of_a_gateway(url: str) -> str:
    if not _GATEWAY.fullmatch(url):
        raise ValueError(f"must be wss://HOST:PORT, not {url[:80]!r}")
    return url


def undialable(url: str) -> str:
    """Why nothing can be dialled at this URL; empty where something can."""
    try:
        parts = urlsplit(url)
        good = _HOST.fullmatch(parts.hostname or "") and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        good = False
    return "" if good else "must be wss://HOST:PORT with one host and a port of 1 to 65535"


Url = Annotated[str, Field(max_length=2048), AfterValidator(_of_a_gateway)]


class GatewaySettings(BaseModel):
    """The agent dials out to each of `urls`, and nobody dials in. Files are read anew for each
    connection.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    urls: tuple[Url, ...] = Field(
        max_length=16, description="`wss://HOST:PORT` of each dispatcher's gateway."
    )
    ca_file: str = Field(
        min_length=1, description="Certificates of the authorities that signed the gateway's (PEM)."
    )
    cert_file: str = Field(
        min_length=1,
        description="This cluster's certificate (PEM), with the URI "
        "`spiffe://global-dispatcher.io/cluster/NAME`.",
    )
    key_file: str = Field(min_length=1, description="Its key (PEM).")
    server_name: str = Field(
        default="",
        description="Name that the gateway's certificate must have; empty: the host of the URL.",
    )
    proxy: str = Field(
        default="",
        description="`http://HOST:PORT` of a proxy; empty: as HTTPS_PROXY and NO_PROXY say.",
    )
    longest_pause_s: float = Field(
        default=30.0,
        ge=1,
        le=3600,
        description="Seconds between two attempts, at most; half a second at first.",
    )

    @field_validator("urls")
    @classmethod
    def _each_once(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        """Two connections to one gateway would end each other in turn."""
        if not urls:
            raise ValueError("must name a gateway at least: wss://HOST:PORT")
        if twice := next((url for at, url in enumerate(urls) if url in urls[:at]), ""):
            raise ValueError(f"{twice} is listed twice: name each gateway once")
        return urls
