"""CPU use over a day, a row a machine: files of the PlanetLab set, or rows that are generated like
them.

The PlanetLab set (A. Beloglazov, R. Buyya, 2012) is at
https://github.com/beloglazov/planetlab-workload-traces; a day's file here has all machines of that
day, a line each: 288 whole numbers 0..100 with commas between, the CPU use in percent every five
minutes. `.gz` is read as such. Nothing of the set is part of this repository.
"""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float32]

SAMPLES, SAMPLE_S = 288, 300
_FORM = (
    f"write a line for each machine, {SAMPLES} numbers 0..100 with commas between them: CPU use "
    "in percent, every "
    "five minutes of a day (the PlanetLab set of Beloglazov, "
    "https://github.com/beloglazov/planetlab-workload-traces, "
    "has a file for each machine with a number a line: make one line of each), or take --generated"
)


class TraceFileError(ValueError):
    """A trace file that cannot be used; the text names it, says what is wrong, and what the form
    is.
    """


def read_traces(files: Sequence[Path]) -> Table:
    """[machines of all files, 288] CPU use in percent. TraceFileError."""
    if not files:
        raise TraceFileError(f"no trace file is given: {_FORM}")
    return np.concatenate([_read(file) for file in files])


def _read(file: Path) -> Table:
    try:
        with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
            rows = [line.split(",") for line in lines if line.strip()]
        wrong = next((at for at, row in enumerate(rows, start=1) if len(row) != SAMPLES), None)
        if wrong is not None or not rows:
            raise ValueError(
                f"line {wrong} has {len(rows[wrong - 1])} numbers" if wrong else "it is empty"
            )
        found = np.asarray(rows, dtype=np.float32)
        if not ((found >= 0) & (found <= 100)).all():
            raise ValueError("not all numbers are within 0..100")
    except (OSError, EOFError, ValueError) as error:
        raise TraceFileError(f"{file}: {error}: {_FORM}") from None
    return found


def generated(rng: np.random.Generator, machines: int = 1000) -> Table:
    """[machines, 288] like PlanetLab's: most machines idle, a few busy, a mild day and night, steps
    and bursts.

    Levels are lognormal (median 7 %, sigma 1.05: mean 12 %, as the set has); a first-order
    autoregression of half an hour and rare bursts of the same height again are laid over it.
    """
    level = 7.0 * rng.lognormal(0.0, 1.05, (machines, 1))
    hours = np.arange(SAMPLES) * SAMPLE_S / 3600.0
    day = 1.0 + 0.15 * np.sin(2 * np.pi * (hours - rng.normal(9.0, 3.0, (machines, 1))) / 24.0)
    wander = _autoregression(rng, machines, keep=0.85)
    bursts = _autoregression(rng, machines, keep=0.7) > 1.8
    return np.clip(level * day * np.exp(0.35 * wander) * (1.0 + bursts), 0.0, 99.0).astype(
        np.float32
    )


def _autoregression(rng: np.random.Generator, rows: int, keep: float) -> NDArray[np.float64]:
    """[rows, 288] x(t) = keep * x(t - 1) + noise, with variance 1."""
    noise = rng.normal(0.0, 1.0, (SAMPLES, rows))
    noise[1:] *= np.sqrt(1.0 - keep * keep)
    for at in range(1, SAMPLES):
        noise[at] += keep * noise[at - 1]
    return noise.T


def wandering(rng: np.random.Generator, rows: int) -> Table:
    """[rows, 288] slow noise about 0 with deviation 1, for series that no trace has."""
    return _autoregression(rng, rows, keep=0.85).astype(np.float32)
