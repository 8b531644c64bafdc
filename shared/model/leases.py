"""Failover mode `lease`: when a delegate that nobody can reach has certainly been stopped by its
own agent.

The agent stops it once the dispatcher has not renewed the cluster's lease for `lease_s` seconds, on
the agent's clock; an agent that has just started and was not renewed yet, after `RESTART_S`. The
dispatcher counts on its own clock, from the last word of that agent that it may have echoed. No
clock is compared with another machine's: their rates alone are trusted, to `RATE`. Worked example:
lease 120 s, grace period 30 s: (120 + 60 + 30) * 1.05 + 60 = 280.5 s.
"""

LEASE = "lease"  # the mode, as in names.FAILOVER
# an agent that starts within its lease may go on for so long without a renewal of its own
RESTART_S = 60.0
RATE = 1.05  # one clock may run so much faster than another
# until the agent looks, its API server has taken all deletions, and kubelets have heard of them
SLACK_S = 60.0


def stopped_after_s(lease_s: float, grace_s: float) -> float:
    """Seconds after the last possible renewal in which a delegate with this grace period has ended."""
    return (lease_s + RESTART_S + grace_s) * RATE + SLACK_S


def failover_text(cluster: str, wait_s: float | None) -> str:
    """What becomes of a pod of this mode whose cluster is lost: stopped there in `wait_s`; None:
    that is not known.
    """
    lost = f'cluster "{cluster}" is lost'
    if wait_s is None:
        return (
            f"{lost}, and its API server is not known to have been well: failover waits as "
            "strict, for the pod may run"
        )
    if wait_s > 0:
        return (
            f"{lost}: failover waits {wait_s:.0f} s more, until its agent has certainly stopped "
            "the pod there"
        )
    return (
        f"{lost}, and its agent has certainly stopped the pod there: failover lets it be evicted "
        "and replaced"
    )
