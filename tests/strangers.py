"""Networks of units that are in no table."""

import numpy as np


def network_of(activation, seed=0, sizes=(5, 7, 2)):
    """One hidden layer of any function of a number."""
    rng = np.random.default_rng(seed)
    first, last = rng.normal(size=sizes[:2]), rng.normal(size=sizes[1:])
    shift = rng.normal(size=sizes[1])

    def answer(x):
        with np.errstate(over="ignore", invalid="ignore"):
            return activation(x @ first + shift) @ last

    return answer
