"""What is said of a pod's disruption budgets is found out once for all pods, until budgets change."""

from unittest.mock import Mock

import pytest

from dispatcher.scheduling.core import peer_updates
from dispatcher.scheduling.core.peer_updates import PeerUpdates
from dispatcher.scheduling.delegation.shadows import BudgetIndex
from dispatcher.scheduling.delegation.tracking import Tracked
from dispatcher.scheduling.fleet.fleet import FleetState
from tests.scheduling.delegation.test_shadows import budget, huge, source


def test_budgets_are_indexed_once_for_all_pods_and_anew_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed = Mock(side_effect=BudgetIndex)
    monkeypatch.setattr(peer_updates, "BudgetIndex", indexed)
    fleet = FleetState()
    fleet.kept.put("east", budget())
    asked = PeerUpdates(Mock(fleet=fleet))
    remote = Tracked(("east", "s1"), source=source(1), delegates={"west": source(2)})
    assert [asked.uncounted_budgets(remote) for _ in range(100)] == [""] * 100
    assert indexed.call_count == 1
    fleet.kept.put("east", huge())
    assert "more than 256 labels" in asked.uncounted_budgets(remote)
    assert indexed.call_count == 2
