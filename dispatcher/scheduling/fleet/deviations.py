"""How far the shares of a signal lie apart: their variance about the mean, with the mean's weights.

    left      = exp(-(time since the sample before) / MEAN_S)                what all earlier samples still weigh
    variance' = left * (variance + (1 - left) * (share - mean)^2)            0 with the first sample

`mean` is that before the sample. Source: the incremental form of the exponentially weighted
variance (West, Communications of the ACM 22, 1979; Finch, Incremental calculation of weighted mean
and variance, 2009, section 9). Example: two samples 0.2 and 0.6, far enough apart for left = 0.5.
The mean is 0.4, the variance 0.5 * 0.5 * 0.4^2, that is 0.04, the deviation 0.2: both lie that far
from the mean.

The column has rows only while a profile asks for them (`framework.derived`).
"""

from typing import Any

import numpy as np


def moved(variance: Any, share: Any, mean: Any, left: Any) -> Any:
    """The variance with one more sample; `variance` NaN: nothing was kept before."""
    return left * (np.nan_to_num(variance) + (1.0 - left) * (share - mean) ** 2)
