"""Readers who look for answers, made here, with tiny language models of random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers import models as token_models
from tokenizers import trainers as token_trainers
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from gazeattn.datasets import GazeDataset
from gazeattn.tables import check_fixations, check_trials, check_words

TEXTS = {
    "A": "the old man sees the sea",
    "B": "rain fell on the quiet harbour",
    "C": "who asked the girl about rain",
    "D": "a long road to the far town",
}
QUESTIONS = {
    "A": ("Who sees the sea?", "What does the old man see?"),
    "B": ("Where did rain fall?", "What fell on the harbour?", "How was the harbour?"),
    "C": ("Who was asked?",),
    "D": ("Where does the road go?", "What is long?"),
}


def words_of(layout: str) -> pd.DataFrame:
    """Return words in boxes of 100 x 50 px on one line."""
    texts = TEXTS[layout].split()
    at = np.arange(len(texts))
    return pd.DataFrame(
        {
            "layout": layout, "stimulus": layout, "word": [f"w{i}" for i in at], "index": at,
            "text": texts, "line": 0, "left": 100.0 * at, "top": 0.0, "right": 100.0 * at + 100,
            "bottom": 50.0,
        }
    )  # fmt: skip


def seekers(readers: int = 4, seed: int = 0, question: Any = None) -> GazeDataset:
    """Return a data set in which every reader reads every text with one of its questions.

    Parameters
    ----------
    question
        From reader and text to the number of the question; None: by turns. The first fixation of
        question k is on word k for 400 ms; the others are at random. The last one of three is
        beside the text.
    """
    rng = np.random.default_rng(seed)
    rows, trials = [], []
    for r in range(readers):
        for k, text in enumerate(TEXTS):
            asked = QUESTIONS[text]
            which = (r + k) % len(asked) if question is None else question(r, k) % len(asked)
            name = f"P{r}_{text}"
            n = int(rng.integers(3, 9))
            x = 100 * rng.integers(0, 6, n) + 50.0
            x[0] = 100 * which + 50
            y = np.full(n, 25.0)
            y[2] = 400.0
            duration = rng.integers(80, 200, n).astype(float)
            duration[0] = 400
            onset = np.cumsum(duration + 20) - duration - 20
            rows += [
                {"participant": f"P{r}", "trial": name, "stimulus": text, "index": i, "x": a,
                 "y": b, "onset": o, "duration": d}
                for i, (a, b, o, d) in enumerate(zip(x, y, onset, duration, strict=True))
            ]  # fmt: skip
            trials.append(
                {"participant": f"P{r}", "trial": name, "stimulus": text, "layout": text,
                 "condition": "information seeking", "question": asked[which],
                 "set": "one" if text in "AB" else "two", "answer_kind": "open"}
            )  # fmt: skip
    listed = [
        {"set": "one" if t in "AB" else "two", "text_id": t, "question": q, "answer_kind": "open"}
        for t, asked in QUESTIONS.items()
        for q in asked
    ]
    listed.append({"set": "one", "text_id": "A", "question": "The man is young.",
                   "answer_kind": "true_false"})  # fmt: skip
    return GazeDataset(
        "made",
        check_fixations(pd.DataFrame(rows))[0],
        check_words(pd.concat([words_of(t) for t in TEXTS], ignore_index=True))[0],
        check_trials(pd.DataFrame(trials))[0],
        info={"language": "en"},
        reports={"questions": pd.DataFrame(listed)},
    )


def save_decoder(folder: Path, seed: int = 0) -> str:
    """Save a random decoder (2 layers, hidden 32) whose tokens are bytes and a few pairs."""
    core = Tokenizer(token_models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = token_trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    core.train_from_iterator([*TEXTS.values(), *(q for a in QUESTIONS.values() for q in a)] * 3,
                             trainer)  # fmt: skip
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
            bos_token_id=0, eos_token_id=1, pad_token_id=1, initializer_range=0.3,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def save_encoder(folder: Path, seed: int = 0) -> str:
    """Save a random encoder (2 layers, hidden 16) that takes 64 tokens, words as tokens."""
    core = Tokenizer(token_models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = token_trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=special, show_progress=False
    )
    core.train_from_iterator([*TEXTS.values(), *(q for a in QUESTIONS.values() for q in a)] * 3,
                             trainer)  # fmt: skip
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(t, core.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    torch.manual_seed(seed)
    model = BertModel(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=24, max_position_embeddings=64, initializer_range=0.3,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
