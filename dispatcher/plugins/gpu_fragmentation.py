"""GPUs are shared by thousandths, and a pod goes where it leaves the least GPU that no typical task
could use.

A node offers `global-dispatcher.io/gpu-milli`, 1000 for each of its (at most 8) GPUs. A pod that
requests up to 1000 gets a share of one GPU, one that requests more must request whole ones. A share
is booked where it fragments least. F(node) = sum over the task mix m of share(m) * f(m), in
thousandths of a GPU, with d the free part of each GPU:
    f(m) = sum of d         if task m cannot run on the node (CPU free < its CPU, or too few GPUs with d >= its part)
         = sum of d < part  otherwise
score = 100 / (1 + exp((F after - F before) / 1000)), rounded down: 50 changes nothing, more than 50
mends. (Whole scores tie often, and ties go to one node after another by rank: that packs better
than the finer number does.) Source: Weng et al., Beware of Fragmentation (USENIX ATC 2023).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, cast

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from dispatcher.scheduling.framework import (
    MAX_SCORE,
    SKIP,
    Codes,
    CycleState,
    Depends,
    Filter,
    FleetView,
    Floats,
    PodInfo,
    Refuse,
    Reserve,
    Rows,
    Score,
    Skip,
    refuse,
)
from dispatcher.scheduling.framework.plugin_args import Args
from shared.model.names import GPU_MILLI
from shared.model.reasons import Reasons
from shared.model.resources import CPU

MOST_GPUS = 8
WHOLE = 1000
Milli = NDArray[np.int32]


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task of the mix: milli-CPU, thousandths of GPU, and its share of all (any unit)."""

    cpu: Annotated[float, Meta(ge=0, le=10**9)]
    gpu: Annotated[float, Meta(ge=0, le=MOST_GPUS * WHOLE)]
    share: Annotated[float, Meta(ge=0, le=10**9)]

    def __post_init__(self) -> None:
        if int(self.gpu) > WHOLE and int(self.gpu) % WHOLE:
            raise ValueError(f"gpu must be up to {WHOLE}, or whole GPUs, not {int(self.gpu)}")


class _Mix:
    """The GPU tasks of the mix as arrays [tasks]; tasks without GPU change nothing in the
    difference of two F.
    """

    def __init__(self, tasks: tuple[Task, ...]) -> None:
        using = [task for task in tasks if int(task.gpu) and task.share]
        self.cpu = np.asarray([task.cpu for task in using], dtype=np.int64)
        self.part = np.asarray([min(task.gpu, WHOLE) for task in using], dtype=np.int32)
        self.count = np.asarray([max(task.gpu // WHOLE, 1) for task in using], dtype=np.int32)
        total = sum(task.share for task in tasks) or 1.0
        self.share = np.asarray([task.share / total for task in using])


class MixArgs(Args):
    """The tasks that a fragment of GPU may still be good for."""

    mix: Annotated[
        tuple[Task, ...],
        Meta(description="the typical tasks: {cpu: milli-CPU, gpu: thousandths, share: of all}"),
    ] = (Task(0, WHOLE, 1),)


Amounts = tuple[int, int]  # milli-CPU and thousandths of GPU that a pod requests


class GPUFragmentation(Filter[Amounts], Score[Amounts], Reserve[Amounts]):
    """Filter by free GPUs, score by fragmentation, book shares of GPUs."""

    name: ClassVar[str] = "GPUFragmentation"
    keyed_by_template = True
    depends: ClassVar[Depends] = Depends.NODE

    def __init__(self, mix: tuple[Task, ...]) -> None:
        self._mix = _Mix(mix)
        self._free: Milli = np.zeros((MOST_GPUS, 0), dtype=np.int32)
        self._nodes: list[tuple[str, str] | None] = []
        self._booked: dict[
            tuple[str, str], tuple[int, tuple[str, str], tuple[tuple[int, int], ...]]
        ] = {}

    # --- free GPUs of each row
    # ---------------------------------------------------------------------------------------

    def _known(self, fleet: FleetView, rows: Rows) -> Milli:
        """[GPUs, rows] free thousandths; a row that holds another node than before starts with all
        GPUs free.
        """
        numbers = range(fleet.n)[rows] if isinstance(rows, slice) else rows.tolist()
        for row in numbers:
            if row >= len(self._nodes) or (
                fleet.nodes.live[row] and self._nodes[row] != fleet.nodes.name_of(row)
            ):
                self._begin(fleet, row)
        free: Milli = self._free[:, rows]
        return free

    def _begin(self, fleet: FleetView, row: int) -> None:
        if row >= len(self._nodes):
            self._nodes += [None] * (fleet.n - len(self._nodes))
            missing = fleet.n - self._free.shape[1]
            if missing > 0:
                self._free = np.pad(self._free, ((0, 0), (0, max(missing, self._free.shape[1]))))
        if not fleet.nodes.live[row]:
            return
        column = fleet.axis.column(GPU_MILLI)
        offered = 0 if column is None else fleet.nodes.allocatable.item(column, row)
        self._nodes[row] = fleet.nodes.name_of(row)
        self._free[:, row] = np.clip(offered - WHOLE * np.arange(MOST_GPUS), 0, WHOLE)

    # --- points
    # ----------------------------------------------------------------------------------------------

    def class_key(self, pod_info: PodInfo) -> Amounts:
        """CPU and GPU requested."""
        return pod_info.pod.requests.get(CPU, 0), pod_info.pod.requests.get(GPU_MILLI, 0)

    def pre_filter(self, pod_info: PodInfo, fleet: FleetView) -> Amounts | Refuse | Skip:
        """(milli-CPU, thousandths of GPU); a Refuse for more than one GPU but not whole ones."""
        cpu, gpu = self.class_key(pod_info)
        if gpu > WHOLE and (gpu % WHOLE or gpu > WHOLE * MOST_GPUS):
            text = (
                f"{GPU_MILLI} must be up to {WHOLE}, or whole GPUs up to {MOST_GPUS * WHOLE}, not "
                f"{gpu}"
            )
            return refuse(Reasons.INVALID, text)
        return SKIP if not gpu and not len(self._mix.part) else (cpu, gpu)

    def filter(self, state: Amounts, fleet: FleetView, rows: Rows) -> Codes:
        """INSUFFICIENT where no GPU has the share free, or too few are free as a whole."""
        _, gpu = state
        if not gpu:
            return np.zeros(len(fleet.nodes.live[rows]), dtype=np.uint16)
        enough = (self._known(fleet, rows) >= min(gpu, WHOLE)).sum(axis=0)
        codes: Codes = (enough < max(gpu // WHOLE, 1)) * np.uint16(
            fleet.reasons.code(Reasons.INSUFFICIENT, GPU_MILLI)
        )
        return codes

    def score(self, state: Amounts, fleet: FleetView, rows: Rows) -> Floats:
        """How little the pod would fragment the node's GPUs."""
        cpu, gpu = state
        worse = self._fragments(self._known(fleet, rows), _free_cpu(fleet, rows), cpu, gpu).min(
            axis=0
        )
        scores: Floats = np.floor(MAX_SCORE / (1.0 + np.exp(worse / WHOLE)))
        return scores

    def _fragments(self, free: Milli, room: NDArray[np.int64], cpu: int, gpu: int) -> Floats:
        """[choices, rows] F after minus F before, inf where it cannot be; for a share each GPU is a
        choice.
        """
        mix = self._mix
        fits = free[:, :, None] >= mix.part  # [GPUs, rows, tasks]
        count = fits.sum(axis=0)
        total = free.sum(axis=0)
        low = np.where(fits, 0, free[:, :, None]).sum(axis=0)
        before = _cost(room, count, low, total, mix)
        left = room - cpu
        if not gpu or gpu >= WHOLE:
            taken = gpu // WHOLE
            return (_cost(left, count - taken, low, total - gpu, mix) - before)[None]
        rest = free - gpu
        fits_after = rest[:, :, None] >= mix.part
        count_after = count - fits + fits_after
        low_after = (
            low - np.where(fits, 0, free[:, :, None]) + np.where(fits_after, 0, rest[:, :, None])
        )
        after = _cost(left, count_after, low_after, total - gpu, mix)
        return np.where(rest >= 0, after - before, np.inf)

    # --- booking
    # ----------------------------------------------------------------------------------------------

    def reserve(
        self, cycle: CycleState, pod_info: PodInfo, row: int, fleet: FleetView
    ) -> Refuse | None:
        """Book the GPUs of the choice that fragments least; pods without GPU book nothing."""
        cpu, gpu = self.class_key(pod_info)
        if gpu and row >= 0:
            rows = np.asarray([row])
            free = self._known(fleet, rows)
            if gpu < WHOLE:
                fragments = self._fragments(free, _free_cpu(fleet, rows), cpu, gpu)[:, 0]
                chosen = [int(fragments.argmin())]
            else:
                chosen = np.argsort(-free[:, 0], kind="stable")[: gpu // WHOLE].tolist()
            self._book(pod_info, row, fleet, tuple((one, min(gpu, WHOLE)) for one in chosen))
        return None

    def _book(
        self, pod_info: PodInfo, row: int, fleet: FleetView, parts: tuple[tuple[int, int], ...]
    ) -> None:
        for gpu, amount in parts:
            self._free[gpu, row] -= amount
        self._booked[pod_info.home, pod_info.pod.uid] = (row, fleet.nodes.name_of(row), parts)

    def unreserve(self, pod_info: PodInfo, row: int, fleet: FleetView) -> Callable[[], None] | None:
        """Give back the GPUs that were booked, if their node is still there; what books the same
        again.
        """
        booked = self._booked.pop((pod_info.home, pod_info.pod.uid), None)
        if booked is None or self._nodes[booked[0]] != booked[1]:
            return None
        for gpu, amount in booked[2]:
            self._free[gpu, booked[0]] += amount
        return partial(self._book, pod_info, booked[0], fleet, booked[2])

    def explain(
        self, state: Amounts, pod_info: PodInfo, fleet: FleetView, row: int
    ) -> Mapping[str, Any]:
        """Free thousandths of each GPU of the node before this pod; nothing if the row is one of
        another table, as for a pod that is explained later.
        """
        if row >= len(self._nodes) or self._nodes[row] != fleet.nodes.name_of(row):
            return {}
        return {"free": [int(one) for one in self._free[:, row] if one]}


def _free_cpu(fleet: FleetView, rows: Rows) -> NDArray[np.int64]:
    column = cast(int, fleet.axis.column(CPU))
    free: NDArray[np.int64] = (
        fleet.nodes.allocatable[column, rows] - fleet.nodes.requested[column, rows]
    )
    return free


def _cost(room: NDArray[np.int64], count: Any, low: Any, total: Any, mix: _Mix) -> Floats:
    """[..., rows] F: what is free for nobody, weighted by the mix."""
    runs = (count >= mix.count) & (room[..., None] >= mix.cpu)
    cost: Floats = np.where(runs, low, total[..., None]) @ mix.share
    return cost
