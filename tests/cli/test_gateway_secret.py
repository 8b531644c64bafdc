"""How the dispatcher's pods are told of changed certificates, where something is in the way."""

from typing import Any, cast

import pytest

from dispatcher.cli.joining.gateway_secret import _known, _look_at_once, _pods
from dispatcher.cli.joining.target import Target
from dispatcher.cli.operate.members import Member, MemberError

Object = dict[str, Any]
PODS = [{"metadata": {"name": name, "namespace": "fleet"}, "spec": {}} for name in ("a", "b", "c")]
SECRET = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "global-dispatcher-gateway", "namespace": "fleet"}}


class Api:
    """Answers one pod with an error."""

    def __init__(self, status: int = 0, pod: str = "") -> None:
        self.status, self.pod = status, pod
        self.told: list[str] = []

    async def call(self, method: str, path: str, body: Object | None = None, kind: str = "") -> Object:
        name = path.rpartition("/")[2]
        if name == self.pod:
            raise MemberError(self.status, f"{name}: {self.status}")
        self.told.append(name)
        return {}

    async def items(self, path: str, **query: str) -> list[Object]:
        raise MemberError(403, "pods is forbidden")


def target(api: Api) -> Target:
    return Target("home", cast(Member, api), (1, 36), "uid", dry_run=False)


@pytest.mark.parametrize(("status", "lines"), [(404, 0), (403, 1), (0, 1)])
async def test_a_pod_that_cannot_be_told_keeps_no_other_from_being_told(status: int, lines: int) -> None:
    api = Api(status, "b")
    home = target(api)
    await _look_at_once(home, PODS, "mark")
    assert (api.told, len(home.steps)) == (["a", "c"], lines), home.steps


async def test_who_may_not_list_pods_is_told_of_the_delay_and_not_asked_whose_namespace_it_is() -> None:
    home = target(Api())
    pods = await _pods(home, "fleet")
    assert await _known(home, [SECRET], pods) == [SECRET]
    (line,) = home.steps
    assert line.endswith("cannot be told to look now: pods is forbidden")
