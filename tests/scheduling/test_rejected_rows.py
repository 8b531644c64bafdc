"""A record's refusals: what each cluster's nodes were refused for, most nodes first."""

from dispatcher.scheduling.records.decision_record import DecisionContext
from shared.model.reasons import Reasons, ReasonTable


def test_nodes_are_counted_by_text_and_cluster_most_of_them_first() -> None:
    table = ReasonTable()
    cpu, lasting = (table.code(Reasons.INSUFFICIENT, "cpu", lasting=last) for last in (False, True))
    memory = table.code(Reasons.INSUFFICIENT, "memory")
    both = table.joint((cpu, memory))
    rejected = {(memory, 1): 2, (cpu, 0): 3, (lasting, 0): 4, (both, 1): 5, (memory, 0): 5}
    context = DecisionContext("default", table, ("west", "east"), rejected, 0, 19)
    assert [(row["count"], row["reason"], row["cluster"]) for row in context.rejected_rows()] == [
        (7, "Insufficient cpu", "west"),  # whether it is for good or not
        (7, "Insufficient memory", "east"),
        (5, "Insufficient cpu", "east"),
        (5, "Insufficient memory", "west"),
    ]
    assert [list(row) for row in context.rejected_rows()] == [["reason", "cluster", "count"]] * 4
