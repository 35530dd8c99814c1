"""A torch module in, its weights out: five lines."""

import torch

import unweave

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)).double()
found = unweave.identify(model)
print(found.verdict())
print(f"worst parameter error: {unweave.compare(model, found.network).max_relative_error:.1e}")
