"""What `global-dispatcher cluster ...` refuses before it writes anything, and what it says then."""

import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from agents.executor.trust import state
from dispatcher.cli.operate.command import operate
from dispatcher.cli.operate.table import Wish
from dispatcher.cli.output import Output
from dispatcher.service.errors import CommandError, ExitCode
from localfleet.embedded.fleet import EmbeddedFleet
from tests.cli.cluster_world import NODES, World, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
WEST = "global-dispatcher-west"


def unreachable(folder: Path) -> str:
    """A kubeconfig of a cluster "north" where nobody listens."""
    file = folder / "broken"
    server = {"name": "north", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "north", "context": {"cluster": "north", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    file.write_text(yaml.safe_dump({"clusters": [server], "contexts": [context], "users": users}))
    return str(file)


@pytest.mark.parametrize(("action", "instead"), [(["fence"], "drain"), (["leave", "--lost"], "leave")])
def test_what_is_for_dead_clusters_is_refused_for_one_that_answers(
    world: World, action: list[str], instead: str
) -> None:
    pod(world.east, "web-1", WEST)
    refused = world.run(*action, "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    wanted = f"west answers and 1 of 1 nodes are Ready: {' '.join(action)} is for clusters that are dead; use {instead}"
    assert wanted in refused.stderr
    assert world.proxy() == (False, "")


def test_force_fences_a_cluster_that_answers_and_says_that_it_does(world: World) -> None:
    result = world.run("fence", "west", "--yes", "--force")
    assert result.exit_code == ExitCode.OK
    assert "all the same: west answers and 1 of 1 nodes are Ready" in result.stderr


def test_a_dead_cluster_is_fenced_without_force(world: World, fleet: EmbeddedFleet) -> None:
    world.list_clusters({"east": str(fleet.kubeconfig), "west": "/nonexistent/kubeconfig"})
    assert world.run("fence", "west", "--yes").exit_code == ExitCode.OK
    assert world.proxy() == (True, "true")


def test_a_fence_names_the_pods_that_nothing_replaces_and_is_refused_for_them(
    world: World, fleet: EmbeddedFleet
) -> None:
    world.list_clusters({"east": str(fleet.kubeconfig), "west": "/nonexistent/kubeconfig"})
    pod(world.east, "alone", WEST, owned=False)
    refused = world.run("fence", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert "1 without one are gone for good (east: default/alone)" in refused.stderr
    assert "--force lets them go" in refused.stderr
    assert world.proxy() == (False, "")
    assert world.run("fence", "west", "--yes", "--force").exit_code == ExitCode.OK


@pytest.mark.parametrize("action", ["drain", "leave"])
def test_a_dry_run_shows_the_table_and_then_what_would_be_refused(world: World, action: str) -> None:
    pod(world.east, "alone", WEST, owned=False)
    code, told = world.json(action, "west", "--dry-run")
    assert code == ExitCode.FAILED
    assert [row["pods"] for row in told["clusters"] if row["cluster"] == "east"] == [1]
    assert "would be refused: 1 pods have no controller" in told["problems"][0]


def test_contexts_that_are_mixed_up_are_told_by_proxy_nodes_that_no_cluster_has_of_itself(
    world: World, fleet: EmbeddedFleet
) -> None:
    mixed_up(world, fleet)
    refused = world.run("cordon", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    given = f"context 'west' of {fleet.kubeconfig}"
    assert f"cluster east is given {given}, which is that of another cluster" in refused.stderr
    assert world.proxy("west") == world.proxy("east") == (False, "")


def test_contexts_that_are_mixed_up_are_told_by_the_names_that_executors_have_stored(
    world: World, fleet: EmbeddedFleet
) -> None:
    mixed_up(world, fleet)
    for name, api in world.apis.items():
        values = {state.VALUES: f'{{"{state.CLUSTER}": "{name}"}}'}
        assert api.create(LEASES, {"metadata": {"name": state.NAME, "annotations": values}}).is_success
    refused = world.run("cordon", "west", "--yes")
    for api in world.apis.values():
        api.delete(state.PATH)
    assert refused.exit_code == ExitCode.FAILED
    east, west = (f"context {name!r} of {fleet.kubeconfig}" for name in ("east", "west"))
    assert f"cluster east is given {west}, which is that of west ({east})" in refused.stderr
    assert f"cluster west is given {east}, which is that of east ({west})" in refused.stderr


def test_current_contexts_that_reach_another_cluster_are_told_with_their_files(
    world: World, fleet: EmbeddedFleet, tmp_path: Path
) -> None:
    files = {"east": tmp_path / "for-east", "west": tmp_path / "for-west"}
    for name, other in (("east", "west"), ("west", "east")):
        told = yaml.safe_load(fleet.kubeconfig.read_text())
        files[name].write_text(yaml.safe_dump({**told, "current-context": other}))
    listed = [{"name": name, "kubeconfig": str(file)} for name, file in files.items()]
    world.config.write_text(yaml.safe_dump({"clusters": listed}))
    refused = world.run("drain", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert f"cluster east is given the current context of {files['east']}, which is that of" in refused.stderr
    assert "mend `context`, or `kubeconfig`, of these in" in refused.stderr


@pytest.mark.parametrize(
    ("told", "key", "wrong"),
    [
        pytest.param({"contexts": []}, "kubeconfig", "has no contexts: name a kubeconfig file", id="none"),
        pytest.param(
            {"contexts": [{"name": "a", "context": {}}]},
            "context",
            "has no current-context: name one; known: a",
            id="none-current",
        ),
    ],
)
def test_a_kubeconfig_without_a_context_is_named_with_what_to_write(
    world: World, tmp_path: Path, told: dict[str, object], key: str, wrong: str
) -> None:
    file = tmp_path / "odd"
    file.write_text(yaml.safe_dump(told))
    world.config.write_text(yaml.safe_dump({"clusters": [{"name": n, "kubeconfig": str(file)} for n in ("a", "west")]}))
    refused = world.run("drain", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert f"`{key}` of its entry: " in refused.stderr
    assert f"{file} {wrong}" in refused.stderr
    assert "nothing can be done there" in refused.stderr


def mixed_up(world: World, fleet: EmbeddedFleet) -> None:
    file = str(fleet.kubeconfig)
    contexts = (("east", "west"), ("west", "east"))
    listed = [{"name": name, "kubeconfig": file, "context": context} for name, context in contexts]
    world.config.write_text(yaml.safe_dump({"clusters": listed}))


def test_a_cluster_that_has_no_proxy_node_anywhere_is_not_said_to_be_done(world: World) -> None:
    world.east.delete(f"{NODES}/{WEST}")
    refused = world.run("cordon", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert "no proxy node global-dispatcher-west is in east" in refused.stderr


def test_a_name_that_nobody_knows_is_told_although_a_cluster_cannot_be_reached(
    world: World, fleet: EmbeddedFleet
) -> None:
    kubeconfig = str(fleet.kubeconfig)
    world.list_clusters({"east": kubeconfig, "west": kubeconfig, "north": unreachable(world.config.parent)})
    refused = world.run("cordon", "wset", "--yes")
    assert refused.exit_code == ExitCode.NOT_FOUND
    assert (
        f"'wset' is neither in {world.config} nor has a proxy node in east, west; did you mean west?" in refused.stderr
    )
    assert "north does not answer" in refused.stderr


def test_a_file_without_clusters_is_told_so(world: World) -> None:
    world.list_clusters({})
    refused = world.run("cordon", "west", "--yes")
    assert refused.exit_code == ExitCode.NOT_FOUND
    assert f"'west' is not in {world.config}, which lists no clusters" in refused.stderr


@pytest.mark.parametrize(("name", "says"), [("wst", "did you mean west?"), ("other", "known: east, west")])
def test_of_a_cluster_that_alone_would_be_asked_it_is_not_said_that_others_do_not_answer(
    world: World, name: str, says: str
) -> None:
    refused = world.run("confirm", name, "--yes")
    assert refused.exit_code == ExitCode.NOT_FOUND
    assert f"{name!r} is not in {world.config}; {says}" in refused.stderr


@pytest.mark.parametrize("action", ["confirm", "cordon", "uncordon", "drain", "fence", "unfence", "leave"])
def test_nobody_says_how_many_pods_are_in_a_cluster_that_cannot_be_asked(
    world: World, fleet: EmbeddedFleet, action: str
) -> None:
    kubeconfig, silent = str(fleet.kubeconfig), unreachable(world.config.parent)
    world.list_clusters({"east": kubeconfig, "west": kubeconfig, "north": silent})
    told = world.json(action, "north" if action == "confirm" else "west", "--dry-run")[1]
    numbers = {row["cluster"]: (row["pods"], row["copies"]) for row in told["clusters"]}
    assert numbers.pop("north") == (None, None)
    assert None not in [number for row in numbers.values() for number in row]
    assert "0 pods" not in told["will"]
    assert "Nobody knows which pods are meant in north, which cannot be asked: nothing" in told["will"]
    assert "north answers" in told["will"]


def test_pods_that_were_counted_are_at_least_so_many(world: World, fleet: EmbeddedFleet) -> None:
    pod(world.east, "web-1", WEST)
    kubeconfig = str(fleet.kubeconfig)
    world.list_clusters({"east": kubeconfig, "west": kubeconfig, "north": unreachable(world.config.parent)})
    told = world.run("cordon", "west", "--dry-run")
    assert "what runs there stays (at least 1 pods)" in told.stderr
    assert [line.split()[2:4] for line in told.stdout.splitlines() if line.startswith("north")] == [["?", "?"]]


def test_a_restored_cluster_that_cannot_be_asked_is_not_confirmed(world: World, fleet: EmbeddedFleet) -> None:
    world.list_clusters({"east": str(fleet.kubeconfig), "west": unreachable(world.config.parent)})
    refused = world.run("confirm", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert "an unknown number of pods of its own" in refused.stderr
    assert "cluster west cannot be asked" in refused.stderr
    assert "nobody knows what would be confirmed" in refused.stderr


def test_a_fenced_cluster_is_not_opened_by_uncordon(world: World) -> None:
    assert world.run("fence", "west", "--yes", "--force").exit_code == ExitCode.OK
    refused = world.run("uncordon", "west", "--yes")
    assert refused.exit_code == ExitCode.FAILED
    assert "west is fenced in east: first `cluster unfence west`" in refused.stderr
    assert world.proxy() == (True, "true")


@pytest.mark.parametrize(
    ("action", "cordoned", "did", "stands"),
    [
        ("unfence", False, "was not fenced, open", "open"),
        ("unfence", True, "was not fenced, still cordoned", "cordoned"),
        ("uncordon", False, "was open", "open"),
        ("uncordon", True, "uncordoned", "open"),
        ("cordon", True, "was cordoned already", "cordoned"),
        ("cordon", False, "cordoned", "cordoned"),
    ],
)
def test_a_word_is_told_as_what_it_changed_and_how_the_proxy_node_stands_then(
    world: World, action: str, cordoned: bool, did: str, stands: str
) -> None:
    world.east.merge(f"{NODES}/{WEST}", {"spec": {"unschedulable": cordoned or None}})
    code, told = world.json(action, "west", "--yes")
    (row,) = told["clusters"]
    assert (code, row["did"], row["proxy"]) == (ExitCode.OK, did, stands)
    assert world.proxy() == (stands == "cordoned", "")


def pressed() -> str:
    signal.raise_signal(signal.SIGINT)
    return "yes\n"


def test_ctrl_c_at_the_question_does_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=pressed))
    wish = Wish("cordon", "west", world.config, yes=False, dry_run=False, output=Output.JSON)
    with pytest.raises(CommandError, match=r"^nothing was done$"):
        operate(wish)
    assert world.proxy() == (False, "")
