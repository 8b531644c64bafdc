"""What an executor does without an order."""

from typing import NamedTuple

from shared.kube.http import Procedure


class ReconcileTask(NamedTuple):
    """A procedure that reconciles one object without an intent; it returns '' or an error text.

    `name` identifies the object: at most one task of a name runs at once. `lane` is its queue for
    request slots (its namespace), None for a task that needs no slot.
    """

    name: str
    lane: str | None
    procedure: Procedure[str]
