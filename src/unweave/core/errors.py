"""Everything that can go wrong, and every way a run can end; each message names the remedy."""

from __future__ import annotations

from enum import StrEnum


class UnweaveError(Exception):
    """Base of every exception raised by unweave."""


class InputError(UnweaveError, ValueError):
    """What was given cannot be used: a wrong shape, a missing file, an unknown name."""


class MissingExtra(UnweaveError, ImportError):
    """An optional dependency is needed for this model or format."""

    def __init__(self, package: str, extra: str):
        Exception.__init__(self, f"{package} is not installed; run: pip install 'unweave[{extra}]'")


class OracleError(UnweaveError, RuntimeError):
    """The model itself failed, or answered with something that is not a number."""


class NotANumber(OracleError):
    """The model answered NaN or infinity: it has no value there. Other failures of a model say nothing about it."""


class JournalError(UnweaveError, RuntimeError):
    """The journal is in use or cannot be written, or the model no longer answers as it did."""


class DeviceError(UnweaveError, RuntimeError):
    """The accelerator failed, most often for want of memory."""


class BudgetSpent(UnweaveError, RuntimeError):
    """The next batch of queries would exceed the budget; nothing of it was asked."""


class TimeSpent(BudgetSpent):
    """The time limit of the run is over; nothing more is asked."""


class AllowanceSpent(BudgetSpent):
    """A method has spent the queries that one attempt may cost; another method may still be tried."""


class BeyondRange(AllowanceSpent):
    """An answer lies where those of the squashing that was looked through cannot: there is none."""


class OutsideDomain(UnweaveError, ValueError):
    """A method tried to ask outside the allowed domain; nothing was asked."""


class NotIdentified(UnweaveError, RuntimeError):
    """Raised by ``identify(..., throw=True)`` when the outcome is not ``identified``."""


class ExportError(UnweaveError, RuntimeError):
    """A written model does not reproduce the network, or the format cannot express it."""


class Outcome(StrEnum):
    """How a run ended. The value is the word used in verdicts and JSON."""

    IDENTIFIED = "identified"
    PARTLY = "partly identified"
    NOT_IDENTIFIED = "not identified"

    @property
    def exit_status(self) -> int:
        """The exit status of the command line for this outcome."""
        return {Outcome.IDENTIFIED: 0, Outcome.PARTLY: 3, Outcome.NOT_IDENTIFIED: 4}[self]

    @property
    def rank(self) -> int:
        """How much was reached: 0 for nothing, 1 for a part, 2 for all."""
        return [Outcome.NOT_IDENTIFIED, Outcome.PARTLY, Outcome.IDENTIFIED].index(self)
