"""Watches, reports and proxy nodes."""

from typing import Any

from tests.simulation.planted import blind, stories
from tests.simulation.planted.scripted import Hint
from tests.simulation.planted.table import Patches, plant


@plant("lists may come from any cache (resourceVersion=0)", hint=Hint(blind.stale_frontend, stories.SMALL))
def list_from_any_cache(patches: Patches) -> None:
    from shared.kube.client import KubeClient
    from shared.kube.http import Request

    real = KubeClient.send

    async def send(self: Any, request: Any, **options: Any) -> Any:
        if request.method == "GET" and "limit" in request.params:
            request = Request("GET", request.path, params={**request.params, "resourceVersion": "0"})
        return await real(self, request, **options)

    patches.set(KubeClient, "send", send)


@plant("410 does not lead to a new list, nor another count", hint=Hint(blind.expired))
def expired_is_resumed(patches: Patches) -> None:
    from agents.kube import listwatch
    from agents.runtime.watch_verifier import WatchVerifier

    real = listwatch.ListError.__init__

    def init(self: Any, text: str, *, expired: bool = False, **more: Any) -> None:
        real(self, text, expired=False, **more)

    patches.set(listwatch.ListError, "__init__", init)

    def forgets(self: Any, name: str, value: Any) -> None:
        object.__setattr__(self, name, False if name == "_broke" else value)

    # Nor does the connection that breaks with it, which would lead to a list, too.
    patches.set(listwatch.ListWatch, "__setattr__", forgets)
    patches.set(WatchVerifier, "_look", _looked_away)


@plant("deletions that a watch shows are not taken over", hint=Hint(blind.deleted_before_another, stories.SMALL))
def deletions_unseen(patches: Patches) -> None:
    from agents.observer.cache import ClusterCache
    from agents.runtime.watch_verifier import WatchVerifier

    patches.set(ClusterCache, "forget", lambda self, kind, key: None)
    patches.set(WatchVerifier, "_look", _looked_away)


@plant("what a new list leaves out stays known", hint=Hint(blind.gone_between_lists, stories.SMALL))
def lists_only_add(patches: Patches) -> None:
    from agents.observer.cache import ClusterCache

    def end(self: Any, kind: str) -> None:
        self._listed.pop(kind)
        self._completed(kind)

    patches.set(ClusterCache, "end", end)


@plant("a silent watch is neither compared with its server nor opened anew", "half-open", hint=Hint(blind.half_open))
def silence_is_believed(patches: Patches) -> None:
    from agents.runtime.watch_verifier import WatchVerifier
    from tests.simulation.world.net import Stream

    real = Stream.__init__

    def init(self: Any, wire: Any, request: Any, silence_s: float) -> None:
        real(self, wire, request, 1e9)

    patches.set(Stream, "__init__", init)
    patches.set(WatchVerifier, "_look", _looked_away)


@plant("leases of proxy nodes are not renewed", "people")
def no_heartbeat(patches: Patches) -> None:
    from agents.executor.duties import proxy

    patches.set(proxy, "_lease_due", lambda beat, now: False)
    patches.set(proxy.ProxyNodes, "_status_due", lambda self, peer, node, beat, now: beat.ready != peer.ready)


@plant("proxy nodes are kept up only while the dispatcher speaks", "silence", hint=Hint(blind.long_silence))
def short_memory_of_peers(patches: Patches) -> None:
    import time

    from agents.executor.trust.peers import PeerTable

    def known(self: Any) -> Any:
        return {name: one.peer for name, one in self._known.items() if time.monotonic() - one.heard < 10}

    patches.set(PeerTable, "known", property(known))


@plant("a report of another life is taken for the next one", hint=Hint(blind.agents_begin_anew))
def gaps_ignored(patches: Patches) -> None:
    from agents.observer.change_feed import ChangeFeed
    from dispatcher.scheduling import clusters
    from dispatcher.service.links.poller import Poller

    real = ChangeFeed.since

    def since(self: Any, who: Any, asked: str, since: int, *more: Any) -> Any:
        return real(self, who, who.incarnation if asked else "", since, *more)

    patches.set(ChangeFeed, "since", since)
    patches.set(clusters, "check_continues", lambda view, changes: None)
    patches.set(Poller, "_continues", lambda self, changes: True)


@plant(
    "a pod is evicted for one of no higher priority, without a mark", hint=Hint(stories.more_important, stories.SMALL)
)
def deletes_to_make_room(patches: Patches) -> None:
    from agents.executor.intents import evict

    def mark(intent: Any, now: Any) -> Any:
        yield from ()

    patches.set(evict, "_mark", mark)


@plant(
    "nobody asks whether a pod is there before others are evicted for it elsewhere",
    hint=Hint(stories.made_up_preemptor, stories.SMALL),
)
def preemptor_not_confirmed(patches: Patches) -> None:
    from dispatcher.scheduling.core.preemptors import Preemptors

    patches.set(Preemptors, "_objection", lambda self, nominee, target, answer: "")


async def _looked_away(self: Any, watch: Any) -> float:
    return 1.0


@plant("that a server went back in time is not noticed", hint=Hint(blind.restored_and_used))
def restores_unnoticed(patches: Patches) -> None:
    from agents.runtime.watch_verifier import WatchVerifier

    patches.set(WatchVerifier, "_look", _looked_away)
