"""How much an agent may put into one message: counts of lists and maps, lengths of texts, sizes of
numbers.

Far above what honest agents send. A longer list is refused before any of it is decoded, so the
memory that one agent's message takes does not grow with what that agent says. What a pod or node of
one cluster takes or offers is booked with all others: less than nothing would make room, on nodes
of other clusters, that is not there.
"""

from typing import Annotated, Final

from msgspec import Meta

MAX_BYTES: Final = 512 * 1024 * 1024  # of a whole message: 5,000 nodes and 150,000 pods tell 270 MB
# of memory for what one cluster reports, unless configured: as many nodes and pods
REPORT_MIB: Final = 2048
# of any other answer of an agent: outcomes of a call, and who it is
MAX_ANSWER: Final = 16 * 1024 * 1024
MAX_NODES: Final = 100_000
MAX_PODS: Final = 1_000_000
MAX_OBJECTS: Final = 2_000_000
MAX_USES: Final = 10_000
MAX_ROWS: Final = 10_000  # of what is configured, and of answers to one batch
MAX_NEEDS: Final = 64
MAX_NAMES: Final = 1_000  # in a list or map of single words

# bytes of the orders of one call, and of the manifests of its answer
MAX_CALL: Final = 2 * 1024 * 1024
MAX_MANIFEST: Final = 256 * 1024  # bytes of what crosses of a pod
# bytes of a delegate's status; agents send a quarter of that, and its events
MAX_STATUS: Final = 128 * 1024
MAX_WORD: Final = 512  # characters
MAX_AMOUNT: Final = 2**62  # half of int64, so that a free-minus-request never wraps

Amount = Annotated[int, Meta(ge=0, le=MAX_AMOUNT)]  # of a resource, in internal units
Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]  # as Kubernetes has most of its numbers
HIGHEST_PRIORITY: Final = 2**31 - 1  # of any pod
NO_PRIORITY: Final = -(2**31) - 1  # lower than that of any pod
Status = Annotated[bytes, Meta(max_length=MAX_STATUS)]
Word = Annotated[str, Meta(max_length=MAX_WORD)]  # a name, a UID, an address
Text = Annotated[str, Meta(max_length=16 * 1024)]  # for people
Names = Annotated[tuple[Word, ...], Meta(max_length=MAX_NAMES)]
