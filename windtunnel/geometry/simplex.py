"""Beliefs over S states as points in the plane, for pictures.

State s sits on corner s of a regular polygon, c_s = (cos θ_s, sin θ_s) with θ_s = π/2 + 2π s / S, and a belief at
the mean Σ_s p_s c_s of the corners: barycentric coordinates.  Faithful for two and three states; beyond that several
beliefs may share a point (the uniform one and the mean of any opposite corners, say), so a picture is never evidence.
"""

from __future__ import annotations

import numpy as np


def corners(states: int) -> np.ndarray:
    """(S, 2) corners of the regular polygon, the first on top."""
    angle = np.pi / 2 + 2 * np.pi * np.arange(states) / states
    return np.column_stack([np.cos(angle), np.sin(angle)])


def polygon(belief: np.ndarray) -> np.ndarray:
    """(…, 2) points in the plane of beliefs (…, S)."""
    return belief @ corners(belief.shape[-1])
