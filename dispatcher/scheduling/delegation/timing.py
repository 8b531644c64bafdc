"""How long the core waits for what."""

from dataclasses import dataclass, field

from shared.model.backoff import Backoff


@dataclass(frozen=True)
class CoreTiming:
    """In seconds, but for counts of pods (`fold_at_once`, `fold_ready_at_once`, `fenced_per_s`,
    `evictions_abroad_per_s`), `retry` and `refused`.

    `confirm_s`: how long a delegate must be missing in a Ready cluster before that cluster's API
    server is asked. `absence_grace_s`: the same for a source of delegates, and for a claim that
    marks speak of; more than an agent takes to notice a silent watch (90 s). `orphan_s`: how long
    after that the API server of the source is asked again before its delegates are deleted.
    `settle_s`: how long a confirmed effect may take to show in the watch. `peers_s`: how often
    proxy nodes are told the free room. `cluster_lost_s`: how long a cluster may be NotReady before
    its proxy nodes are. `report_s`: least time between two different Unschedulable messages of one
    pod. `refused_first_s`, `refused_longest_s`: how long a cluster that refused a pod is passed
    over for it; `refused_passing_s`: in place of the first where a failure refused it, a webhook
    that does not answer. `start_s`: a remote pod of which no container has run for so long is told,
    and moves on; 0: never. `node_wait_s`: so long a pod evicts nobody for which a node group of its
    own cluster makes a node. `group_s`: members of a group that have places are bound within that
    time, or all give them back. `unknown_s`: a pod is told when it is not known for so long what
    came of its order, and again after twice as long; and whether its delegate was created is asked
    of the API server then, so that the pod goes elsewhere if it was not. `fenced_per_s`: so many
    pods a second are let go, or deleted, for each fenced cluster. `strangers_s`: how often it is told
    which pods belong to clusters that are none of ours, and which clusters share a key. `retry`:
    pauses before the same intent is sent again. `refused`: pauses before a pod is looked at again
    of which a step was refused that holds no place, and before it is asked again how one ends that
    is shown at another end. `delegate_lease_s`: delegates of failover mode `lease` are stopped when
    they were not renewed for that long. `fold_at_once` (a count): of a report of a cluster that is
    not Ready so many pods are taken in before others have their turn, or four times as many nodes;
    `fold_ready_at_once`: of a cluster that is, whose pods are known for the most part, and where
    what is not taken in yet is missed when others are placed. `mirror_s`: least time between two
    writes of one remote pod's status, but for its end; `mirror_at_once` (a count): after so many,
    as a pod that starts has several within a second. `evictions_abroad_per_s`: so many pods in
    other clusters are evicted each second for pods of one cluster, 100 times as many at once;
    `reclaims_per_s`: so many give back quota, 50 times as many at once.
    `look_at_once` (a count): so many pods are looked at before others have their turn where a
    cluster changes.
    """

    absence_grace_s: float = 100.0
    confirm_s: float = 5.0
    orphan_s: float = 600.0
    settle_s: float = 15.0
    peers_s: float = 5.0
    cluster_lost_s: float = 30.0
    report_s: float = 10.0
    refused_first_s: float = 30.0
    refused_longest_s: float = 900.0
    refused_passing_s: float = 2.0
    group_s: float = 60.0
    unknown_s: float = 60.0
    start_s: float = 300.0
    node_wait_s: float = 0.0
    fenced_per_s: float = 20.0
    delegate_lease_s: float = 120.0
    fold_at_once: int = 200
    fold_ready_at_once: int = 2500
    look_at_once: int = 400
    mirror_s: float = 1.0
    mirror_at_once: int = 4
    evictions_abroad_per_s: float = 0.5
    reclaims_per_s: float = 1.0
    strangers_s: float = 60.0
    retry: Backoff = field(default_factory=Backoff)
    refused: Backoff = field(default_factory=lambda: Backoff(most_s=60.0))

    def next_mirror(self, mirror_at: float, now: float) -> float:
        """From when on the next status of a pod is written, after one now; `mirror_at`: the same
        for this one.
        """
        return max(mirror_at, now - (self.mirror_at_once - 1) * self.mirror_s) + self.mirror_s
