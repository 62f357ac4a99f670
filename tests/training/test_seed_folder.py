"""What one seed leaves: metrics that JSON can hold."""

from __future__ import annotations

import json
import math

from windtunnel.training.seed_folder import SeedFolder


def test_an_infinite_kl_is_kept_as_standard_json_and_read_back_as_a_number(tmp_path):
    place = SeedFolder(tmp_path / "seed-0")
    place.path.mkdir()
    logged = [
        {"step": 0, "loss_bits": None, "kl_bits": math.inf, "entropy_mae_bits": 0.5},
        {"step": 3, "loss_bits": 1.5, "kl_bits": 0.1, "entropy_mae_bits": 0.25},
    ]
    for record in logged:
        place.log(record)
    text = (place.path / "metrics.jsonl").read_text()
    assert "Infinity" not in text and json.loads(text.splitlines()[0])["kl_bits"] == "inf"
    assert place.metrics() == logged
    place.forget_after(3)  # writes all of it again
    assert (place.path / "metrics.jsonl").read_text() == text
    (place.path / "metrics.jsonl").write_text(text.replace('"inf"', "Infinity"))  # as it was written once
    assert place.metrics() == logged
