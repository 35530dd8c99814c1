"""Hostile runs: models that look like networks, hide units, drift, lie or fail, and files that are none.

    python benchmarks/adversary.py --runs 200                            some minutes on one core
    python benchmarks/adversary.py --runs 2000 --first-seed 7000 --jobs 12 --json runs.json
    python benchmarks/adversary.py --family rounding --runs 20
    python benchmarks/adversary.py --kills 50                            kill -9 on runs of a served model

Every run is one call with a budget, a domain and a time limit, and must end as an outcome or as one line of ours.
Counted as a fault: *claim*, a network called identified that is not the model beyond what the verdict leaves open;
*exception*, one that is not ours; *outside*, a question outside the domain; *budget*, more questions than allowed;
*time*, more than the limit and a tenth of it, wall time less what the process stood ready and waited for a processor
(``/proc/self/schedstat``): a machine that does something else is not the run's fault. A rare unit below the shares that
the verdict states is *missed as stated*, which is no fault.
The seed of a run is its number; the same number is the same model.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hostile_doors as doors
import hostile_models as models
import numpy as np
from hostile_models import Case
from killed_runs import report_kills

import unweave
from unweave.core import activations as act
from unweave.core.domains import Box
from unweave.core.errors import InputError, UnweaveError

MISSED = "missed as stated"
SLACK = 0.1
"""Seconds beside the limit and a tenth of it, for what a run takes to begin and to end."""
STRANGE = 2e-3
"""Share of the points that may lie on another side of a hyperplane than of the unit it stands for."""
FAMILIES: dict[str, Callable[[np.random.Generator], Case]] = {
    "look-alike": models.lookalike,
    "neighbour": models.neighbour,
    "rounding": models.rounding,
    "noise": models.noisy,
    "drift": models.drifting,
    "rare": models.rare_unit,
    "quantised": models.quantised,
    "float32": models.single,
    "boxed": models.boxed,
    "squashed": models.squashed,
    "deep": models.deep,
    "defended": models.defended,
    "no network": models.no_network,
    "hostile": doors.hostile,
    "server": doors.served,
    "bad file": doors.bad_file,
    "rows": doors.recorded,
}


@dataclass(frozen=True)
class Record:
    """What came of one run."""

    seed: int
    family: str
    name: str
    fault: str
    said: str
    method: str
    seconds: float
    """What counts against the limit: wall time without waiting for a processor."""
    wall: float
    processor: float
    queries: int


def make_case(seed: int, family: str | None = None) -> Case:
    names = list(FAMILIES) if family is None else [family]
    return FAMILIES[names[seed % len(names)]](np.random.default_rng([7, seed]))


def run_case(case: Case, time_limit: float, seed: int = 0) -> Record:
    began, busy, kept = time.monotonic(), time.process_time(), _kept_waiting()
    found: unweave.Identification | None = None
    fault = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _call(case, time_limit)
    except UnweaveError as error:
        said = f"{type(error).__name__}: {error}"
        blames_user = isinstance(error, InputError) and case.family in models_asked()
        fault = "exception" if blames_user or "\n" in str(error) else ""
    except Exception:
        fault, said = "exception", traceback.format_exc(limit=-3)
    finally:
        wall, processor = time.monotonic() - began, time.process_time() - busy
        seconds = wall - (_kept_waiting() - kept)
        if case.close is not None:
            case.close()
    if found is not None:
        shown = f"{found.network.describe()}; " if found.network else ""
        said = f"{found.outcome}: {shown}{found.reason}"
        if "traceback" in found.details:
            fault, said = "exception", str(found.details["traceback"])[-600:]
    fault = fault or _limits(case, seconds, time_limit)
    if found is not None and not fault and found.identified:
        fault = judge_claim(case, found)
    asked = sum(map(len, case.seen))
    method = "" if found is None else found.method
    return Record(seed, case.family, case.name, fault, said, method, seconds, wall, processor, asked)


def _kept_waiting() -> float:
    """Seconds this thread has stood ready for a processor that did something else; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def models_asked() -> set[str]:
    """The families in which nothing that the user said is wrong."""
    return set(FAMILIES) - {"bad file", "rows", "server"}


def _call(case: Case, time_limit: float) -> unweave.Identification:
    if case.rows is not None:
        return unweave.learn(*case.rows, time_limit=time_limit)
    return unweave.identify(
        case.model if isinstance(case.model, str | Path) else case,
        input_size=case.input_size,
        domain=case.domain,
        budget=case.budget,
        time_limit=time_limit,
    )


def _limits(case: Case, seconds: float, time_limit: float) -> str:
    asked = np.concatenate(case.seen) if case.seen else None
    if asked is not None and case.domain is not None and not np.all(case.domain.contains(asked, 0.0)):
        return "outside"
    if asked is not None and case.budget is not None and len(asked) > case.budget:
        return "budget"
    return "time" if seconds > 1.1 * time_limit + SLACK else ""


def judge_claim(case: Case, found: unweave.Identification) -> str:
    """Whether a network that was called identified is the model, on many points of the domain."""
    model = case.clean if case.clean is not None else case.model
    if found.network is None or found.network.is_open or not callable(model):
        return "" if case.is_network or found.network is None or found.network.is_open else "claim"
    rng = np.random.default_rng(0)
    d = found.network.input_size
    where = Box(-3, 3) if case.domain is None else case.domain
    x = np.concatenate([where.sample(3000, d, rng), where.edge(1000, d, rng)])
    y = np.asarray(model(x), dtype=float).reshape(len(x), -1)
    if y.shape[1] != found.network.output_size:  # it misbehaved from the beginning
        y = np.asarray(case.model(x), dtype=float).reshape(len(x), -1)
    apart = np.max(np.abs(found.network(x) - y), axis=1) / max(float(np.std(y)), 1e-300)
    share = float(np.mean(apart > case.tolerance))
    assert found.certificate is not None
    stated = found.certificate.fraction_outside
    search = found.certificate.check("search for disagreement")
    if search is not None:
        stated = max(stated, search.figures.get("rare_directions", 0.0))
    if share > stated:
        return "claim"
    if not found.network.hidden:
        return "claim" if share else ""  # what is affine in the domain may be called so
    if not case.is_network and share == 0 and case.family in ("look-alike", "rounding"):
        # the very function, called a network of other units: unless it says that such units would not show
        return MISSED if _apart_as_stated(found, model, x) else "claim"
    if case.truth is not None and (wrong := _other_units(case.truth, found.network)):
        return f"claim ({wrong})"
    if (
        case.truth is not None
        and case.family == "boxed"
        and (wrong := _strange_planes(case.truth, found.network, x))
    ):
        return f"claim ({wrong})"
    return MISSED if share > 0 else ""


def _apart_as_stated(
    found: unweave.Identification, model: Callable[[np.ndarray], Any], x: np.ndarray
) -> bool:
    """Whether model and network differ nowhere by more than the verdict leaves to units with rounded-off bends."""
    assert found.network is not None
    assert found.certificate is not None
    bends = found.certificate.check("sharpness of bends")
    if bends is None or f"{bends.figures['roundest']:.1e}" not in found.verdict():
        return False
    w, b = found.network.weights[0], found.network.biases[0]
    on_planes = [x - np.outer((x @ row + bias) / (row @ row), row) for row, bias in zip(w, b, strict=True)]
    x = np.concatenate([x, *on_planes])
    apart = np.abs(found.network(x) - np.asarray(model(x), dtype=float).reshape(len(x), -1))
    return float(np.max(apart)) <= bends.figures["roundest"]


def _other_units(truth: unweave.Network, network: unweave.Network) -> str:
    """Another activation, or a hyperplane named twice: the right function, but not these parameters."""
    alike = {"sigmoid": "tanh", "celu": "elu", "relu": "leaky_relu"}
    (own, right), default = act.split_name(truth.activations[0]), {"elu": 1.0, "leaky_relu": 0.01}
    for name in network.hidden_activations:
        kind, found = act.split_name(name)
        if alike.get(kind, kind) != alike.get(own, own):
            return f"{name} for {truth.activations[0]}"
        found, right = (default.get(own, 0.0) if value is None else value for value in (found, right))
        if kind == own and own in default and abs(found - right) > 2e-3 * abs(right):
            return f"{name} for {truth.activations[0]}"
    return "a hyperplane twice" if _num_twins(network) > _num_twins(truth) else ""


def _strange_planes(truth: unweave.Network, network: unweave.Network, x: np.ndarray) -> str:
    """A hyperplane of the first layer, crossed within the domain, that is the zero set of no unit of the model.

    A deeper unit whose zero set nothing bends in the domain is a hyperplane there.
    """
    own, h = [], x
    for w, b, name in zip(truth.weights, truth.biases, truth.hidden_activations, strict=False):
        own.append(h @ w.T + b)
        h = act.get(name)(own[-1])
    sides = np.hstack(own) > 0
    for heights in (x @ network.weights[0].T + network.biases[0]).T:
        on = heights > 0
        apart = np.mean(sides != on[:, None], axis=0)
        share = float(np.min(np.minimum(apart, 1 - apart)))
        if 0 < np.mean(on) < 1 and share > STRANGE:
            return f"a hyperplane that tells {share:.1%} of the points apart from any of its units"
    return ""


def _num_twins(network: unweave.Network) -> int:
    """Pairs of first-layer units with the same hyperplane."""
    planes = np.hstack([network.weights[0], network.biases[0][:, None]])
    planes = planes / np.maximum(np.linalg.norm(planes, axis=1, keepdims=True), 1e-300)
    apart = 1 - np.abs(planes @ planes.T)
    return int(np.sum(np.triu(apart < 1e-7, 1)))


def run_many(
    seeds: list[int], family: str | None, time_limit: float, jobs: int, stop_after: float
) -> Iterator[Record]:
    """The records as they come, from ``jobs`` processes; none is begun after ``stop_after`` seconds."""
    until = time.monotonic() + stop_after
    if jobs == 1:
        _warm_up()
        for seed in seeds:
            if time.monotonic() < until:
                yield run_case(make_case(seed, family), time_limit, seed)
        return
    context = multiprocessing.get_context("spawn")
    tasks, records = context.Queue(), context.Queue()
    for seed in seeds:
        tasks.put(seed)
    workers = [
        context.Process(target=_work, args=(tasks, records, family, time_limit, stop_after), daemon=True)
        for _ in range(jobs)
    ]
    for worker in workers:
        worker.start()
    left, waiting = len(seeds), until + 10 * time_limit + 30
    while left and time.monotonic() < waiting:
        try:
            yield records.get(timeout=1.0)
            left -= 1
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                break
    for worker in workers:
        worker.terminate()


def _work(tasks: Any, records: Any, family: str | None, time_limit: float, stop_after: float) -> None:
    until = time.monotonic() + stop_after
    _warm_up()
    while time.monotonic() < until:
        try:
            seed = tasks.get(timeout=0.5)
        except queue.Empty:
            return
        records.put(run_case(make_case(seed, family), time_limit, seed))


def _warm_up() -> None:
    """Load what a first run loads, so that no limit pays for it."""
    for family in ("deep", "rows", "server"):
        run_case(make_case(0, family), 1.0)


def summarise(records: list[Record]) -> dict[str, dict[str, Any]]:
    """A class a row: outcomes, faults, seconds."""
    rows: dict[str, dict[str, Any]] = {}
    parts: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        parts[record.family].append(record)
    for family, part in sorted(parts.items()):
        said = Counter(record.said.split(":")[0] for record in part)
        rows[family] = {
            "runs": len(part),
            "outcomes": dict(said.most_common()),
            "faults": sum(bool(r.fault) and r.fault != MISSED for r in part),
            MISSED: sum(r.fault == MISSED for r in part),
            "mean processor s": round(float(np.mean([r.processor for r in part])), 2),
            "most processor s": round(max(r.processor for r in part), 2),
            "most s": round(max(r.seconds for r in part), 2),
            "most queries": max(r.queries for r in part),
        }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0, help="number of the first run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--family", choices=list(FAMILIES))
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="seconds; no run begins later")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--kills", type=int, default=0, help="kill -9 a run of a served model so many times")
    arguments = parser.parse_args()
    if arguments.kills:
        print(report_kills(arguments.kills, arguments.first_seed))
        return
    began, records = time.monotonic(), []
    seeds = list(range(arguments.first_seed, arguments.first_seed + arguments.runs))
    limits = (arguments.time_limit, arguments.jobs, arguments.stop_after)
    for record in run_many(seeds, arguments.family, *limits):
        records.append(record)
        if record.fault:
            print(
                f"run {record.seed} {record.family} ({record.name}) by {record.method}: {record.fault}; "
                f"{record.said}; {record.seconds:.1f} s, {record.processor:.1f} s of processor time",
                flush=True,
            )
    rows = summarise(records)
    print(f"\n{len(records)} of {arguments.runs} runs in {time.monotonic() - began:.0f} s")
    for family, row in rows.items():
        print(f"| {family} | " + " | ".join(f"{name} {value}" for name, value in row.items()) + " |")
    faults = Counter(record.fault for record in records if record.fault)
    print("faults:", {name: count for name, count in faults.items() if name != MISSED} or "none")
    print("missed as stated:", faults[MISSED])
    if arguments.json is not None:
        content = {"runs": len(records), "classes": rows, "records": [asdict(r) for r in records]}
        arguments.json.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
