"""Convolutions against a count of the positions that meet real elements."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from jaxobs.cost_model.arithmetic.products import met_outputs, valid_positions

IMAGE, KERNEL = (2, 6, 12, 10), (8, 3, 3, 2)  # NCHW, OIHW; with two groups, 6 features are 3 in each


def _met(size, output, window, stride, low, window_dilation, base_dilation):
    """The definition: output o and window place k meet the element at o·stride + k·dilation − low."""
    places = (
        o * stride + k * window_dilation - low for o, k in itertools.product(range(output), range(window))
    )
    return sum(0 <= place <= (size - 1) * base_dilation and place % base_dilation == 0 for place in places)


@settings(max_examples=200)
@given(
    size=st.integers(1, 12),
    output=st.integers(1, 12),
    window=st.integers(1, 9),
    stride=st.integers(1, 5),
    low=st.integers(-4, 8),
    window_dilation=st.integers(1, 4),
    base_dilation=st.integers(1, 5),
)
def test_positions_are_counted_as_defined(size, output, window, stride, low, window_dilation, base_dilation):
    expected = _met(size, output, window, stride, low, window_dilation, base_dilation)
    assert valid_positions(size, output, window, stride, low, window_dilation, base_dilation) == expected


@settings(max_examples=200)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 9), st.integers(1, 5), st.integers(-4, 9))
def test_windows_that_meet_nothing_are_left_out(size, output, window, stride, low):
    dimension = SimpleNamespace(
        window_dilation=1, base_dilation=1, size=window, stride=stride, padding_low=low
    )
    meeting = sum(any(0 <= o * stride + k - low < size for k in range(window)) for o in range(output))
    assert met_outputs(dimension, size, output) == meeting


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((2, 1), (0, 3))])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 2)])
@pytest.mark.parametrize("lhs_dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_flops_are_the_closed_form(cost_of, padding, strides, dilation, lhs_dilation, groups):
    image = jnp.ones((2, 3 * groups, 12, 10))
    kernel = jnp.ones(KERNEL)
    options = {
        "window_strides": strides,
        "padding": padding,
        "rhs_dilation": dilation,
        "lhs_dilation": lhs_dilation,
        "feature_group_count": groups,
    }
    if isinstance(padding, str):
        widened = [(size - 1) * step + 1 for size, step in zip((12, 10), lhs_dilation, strict=True)]
        reach = [(size - 1) * step + 1 for size, step in zip(KERNEL[2:], dilation, strict=True)]
        pads = lax.padtype_to_pads(widened, reach, strides, padding)
        options["padding"] = pads
    else:
        pads = padding

    def convolve(x, k):
        return lax.conv_general_dilated(x, k, **options)

    output = jax.eval_shape(convolve, image, kernel).shape
    met = [
        _met(size, out, window, stride, low, rhs, lhs)
        for size, out, window, stride, (low, _), rhs, lhs in zip(
            (12, 10), output[2:], KERNEL[2:], strides, pads, dilation, lhs_dilation, strict=True
        )
    ]
    expected = 2 * 2 * KERNEL[0] * KERNEL[1] * met[0] * met[1]
    assert cost_of(convolve, image, kernel).cost.matrix_flops == expected


def test_both_gradients_of_a_convolution_cost_as_much_as_itself(cost_of):
    image, kernel = jnp.ones((2, 3, 12, 10)), jnp.ones(KERNEL)

    def convolve(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME")

    forward = cost_of(convolve, image, kernel).cost.matrix_flops
    seed = jnp.ones((2, 8, 12, 10))

    def gradients(x, k, g):
        return jax.vjp(convolve, x, k)[1](g)

    assert cost_of(gradients, image, kernel, seed).cost.matrix_flops == 2 * forward


def test_a_strided_transposed_convolution_does_no_work_on_its_holes(cost_of):
    image, kernel = jnp.ones((1, 4, 8, 8)), jnp.ones((4, 4, 2, 2))

    def upsample(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), ((1, 1), (1, 1)), lhs_dilation=(2, 2))

    assert cost_of(upsample, image, kernel).cost.matrix_flops == 2 * 4 * 4 * 8 * 8 * 2 * 2


def test_batch_groups_share_the_output_features(text_cost):
    found = text_cost("""ENTRY e {
      x = f32[4,8,8,6]{3,2,1,0} parameter(0)
      k = f32[3,3,6,10]{3,2,1,0} parameter(1)
      ROOT c = f32[2,8,8,10]{3,2,1,0} convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f,
        batch_group_count=2
    }""")
    assert found.cost.matrix_flops == 2 * 2 * 10 * 6 * (3 * 8 - 2) ** 2


def test_reduce_window_combines_the_elements_under_each_window(cost_of):
    def pool(x):
        return lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    assert cost_of(pool, jnp.ones((2, 3, 8, 8))).cost.vector_flops == 2 * 3 * 16 * 3
