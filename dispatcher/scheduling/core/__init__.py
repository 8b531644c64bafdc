"""The dispatcher as a state machine: events in, effects out. No clock, no socket, no await.

    core        the door: an event to its handler, a Tick to what time makes due
    state       everything that is known, and the effects gathered for one answer
    reports     what agents report, folded into the fleet and into what is tracked of each pod
    reconciler  what is due for one pod of ours: queue it, bind it, send the next order of the delegate protocol
    deciding    queued pods: batches of one class to the scheduling cycle, decisions on their way
    binding_cycle, evictions, retries, outcomes, refusals   what follows from decisions and from answers
    reload      other profiles while the core runs

The parts hold the state, and of each other only what their constructors name. Places are found
elsewhere (`cycle`).
"""

from dispatcher.scheduling.core.core import SchedulerCore
from dispatcher.scheduling.delegation.timing import CoreTiming

__all__ = ["CoreTiming", "SchedulerCore"]
