"""Are two trained networks the same function of their inputs? Compare them up to what no observer can see.

Two students are trained on the same answers from different starts; a third is one of them with its units shuffled and
signs flipped. Parameter by parameter the shuffled one looks like a stranger; up to symmetry it is the same network,
and the answers alone are enough to say so.
"""

import numpy as np
import torch

import unweave

rng = np.random.default_rng(0)
x = torch.tensor(rng.standard_normal((400, 6)))
y = torch.sin(x[:, :1]) + 0.3 * x[:, 1:2] * x[:, 2:3]


def train(seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(400):
        optimiser.zero_grad()
        loss = torch.mean((model(x) - y) ** 2)
        loss.backward()
        optimiser.step()
    return model


first, second = train(1), train(2)
order, signs = torch.randperm(8), torch.where(torch.rand(8) < 0.5, -1.0, 1.0).double()
shuffled = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
with torch.no_grad():
    shuffled[0].weight.copy_(signs[:, None] * first[0].weight[order])
    shuffled[0].bias.copy_(signs * first[0].bias[order])
    shuffled[2].weight.copy_(signs * first[2].weight[:, order])
    shuffled[2].bias.copy_(first[2].bias)

points = rng.standard_normal((200, 6))
for name, other in (("the same, shuffled and flipped", shuffled), ("trained from another start", second)):
    comparison = unweave.compare(first, other, points=points)
    print(f"{name}: parameters differ by {comparison.max_relative_error:.1e} up to symmetry,")
    print(f"  outputs by {comparison.functional_error:.1e} of their spread")

found = unweave.identify(shuffled)
print(f"from answers alone: {found.outcome}, {found.ledger.total} queries")
print(f"  against the first model: {unweave.compare(first, found.network).max_relative_error:.1e}")
