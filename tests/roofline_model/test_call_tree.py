"""Trees of device time by call path: however small they are made, nothing is lost."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.cost import ITSELF, OTHER_CALLS, Cost, Frame
from jaxobs.roofline_model.bounds import Bound, total_bound
from jaxobs.roofline_model.call_tree import Part, call_tree
from jaxobs.roofline_model.operation_work import Work

frames = st.builds(Frame, st.sampled_from("abc"), st.just("model.py"), st.integers(1, 3))


def work(seconds: float, flops: float = 0.0) -> Work:
    cost = Cost(matrix_flops_by_type={"float32": flops}, bytes=2 * flops)
    return Work(seconds=seconds, cost=cost, bounds=[total_bound([])])


parts = st.builds(
    Part,
    st.lists(frames, min_size=1, max_size=6).map(tuple) | st.just((OTHER_CALLS,)),
    st.sampled_from(["compute", "memory"]),
    st.builds(work, st.floats(0, 1e6), st.floats(0, 1e15)),
    st.sampled_from(["", "dot.1", "fusion.2"]),
)


def leaves_of(nodes):
    following = [*(node.depth for node in nodes[1:]), 0]
    return [node for node, depth in zip(nodes, following, strict=True) if depth <= node.depth]


@given(st.lists(parts, min_size=1, max_size=40), st.integers(1, 30))
def test_leaves_add_up_to_all_operations_whatever_is_left_out(given_parts, limit):
    nodes = call_tree(given_parts, limit)
    leaves = leaves_of(nodes)
    for amount in (
        lambda one: one.work.seconds,
        lambda one: one.work.cost.flops,
        lambda one: one.work.cost.bytes,
    ):
        assert sum(map(amount, leaves)) == pytest.approx(sum(map(amount, given_parts)), rel=1e-9)
    labels: Counter[str] = Counter()
    for leaf in leaves:
        for label, seconds in leaf.labels.items():
            labels[label] += seconds
    for label in labels:
        told = sum(part.work.seconds for part in given_parts if part.label == label)
        assert labels[label] == pytest.approx(told, rel=1e-9)


@given(st.lists(parts, min_size=1, max_size=40), st.integers(1, 30))
def test_a_frame_is_the_sum_of_what_it_calls(given_parts, limit):
    nodes = call_tree(given_parts, limit)
    for at, node in enumerate(nodes):
        called = []
        for below in nodes[at + 1 :]:
            if below.depth <= node.depth:
                break
            if below.depth == node.depth + 1:
                called.append(below)
        if called:
            assert node.work.seconds == pytest.approx(sum(below.work.seconds for below in called), rel=1e-9)
            spent = [below.work.seconds for below in called]
            assert spent == sorted(spent, reverse=True)


@given(st.lists(parts, min_size=1, max_size=40), st.integers(1, 30))
def test_a_tree_stays_within_its_limit(given_parts, limit):
    nodes = call_tree(given_parts, limit)
    assert sum(node.frame != OTHER_CALLS for node in nodes) <= limit
    assert len(nodes) <= 2 * limit + 1


@given(st.lists(parts, min_size=1, max_size=40))
def test_with_room_for_all_each_path_has_its_own_time(given_parts):
    nodes = call_tree(given_parts, 10_000)
    told: dict[tuple[Frame, ...], float] = {}
    for part in given_parts:
        told[part.path] = told.get(part.path, 0.0) + part.work.seconds
    found: dict[tuple[Frame, ...], float] = {}
    path: list[Frame] = []
    leaves = {id(leaf) for leaf in leaves_of(nodes)}
    for node in nodes:
        path = [*path[: node.depth], node.frame]
        if id(node) in leaves:
            found[tuple(path[:-1] if node.frame == ITSELF else path)] = node.work.seconds
    assert found == pytest.approx(told, rel=1e-9)


def test_what_a_line_does_itself_stands_beside_what_it_calls():
    outer, inner = Frame("f", "model.py", 1), Frame("g", "model.py", 9)
    nodes = call_tree([Part((outer,), "memory", work(1.0)), Part((outer, inner), "compute", work(3.0))])
    assert [(node.depth, node.frame, node.work.seconds) for node in nodes] == [
        (0, outer, 4.0), (1, inner, 3.0), (1, ITSELF, 1.0),
    ]  # fmt: skip
    rows = [node.row(lambda done: {"seconds": done.seconds}) for node in nodes]
    assert [row["bottleneck"] for row in rows] == ["compute", "compute", "memory"]


@given(st.lists(parts, min_size=1, max_size=40), st.integers(1, 30))
def test_the_largest_operations_are_listed_in_the_leaf_that_they_are_in(given_parts, limit):
    nodes = call_tree(given_parts, limit)
    listed = [(part.operation, part.work.seconds) for node in nodes for part in node.operations]
    named = sorted((part.work.seconds for part in given_parts if part.operation), reverse=True)
    assert sorted((seconds for _, seconds in listed), reverse=True) == named[: limit // 2]
    leaves = leaves_of(nodes)
    for node in nodes:
        spent = [part.work.seconds for part in node.operations]
        assert spent == sorted(spent, reverse=True)
        assert sum(spent) <= node.work.seconds * (1 + 1e-9)
        assert not spent or node in leaves


def test_an_operation_has_figures_of_its_own():
    one, two = Part((Frame("f", "model.py", 1),), "memory", work(1.0), "dot.1"), work(3.0)
    (node,) = call_tree([one, one._replace(label="compute", work=two, operation="fusion.2")])
    rows = node.row(lambda done: {"seconds": done.seconds})["operations"]
    assert rows == [
        {"name": "fusion.2", "bottleneck": "compute", "seconds": 3.0},
        {"name": "dot.1", "bottleneck": "memory", "seconds": 1.0},
    ]


def test_a_frame_is_bounded_by_what_limits_the_larger_part_of_all_its_operations():
    def limited_by(limit, seconds):
        matrix, memory = (seconds, 0.0) if limit == "compute" else (0.0, seconds)
        bound = Bound(
            matrix_seconds=matrix, memory_seconds=memory,
            vector_seconds=0.0, transcendental_seconds=0.0, seconds=seconds, limit=limit,
        )  # fmt: skip
        return Part((Frame("f", "model.py", 1),), limit, Work(seconds=2 * seconds, bounds=[bound]))

    bounds = [limited_by("compute", 4.0), limited_by("memory", 3.0), limited_by("memory", 2.0)]
    (node,) = call_tree(bounds)
    assert node.work.bound().seconds == 9.0
    assert node.work.bound().limit == "memory"
