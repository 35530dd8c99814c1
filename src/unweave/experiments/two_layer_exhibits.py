"""The tables and figures of Fornasier, Klock and Rauchensteiner (2019): what they show, beside what is printed."""

from __future__ import annotations

from unweave.experiments import two_layer_printed as printed
from unweave.experiments.exhibits import Entry, Exhibit, seconds_of
from unweave.experiments.scenarios import SCENARIOS
from unweave.experiments.two_layer_figures import draw_rates, draw_spans, draw_trajectories

USUAL_THRESHOLD = 0.05


def _costs(study: str) -> tuple[Entry, ...]:
    return (
        Entry("queries", "queries", study, "identify", style="count"),
        seconds_of(study, "identify"),
    )


def _at(label: str, measure: str, trials_of: str = "") -> Entry:
    return Entry(label, measure, "weights", "identify", at=USUAL_THRESHOLD, trials_of=trials_of)


BY = ("scenario", "m0", "m1")
POD, SPHERE = SCENARIOS[:2], SCENARIOS[2:]
SPAN = Entry("projection error", "projection error", "weights", "identify", style="error")
RATES = (
    _at("FP", "false positives"),
    _at("R_a", "recovered first", "m0"),
    _at("R_v", "recovered second", "m1"),
    *_costs("weights"),
)
FITTED = tuple(
    Entry(label, label, "given weights", "identify", style="error")
    for label in ("MSE", "E_inf", "E_theta", "E_tau")
)
TRAJECTORIES = tuple(
    Entry(
        f"|grad f(10 w)|, {layer} layer",
        f"{layer} middle",
        "trajectories",
        "trajectories",
        at=10.0,
        style="number",
    )
    for layer in ("first", "second")
)
RATES_NOTE = (
    "At a threshold of 0.05; the figure shows all thresholds. "
    "The paper's figures are drawings: its column quotes the text."
)
WEIGHTS: dict[tuple[str, ...], str] = {
    POD: "perturbed orthogonal weights",
    SPHERE: "weights uniform on the sphere",
}


def _span_error(figure: str, scenarios: tuple[str, ...]) -> Exhibit:
    title = f"Error of the span, {WEIGHTS[scenarios]}"
    return Exhibit((figure,), title, BY, (SPAN,), only={"scenario": scenarios}, draw=draw_spans)


def _recovery(figure: str, scenarios: tuple[str, ...]) -> Exhibit:
    title, rates = f"Recovery, {WEIGHTS[scenarios]}", printed.recovery_rates()
    return Exhibit((figure,), title, BY, RATES, rates, {"scenario": scenarios}, draw_rates, RATES_NOTE)


EXHIBITS = (
    Exhibit(
        ("Table 1",),
        "Weights attributed to the right layer",
        BY,
        (
            Entry("L1", "attributed first", "weights", "identify", trials_of="m0"),
            Entry("L2", "attributed second", "weights", "identify", trials_of="m1"),
            *_costs("weights"),
        ),
        printed.table_1(),
    ),
    Exhibit(
        ("Table 2",),
        "The rest of the network, weights given",
        BY,
        (*FITTED, *_costs("given weights")),
        printed.table_2(),
        note="As stated, A and V are given to the descent of 500 000 steps; unweave is given the function only.",
    ),
    Exhibit(
        ("Table 3",),
        "End to end",
        BY,
        (
            Entry("MSE", "MSE", "end to end", "identify", style="error"),
            Entry("E_inf", "E_inf", "end to end", "identify", style="error"),
            Entry("(67) holds", "admitted", "end to end", "identify", trials_of="1"),
            Entry("complete", "complete", "", "identify"),
            *_costs("end to end"),
        ),
        printed.table_3(),
        only={"scenario": POD},
        note='"(67) holds" is the share of trials that satisfy condition (67), "complete" that of networks with every '
        "parameter to 1e-8. Errors as stated are means over the trials that satisfy (67).",
    ),
    _span_error("Figure 2", POD),
    _recovery("Figure 3", POD),
    _span_error("Figure 4", SPHERE),
    _recovery("Figure 5", SPHERE),
    Exhibit(
        ("Figure 6",),
        "Gradients along found weights tell the layers apart",
        BY,
        TRAJECTORIES,
        draw=draw_trajectories,
        note="Median over the weights of a layer; one network a scenario.",
    ),
)
