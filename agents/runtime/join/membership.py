"""Our membership in the fleet: the cluster's actor, made by us, on our node, answering."""

import os
import threading
import time
from contextlib import suppress
from typing import Any

import structlog

from agents.runtime.join.settings import JoinSettings
from shared.process.ray_security import insecure_nodes

LOG = structlog.get_logger("join")
ROUND_S = 2.0  # between two looks at node, head and actor
ANSWER_S = 10.0  # for one answer of the actor
FAREWELL_S = 8.0  # for the agent to end in good order
_HANGS = "Ray does not answer"


class Membership:
    """Keeps the cluster's actor on our node, in a thread of its own. `problem` is '' while all is well."""

    def __init__(self, settings: JoinSettings) -> None:
        self.problem = "has not joined yet"
        self.joined = False
        self.last_good = time.monotonic()
        self._settings = settings
        self._actor: Any = None
        self._refused = ""  # why this Ray must not be joined

    def start(self) -> None:
        """Begin; nobody waits for this thread, for Ray may hold it for ever."""
        self.last_good = time.monotonic()
        threading.Thread(target=self._run, name="membership", daemon=True).start()

    def overdue(self) -> str:
        """Why this member has to give up; '' while it need not."""
        if self._refused:
            return self._refused
        patience = self._settings.node.lost_s if self.joined else self._settings.node.join_s
        return f"{self.problem or _HANGS} (for {self._silent():.0f} s)" if self._silent() > patience else ""

    def unwell(self) -> str:
        """What is wrong now; '' if the last round was good and not long ago."""
        return self.problem or (_HANGS if self._silent() > ROUND_S + ANSWER_S else "")

    def _silent(self) -> float:
        return time.monotonic() - self.last_good

    def leave(self) -> None:
        """Let the agent end in good order, for at most FAREWELL_S."""
        if self._actor is None:
            return
        farewell = threading.Thread(target=self._stop_actor, daemon=True)
        farewell.start()
        farewell.join(FAREWELL_S)

    def _stop_actor(self) -> None:
        import ray

        with suppress(Exception):  # it ends with its node in any case
            ray.get(self._actor.stop.remote(), timeout=FAREWELL_S)

    def _run(self) -> None:
        structlog.contextvars.bind_contextvars(cluster=self._settings.cluster)
        while True:
            try:
                self._look()
            except Exception as error:  # whatever Ray raises is a reason to try again until the patience ends
                lines = str(error).strip().splitlines() or [repr(error)]
                self._say(f"{type(error).__name__}: {lines[0][:300]}")
            else:
                self.last_good = time.monotonic()
                self.joined = True
                self._say("")
            time.sleep(ROUND_S)

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            LOG.info("the agent is at work") if not problem else LOG.warning("not a working member", problem=problem)
        self.problem = problem

    def _look(self) -> None:
        """One round; raises what is wrong."""
        import ray

        if not ray.is_initialized():
            self._attach()
        living = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
        if problem := insecure_nodes(living, os.environ):
            self._refused = problem
            raise RuntimeError(problem)
        if not self._listed():
            raise RuntimeError("the head does not list this node among the living")
        if self._actor is None:
            self._actor = self._take_over()
        try:
            ray.get(self._actor.hello.remote(), timeout=ANSWER_S)
        except ray.exceptions.ActorDiedError:
            self._actor = None
            raise

    def _attach(self) -> None:
        import ray

        from agents.runtime.called_actor import NAMESPACE

        ours = {"_node_ip_address": self._settings.node.node_ip} if self._settings.node.node_ip else {}
        ray.init(
            address=self._settings.node.address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
            **ours,
        )

    def _listed(self) -> bool:
        import ray

        me = ray.get_runtime_context().get_node_id()
        return any(node["NodeID"] == me and node["Alive"] for node in ray.nodes())

    def _take_over(self) -> Any:
        """The actor, made by us: one that another has made here does not know this file, so it goes."""
        import ray

        from agents.runtime.called_actor import NAMESPACE, actor_name, create_actor

        with suppress(ValueError):  # there is none
            ray.kill(ray.get_actor(actor_name(self._settings.cluster), namespace=NAMESPACE))
        actor = create_actor(self._settings.agent)
        if actor._actor_id.job_id.hex() != ray.get_runtime_context().get_job_id():
            raise RuntimeError("another has made the actor of this cluster meanwhile: it is replaced")
        return actor
