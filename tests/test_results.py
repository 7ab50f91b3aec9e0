"""Tables of results as JSON and back."""

from __future__ import annotations

import json

from gazeattn.results import pack_rows, result_rows, unpack_rows


def test_packed_rows_come_back_and_hold_nothing_long_twice():
    rows = result_rows(
        [
            {"model": "m", "metric": "a", "value": 1.23456789, "n": 3, "convention": "long",
             "command": "c", "commit": "1"},
            {"model": "m", "metric": "a", "value": float("nan"), "convention": "other",
             "command": "c", "commit": "1"},
            {"model": "n", "metric": "b", "value": 2.0, "low": 1.0, "high": 3.0, "command": "d"},
        ]
    )  # fmt: skip
    packed = json.loads(json.dumps(pack_rows(rows)))
    assert packed["runs"] == [{"command": "c", "commit": "1"}, {"command": "d", "commit": ""}]
    assert packed["conventions"] == {"a": "long"}
    assert packed["rows"][0] == {"model": "m", "metric": "a", "value": 1.23457, "n": 3, "run": 0}
    assert packed["rows"][1]["convention"] == "other" and "value" not in packed["rows"][1]
    back = result_rows(unpack_rows(packed))
    assert back["convention"].fillna("").tolist() == ["long", "other", ""]
    assert back["command"].tolist() == ["c", "c", "d"]
    assert back["high"].tolist()[2] == 3
