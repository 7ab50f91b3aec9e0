"""Tiny random models and tokenizers, built here without any download, and the real models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers import models as token_models
from tokenizers import trainers as token_trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

SENTENCES = [
    "The reader looks at the first word of the text and then at the next word.",
    "Attention of people and of models is a weight over the same words.",
    'She said: "Yes, the end." Nobody knew why the old man didn\'t answer.',
    "Long words are fixated longer than short words, and rare words longer than common ones.",
    "caf\u00e9 d\u00e9j\u00e0 vu \u2014 123 numbers and 4 more",
]
TEXT = 'The reader looks at the first word of the text and then "Yes, the old man said at the end."'


def _byte_level(start: bool) -> PreTrainedTokenizerFast:
    core = Tokenizer(token_models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = token_trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(SENTENCES * 3, trainer)
    if start:
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", core.token_to_id("<s>"))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


@pytest.fixture(scope="session")
def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, 420 tokens, `<s>` as the start token that it does not add by itself."""
    return _byte_level(start=False)


@pytest.fixture(scope="session")
def start_tokenizer() -> PreTrainedTokenizerFast:
    """Like `byte_tokenizer`, but it adds `<s>` by itself."""
    return _byte_level(start=True)


@pytest.fixture(scope="session")
def bert_tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece with lower case and accents stripped, `[CLS] ... [SEP]`."""
    core = Tokenizer(token_models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece()
    trainer = token_trainers.WordPieceTrainer(
        vocab_size=200,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        show_progress=False,
    )
    core.train_from_iterator(SENTENCES * 3, trainer)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, core.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def _seeded(build: Any, config: Any) -> Any:
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    model = build(config).eval()
    with torch.no_grad():  # larger weights: attention that is visibly not uniform
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in name.lower():
                weight.mul_(8.0)
    torch.random.set_rng_state(state)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


@pytest.fixture(scope="session")
def tiny_llama() -> LlamaForCausalLM:
    """2 layers, 4 query heads in 2 key/value groups, hidden 32, vocabulary 420, context 64."""
    config = LlamaConfig(
        vocab_size=420,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    return _seeded(LlamaForCausalLM, config)


@pytest.fixture(scope="session")
def tiny_gpt2() -> GPT2LMHeadModel:
    """2 layers, 4 heads, hidden 32, learned positions, context 64."""
    config = GPT2Config(
        vocab_size=420,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    return _seeded(GPT2LMHeadModel, config)


def _bert_config() -> BertConfig:
    return BertConfig(
        vocab_size=200,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=0,
    )


@pytest.fixture(scope="session")
def tiny_bert() -> BertModel:
    """A plain encoder: 2 layers, 4 heads, hidden 32, no head."""
    return _seeded(BertModel, _bert_config())


@pytest.fixture(scope="session")
def tiny_bert_mlm() -> BertForMaskedLM:
    """The same encoder with a masked-language-model head."""
    return _seeded(BertForMaskedLM, _bert_config())


@pytest.fixture(scope="session")
def tiny_llama_folder(tmp_path_factory: Any, tiny_llama: Any, start_tokenizer: Any) -> Path:
    """A Hugging Face folder with `tiny_llama` and `start_tokenizer`."""
    folder = tmp_path_factory.mktemp("tiny") / "llama"
    tiny_llama.save_pretrained(folder)
    start_tokenizer.save_pretrained(folder)
    return folder


def _real(name: str) -> Any:
    from gazeattn.errors import MissingAssetError
    from gazeattn.lm import LanguageModel

    try:
        return LanguageModel.load(name)
    except MissingAssetError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """The registered decoder as a `LanguageModel`, skipped where it was not fetched."""
    return _real("smollm2-135m")


@pytest.fixture(scope="session")
def minilm() -> Any:
    """The registered encoder as a `LanguageModel`, skipped where it was not fetched."""
    return _real("minilm")
