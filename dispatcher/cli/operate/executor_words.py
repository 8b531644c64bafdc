"""What an operator says to the executor of a cluster: written on the Lease of its state, and taken
off when it is done.

The executor answers with a question that has to be answered: so a word that a restored backup
brings back is not done a second time, as nobody is there to answer.

The Lease is in the cluster whose executor is meant, so that rights there decide who may say it, and
no dispatcher can.
"""

import asyncio
import time
from typing import Any

import msgspec

from agents.executor.trust.state import ASKS, KEYS, NAME, NAMESPACE, OWN_KEYS, PATH, VALUES
from dispatcher.cli.operate.drain import POLL_S
from dispatcher.cli.operate.members import Member, MemberError
from dispatcher.cli.operate.survey import Sight
from shared.kube.http import MERGE_PATCH
from shared.model import names
from shared.security.keys import TrustedKeys

_VALUES = msgspec.json.Decoder(dict[str, str])


async def known_keys(member: Member, cluster: str) -> str:
    """The keys of `cluster` that this cluster's executor has stored, for people; '' if it has none."""
    return ", ".join(TrustedKeys(await _value(member, KEYS)).called(cluster))


async def own_key(member: Member) -> str:
    """The public key that the cluster itself signs with, as its executor has stored it; '' if it
    has not.
    """
    return (await _value(member, OWN_KEYS)).partition(" ")[0]


async def _value(member: Member, key: str) -> str:
    """A value that the executor has stored; '' where there is none, or none that can be read."""
    found = await _annotations(member)
    try:
        return _VALUES.decode(found.get(VALUES, "{}")).get(key, "")
    except msgspec.MsgspecError:
        return ""


async def say(member: Member, sight: Sight, word: str, done: str, timeout_s: float) -> None:
    """Write a word for the executor and wait until it has taken it off; what came of it is noted in
    `sight`.
    """
    try:
        await member.call("PATCH", PATH, _patch(word, "true"), MERGE_PATCH)
        deadline = time.monotonic() + timeout_s
        while word in (found := await _annotations(member)):
            if time.monotonic() >= deadline:
                sight.problem = (
                    "told, but its agent has not done it yet: it does as soon as a dispatcher "
                    "speaks to it"
                )
                return
            if found[word].startswith(ASKS):
                await member.call(
                    "PATCH", PATH, _patch(word, found[word].removeprefix(ASKS)), MERGE_PATCH
                )
            await asyncio.sleep(POLL_S)
    except MemberError as error:
        missing = f"no agent has stored anything here: there is no lease {NAMESPACE}/{NAME}"
        sight.problem = missing if error.status == 404 else str(error)
        return
    sight.did.append(done)


def forget(cluster: str) -> str:
    """The word that makes an executor forget the keys of `cluster`."""
    return names.FORGET_KEYS + cluster


def _patch(annotation: str, value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {annotation: value}}}


async def _annotations(member: Member) -> dict[str, str]:
    lease = await member.call("GET", PATH)
    return dict(lease["metadata"].get("annotations") or {})
