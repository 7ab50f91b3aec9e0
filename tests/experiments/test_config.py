"""Configuration: wrong names get a suggestion, wrong types name the key, short forms expand."""

from __future__ import annotations

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from gazeattn.errors import DataError, UnknownNameError
from gazeattn.experiments.building import sized
from gazeattn.experiments.compare import check_names, compare_arguments
from gazeattn.experiments.config import (
    CompareConfig,
    ConfigError,
    check_positive,
    choices,
    conf_folder,
    groups_of,
    prepare_overrides,
    store_registered,
    typed,
)
from gazeattn.experiments.schemas import BenchmarkConfig, TrainConfig


def composed(*overrides: str) -> CompareConfig:
    store_registered()
    with initialize_config_dir(str(conf_folder()), version_base="1.3"):
        return typed(compose("compare", overrides=prepare_overrides(overrides)), CompareConfig)


def test_defaults_compose_to_plain_objects():
    cfg = composed()
    assert cfg.dataset == {"name": "onestop_sample"}
    assert cfg.lm == {"name": "smollm2-135m"}
    assert type(cfg.measures) is list and cfg.measures[0] == "total_reading_time"
    assert cfg.size.name == "cpu" and cfg.size.permutations == 1000


def test_every_choice_of_every_group_composes():
    for group in groups_of("compare"):
        for choice in choices(group):
            extra = []
            if (group, choice) == ("dataset", "table"):
                extra = ["dataset.fixations=F.csv", "dataset.words=W.csv"]
            if (group, choice) == ("lm", "custom"):
                extra = ["lm.name=x"]
            assert isinstance(composed(f"{group}={choice}", *extra), CompareConfig)


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("dataset=onestop_smple", "onestop_sample"),
        ("lm=minlm", "minilm"),
        ("lm=SmolLM2-135M", "smollm2-135m"),
        ("lm=minilm,smolm2-135m", "smollm2-135m"),
        ("loger=csv", "logger"),
        ("measurs=[skip]", "measures"),
        ("attention.method=[raw]", "attention.methods"),
        ("size=cpuu", "cpu"),
        ("size.permutation=3", "size.permutations"),
        ("dataset.fixation=F.csv", "dataset.fixations"),
    ],
)
def test_a_typo_gets_a_suggestion(override: str, wanted: str):
    with pytest.raises(UnknownNameError) as caught:
        prepare_overrides([override])
    assert wanted in caught.value.suggestions
    assert "did you mean" in str(caught.value)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("seed=abc", "seed"),
        ("question=maybe", "question"),
        ("size.permutations=many", "size.permutations"),
        ("attention.batch_size=[1]", "attention.batch_size"),
        ("measures=skip", "measures"),
    ],
)
def test_a_wrong_type_names_the_key(override: str, key: str):
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        composed(override)


def test_a_mandatory_value_that_is_missing_is_named():
    with pytest.raises(ConfigError, match=r"dataset\.fixations"):
        composed("dataset=table")


def test_numbers_that_no_run_can_use_raise():
    for override in ("size.permutations=-1", "attention.batch_size=0", "limit=0", "seed=-1"):
        with pytest.raises(DataError):
            check_positive(composed(override))


@pytest.mark.parametrize("override", ["topk=0", "topk=1.5", "topk=-3", "measures=[]", "metrics=[]"])
def test_values_that_no_comparison_can_use_raise_before_any_work(override: str):
    with pytest.raises(DataError):
        check_names(composed(override))


def test_topk_is_a_share_or_a_number_of_words():
    assert compare_arguments(composed("topk=10"))["topk"] == 10
    assert type(compare_arguments(composed("topk=10"))["topk"]) is int
    assert compare_arguments(composed("topk=0.5"))["topk"] == 0.5


@pytest.mark.parametrize("name", ["org/some-model", "./folder/x.gguf", "model.gguf"])
def test_a_model_by_path_or_hub_id_is_short_for_custom(name: str):
    assert composed(f"lm={name}").lm == {"name": name}


def test_hydra_options_and_column_maps_pass():
    given = ["-m", "dataset=table", "dataset.columns.fixations.participant=subj", "lm=minilm"]
    passed = prepare_overrides(given)
    assert [g.removeprefix("++") for g in passed] == given
    assert prepare_overrides(passed) == passed  # what a run names as its command works as well


@pytest.mark.parametrize(
    "overrides",
    [
        ["dataset.columns.fixations={participant: subj, x: X}"],
        ["dataset.columns.fixations.participant=subj", "dataset.columns.fixations.x=X"],
    ],
)
def test_column_maps_can_be_given_both_ways(overrides: list[str]):
    cfg = composed("dataset=table", "dataset.fixations=F", "dataset.words=W", *overrides)
    assert cfg.dataset["columns"]["fixations"] == {"participant": "subj", "x": "X"}
    assert cfg.dataset["columns"]["words"] == {}


def test_settings_are_plain_after_checking():
    cfg = composed("dataset=table", "dataset.fixations=F", "dataset.words=W")
    assert not OmegaConf.is_config(cfg.dataset["columns"])
    assert type(cfg.dataset["columns"]) is dict


@pytest.mark.parametrize(
    "given",
    [
        ["--cfg", "job"],
        ["lm=minilm", "-c", "job"],
        ["--cfg=job", "lm=minilm"],
        ["--config-name", "compare", "seed=1"],
    ],
)
def test_options_of_hydra_keep_their_values(given: list[str]):
    assert sorted(prepare_overrides(given)) == sorted(given)
    passed = prepare_overrides(given)
    for option, value in (("--cfg", "job"), ("-c", "job"), ("--config-name", "compare")):
        if option in passed:
            assert passed[passed.index(option) + 1] == value


def test_a_needed_group_cannot_be_removed():
    with pytest.raises(ConfigError, match="lm"):
        prepare_overrides(["~lm"])


TRAINING = [
    ("train", "model=tpp_gase", "tpp_gaze"),
    ("train", "model.dropuot=0.1", "model.dropout"),
    ("train", "model.training.max_epoch=3", "model.training.max_epochs"),
    ("train", "split.sed=1", "split.seed"),
    ("train", "lm=minilm", "model"),
    ("benchmark_scanpath", "seed=[0]", "seeds"),
    ("benchmark_scanpath", "baseline=[uniform]", "baselines"),
]


@pytest.mark.parametrize(("experiment", "override", "wanted"), TRAINING)
def test_typos_in_experiments_that_train_get_a_suggestion(experiment, override, wanted):
    with pytest.raises(UnknownNameError, match=wanted):
        prepare_overrides([override], experiment)


@pytest.mark.parametrize(
    ("experiment", "schema"), [("train", TrainConfig), ("benchmark_scanpath", BenchmarkConfig)]
)
def test_every_choice_of_the_other_experiments_composes(experiment, schema):
    for group in groups_of(experiment):
        for choice in choices(group):
            extra = []
            if (group, choice) in (("dataset", "table"), ("experiment", "table/own")):
                extra = ["dataset.fixations=F.csv", "dataset.words=W.csv"]
            if choice == "table/own":
                extra.append("task.label=group")
            overrides = prepare_overrides([f"{group}={choice}", *extra], experiment)
            with initialize_config_dir(str(conf_folder()), version_base="1.3"):
                assert isinstance(typed(compose(experiment, overrides=overrides), schema), schema)


def test_what_the_user_sets_wins_over_the_size():
    config = {
        "name": "x", "width": 256, "lr": 0.1, "training": {"max_epochs": 30, "batch_size": 8},
        "sizes": {"tiny": {"width": 8, "lr": 0.5, "training": {"max_epochs": 2}}, "full": {}},
    }  # fmt: skip
    assert sized(config, "full") == {k: v for k, v in config.items() if k != "sizes"}
    small = sized(config, "tiny")
    assert small["width"] == 8 and small["training"] == {"max_epochs": 2, "batch_size": 8}
    config["width"], config["training"]["max_epochs"] = 99, 7
    mine = sized(config, "tiny", ["width", "training.max_epochs"])
    assert mine["width"] == 99 and mine["lr"] == 0.5
    assert mine["training"] == {"max_epochs": 7, "batch_size": 8}
    with pytest.raises(UnknownNameError, match="tiny"):
        sized(config, "tinny")
