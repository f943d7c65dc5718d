"""Delta tables: written, audited and published without a copy."""

from twice.targets.delta.site import Instruments
from twice.targets.delta.target import DeltaTarget

__all__ = ["DeltaTarget", "Instruments"]
