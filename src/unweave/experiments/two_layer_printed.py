"""What Fornasier, Klock and Rauchensteiner (2019) print: Tables 1 to 3, and what their text says of Figures 2 to 5."""

from __future__ import annotations

SIZES = ((30, 3), (30, 9), (30, 15), (45, 5), (45, 14), (45, 23))
Printed = dict[tuple[str, ...], dict[str, str]]

_TABLE_1 = {
    "POD/sigmoid": "0.99 0.99, 0.99 1.0, 0.99 1.00, 0.99 0.99, 0.99 1.0, 1.00 1.00",
    "POD/tanh": "0.87 0.89, 0.97 0.98, 0.99 1.00, 0.91 0.97, 0.99 1.0, 1.00 1.00",
    "sphere/sigmoid": "0.94 0.71, 0.89 0.61, 0.85 0.58, 0.95 0.72, 0.89 0.63, 0.86 0.65",
    "sphere/tanh": "0.80 0.48, 0.80 0.54, 0.77 0.58, 0.83 0.56, 0.82 0.57, 0.79 0.64",
}
_TABLE_2 = {
    "POD/sigmoid": {
        "MSE": "1.2e-5 5.4e-6 4.7e-5 1.1e-5 4.6e-6 5.6e-6",
        "E_inf": "4.3e-3 3.8e-3 4.9e-3 3.9e-3 3.4e-3 4.4e-3",
        "E_theta": "4.1e-1 2.7e-1 1.7e-1 4.4e-1 2.6e-1 1.7e-1",
        "E_tau": "3.9e-2 1.9e-2 3.1e-2 4.4e-2 2.1e-2 3.3e-2",
    },
    "POD/tanh": {
        "MSE": "1.9e-7 1.5e-9 1.2e-10 1.1e-7 7.5e-10 8.4e-12",
        "E_inf": "7.3e-4 5.4e-5 1.3e-5 4.6e-4 4.2e-5 3.6e-6",
        "E_theta": "2.9e-3 6.8e-8 4.2e-8 2.6e-3 2.1e-7 1.5e-9",
        "E_tau": "3.3e-4 1.1e-7 2.1e-8 1.1e-4 8.4e-8 9.5e-10",
    },
    "sphere/sigmoid": {
        "MSE": "1.3e-5 9.7e-6 1.4e-5 1.2e-5 9.4e-6 1.6e-5",
        "E_inf": "4.9e-3 5.7e-3 8.2e-3 4.5e-3 5.5e-3 8.5e-3",
        "E_theta": "4.5e-1 3.5e-1 3.0e-1 4.5e-1 2.7e-1 2.4e-1",
        "E_tau": "3.7e-2 7.0e-2 1.2e-1 5.3e-2 5.5e-2 1.1e-1",
    },
    "sphere/tanh": {
        "MSE": "4.4e-7 4.8e-9 4.9e-10 7.7e-8 1.5e-9 1.6e-11",
        "E_inf": "1.3e-3 1.4e-4 3.0e-5 5.0e-4 6.0e-5 5.7e-6",
        "E_theta": "1.9e-2 1.5e-6 3.1e-7 3.7e-4 3.5e-7 4.9e-9",
        "E_tau": "7.6e-4 1.4e-6 5.7e-8 7.5e-5 2.8e-7 1.5e-9",
    },
}
_TABLE_3 = {
    "POD/sigmoid": {
        "MSE": "6.4e-5 3.1e-2 2.9e-2 6.8e-5 1.1e-2 5.4e-4",
        "E_inf": "1.1e-2 7.9e-2 9.0e-2 1.4e-2 4.5e-2 4.7e-2",
        "(67) holds": "0.63 0.80 0.90 0.37 0.67 0.93",
    },
    "POD/tanh": {
        "MSE": "– 2.7e-2 8.9e-3 – 4.2e-3 7.7e-3",
        "E_inf": "– 1.9e-1 1.2e-1 – 8.3e-2 9.7e-2",
        "(67) holds": "– 0.23 0.76 – 0.43 0.96",
    },
}


def table_1() -> Printed:
    return {
        key: dict(zip(("L1", "L2"), pair.split(), strict=True))
        for scenario, text in _TABLE_1.items()
        for key, pair in zip(_keys(scenario), text.split(", "), strict=True)
    }


def table_2() -> Printed:
    return _columns(_TABLE_2)


def table_3() -> Printed:
    return _columns(_TABLE_3)


def recovery_rates() -> Printed:
    """Figures 3 and 5 are drawings; these are the words of the text about a threshold of 0.05."""
    words: Printed = {
        key: {"R_a": "almost 1", "R_v": "almost 1", "FP": "few"} for key in _keys("POD/sigmoid")
    }
    words |= {key: {"R_a": "a large part", "R_v": "most", "FP": "few"} for key in _keys("POD/tanh")}
    words[("POD/tanh", "45", "23")] = {"R_a": "1", "R_v": "1", "FP": "few"}
    words |= {key: {"R_a": "most"} for key in _keys("sphere/sigmoid")}
    words[("sphere/sigmoid", "45", "5")] = {"R_a": "almost 1", "R_v": "almost 1", "FP": "few"}
    return words


def _keys(scenario: str) -> list[tuple[str, ...]]:
    return [(scenario, str(m0), str(m1)) for m0, m1 in SIZES]


def _columns(table: dict[str, dict[str, str]]) -> Printed:
    printed: Printed = {}
    for scenario, measures in table.items():
        for label, text in measures.items():
            for key, value in zip(_keys(scenario), text.split(), strict=True):
                printed.setdefault(key, {})[label] = value
    return printed
