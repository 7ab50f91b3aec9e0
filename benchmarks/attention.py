"""Time and peak memory of the attention methods against plain and eager forward passes.

    python benchmarks/attention.py --model FOLDER_OR_NAME [--tokens 2048] [--long]

``plain`` is the model's usual forward pass to its logits, which the gradient methods start from;
``eager`` is the pass of its layers that returns attentions. The bounds: raw, entropy, distance,
value norm and rollout take at most a tenth of the memory and all of the time of ``eager``; the
gradient methods take at most a tenth of its memory and the time of four forward passes.

Every measurement runs in a process of its own. Memory is the peak of the process above what the
loaded model takes, in the first pass. Time is the fastest of the passes: `s` by the clock, `cpu s`
the processor time of all threads, which other work on the machine disturbs less. Only ratios
within one run mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FORWARD = ("raw", "raw_last", "entropy", "distance", "value_norm", "rollout")
GRADIENT = ("grad_attention", "input_gradient", "input_gradient_signed")
CASES: dict[str, tuple[str, ...]] = {
    "plain": (),
    "eager": (),
    "raw": ("raw",),
    "forward": FORWARD,
    "gradient": GRADIENT,
    "grad_attention": ("grad_attention",),
    "input_gradient": ("input_gradient",),
}
PASSES = ("plain", "eager")


def status(key: str) -> float:
    """Return a field of /proc/self/status in MB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise KeyError(key)


def load(name: str) -> Any:
    """Load a folder directly, anything else by its registered name."""
    if not Path(name).is_dir():
        from gazeattn.lm import LanguageModel

        return LanguageModel.load(name)
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
    return SimpleNamespace(model=model, info={"causal": True, "lm_head": True})


def text(n_tokens: int, vocabulary: int) -> Any:
    """Build a text of random tokens: a start token and words of one to three tokens."""
    import numpy as np

    from gazeattn.lm.tokens import Encoded

    rng = np.random.default_rng(0)
    new_word = rng.random(n_tokens - 1) < 0.7
    new_word[0] = True
    word_of = np.concatenate([[-1], np.cumsum(new_word) - 1])
    role = np.zeros(n_tokens, dtype=np.int8)
    role[0] = 1
    ids = rng.integers(10, vocabulary, n_tokens)
    return Encoded(ids, word_of, role, ("",) * n_tokens, int(word_of.max()) + 1, ())


def child(case: str, model_name: str, n_tokens: int, repeats: int) -> dict[str, Any]:
    """Measure one case in this process."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    from gazeattn.lm.methods import compute

    lm = load(model_name)
    encoded = text(n_tokens, lm.model.config.vocab_size)
    if case == "eager":
        lm.model.set_attn_implementation("eager")

    def once() -> None:
        if case in PASSES:
            ids = torch.as_tensor(encoded.input_ids)[None]
            eager = case == "eager"
            with torch.no_grad():
                module = lm.model.base_model if eager else lm.model
                out = module(input_ids=ids, output_attentions=eager, use_cache=False)
            assert not eager or len(out.attentions) == lm.model.config.num_hidden_layers
        else:
            compute(lm, [encoded], CASES[case])

    with torch.no_grad():  # thread pools, kernels, and weights that are mapped but not yet read
        for p in lm.model.parameters():
            p.sum()
        lm.model.base_model(input_ids=torch.as_tensor(encoded.input_ids[:16])[None])
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # restart the peak
    times, processor = [], []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        once()
        times.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
        if len(times) == 1:
            peak = status("VmHWM") - before
    from gazeattn.lm.capture import estimate_bytes

    estimate = estimate_bytes(
        lm.model.config, n_tokens, 1, CASES[case] or ("raw",), n_words=encoded.n_words
    )
    return {
        "case": case,
        "tokens": n_tokens,
        "seconds": min(times),
        "cpu_seconds": min(processor),
        "peak_mb": peak,
        "estimate_mb": None if case in PASSES else estimate / 1e6,
        "load": os.getloadavg()[0],
    }


def measure(case: str, model: str, n_tokens: int, repeats: int) -> dict[str, Any]:
    """Measure one case in a process of its own."""
    command = [sys.executable, __file__, "--child", case, "--model", model]
    command += ["--tokens", str(n_tokens), "--repeats", str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--long", action="store_true", help="also 8,192 tokens (not eager)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--child", choices=list(CASES))
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(args.child, args.model, args.tokens, args.repeats)))
        return
    rows = []
    print(
        "| case | tokens | s | cpu s | peak MB | estimate MB | s / plain | s / eager | "
        "cpu s / eager | MB / eager | load |"
    )
    print("|---" * 11 + "|")
    jobs = [(c, args.tokens, args.repeats) for c in args.cases]
    if args.long:
        jobs += [(c, 8192, 1) for c in args.cases if c != "eager"]
    for case, n_tokens, repeats in jobs:
        row = measure(case, args.model, n_tokens, repeats)
        rows.append(row)
        of = {r["case"]: r for r in rows if r["tokens"] == n_tokens}
        by = [
            f"{row[k] / of[case][k]:.2f}" if case in of else ""
            for case, k in (
                ("plain", "seconds"),
                ("eager", "seconds"),
                ("eager", "cpu_seconds"),
                ("eager", "peak_mb"),
            )
        ]
        estimate = "" if row["estimate_mb"] is None else f"{row['estimate_mb']:.0f}"
        print(
            f"| {case} | {n_tokens} | {row['seconds']:.2f} | {row['cpu_seconds']:.2f} | "
            f"{row['peak_mb']:.0f} | {estimate} | {' | '.join(by)} | {row['load']:.1f} |",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
