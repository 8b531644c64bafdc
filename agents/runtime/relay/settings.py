"""Where an agent serves the kubelet endpoint of its proxy nodes, and who may ask there."""

from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

CSR: Final = "csr"


class RelaySettings(BaseModel):
    """The endpoint at which this cluster's API server asks for logs of pods that run elsewhere.
    Files are read anew when they have changed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    address: str = Field(
        default="",
        description="IP that proxy nodes show, at which the API server reaches this agent; empty: "
        "that of --node-ip.",
    )
    host: str = Field(default="0.0.0.0", min_length=1, description="Address to listen on.")  # noqa: S104 - its use
    port: int = Field(default=10250, ge=0, le=65_535, description="Port; 0: any free one.")
    cert_file: str = Field(
        default="",
        description="Serving certificate (PEM), for that IP; empty: self-signed, as kubelets do "
        "it.",
    )
    key_file: str = Field(default="", description="Its key (PEM).")
    certificate: Literal["self-signed", "csr"] = Field(
        default="self-signed",
        description="Without cert_file; csr: asked for by a CertificateSigningRequest, which "
        "somebody has to approve, "
        "and self-signed until then.",
    )
    signer: str = Field(
        default="kubernetes.io/kubelet-serving",
        min_length=1,
        description="Who signs it: signerName of the request.",
    )
    folder: str = Field(
        default="",
        description="Where it and its key are kept for the next start; empty: each start asks for "
        "another.",
    )
    client_ca_file: str = Field(
        default="",
        description="Authorities of client certificates (PEM); empty: those of the ConfigMap "
        "kube-system/extension-apiserver-authentication.",
    )
    client_names: tuple[str, ...] = Field(
        default=("kube-apiserver-kubelet-client",),
        description="Common names of certificates that may ask, if they may create nodes/proxy, "
        "too; empty: any.",
    )

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("cert_file and key_file belong together")
        if self.cert_file and self.certificate == CSR:
            raise ValueError(
                "certificate: csr asks for what cert_file gives: leave one of them out"
            )
        return self
