"""All metrics against their peers: scanpaths, distances, sequences, saliency, permutation test.

Runs the scripts ``_metrics_*.py`` beside it one after the other, each in a process of its own.
Each checks that its values equal those of the peer before it takes the time, and names the peers
that are not installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PARTS = ("scanpath", "distances", "sequences", "saliency", "permutation")


def main() -> int:
    """Run the parts and return 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    chosen = parser.parse_args().parts or PARTS
    unknown = [p for p in chosen if p not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    failed = False
    for part in chosen:
        print(f"-- {part}", flush=True)
        script = Path(__file__).with_name(f"_metrics_{part}.py")
        options = ["--trials", "50"] if part == "permutation" else []
        failed |= (
            subprocess.run([sys.executable, str(script), *options], check=False).returncode > 0
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
