"""Help of the commands whose arguments are Hydra's."""

from __future__ import annotations

_HYDRA = """
options of Hydra:
  -m, --multirun      run every combination of comma-separated values
  --cfg job           show the whole configuration and stop
  --hydra-help        everything else that Hydra can do
"""

_COMPARE = """\
usage: gazeattn compare [KEY=VALUE ...] [-m] [--cfg job]

Compare human reading attention with a language model's attention: word measures from fixations,
attention methods, baselines, a noise ceiling and significance. Ends with a table and report.html.

examples:
  gazeattn compare
  gazeattn compare dataset=onestop_sample lm=minilm attention.methods=[raw,rollout]
  gazeattn compare dataset=table dataset.fixations=F.csv dataset.words=W.csv
  gazeattn compare lm=path/to/model measures=[gaze_duration] hydra.run.dir=outputs/mine
  gazeattn compare -m lm=smollm2-135m,minilm question=true,false

choices:
{choices}

values (see conf/compare.yaml):
  measures, metrics, baselines, controls, head_metrics     lists of names
  topk, level, average, question, limit, seed              numbers and switches
  root, fetch, overwrite                                   files
  attention.*                                              conventions of the model side

"""

_HEADS = """\
usage: gazeattn heads [KEY=VALUE ...] [--cfg job]

Say what every attention head of a language model does (previous token, first token, delimiters,
local, broad, induction, retrieval) and which heads attend as people look while reading. Ends with
heads.csv, heads.parquet and report.html.

examples:
  gazeattn heads
  gazeattn heads lm=smollm2-135m dataset=onestop_slice
  gazeattn heads lm=path/to/model measure=gaze_duration thresholds.induction=0.4

choices:
{choices}

values (see conf/heads.yaml):
  measure, metric                              what the heads are compared with, and how
  thresholds.*                                 from which value on a head has a label
  probes.*                                     lengths and repeats of the probes
  question, limit, seed, root, fetch, overwrite

"""

_TRAIN = """\
usage: gazeattn train [KEY=VALUE ...] [-m] [--cfg job]

Train one model: of scanpaths, scored on the validation part beside the centre bias, or, with an
experiment, of what can be read off a reader's eyes, on one fold. The run folder holds the model
(see predict), its curves and a report. A run that was stopped goes on with resume=FOLDER, to the
same result.

examples:
  gazeattn train model=tpp_gaze dataset=osie
  gazeattn train model=hat size=tiny
  gazeattn train experiment=copco/dyslexia model=roberteye_words fold=0
  gazeattn train -m experiment=copco/dyslexia model=extra_trees fold=0,1,2,3 seed=0,1,2
  gazeattn train experiment=table/own dataset.fixations=F.csv dataset.words=W.csv \\
    dataset.trials=T.csv dataset.labels=[diagnosis] task.label=diagnosis
  gazeattn train experiment=eyelayer/smollm2 task.gaze_weight=1.0 task.layer=15
  gazeattn train model=tpp_gaze model.lr=0.0003 model.training.max_epochs=20 seed=1
  gazeattn train -m model=tpp_gaze,hat seed=0,1,2
  gazeattn train resume=outputs/train/2026-01-31/12-00-00-000000

choices:
{choices}

values (see conf/train.yaml):
  model.*                 arguments of the model; model.training.* how it is trained
  split.*, grid, shortest data and maps of scanpaths
  fold, prefix.*, surprisal, task.*  what is read, and of how much of a reading
  seed, resume, accelerator, root, fetch, overwrite
"""

_BENCHMARK = """\
usage: gazeattn benchmark NAME [KEY=VALUE ...] [--cfg job]

benchmarks:
  scanpath          all scanpath models over the pictures of a data set, beside baselines
  object_search     OAT: sequences of objects on collages, generated shelves and pages of words
  search_asymmetry  eccNET and IVSN in six experiments on search asymmetry, displays drawn anew
  joint_attention   PJAE: where groups of people look together, on generated scenes
  reading           goals, comprehension and traits of readers from their eye movements
  goals             which question a reader had in mind: chosen among candidates, or written
  early             the same from the first part of each reading

gazeattn benchmark NAME --help shows the options of one.
"""

_SCANPATH = """\
usage: gazeattn benchmark scanpath [KEY=VALUE ...] [--cfg job]

Train every model with every seed, test it on pictures that it has not seen, and write one table
beside baselines and ceilings. Finished rows are kept: the same command goes on with the rest.

examples:
  gazeattn benchmark scanpath dataset=osie
  gazeattn benchmark scanpath size=tiny seeds=[0]
  gazeattn benchmark scanpath models=[tpp_gaze] publish=docs/results

choices:
{choices}

values (see conf/benchmark_scanpath.yaml):
  models, baselines, ceilings   names of conf/model
  seeds, splits, grid, split.*, shortest
  publish                       folder for the table as JSON
  workers, accelerator, root, fetch, overwrite
"""

_OBJECTS = """\
usage: gazeattn benchmark object_search [KEY=VALUE ...] [--cfg job]

Train OAT on sequences of objects and score it beside simple models and people: book covers
(sti_amazon, positions only), generated shelves with a known searcher, words of a page. Rows
that are there are kept: the same command goes on with the rest.

examples:
  gazeattn benchmark object_search
  gazeattn benchmark object_search size=tiny tasks=[shelves]

choices:
{choices}

values (see conf/benchmark_object_search.yaml):
  tasks, seeds, samples, draws, displays, folds, shelves, longest, embeddings, hidden
  publish                       folder for the table as JSON
  root                          data folder
"""

_ASYMMETRY = """\
usage: gazeattn benchmark search_asymmetry [KEY=VALUE ...] [--cfg job]

Let networks that were never trained to search look for targets in six laboratory experiments, and
compare the slopes with those of people. Finished searches are kept.

examples:
  gazeattn benchmark search_asymmetry
  gazeattn benchmark search_asymmetry size=tiny models=[ivsn]

choices:
{choices}

values (see conf/benchmark_search_asymmetry.yaml):
  models, seed
  publish                       folder for the table as JSON
  root                          data folder
"""

_JOINT = """\
usage: gazeattn benchmark joint_attention [KEY=VALUE ...] [--cfg job]

Train the network on generated scenes whose attended points are known, and compare it with gaze
cones and other simple rules. Finished rows are kept.

examples:
  gazeattn benchmark joint_attention size=tiny seeds=[0]
  gazeattn benchmark joint_attention publish=docs/results

choices:
{choices}

values (see conf/benchmark_joint_attention.yaml):
  joint.*                       the network and its training
  seeds, data_seed, shares, sequences, actions
  publish, accelerator
"""

_READING = """\
usage: gazeattn benchmark reading [KEY=VALUE ...] [--cfg job]

Fit every reading model on every fold of the tasks of a data set (conf/experiment/DATASET), choose
one on validation, and compare it on the test with baselines, with reading over all readings of a
reader, and with published predictions where the data set has them. Finished fits are kept.

examples:
  gazeattn benchmark reading dataset=copco
  gazeattn benchmark reading dataset=copco tasks=[dyslexia] models=[extra_trees] seeds=[0]
  gazeattn benchmark reading dataset=webqamgaze size=tiny

choices:
{choices}

values (see conf/benchmark_reading.yaml):
  tasks, task.*, models, baselines, pooled, refit, variants, seeds, folds, surprisal, fit
  publish                       folder for the tables as JSON
  accelerator, root, fetch
"""

_GOALS = """\
usage: gazeattn benchmark goals [KEY=VALUE ...] [--cfg job]

Which question was a reader looking for an answer to? Choose it among candidates, and write it, each
beside text-only controls, chance and retrieval, by regime. Finished models are kept.

examples:
  gazeattn benchmark goals tasks=[selection]
  gazeattn benchmark goals size=tiny
  gazeattn benchmark goals dataset=onestop tasks=[selection] size=full

choices:
{choices}

values (see conf/benchmark_goals.yaml):
  dataset, tasks, selection, reconstruction, candidates
  by, item, n_folds, folds, seeds, data_seed, limits.*
  encoder, pooling, scorer, models.*, llm.*, writer.*, beams, longest, draws
  publish                       folder for the table as JSON
  accelerator, root
"""

_PREDICT = """\
usage: gazeattn predict model=RUN image=PICTURE [n=20] [seed=0] [to=FOLDER]
       gazeattn predict model=RUN dataset=NAME [dataset.KEY=VALUE ...] [to=FOLDER]

For a model of scanpaths: draw them over a picture: a table (CSV and Parquet), the paths as SVG and
PNG, and an animation as one HTML file.

examples:
  gazeattn predict model=outputs/train/2026-01-31/12-00-00-000000 image=photo.jpg
  gazeattn predict model=RUN image=photo.jpg n=100 to=outputs/photo

For a model of readings, what it says of every reading of a data set, labels or not:

  gazeattn predict model=RUN dataset=copco [to=FOLDER]
  gazeattn predict model=RUN dataset=table dataset.fixations=F.csv dataset.words=W.csv
"""

_EARLY = """\
usage: gazeattn benchmark early [KEY=VALUE ...] [--cfg job]

Fit and test reading models on the first part of every reading, for several parts: how soon a
reading gives itself away. Every feature is computed from what is seen. Finished fits are kept.

examples:
  gazeattn benchmark early dataset=copco task=dyslexia models=[extra_trees]
  gazeattn benchmark early dataset=webqamgaze task=goal seconds=[2,10] shares=[]

choices:
{choices}

values (see conf/benchmark_early.yaml):
  task, models, seconds, shares, by, seeds, folds, publish, accelerator, root, fetch
"""

_GAZE_FIT = """\
usage: gazeattn benchmark gaze_fit [KEY=VALUE ...] [--cfg job]

Tell where programmers look on code, when neither they nor the code were seen in training: learned
mixtures beside what length, place and kind of tokens tell, and other developers. Finished cells
are kept.

examples:
  gazeattn benchmark gaze_fit
  gazeattn benchmark gaze_fit size=tiny

choices:
{choices}

values (see conf/benchmark_gaze_fit.yaml):
  layer, folds, cells, draws, seed, data_seed, reference, learned.*
  publish, accelerator, root
"""

_EYELAYER = """\
usage: gazeattn benchmark eyelayer [KEY=VALUE ...] [--cfg job]

Train a language model to summarise code with a gaze prior inside, beside every control: adapters
alone with as many parameters, the layer without gaze, with gaze of other code, with other priors,
with one component, behind other blocks. Finished rows are kept.

examples:
  gazeattn benchmark eyelayer
  gazeattn benchmark eyelayer size=tiny
  gazeattn benchmark eyelayer only=[lora,eyelayer] seeds=[0] sweep=[] changes_seeds=0

choices:
{choices}

values (see conf/benchmark_eyelayer.yaml):
  summaries, language, gaze, seeds, rows, only, changes, sweep, changes_seeds, sweep_seeds
  settings.*, training.*, data.*, folds, writing.*, scorer, draws, fit
  publish, accelerator, root, fetch
"""

_REPRODUCE = """\
usage: gazeattn reproduce STUDY [KEY=VALUE ...] [--cfg job]

Do a published study again: its figures beside ours, the difference explained, and the same live
with a model of your own. The run folder has no date: finished parts are kept.

studies:
{choices}

examples:
  gazeattn reproduce kou2024 live=false
  gazeattn reproduce kou2024 size=tiny
  gazeattn reproduce kou2024 --help
"""

_STUDY = """\
usage: gazeattn reproduce STUDY [KEY=VALUE ...] [--cfg job]

choices:
{choices}

values: see conf/reproduce_STUDY.yaml
"""

_EXPLAIN = """\
usage: gazeattn explain model=RUN [trial=ID] [to=FOLDER]

Say what a trained reading model looks at: how much worse it does on validation without each
feature, and what every word of a trial does to its prediction. Writes tables and a report.

examples:
  gazeattn explain model=outputs/train/2026-01-31/12-00-00-000000
  gazeattn explain model=RUN trial=P04_10365_3
"""

_TEXTS = {
    "compare": _COMPARE + "\n" + _HYDRA,
    "heads": _HEADS + _HYDRA,
    "train": _TRAIN + _HYDRA,
    "benchmark": _BENCHMARK,
    "benchmark_scanpath": _SCANPATH + _HYDRA,
    "benchmark_object_search": _OBJECTS + _HYDRA,
    "benchmark_search_asymmetry": _ASYMMETRY + _HYDRA,
    "benchmark_joint_attention": _JOINT + _HYDRA,
    "benchmark_reading": _READING + _HYDRA,
    "benchmark_goals": _GOALS + _HYDRA,
    "benchmark_early": _EARLY + _HYDRA,
    "benchmark_gaze_fit": _GAZE_FIT + _HYDRA,
    "benchmark_eyelayer": _EYELAYER + _HYDRA,
    "reproduce": _REPRODUCE,
    "predict": _PREDICT,
    "explain": _EXPLAIN,
}


def help_text(experiment: str, choices: str) -> str:
    """Return the help of an experiment, with the names of its configuration groups."""
    if experiment.startswith("reproduce_"):
        study = experiment.removeprefix("reproduce_")
        return _STUDY.replace("STUDY", study).replace("{choices}", choices) + _HYDRA
    return _TEXTS[experiment].replace("{choices}", choices)
