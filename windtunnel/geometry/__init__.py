"""What the representation looks like, each number beside its nulls."""

from windtunnel.geometry.measurement import Measurement, Missing

__all__ = ["Measurement", "Missing"]
