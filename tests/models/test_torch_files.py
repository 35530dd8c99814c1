"""Files torch writes, opened without pickle: exported programs, TorchScript, state dicts, foreign safetensors."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import unweave
from unweave.core.errors import InputError
from unweave.models.resolve import resolve, resolve_network

X = np.random.default_rng(0).standard_normal((7, 5))


@pytest.fixture
def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)).double()


def _answers(module):
    return module(torch.as_tensor(X)).detach().numpy()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_torchscript_and_exported_programs_answer_as_the_module(module, tmp_path):
    torch.jit.script(module).save(tmp_path / "scripted.pt")
    rows = torch.export.Dim("rows")
    program = torch.export.export(module, (torch.as_tensor(X),), dynamic_shapes=({0: rows},))
    torch.export.save(program, tmp_path / "program.pt2")
    for model in (tmp_path / "scripted.pt", tmp_path / "program.pt2", program.module()):
        oracle = resolve(model)
        assert (oracle.input_size, oracle.dtype) == (5, "float64")
        assert np.array_equal(oracle(X), _answers(module))


def test_a_state_dict_is_a_network_once_its_activation_is_said(module, tmp_path):
    from safetensors.torch import save_file

    torch.save(module.state_dict(), tmp_path / "state.pt")
    save_file(module.state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="no activation"):
        resolve(tmp_path / "state.pt")
    (tmp_path / "config.json").write_text(json.dumps({"hidden_act": "tanh"}))
    for name in ("state.pt", "model.safetensors"):
        assert np.allclose(resolve_network(tmp_path / name)(X), _answers(module), rtol=1e-14)


def test_tensors_that_are_no_chain_are_refused(tmp_path):
    torch.save(nn.Conv2d(3, 4, 3).state_dict(), tmp_path / "conv.pt")
    with pytest.raises(InputError, match="no plain chain"):
        resolve(tmp_path / "conv.pt")


def test_a_pickled_module_still_needs_permission(module, tmp_path):
    torch.save(module, tmp_path / "module.pt")
    with pytest.raises(InputError, match="pickled"):
        resolve(tmp_path / "module.pt")


@pytest.mark.parametrize("first", [nn.BatchNorm1d(5), nn.LayerNorm(5), nn.Flatten()])
def test_layers_before_the_first_linear_one_tell_the_size(module, first):
    whole = nn.Sequential(first.double(), *module)
    assert resolve(whole).input_size == 5
    found = unweave.identify(whole)
    assert found.identified
    assert ("behind the division" in found.verdict()) == isinstance(first, nn.LayerNorm)
    if isinstance(first, nn.LayerNorm):
        x = torch.randn(7, 5, dtype=torch.float64)
        inside = torch.nn.functional.layer_norm(x, (5,), eps=first.eps).numpy()
        assert np.allclose(found(inside), whole(x).detach().numpy(), atol=1e-9)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_rounding_and_no_tree(module, kind):
    asked = []

    class Noting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(
                *(nn.Linear(p.in_features, p.out_features) if isinstance(p, nn.Linear) else p for p in module)
            ).to(kind)

        def forward(self, x):
            asked.append(x.double().numpy())
            return self.inner(x)

    found = unweave.identify(Noting(), input_size=5, time_limit=3, budget=4000)
    assert found.precision.kind == "noisy"
    assert not found.identified or found.surrogate_error < 0.1
    assert "tree" not in found.verdict()
    assert "module.float()" in found.verdict()
    x = np.concatenate(asked)
    assert np.array_equal(torch.as_tensor(x).to(kind).double().numpy(), x)
    assert np.linalg.norm(x, axis=1).max() <= 3 * 5**0.5


@pytest.mark.parametrize("content", [b"", b"no archive", bytes(range(200, 256)) * 20])
def test_what_torch_has_not_written_is_refused_before_torch_is_loaded(content, tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(content)
    code = (
        "import sys, unweave\n"
        "try:\n    unweave.identify(sys.argv[1])\n"
        "except unweave.UnweaveError as error:\n    print(error, 'torch' in sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "damaged or no file of torch" in told.stdout
    assert told.stdout.rstrip().endswith("False")


def test_a_state_dict_that_was_cut_is_called_damaged(module, tmp_path):
    torch.save(module.state_dict(), tmp_path / "state.pt")
    content = (tmp_path / "state.pt").read_bytes()
    (tmp_path / "state.pt").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        resolve(tmp_path / "state.pt")
