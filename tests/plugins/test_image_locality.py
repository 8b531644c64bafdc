import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scheduling.fleet.fleet import FleetState
from tests.builders import NodeBuilder, PodBuilder, fleet, node, pod, put
from tests.plugins.asking import make, scores

MIB = 1024 * 1024


def holding(name: str, **mib: int) -> NodeBuilder:
    """A node with images; gcr__40 stands for gcr.io/40:latest."""
    images = {f"{image.replace('__', '.io/')}:latest": size * MIB for image, size in mib.items()}
    return node(name).images(images)


def running(*images: str) -> PodBuilder:
    return pod().set(images=images)


SMALL = holding("small", gcr__40=40, gcr__300=300, gcr__2000=2000)
MIXED = holding("mixed", gcr__250=250, gcr__10=10)
MEDIUM = holding("medium", gcr__600=600, gcr__40=40, gcr__900=900)
LARGE = holding("large", gcr__300=300, gcr__600=600, gcr__900=900)
HUGE = holding("huge", gcr__4000=4000, gcr__30=30)
TINY = holding("tiny", gcr__20=20, gcr__30=30, gcr__40=40)
NONE = node("none")


# Nodes, pods and scores of kube-scheduler's own tests.
@pytest.mark.parametrize(
    ("asking", "nodes", "want"),
    [
        (running("gcr.io/40", "gcr.io/250"), [SMALL, MIXED], {"small": 0, "mixed": 5}),
        (running("gcr.io/40", "gcr.io/300"), [SMALL, MIXED], {"small": 7, "mixed": 0}),
        (running("gcr.io/10", "gcr.io/4000"), [HUGE, MIXED], {"huge": 100, "mixed": 0}),
        (running("gcr.io/10", "gcr.io/4000"), [HUGE, MIXED, NONE], {"huge": 66, "mixed": 0, "none": 0}),
        (running("gcr.io/300", "gcr.io/600", "gcr.io/900"), [MEDIUM, LARGE, NONE],
         {"medium": 32, "large": 36, "none": 0}),
        (running("gcr.io/30", "gcr.io/40"), [TINY, HUGE], {"tiny": 1, "huge": 0}),
        (running("gcr.io/30", "gcr.io/300"), [LARGE, HUGE], {"large": 6, "huge": 0}),
        (running("gcr.io/30").set(volume_images=("gcr.io/300",)), [LARGE, HUGE], {"large": 6, "huge": 0}),
        (running("gcr.io/30", "gcr.io/40"), [NONE], {}),
    ],
    ids=[
        "the larger one", "both on one node", "beyond the limit", "beyond the limit, a third node", "large images",
        "small images", "an init container's too", "an image volume's too", "nobody has them",
    ],
)  # fmt: skip
def test_image_locality_scores_by_bytes_that_are_there(
    asking: PodBuilder, nodes: list[NodeBuilder], want: dict[str, int]
) -> None:
    assert scores(make("ImageLocality"), asking, fleet(a=nodes)) == want


@pytest.mark.parametrize(
    ("image", "listed", "found"),
    [
        ("root", "root:latest", True),
        ("root:tag", "root:tag", True),
        ("gcr.io:5000/root", "gcr.io:5000/root:latest", True),
        ("gcr.io:5000/root:tag", "gcr.io:5000/root:tag", True),
        ("root@sha256:abc", "root@sha256:abc", True),
        ("root:tag", "root:latest", False),
        ("docker.io/library/root", "root:latest", False),
    ],
)
def test_image_locality_knows_an_image_by_the_name_that_nodes_list(image: str, listed: str, found: bool) -> None:
    state = fleet(a=[node("n").images({listed: 1000 * MIB})])
    assert scores(make("ImageLocality"), running(image), state) == ({"n": 100} if found else {})


def test_image_locality_follows_images_that_come_and_go() -> None:
    state, plugin, asking = fleet(a=[SMALL, "b"]), make("ImageLocality"), running("gcr.io/2000")
    assert scores(plugin, asking, state) == {"small": 100, "b": 0}
    state.put_node("a", node("c").build())
    assert scores(plugin, asking, state)["small"] == (2000 // 3 - 23) * 100 // 977
    state.put_node("a", node("small").build())
    assert scores(plugin, asking, state) == {}
    state.put_node("a", holding("b", gcr__2000=2000).build())
    assert scores(plugin, asking, state) == {"small": 0, "b": (2000 // 3 - 23) * 100 // 977, "c": 0}


names = st.sampled_from(["a:1", "b:1", "c:1"])
held = st.dictionaries(names, st.integers(0, 3000))
steps = st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.none() | held), max_size=12)


@given(steps, st.lists(names, min_size=1, max_size=3))
def test_image_columns_are_what_the_nodes_say_however_these_change(
    script: list[tuple[str, dict[str, int] | None]], images: list[str]
) -> None:
    state, truth = FleetState(), dict[str, dict[str, int]]()
    state.set_cluster("a", ready=True, synced=True)
    for name, content in script:
        version = state.kept.versions["Image"]
        if content is None:
            state.remove_node("a", name)
            moved = truth.pop(name, None) is not None
        else:
            state.put_node("a", node(name).images(content).build())
            moved = truth.get(name) != content
            truth[name] = content
        assert (state.kept.versions["Image"] != version) is moved
        for image in images:
            sizes = {one: int(state.image_sizes(image)[state.row_of("a", one) or 0]) for one in truth}
            assert sizes == {one: images_of.get(image, 0) for one, images_of in truth.items()}
            assert state.nodes_with_image(image) == sum(image in images_of for images_of in truth.values())


def test_pods_beside_change_nothing() -> None:
    state = fleet(a=[SMALL])
    put(state, running("gcr.io/2000"), "a", "small")
    assert scores(make("ImageLocality"), running("gcr.io/2000").uid("other"), state) == {"small": 100}
