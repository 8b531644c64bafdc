"""The agent as a Ray actor: Ray starts, names and restarts it, and it dials its dispatcher's
gateway as any other.

Who it is crosses to it as bytes, and stays in memory: a private key in a file would outlive a
process that is killed.
"""

import os
import secrets
import threading
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import ray
import structlog
from ray.util import list_named_actors

from agents.runtime.join.dial_out import Outbound, be_agent
from agents.runtime.join.settings import JoinSettings
from shared.kube.memory import memory_file
from shared.process.event_loop import run
from shared.process.limits import allow_open_files, collect_less_often, keep_freed_memory
from shared.process.logs import configure_logging
from shared.process.ray_names import NAMESPACE, actor_name, resource_name

LOG = structlog.get_logger("agent")
_PAUSE_S = 2.0  # before Ray may begin an agent anew that has failed


class Credentials(NamedTuple):
    """With which an agent dials: whom it trusts, who it is, and its key (PEM)."""

    ca: bytes
    certificate: bytes
    key: bytes


class AgentActor:
    """Is the agent from its first moment on, in a thread of its own: it dials, and nobody calls it
    by Ray.
    """

    def __init__(self, settings: bytes, credentials: Credentials) -> None:
        """`settings`: JoinSettings as JSON, whose `gateway` names no files that are read."""
        self._settings = JoinSettings.model_validate_json(settings)
        configure_logging(self._settings.log_level, self._settings.log_file)
        allow_open_files()
        collect_less_often()
        keep_freed_memory()
        threading.Thread(target=self._work, args=(credentials,), name="agent", daemon=True).start()

    def _work(self, credentials: Credentials) -> None:
        """An agent that fails ends its process, and Ray begins another."""
        try:
            with ExitStack() as files:
                settings = _in_memory(self._settings, credentials, files)
                run(be_agent(settings, Outbound(), threading.Event(), shared=False))
        except Exception as error:
            LOG.error(
                "the agent failed; Ray begins it anew",
                cluster=self._settings.cluster,
                problem=repr(error),
            )
        time.sleep(_PAUSE_S)
        os._exit(1)


def _in_memory(settings: JoinSettings, credentials: Credentials, files: ExitStack) -> JoinSettings:
    ca, certificate, key = (files.enter_context(memory_file(content)) for content in credentials)
    gateway = settings.gateway.model_copy(
        update={"ca_file": ca, "cert_file": certificate, "key_file": key}
    )
    relay = settings.relay
    if relay is not None and not relay.address:
        relay = relay.model_copy(update={"address": ray.util.get_node_ip_address()})
    return settings.model_copy(update={"gateway": gateway, "relay": relay})


def create_actor(settings: JoinSettings, credentials: Credentials) -> Any:
    """The actor of this cluster, on a node that has the cluster's resource, as soon as there is
    one. It restarts for ever, also on another such node, and ends with the last handle to it.
    ValueError: there is one.

    Its name is new each time: Ray looks up who has the name that an actor is given, and would run
    the code of a stranger who has it in this process, as it unpickles his class.
    """
    prefix = f"{actor_name(settings.cluster)}:"
    if taken := next((name for name in list_named_actors() if name.startswith(prefix)), ""):
        raise ValueError(f"{taken} is there")
    options = ray.remote(AgentActor).options(
        name=f"{prefix}{secrets.token_hex(8)}",
        namespace=NAMESPACE,
        max_restarts=-1,
        max_task_retries=0,
        num_cpus=0,
        resources={resource_name(settings.cluster): 0.01},
    )
    return options.remote(settings.model_dump_json().encode(), credentials)
