"""The policies by name, in the order of the table. One more is one line here, and a class that
satisfies Policy.
"""

from collections.abc import Callable, Mapping

from benchmarks.closed_loop.ours import Ours, OursRebalancing
from benchmarks.closed_loop.peers import (
    BestOfTwo,
    LoadVariation,
    Oracle,
    Requests,
    Seed,
    TargetLoadPacking,
)
from benchmarks.closed_loop.policy import Policy, Setting

OURS, BEST_OF_TWO = "ours", "best_of_two"
BY_ONE_SCORE = (
    "requests",
    "seed",
    "target_load_packing",
    "load_variation",
)  # whose best `ours` is measured by

POLICIES: Mapping[str, Callable[[Setting], Policy]] = {
    "requests": Requests,
    "seed": Seed,
    "target_load_packing": TargetLoadPacking,
    "load_variation": LoadVariation,
    BEST_OF_TWO: BestOfTwo,
    OURS: Ours,
    "ours_rebalancing": OursRebalancing,
    "oracle": Oracle,
}
