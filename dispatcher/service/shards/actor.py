"""A shard as a Ray actor. Only bytes and arrays of numbers cross."""

from time import perf_counter
from typing import Any

import numpy as np
import ray

from dispatcher.scheduling.shards.frames import Body, Frame
from dispatcher.scheduling.shards.shard import Shard
from dispatcher.service.shards.policy import name_of, plans_of
from dispatcher.service.warm_up import collect_less_often, load_kernels


class ShardActor:
    """A thin wrapper."""

    def __init__(self) -> None:
        self._shard, self._configured = Shard(), False
        load_kernels()
        collect_less_often()

    def configure(self, policy: bytes) -> bytes:
        """Answer by these profiles (see `policy`)."""
        self._configured = True
        self._shard.configure(name_of(policy), plans_of(policy))
        return b""

    def take(self, head: bytes, body: Body | bytes) -> tuple[bytes, Body, float]:
        """A ShardRequest in; a Reply, its body its seconds out. LookupError in a life not yet configured."""
        if not self._configured:
            raise LookupError("this shard has begun anew")
        started = perf_counter()
        numbers = np.frombuffer(body, dtype=np.uint8) if isinstance(body, bytes) else body
        reply = self._shard.take(Frame(head, numbers))
        return reply.head, reply.body, perf_counter() - started


def create_shard(resource: str) -> Any:
    """An actor on a node that offers one of that resource. It restarts for ever, empty; Ray tries no call again."""
    options = ray.remote(ShardActor).options(
        num_cpus=0, resources={resource: 1}, max_restarts=-1, max_task_retries=0, max_concurrency=1
    )
    return options.remote()
