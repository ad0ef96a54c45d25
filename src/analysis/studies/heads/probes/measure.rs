//! Accuracies, gains and selectivities of the probes from numbers of right predictions, with intervals and tests.

use super::fit::TaskClasses;
use super::scores::{ProbeScores, TaskHits};
use super::section::{HeadProbe, LayerProbe, MIN_GAIN, Share, TaskProbes};
use super::sums::{FeatureWidths, ProbeSums};
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::PerBlock;
use crate::study::EstimationContext;

pub fn measure_tasks(sums: &ProbeSums, scores: &ProbeScores, context: &EstimationContext) -> Vec<TaskProbes> {
    let names = sums.tasks.iter();
    let crowded = |task: usize| sums.folds.iter().any(|fold| fold.tasks[task].is_crowded);
    let of_task = |(number, (name, classes)): (usize, (&String, TaskClasses))| {
        let trained = sums.widths.map_or([false; 5], |FeatureWidths { embedding, hidden, head }| {
            let together = if embedding > 0 { embedding + head } else { 0 };
            [embedding, hidden, head, together, 3 * embedding].map(|features| classes.can_train(features))
        });
        let both_folds_have_words = classes.words.iter().all(|&words| words > 0);
        let total = scores.blocks.total().swap_remove(number);
        let words = scores.blocks.map_blocks(|block| block[number].words as f64);
        let measuring = TaskMeasurement { number, scores, context, total, words, trained, both_folds_have_words };
        measuring.task_probes(name, &classes, crowded(number))
    };
    names.zip(TaskClasses::for_all_tasks(sums)).enumerate().map(of_task).collect()
}

/// Right predictions of one probing task, with the numbers of words as denominators of accuracies.
struct TaskMeasurement<'a> {
    /// Index of the task.
    number: usize,
    scores: &'a ProbeScores,
    context: &'a EstimationContext,
    /// Right predictions over the whole corpus.
    total: TaskHits,
    /// Number of words with a class, per block.
    words: PerBlock,
    /// Whether classifiers were trained, for `[embedding, layer input, context, embedding and context, embedding
    /// and neighbours]`.
    trained: [bool; 5],
    both_folds_have_words: bool,
}

impl TaskMeasurement<'_> {
    /// Applies `part` to the right predictions of each jackknife block.
    fn per_block(&self, part: impl Fn(&TaskHits) -> f64) -> PerBlock {
        self.scores.blocks.map_blocks(|block| part(&block[self.number]))
    }

    /// Accuracy with its interval, from the right predictions that `part` selects. Nulls if nothing was trained, or
    /// if a fold has no word.
    fn accuracy_share(&self, is_trained: bool, part: impl Fn(&TaskHits) -> f64) -> Share {
        self.jackknife(Scale::Share, is_trained, part)
    }

    /// Difference of two accuracies with its interval, where `part` returns the difference of their numbers of right
    /// predictions. Nulls if nothing was trained, or if a fold has no word.
    fn accuracy_difference(&self, is_trained: bool, part: impl Fn(&TaskHits) -> f64) -> Share {
        self.jackknife(Scale::Difference, is_trained, part)
    }

    /// Mean of `part` per word, with its jackknife interval on `scale`. Nulls if nothing was trained, or if a fold has
    /// no word.
    fn jackknife(&self, scale: Scale, is_trained: bool, part: impl Fn(&TaskHits) -> f64) -> Share {
        if !is_trained || !self.both_folds_have_words || self.total.words == 0 {
            return Share::default();
        }
        let share = Jackknife::new(&self.per_block(part), &self.words).with_scale(scale);
        Share { accuracy: Some(share.value()), ci95: share.interval() }
    }

    /// The task's entry in the report. `is_crowded`: the task has too many classes to train.
    fn task_probes(&self, name: &str, classes: &TaskClasses, is_crowded: bool) -> TaskProbes {
        let [on_embeddings, on_inputs, _, _, on_neighbours] = self.trained;
        let gained = self.accuracy_difference(on_neighbours, |hits| hits.neighbours as f64 - hits.embedding as f64);
        let heads: Vec<HeadProbe> = (0..self.context.grid.head_count()).map(|place| self.head_probe(place)).collect();
        let layers = (0..self.context.grid.layers).map(|layer| {
            let own = &heads[layer * self.context.grid.heads..][..self.context.grid.heads];
            self.layer_probe(layer, own, on_inputs)
        });
        TaskProbes {
            task: name.to_owned(),
            words: self.total.words,
            sentences: self.total.sentences,
            classes: classes.names.len() as u64,
            is_crowded,
            majority: self.accuracy_share(true, |hits| hits.majority as f64),
            form: self.accuracy_share(true, |hits| hits.form as f64),
            embedding: self.accuracy_share(on_embeddings, |hits| hits.embedding as f64),
            neighbours: self.accuracy_share(on_neighbours, |hits| hits.neighbours as f64),
            neighbours_gain: gained.accuracy,
            neighbours_gain_ci95: gained.ci95,
            largest_untrained_gain: None,
            layers: layers.collect(),
            heads,
        }
    }

    /// The results of one layer; `on_inputs` says whether classifiers were trained on layer inputs.
    fn layer_probe(&self, layer: usize, heads: &[HeadProbe], on_inputs: bool) -> LayerProbe {
        let gains: Vec<f64> = heads.iter().filter_map(|head| head.gain).collect();
        let is_trained = !gains.is_empty();
        let first = layer * self.context.grid.heads;
        let count = self.context.grid.heads as f64;
        let mean = |hits: &TaskHits| {
            let own = &hits.heads[first..][..self.context.grid.heads];
            own.iter().map(|head| head.together as f64).sum::<f64>() / count - hits.embedding as f64
        };
        let best = heads.iter().filter_map(|head| Some((head, head.gain?)));
        let best = best.reduce(|best, other| if other.1 > best.1 { other } else { best });
        LayerProbe {
            layer,
            input: self.accuracy_share(on_inputs, |hits| hits.inputs[layer] as f64),
            mean_gain: is_trained.then(|| gains.iter().sum::<f64>() / gains.len() as f64),
            mean_gain_ci95: self.accuracy_difference(is_trained, mean).ci95,
            best: best.map(|(head, _)| head.place),
            best_gain: best.map(|(_, gain)| gain),
        }
    }

    /// The results of the head with index `place`.
    fn head_probe(&self, place: usize) -> HeadProbe {
        let [_, _, on_contexts, on_both, on_neighbours] = self.trained;
        let over = self.accuracy_difference(on_both && on_neighbours, |hits| {
            hits.heads[place].together as f64 - hits.neighbours as f64
        });
        let both = self.accuracy_share(on_both, |hits| hits.heads[place].together as f64);
        let gain = |hits: &TaskHits| hits.heads[place].together as f64 - hits.embedding as f64;
        let gained = self.accuracy_difference(on_both, gain);
        let left_out = Jackknife::new(&self.per_block(gain), &self.words);
        let estimate = gained.accuracy.and_then(|_| left_out.estimate());
        let alone = self.accuracy_share(on_contexts, |hits| hits.heads[place].alone as f64);
        let control = self.accuracy_share(on_contexts, |hits| hits.heads[place].control as f64);
        let selectivity = self
            .accuracy_difference(on_contexts, |hits| hits.heads[place].alone as f64 - hits.heads[place].control as f64);
        HeadProbe {
            place: self.context.grid.head_place(place),
            gain: gained.accuracy,
            gain_ci95: gained.ci95,
            standard_error: estimate.map(|estimate| estimate.standard_error),
            p: estimate.map(|estimate| estimate.p_above(MIN_GAIN)),
            q: None,
            adds: None,
            together: both.accuracy,
            over_neighbours: over.accuracy,
            over_neighbours_ci95: over.ci95,
            accuracy: alone.accuracy,
            ci95: alone.ci95,
            control: control.accuracy,
            selectivity: selectivity.accuracy,
            selectivity_ci95: selectivity.ci95,
            untrained: None,
        }
    }
}
