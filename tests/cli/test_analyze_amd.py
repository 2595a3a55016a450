"""Traces of AMD's GPUs, as recorded: the work of each program is counted here from its shapes."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.launched import command

DATA = Path(__file__).parents[1] / "trace" / "data"
PRODUCTS = [
    (256, 256, 256), (1024, 1024, 1024), (4096, 4096, 4096), (8192, 4096, 8192), (2048, 8192, 2048), (16384, 1024, 4096),
]  # fmt: skip
"""Rows, inner dimension and columns of the products; each ran three times."""

BATCH, SEQUENCE, HEADS, HEAD, WIDTH = 2, 2048, 16, 128, 6144
ATTENTION = 4 * BATCH * HEADS * SEQUENCE * (SEQUENCE + 1) / 2 * HEAD
"""FLOPs of one causal attention, each query with the keys up to its own: two products forward; five backward."""
PROJECTION = 2 * (BATCH * SEQUENCE) * (HEADS * HEAD) * WIDTH
STEP = 2 * (ATTENTION + 5 / 2 * ATTENTION) + 6 * PROJECTION
"""Two layers of an attention and a projection, of which each takes one product forward and two backward."""


def analyzed(name, folder):
    unpacked = folder / name.removesuffix(".gz")
    unpacked.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    answered = command("analyze", str(unpacked), "--json", folder=folder)
    assert (answered.status, answered.stderr) == (0, "")
    return json.loads(answered.stdout)


def test_products_have_the_work_of_their_shapes_and_stay_below_the_roof(tmp_path):
    document = analyzed("mi300x_products.xplane.pb.gz", tmp_path)
    products = [row for row in document["modules"] if row["name"] == "jit_dot"]
    assert sorted(row["matrix_flops"] / row["runs"] for row in products) == sorted(
        2 * rows * inner * columns for rows, inner, columns in PRODUCTS
    )
    assert all(0 < row["efficiency"] < 1 for row in document["operations"] if row["efficiency"] is not None)


def test_a_training_step_with_fused_attention_has_the_work_of_its_shapes(tmp_path):
    document = analyzed("mi355x_te_attention.xplane.pb.gz", tmp_path)
    (module,), (device,) = document["modules"], [row for row in document["devices"] if row["busy_seconds"]]
    assert device["device_kind"] == "AMD Instinct MI355X"
    assert module["matrix_flops"] == STEP * module["runs"]
    assert module["unmodelled_seconds"] == 0
    assert module["self_seconds"] == pytest.approx(device["busy_seconds"], rel=1e-4)
    assert all(row["source"].startswith("/workspace/12_te_fused_attn.py:") for row in document["operations"])
    assert all(0 < row["efficiency"] < 1 for row in document["operations"] if row["efficiency"] is not None)
