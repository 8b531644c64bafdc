"""A CertificateSigningRequest of an agent, and what there is to do about one without a certificate."""

import datetime as dt

import msgspec

from shared.model import names

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
# signers of this prefix: who has theirs is who its subject says
CLIENTS = "kubernetes.io/kube-apiserver-client"
USAGES = ["digital signature", "server auth"]
LABELS = {"app.kubernetes.io/managed-by": names.SCHEDULER_NAME}


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    creation_timestamp: dt.datetime | None = None

    @property
    def made_at(self) -> float:
        """Unix time, s; 0.0 if it is not told."""
        return self.creation_timestamp.timestamp() if self.creation_timestamp is not None else 0.0


class _Spec(msgspec.Struct, rename="camel"):
    signer_name: str = ""
    username: str = ""  # who has asked, as the API server says
    usages: list[str] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Status(msgspec.Struct):
    certificate: str | None = None  # base64 of PEM
    conditions: list[_Condition] | None = None


class SigningRequest(msgspec.Struct):
    """What is read of the object."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def serves(self) -> bool:
        """Whether it asks for what agents ask for: a certificate to serve with, and nothing else."""
        return sorted(self.spec.usages or ()) == USAGES and not self.spec.signer_name.startswith(
            CLIENTS
        )

    @property
    def approved(self) -> bool:
        """Whether only its signer is waited for."""
        return "Approved" in self._conditions() and not self._refusal()

    def lacks(self, name: str) -> tuple[str, str]:
        """Why there is no certificate yet, and what to do."""
        if refusal := self._refusal():
            why = self._conditions()[refusal] or "no reason was given"
            fix = (
                f"kubectl delete csr {name}, and restart the agent's executor, which then asks anew"
            )
            return f"{name}: {refusal}: {why}; the serving certificate stays self-signed", fix
        if self.approved:
            signer = self.spec.signer_name
            fix = f"see the log of what signs for {signer}, and what it demands"
            if signer.startswith("kubernetes.io/"):
                fix = (
                    "see the signer: kube-controller-manager needs --cluster-signing-cert-file and "
                    "--cluster-signing-key-file"
                )
            return f"{name} is approved, but {signer} has issued nothing", fix
        text = f"{name} waits for approval; until then the serving certificate is self-signed"
        who = (
            f": {self.spec.username} asks, which must be the agent's account"
            if self.spec.username
            else ""
        )
        return (
            text,
            f"see who asks for what (kubectl describe csr {name}){who}; then kubectl certificate "
            f"approve {name}",
        )

    def _conditions(self) -> dict[str, str]:
        return {one.type: one.message for one in self.status.conditions or ()}

    def _refusal(self) -> str:
        return next((kind for kind in ("Denied", "Failed") if kind in self._conditions()), "")
