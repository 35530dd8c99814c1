"""What counts as visible: unit by unit, and in a bounded domain without the sides that do not show there."""

import numpy as np

from unweave.core.domains import Box
from unweave.core.network import Network
from unweave.core.visibility import visible_error, weights_that_show


def _network(w1: np.ndarray, b1: np.ndarray, c: np.ndarray, constant: float) -> Network:
    return Network([w1, c[None]], [b1, np.array([constant])], ["relu", "identity"])


def _turned(room: bool) -> tuple[Network, Network]:
    """A unit turned round, with what that leaves carried by units that never switch in the box; and the original."""
    rng = np.random.default_rng(5)
    w, b, c = rng.standard_normal((3, 2)), 0.2 * rng.standard_normal(3), rng.standard_normal(3)
    still = rng.standard_normal((2, 2))
    high = 1 + np.abs(still).sum(axis=1)
    own = np.array([0.7, 0.0]) if room else np.zeros(0)
    num = len(own)
    network = _network(np.vstack([w, still[:num]]), np.append(b, high[:num]), np.append(c, own), 0.3)
    other_w, other_b = w.copy(), b.copy()
    other_w[0], other_b[0] = -w[0], -b[0]
    # relu(z) = z + relu(-z)
    rest = c[0] * w[0] + (own[0] * still[0] if num else 0.0)
    lift = 1 + np.abs(rest).sum()
    constant = 0.3 + c[0] * b[0] + (own[0] * high[0] if num else 0.0) - lift
    turned = _network(
        np.vstack([other_w, rest]), np.append(other_b, lift), np.append(c, 1.0), float(constant)
    )
    return network, turned


def test_a_side_that_does_not_show_in_a_box_does_not_count():
    network, turned = _turned(room=True)
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    assert np.max(np.abs(network(x) - turned(x))) < 1e-12
    assert visible_error(network, turned, x) > 0.1
    assert visible_error(network, turned, x, bounded=True) < 1e-9


def test_a_side_that_only_a_wider_network_could_turn_counts_in_a_box():
    network, turned = _turned(room=False)
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    assert np.max(np.abs(network(x) - turned(x))) < 1e-12
    assert visible_error(network, turned, x, bounded=True) > 0.1


def test_a_kink_elsewhere_counts_in_a_box():
    network, turned = _turned(room=True)
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    weights = [turned.weights[0].copy(), turned.weights[1]]
    weights[0][0, 0] += 1e-3
    moved = Network(weights, turned.biases, turned.activations)
    assert visible_error(network, moved, x, bounded=True) > 1e-5


def _reading_a_late_feature(w: tuple[float, float], slope: float = 1.0) -> Network:
    """Two units that read relu(x - 1), both on wherever it is, with weights of which one sum shows."""
    return Network(
        [np.array([[1.0, 0.1], [1.0, 0.1]]), np.array([[slope, w[0]], [1.0, w[1]]]), np.array([[2.0, -0.5]])],
        [np.array([0.0, -1.0]), np.array([-0.5, -0.25]), np.zeros(1)],
        ["relu", "relu", "identity"],
    )


def test_weights_that_show_in_one_sum_only_do_not_count_by_themselves():
    x = 2 * np.random.default_rng(1).standard_normal((4000, 2))
    network, same = _reading_a_late_feature((0.3, 0.7)), _reading_a_late_feature((0.4, 1.1))
    assert np.max(np.abs(network(x) - same(x))) < 1e-12
    assert weights_that_show(network, x)[1].tolist() == [[True, False], [True, False]]
    assert visible_error(network, same, x) < 1e-12
    assert visible_error(network, _reading_a_late_feature((0.3, 0.7), slope=1.001), x) > 1e-5


def test_a_weight_shows_where_one_of_its_readers_is_off():
    x = 2 * np.random.default_rng(1).standard_normal((4000, 2))
    network = _reading_a_late_feature((0.3, 0.7))
    late = Network(
        network.weights, [network.biases[0], np.array([-0.5, -1.5]), np.zeros(1)], network.activations
    )
    other = [late.weights[0], np.array([[1.0, 0.4], [1.0, 0.7]]), late.weights[2]]
    assert weights_that_show(late, x)[1].all()
    assert visible_error(late, Network(other, late.biases, late.activations), x) > 1e-3


def _sharing(shift: float, gap: float) -> Network:
    """A unit of the first layer, on beyond 0.5, read by two of the second that are on beyond 0.5 - ``gap``."""
    w1, b1 = np.array([[1.0, 0.3], [1.0, 0.0], [0.2, 1.0]]), np.array([1.5, -0.5, 1.4])
    # the first and the third unit are always on: x = (u, v) is linear in them
    inverse = np.linalg.inv(w1[[0, 2]])
    along, narrow = np.array([inverse[0, 0], 0.0, inverse[0, 1]]), np.array([0.0, 1.0, 0.0])
    offset = -float(along @ np.array([1.5, 0.0, 1.4]))
    w2 = np.array([along + (0.7 + shift) * narrow, 1.3 * along - (0.2 + shift) * narrow])
    b2 = np.array([offset - 0.5 + gap, 1.3 * offset - 0.3])
    return Network([w1, w2, np.ones((1, 2))], [b1, b2, np.zeros(1)], ["relu", "relu", "identity"])


def test_weights_of_which_only_a_sum_shows_do_not_count_in_a_box():
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    network, shifted = _sharing(0.0, 0.2), _sharing(0.1, 0.2)
    assert np.max(np.abs(network(x) - shifted(x))) < 1e-12
    assert visible_error(network, shifted, x, bounded=True) < 1e-9


def test_weights_that_show_by_themselves_count_in_a_box():
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    network, shifted = _sharing(0.0, -0.2), _sharing(0.1, -0.2)
    assert visible_error(network, shifted, x, bounded=True) > 0.01


def test_a_layer_that_never_switches_does_not_show_in_a_box():
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    rng = np.random.default_rng(3)
    w1, b1 = rng.standard_normal((4, 2)), 0.2 * rng.standard_normal(4)
    w2, w3 = rng.standard_normal((3, 4)), rng.standard_normal((1, 3))
    deep = Network([w1, w2, w3], [b1, np.full(3, 50.0), np.zeros(1)], ["relu", "relu", "identity"])
    flat = Network([w1, w3 @ w2], [b1, w3 @ np.full(3, 50.0)], ["relu", "identity"])
    assert visible_error(deep, flat, x) == np.inf
    assert visible_error(deep, flat, x, bounded=True) < 1e-9
    moved = Network([w1 + 1e-3, w3 @ w2], flat.biases, ["relu", "identity"])
    assert visible_error(deep, moved, x, bounded=True) > 1e-5


def test_what_a_unit_that_is_never_on_could_pass_on_does_not_count_in_a_box():
    x = Box(-1.0, 1.0).sample(4000, 2, np.random.default_rng(1))
    rng = np.random.default_rng(4)
    w1, b1 = rng.standard_normal((4, 2)), 0.2 * rng.standard_normal(4)
    w2, b2 = rng.standard_normal((3, 4)), 0.2 * rng.standard_normal(3)
    b2[2] = -50.0  # never on; the other network has it pass on the output of the first unit
    w3 = rng.standard_normal((2, 3))
    other_w2, other_b2 = np.vstack([w2[:2], [1.0, 0, 0, 0]]), np.append(b2[:2], 1.0)
    h2 = np.maximum(np.maximum(x @ w1.T + b1, 0) @ w2.T + b2, 0)
    b3 = -np.quantile(h2 @ w3.T, 0.4, axis=0)
    w4 = rng.standard_normal((1, 2))
    names = ["relu", "relu", "relu", "identity"]
    network = Network([w1, w2, w3, w4], [b1, b2, b3, np.zeros(1)], names)
    w3_other = w3.copy()
    w3_other[:, 2] = [0.0, 0.5]
    other = Network([w1, other_w2, w3_other, w4], [b1, other_b2, b3 - w3_other[:, 2], np.zeros(1)], names)
    kink = Network([w1, w2, np.vstack([w3, [0, 0, 1.0]]), np.append(w4, [[0]], axis=1)],
                   [b1, b2, np.append(b3, -1.0), np.zeros(1)], names)  # fmt: skip
    assert visible_error(network, kink, x, bounded=True) < 1e-9
    assert visible_error(network, other, x, bounded=True) > 0.01  # its third layer bends elsewhere


def _first_layer_or_second(low: bool, width: int = 3) -> Network:
    """A kink at x = 0.3, one that bends there, and the one at x + y = -1.6, which stands in either layer."""
    first = np.array([[1.0, 0.0], [0.0, 1.0]])
    if low:
        w1, b1 = np.vstack([first, [-1.0, -1.0]]), np.array([-0.3, 2.0, -1.6])
        w2 = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -2.0], [0.0, 0.0, 0.0]])
        b2 = np.array([-2.5, 6.0, -1.0])
    else:  # -x - y - 1.6 where it is positive, x being passed on
        w1, b1 = np.vstack([first, [-1.0, 0.0]]), np.array([-0.3, 2.0, 2.0])
        w2 = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
        b2 = np.array([-2.5, 6.0, -1.6])
    top = np.array([[1.0, 1.0, -2.0]])
    more = width - 3
    w2 = np.vstack([w2, np.zeros((more, 3))])
    return Network(
        [w1, w2, np.hstack([top, np.zeros((1, more))])],
        [b1, np.append(b2, np.zeros(more)), np.zeros(1)],
        ["relu", "relu", "identity"],
    )


def test_the_layer_of_a_kink_does_not_count_where_the_same_widths_have_it_in_either():
    x = Box(-1.0, 1.0).sample(20000, 2, np.random.default_rng(1))
    low, high = _first_layer_or_second(low=True), _first_layer_or_second(low=False)
    assert np.max(np.abs(low(x) - high(x))) < 1e-12
    assert visible_error(low, high, x, bounded=True) < 1e-9
    assert visible_error(high, low, x, bounded=True) < 1e-9
    assert visible_error(high, low, x) > 0.1


def test_a_wider_network_shows_no_such_thing():
    x = Box(-1.0, 1.0).sample(20000, 2, np.random.default_rng(1))
    low, wide = _first_layer_or_second(low=True), _first_layer_or_second(low=False, width=4)
    assert np.max(np.abs(low(x) - wide(x))) < 1e-12
    assert visible_error(low, wide, x, bounded=True) > 0.1


def test_a_parameter_that_is_off_counts_in_another_network_of_the_same_widths():
    x = Box(-1.0, 1.0).sample(20000, 2, np.random.default_rng(1))
    low, high = _first_layer_or_second(low=True), _first_layer_or_second(low=False)
    moved = [w.copy() for w in high.weights]
    moved[1][0, 0] += 1e-9
    error = visible_error(low, Network(moved, high.biases, high.activations), x, bounded=True)
    assert 1e-11 < error < 1e-8
    moved[1][0, 0] += 1e-4
    assert visible_error(low, Network(moved, high.biases, high.activations), x, bounded=True) > 1e-6


def test_a_layer_that_only_passes_on_what_is_below_is_no_other_network():
    x = Box(-1.0, 1.0).sample(20000, 2, np.random.default_rng(1))
    rng = np.random.default_rng(6)
    w1, b1, w3 = rng.standard_normal((3, 2)), 0.2 * rng.standard_normal(3), rng.standard_normal((1, 3))
    flat = Network([w1, w3], [b1, np.zeros(1)], ["relu", "identity"])
    passing = Network(
        [w1, np.vstack([w3, -w3]), np.array([[1.0, -1.0]])],
        [b1, np.zeros(2), np.zeros(1)],
        ["relu", "relu", "identity"],
    )
    assert np.max(np.abs(flat(x) - passing(x))) < 1e-12
    assert visible_error(passing, flat, x, bounded=True) < 1e-9
