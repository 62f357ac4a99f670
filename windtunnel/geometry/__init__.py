"""What the representation looks like, each number beside its nulls.

for record in survey(run, only=["keys", "beliefs"]):
    print(record.name, record.where, record.value, record.p_value)
"""

from windtunnel.geometry.measurement import Measurement, Missing
from windtunnel.geometry.survey import INSTRUMENTS, survey

__all__ = ["INSTRUMENTS", "Measurement", "Missing", "survey"]
