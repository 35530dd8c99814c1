"""Is rounding a defence? The same network behind answers with fewer and fewer decimals.

A service that rounds its answers gives away less. How many decimals stop the weights from leaking is a matter of
measuring, not of guessing; the last column is what an attacker's copy would be off by, on fresh inputs.
"""

import numpy as np
from sklearn.neural_network import MLPRegressor

import unweave

rng = np.random.default_rng(0)
x = rng.standard_normal((500, 4))
y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * np.abs(x[:, 3])
model = MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", solver="lbfgs", alpha=0.05, max_iter=5000)
model.set_params(random_state=0).fit(x, y)
fresh = rng.standard_normal((2000, 4))
spread = np.std(model.predict(fresh))

print("The answers of a 4-6-1 tanh network, rounded; inputs within radius 6; at most 20,000 queries.")
print(
    f"{'decimals':>8}  {'outcome':<16}  {'seen as':<8}  {'queries':>7}  {'worst parameter':>15}  {'copy off by':>11}"
)
for decimals in (None, 8, 6, 4, 3, 2, 1):

    def served(batch, decimals=decimals):
        answers = model.predict(batch)
        return answers if decimals is None else np.round(answers, decimals)

    found = unweave.identify(served, input_size=4, domain=unweave.Ball(6.0), budget=20_000)
    outcome = str(found.outcome).replace("not identified", "stopped")
    kind = found.precision.kind if found.precision else ""
    worst, off = "-", "-"
    if found.network is not None:
        worst = f"{unweave.compare(model, found.network).max_relative_error:.0e}"
        off = f"{np.max(np.abs(found.network(fresh)[:, 0] - model.predict(fresh))) / spread:.0e}"
    shown = "all" if decimals is None else decimals
    print(
        f"{shown:>8}  {outcome:<16}  {kind:<8}  {found.ledger.total:>7,}  {worst:>15}  {off:>11}", flush=True
    )
