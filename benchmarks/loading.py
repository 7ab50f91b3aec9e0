"""Loading a model from its converted folder against loading it from the GGUF file.

Run with ``python benchmarks/loading.py [MODEL]``; the target is a ratio of at least 5. All times
are taken in one run, each load in a fresh process; importing Python modules is not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

TARGET = 5.0

IMPORTS = """
import json, sys, time
import torch, transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
"""

DIRECT = """
from gazeattn.lm.loading import find_model, quiet
path = find_model(sys.argv[1], sys.argv[2] or None).path
began = time.perf_counter()
with quiet():
    options = dict(gguf_file=path.name, local_files_only=True)
    AutoModelForCausalLM.from_pretrained(str(path.parent), dtype=torch.float32, **options)
    AutoTokenizer.from_pretrained(str(path.parent), **options)
print(json.dumps(time.perf_counter() - began))
"""

CONVERTED = """
from gazeattn.lm.loading import load_model
began = time.perf_counter()
load_model(sys.argv[1], sys.argv[2] or None)
print(json.dumps(time.perf_counter() - began))
"""


def timed(script: str, name: str, root: str) -> float:
    """Return the seconds that the script reports."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS + script, name, root],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr.strip().splitlines()[-1])
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> int:
    """Print the table; the exit status says whether the target is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="smollm2-135m")
    parser.add_argument("--root", default="", help="data folder")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    timed(CONVERTED, args.model, args.root)  # converts where that was not done yet
    converted = sorted(timed(CONVERTED, args.model, args.root) for _ in range(args.repeats))
    direct = timed(DIRECT, args.model, args.root)
    middle = converted[len(converted) // 2]
    ratio = direct / middle
    print(f"{'load of ' + args.model:<36} seconds")
    print(f"{'from the GGUF file':<36} {direct:7.2f}")
    print(f"{f'converted (median of {args.repeats})':<36} {middle:7.2f}")
    print(f"{'ratio (target: at least 5)':<36} {ratio:7.1f}")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
