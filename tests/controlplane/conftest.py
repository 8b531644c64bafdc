"""The control planes of these tests."""

from tests.controlplane.fixtures import control_plane, pytest_collection_finish, pytest_runtest_makereport

__all__ = ["control_plane", "pytest_collection_finish", "pytest_runtest_makereport"]
