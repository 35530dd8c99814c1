"""How a network that a method proposed is certified: fresh queries, and a refit or two where it lies close.

Every certificate has points of its own, from the entropy of the run: no other one has asked them and no fit sees them.
A network that agrees almost is fitted once more to everything asked and certified anew. Rounded answers must all lie in
their intervals; noisy ones must leave residuals without structure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from unweave.certificates.alternatives import check_alternatives
from unweave.certificates.answers import MOST_BARS, check_answers, measure_misses, measured_bars
from unweave.certificates.certificate import NUM_POINTS, Certificate
from unweave.certificates.claim import PARTLY
from unweave.certificates.places import own_scale
from unweave.certificates.queries import active_points, certify
from unweave.certificates.rounding import check_rounding
from unweave.certificates.squashed import check_squashed
from unweave.certificates.structure import check_structure
from unweave.core.domains import Domain
from unweave.core.errors import TimeSpent
from unweave.core.network import Network
from unweave.core.outputs import Squashing
from unweave.core.streams import stream
from unweave.evidence.meter import Meter
from unweave.evidence.precision import Precision
from unweave.methods.base import Finding
from unweave.solve.weighted import weighted_polish

NEAR = 10.0
"""Noisy answers farther out than so many times the network's own scale show its errors, not their noise."""
MOST_SUSPECTS = 20
"""Answers that contradict a network beside which the method asks when it is tried again, at most."""
MOST_NOISE = 3.0
"""Answers may be so many times as noisy as was measured; what a method finds beyond is its own misfit."""


@dataclass(frozen=True)
class Behind:
    """A squashing that was inverted, the domain as it was given, and the precision of the model's own answers."""

    squashing: Squashing
    domain: Domain
    precision: Precision


class Certifying:
    """The certificates of one run, each on points of its own."""

    def __init__(self, meter: Meter, seed: int, entropy: int):
        self.meter, self.seed, self.entropy = meter, seed, entropy
        self.num_certificates: int = 0

    def certify(
        self, finding: Finding, precision: Precision, behind: Behind | None = None
    ) -> tuple[Network, Certificate]:
        """The network, refitted where it lies close but not close enough, and its certificate."""
        network = finding.network
        assert network is not None
        certificate = self._certify(network, finding, precision)
        if not network.is_open and not certificate.agrees and certificate.max_relative_error < PARTLY:
            network, certificate = self._again(self._sharpen, network, certificate, finding, precision)
        if _is_rough(network, certificate, precision):
            network, certificate = self._again(self._spread_out, network, certificate, finding, precision)
        if behind is not None and not network.is_open and certificate.agrees:
            rng = stream(self.entropy, "behind", self.num_certificates)
            deviation = certificate.max_standard_error or 0.0
            seen = check_squashed(
                network,
                behind.squashing,
                self.meter,
                behind.domain,
                behind.precision,
                rng,
                deviation=deviation if np.isfinite(deviation) else 0.0,
            )
            certificate = replace(certificate, checks=(*certificate.checks, seen))
        if certificate.agrees and precision.kind == "rounded" and not _decides(network):
            network, certificate = self._keep_to_rounding(network, certificate, finding, precision)
        elif certificate.agrees and not _decides(network):
            used = self.meter.transcript()
            others = check_alternatives(network, used, precision)
            if precision.kind == "noisy" and not self.meter.is_squashed:
                near = np.linalg.norm(used[0], axis=1) <= NEAR * own_scale(network) * np.sqrt(
                    self.meter.input_size
                )
                near |= not np.any(near)  # a domain apart from the origin
                x, y = used[0][near], used[1][near]
                level = float(
                    np.sqrt(np.mean((network(x) - y) ** 2))
                )  # the measured one rests on few answers
                noise = float(np.clip(level, precision.noise, MOST_NOISE * precision.noise))
                others += check_structure(network, x, y, noise)
            certificate = replace(certificate, checks=(*certificate.checks, *others))
        return network, certificate

    def _keep_to_rounding(
        self, network: Network, certificate: Certificate, finding: Finding, precision: Precision
    ) -> tuple[Network, Certificate]:
        """Every rounded answer in its interval, after one refit to all of them where it is not."""
        for attempt in range(2):
            checks = check_rounding(network, self.meter.transcript(), self.meter.answers(), precision)
            if checks[0].passed or attempt:
                certificate = replace(certificate, checks=(*certificate.checks, *checks))
                break
            network, certificate = self._again(self._spread_out, network, certificate, finding, precision)
            if not certificate.agrees:
                break
        return network, certificate

    def _again(
        self,
        refit: Callable[[Network, Precision], Network],
        network: Network,
        certificate: Certificate,
        finding: Finding,
        precision: Precision,
    ) -> tuple[Network, Certificate]:
        """The network refitted and certified anew; as it is where the time for that is over, or most answers lose."""
        try:
            better = refit(network, precision)
        except TimeSpent:
            return network, certificate
        anew = self._certify(better, finding, precision)
        x, y = self.meter.transcript()
        lost = np.median(np.abs(better(x) - y)) > np.median(np.abs(network(x) - y))
        return (network, certificate) if lost and not anew.agrees else (better, anew)

    def _certify(self, network: Network, finding: Finding, precision: Precision) -> Certificate:
        """A certificate on points of its own: no other one of this run has asked them, and no fit will see them."""
        self.num_certificates += 1
        rng = stream(self.entropy, "certificate", self.num_certificates)
        certificate = certify(
            network, self.meter, precision, rng, wanted=finding.checks, in_domain=finding.in_domain
        )
        if _decides(network):
            return certificate
        bars = finding.error_bars or measured_bars(network, self.meter, precision)
        x, y = self.meter.answers()
        every = check_answers(network, x, y, bars)
        certificate = replace(certificate, checks=(*certificate.checks, every))
        if every.passed or "suspects" in certificate.fresh:
            return certificate
        far = np.flatnonzero(measure_misses(network, x, y, bars) > MOST_BARS)[-MOST_SUSPECTS:]
        return replace(certificate, fresh={**certificate.fresh, "suspects": x[far]})

    def _spread_out(self, network: Network, precision: Precision) -> Network:
        """Two more answers a parameter from all over the domain, and a fit on everything asked.

        As few answers as let a network fit leave one of rounded or noisy answers open where none was asked.
        """
        size, rng = self.meter.input_size, stream(self.seed, "run", "spread out", self.num_certificates)
        room = self.meter.ledger.left - NUM_POINTS
        num_points = int(max(min(network.num_parameters, room / 2), 0))
        points = np.concatenate(
            [
                self.meter.domain.sample(num_points, size, rng),
                self.meter.domain.edge(num_points // 2, size, rng),
                active_points(network, num_points // 2, rng),
            ]
        )
        return self._refit(network, points, precision, max_steps=10)

    def _sharpen(self, network: Network, precision: Precision) -> Network:
        """One more answer a parameter where the units are active, and a weighted fit on everything asked."""
        rng = stream(self.seed, "run", "sharpen", self.num_certificates)
        points = active_points(network, network.num_parameters, rng)
        return self._refit(network, points, precision, max_steps=6)

    def _refit(self, network: Network, points: np.ndarray, precision: Precision, max_steps: int) -> Network:
        with self.meter.stage("sharpen"):
            self.meter.ask(points[self.meter.domain.contains(points)])
        x, y = self.meter.transcript()
        noise = np.hypot(precision.noise, self.meter.blur(y)) if self.meter.is_squashed else precision.noise
        return weighted_polish(network, x, y, noise, unit=precision.unit, max_steps=max_steps)


def _decides(network: Network) -> bool:
    """Whether its answers are decisions, which are whole numbers for another reason than rounding."""
    return network.is_open or "step" in network.activations


def _is_rough(network: Network, certificate: Certificate, precision: Precision) -> bool:
    """Whether a smooth network of inexact answers is wrong on fresh points but may only lack answers."""
    if network.is_open or certificate.agrees or precision.kind == "float64":
        return False
    return not network.is_piecewise_linear and certificate.max_relative_error < 1
