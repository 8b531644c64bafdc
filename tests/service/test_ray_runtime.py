"""Ray that cannot be had is told of in one line."""

import os
from unittest import mock

import pytest
import ray

from dispatcher.service import ray_runtime
from dispatcher.service.errors import CommandError
from dispatcher.service.ray_runtime import RayOptions, RayRuntime

# As Ray 2.60 says it.
MISMATCH = """Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.11.7
This process on node 10.0.0.1 was started with:
    Ray: 2.61.0
    Python: 3.11.7
"""


def test_a_ray_of_another_version_is_told_of_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runtime, "_probe", lambda address: None)
    monkeypatch.setattr(ray, "init", mock.Mock(side_effect=RuntimeError(MISMATCH)))
    with mock.patch.dict(os.environ), pytest.raises(CommandError) as told:
        RayRuntime.start([], RayOptions("127.0.0.1:6379"))
    assert str(told.value) == (
        "Ray cannot start: Version mismatch: The cluster was started with: Ray: 2.60.0 Python: 3.11.7 "
        "This process on node 10.0.0.1 was started with: Ray: 2.61.0 Python: 3.11.7"
    )
