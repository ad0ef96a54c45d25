//! Report section `probes`: accuracies of linear probes on attention heads' outputs, and their gain over the word embedding.

use std::fmt::{self, Write};

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::ControlKind;
use crate::stats::interval::Interval;
use crate::stats::significance::q_values_above_margin;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext, downcast_section, stored};
use crate::study::show::wording::{aligned_table, percent, plus_minus_percent, signed_decimal, significance_text};
use crate::study::{Policy, Summary};
use crate::system::counts::{format_count, plural};

/// Maximum number of heads in the table of a task.
const MAX_TABLE_HEADS: usize = 5;

/// Gain in accuracy that an attention head must significantly exceed for the verdict `adds`: one percentage point.
///
/// A gain above 0 is no sign of training: an untrained head is a random projection of the word and its neighbours,
/// which can add information. Heads of the untrained model `box:small` gain up to 1.3 points on the corpus `box:gold`.
pub(super) const MIN_GAIN: f64 = 0.01;

pub struct ProbesSection {
    pub probes: Vec<TaskProbes>,
}

/// Accuracies of linear discriminants on every attention head, for one probing task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskProbes {
    /// Name of the probing task: `upos`, `relation`, or the column or key of the corpus that was asked for.
    pub task: String,
    /// Number of words that have a class in this task.
    pub words: u64,
    /// Number of sentences with a word that has a class, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Number of classes of the task in the whole corpus.
    pub classes: u64,
    /// Whether the task has too many classes (more than 100), so that nothing was trained.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_crowded: bool,
    /// Accuracy of predicting the most frequent class of the other fold.
    pub majority: Share,
    /// Accuracy of predicting the class that the word's lower-cased form has most often in the other fold. A form that is
    /// absent there gets that fold's most frequent class.
    pub form: Share,
    /// Accuracy of the discriminant on the word embedding.
    pub embedding: Share,
    /// Accuracy of the discriminant on the embeddings of the word, the word before and the word after; absent in older reports.
    #[serde(default)]
    pub neighbours: Share,
    /// `neighbours` less `embedding`: the gain in accuracy from both neighbours' embeddings.
    #[serde(default)]
    #[schemars(range(min = -1, max = 1))]
    pub neighbours_gain: Option<f64>,
    /// 95 % interval of `neighbours_gain`.
    #[serde(default)]
    pub neighbours_gain_ci95: Option<Interval>,
    /// Largest gain of any attention head of the untrained models; absent unless the control `random-init` was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1, max = 1), with = "f64")]
    pub largest_untrained_gain: Option<f64>,
    /// Accuracies and gains of each layer.
    pub layers: Vec<LayerProbe>,
    /// Accuracies and gains of each attention head, layer by layer.
    pub heads: Vec<HeadProbe>,
}

/// Accuracy of a classifier. Its fields are null where a fold has too few words to train on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Share of words that are classified right.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: Option<f64>,
    /// 95 % interval of `accuracy`.
    pub ci95: Option<Interval>,
}

/// Results of the probes for one layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerProbe {
    /// Number of the layer, counted from 0.
    pub layer: usize,
    /// Accuracy of the discriminant on the input of the layer.
    pub input: Share,
    /// Mean gain of the layer's attention heads, from -1 to 1; null if no gain was measured.
    pub mean_gain: Option<f64>,
    /// 95 % interval of `mean_gain`; null if `mean_gain` is null, or if there are too few blocks of sentences for a test.
    pub mean_gain_ci95: Option<Interval>,
    /// Attention head whose gain is the largest of this layer's heads; null if no gain was measured.
    pub best: Option<HeadPlace>,
    /// Gain of the attention head `best`.
    pub best_gain: Option<f64>,
}

/// Results of the probes for one attention head.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadProbe {
    /// The attention head, by layer and number in the layer.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Accuracy on embedding and context together less the accuracy on the embedding alone: what the attention head adds to a
    /// linear reading of the word's embedding.
    #[schemars(range(min = -1, max = 1))]
    pub gain: Option<f64>,
    /// 95 % interval of `gain`; null if `gain` is null, or if there are too few blocks of sentences for a test.
    pub gain_ci95: Option<Interval>,
    /// Standard error of `gain`, by leaving out one block of sentences at a time.
    pub standard_error: Option<f64>,
    /// One-sided p-value for `gain` being above 0.01.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value of `gain`: twice `p`, corrected by Benjamini & Hochberg for all heads with a gain above 0.01; null for others.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether `gain` is above 0.01 with a q-value of at most `settings.policy.label_q`; null where it was not tested.
    pub adds: Option<bool>,
    /// Accuracy on embedding and context together.
    #[schemars(range(min = 0, max = 1))]
    pub together: Option<f64>,
    /// Accuracy on embedding and context less that on the word's and both neighbours' embeddings; absent in older reports.
    #[serde(default)]
    #[schemars(range(min = -1, max = 1))]
    pub over_neighbours: Option<f64>,
    /// 95 % interval of `over_neighbours`.
    #[serde(default)]
    pub over_neighbours_ci95: Option<Interval>,
    /// Accuracy on the context alone.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: Option<f64>,
    /// 95 % interval of `accuracy`.
    pub ci95: Option<Interval>,
    /// Accuracy in the control task, on the context alone.
    #[schemars(range(min = 0, max = 1))]
    pub control: Option<f64>,
    /// `accuracy` less `control`, the accuracy in the control task.
    #[schemars(range(min = -1, max = 1))]
    pub selectivity: Option<f64>,
    /// 95 % interval of `selectivity`.
    pub selectivity_ci95: Option<Interval>,
    /// Results of this attention head with fresh weights; absent unless the control `random-init` was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Untrained")]
    pub untrained: Option<Untrained>,
}

/// Results of an attention head with fresh weights: means over the seeds of the control `random-init`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Untrained {
    /// Mean gain of the untrained head.
    pub gain: Option<f64>,
    /// Mean accuracy on the context of the untrained head alone.
    pub accuracy: Option<f64>,
}

impl TaskProbes {
    /// Sets each head's `q`, and the policy's verdict `adds`: whether the head's gain is significantly above [`MIN_GAIN`].
    fn set_q_values(&mut self, policy: &Policy) {
        let enough = self.words >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        let above = |head: &HeadProbe| head.p.filter(|_| enough && head.gain.is_some_and(|gain| gain > MIN_GAIN));
        let p: Vec<Option<f64>> = self.heads.iter().map(above).collect();
        for (head, q) in self.heads.iter_mut().zip(q_values_above_margin(&p)) {
            let adds = match policy.rule(&LABEL_Q) {
                Some(most) => q.is_some_and(|q| q <= most),
                None => head.gain_ci95.is_some_and(|ci95| ci95.low() > MIN_GAIN),
            };
            (head.q, head.adds) = (q, (enough && head.p.is_some()).then_some(adds));
        }
    }

    /// Text on the largest gain of an untrained head; empty unless untrained models were run.
    fn untrained_gain_text(&self) -> String {
        let shown = |gain: f64| format!(" (the largest gain of an untrained head: {:+.1})", 100.0 * gain);
        self.largest_untrained_gain.map_or_else(String::new, shown)
    }

    /// Text on the gain from both neighbours' embeddings.
    fn neighbours_gain_text(&self) -> String {
        match self.neighbours_gain {
            Some(gain) => format!("to which both neighbours' embeddings add {:.1}", 100.0 * gain),
            None => "too few words to try both neighbours' embeddings".to_owned(),
        }
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self { task, words, sentences, classes, is_crowded, majority, form, embedding, neighbours, .. } = self;
        let (layers, heads) = (&self.layers, &self.heads);
        out.add_blank_line();
        if *is_crowded {
            return writeln!(out, "{task}: there are too many classes for a probe.");
        }
        if *words == 0 {
            return writeln!(out, "{task}: no word of the corpus has it.");
        }
        let shown = |(name, Share { accuracy, ci95 }): (&str, &Share)| {
            accuracy.map(|_| format!("{name} {}{}", percent(*accuracy), plus_minus_percent(*ci95)))
        };
        let beside = [
            ("most frequent class", majority),
            ("that of the form", form),
            ("word embedding", embedding),
            ("with both neighbours' embeddings", neighbours),
        ];
        let right = beside.into_iter().filter_map(shown).join(", ");
        let right = if right.is_empty() { String::new() } else { format!(" Right in per cent: {right}.") };
        let (words, sentences) = (format_count(*words, "word"), format_count(*sentences, "sentence"));
        let of_classes = plural(classes, "class", "classes");
        writeln!(out, "{task}: {words} of {sentences}, {classes} {of_classes}.{right}")?;
        let ranked = heads.iter().filter(|head| head.gain.is_some());
        let ranked = ranked.sorted_by(|a, b| b.gain.partial_cmp(&a.gain).expect("gains are numbers")).collect_vec();
        if ranked.is_empty() {
            return writeln!(out, "Too few words to say what heads add to it: 10 for each dimension in both folds.");
        }
        let adding = heads.iter().filter(|head| head.adds == Some(true)).count();
        let is = plural(&adding, "is", "are");
        let (all, untrained, beside) =
            (format_count(heads.len(), "head"), self.untrained_gain_text(), self.neighbours_gain_text());
        writeln!(
            out,
            "{adding} of {all} {is} shown to add more than a point to a linear probe of the word embedding{untrained}, {beside}. \
             Largest gains:\n"
        )?;
        out.add_table(table(&ranked[..MAX_TABLE_HEADS.min(ranked.len())]));
        out.add_blank_line();
        let of_layer = |layer: &LayerProbe| {
            let points =
                |gain: Option<f64>| gain.map_or_else(|| "-".to_owned(), |gain| signed_decimal(100.0 * gain, 1));
            format!("L{} {} ({})", layer.layer, points(layer.mean_gain), points(layer.best_gain))
        };
        writeln!(out, "Gain by layer, mean of its heads (and best): {}", layers.iter().map(of_layer).join(", "))
    }
}

fn table(heads: &[&HeadProbe]) -> comfy_table::Table {
    let untrained = heads.iter().any(|head| head.untrained.is_some());
    let header = ["head", "gain", "q", "alone", "selectivity"].into_iter().chain(untrained.then_some("untrained"));
    let row = |head: &&HeadProbe| {
        let points = |value: Option<f64>, ci95: Option<Interval>| {
            value.map_or_else(|| "-".to_owned(), |value| signed_decimal(100.0 * value, 1) + &plus_minus_percent(ci95))
        };
        let cells = [
            head.place.to_string(),
            points(head.gain, head.gain_ci95),
            head.q.map_or_else(|| "-".to_owned(), significance_text),
            format!("{}{}", percent(head.accuracy), plus_minus_percent(head.ci95)),
            points(head.selectivity, head.selectivity_ci95),
        ];
        let fresh = untrained.then(|| points(head.untrained.and_then(|untrained| untrained.gain), None));
        cells.into_iter().chain(fresh)
    };
    aligned_table(header, heads.iter().map(row), 1..)
}

stored!(ProbesSection { probes: Vec<TaskProbes> });

impl Section for ProbesSection {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        match completion {
            LateFact::Policy(policy) => self.probes.iter_mut().for_each(|task| task.set_q_values(policy)),
            LateFact::Control(ControlKind::RandomInit, seeds) => self.compare_with_untrained(seeds),
            _ => {}
        }
    }

    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let mut summary = Summary::from(
            "Probes: what a linear discriminant reads out of a head's output for a word, trained on one half of the sentences and \
             scored on the other. gain: what the head adds to a linear reading of the word's embedding, in points; q: of its being \
             above one point; selectivity: above the control task.\n",
        );
        let written = self.probes.iter().try_for_each(|task| task.write_summary(&mut summary));
        written.expect("writing to a string does not fail");
        View::from_summary(summary)
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let of_task = |task: &TaskProbes| {
            let head = task.heads.iter().find(|head| head.place == place)?;
            let adds = if head.adds? {
                "it adds to a linear reading of the word's embedding"
            } else {
                "it is not shown to add a point to a linear reading of the word's embedding"
            };
            let points = |share: Option<f64>| share.map(|share| 100.0 * share);
            let (gain, selectivity) = (points(head.gain)?, points(head.selectivity)?);
            let q = head.q.map_or_else(String::new, |q| format!(", q {}", significance_text(q)));
            let spread = plus_minus_percent(head.gain_ci95);
            let (name, untrained) = (&task.task, task.untrained_gain_text());
            Some(format!(
                "{name}: {adds}, {gain:+.1}{spread} points{q}{untrained}; {selectivity:+.1} above the control task"
            ))
        };
        let adding = |task: &TaskProbes| {
            let head = task.heads.iter().find(|head| head.place == place && head.adds == Some(true))?;
            let gain = 100.0 * head.gain?;
            let (name, beside) = (&task.task, task.neighbours_gain_text());
            Some(format!("adds {gain:.1} points to a linear reading of {name} from the word's own embedding, {beside}"))
        };
        self.probes.iter().filter_map(of_task).collect::<HeadCard>().with_clauses(self.probes.iter().filter_map(adding))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let strange = |task: &&TaskProbes| {
            !grid.equals_all_heads(task.heads.iter().map(|head| head.place))
                || task.layers.iter().map(|layer| layer.layer).ne(0..grid.layers)
        };
        let task = self.probes.iter().find(strange)?;
        Some(format!("`probes` of `{}` does not have each layer and each head of the model once", task.task))
    }
}

impl ProbesSection {
    /// Adds the results of untrained models; `seeds` has their sections.
    fn compare_with_untrained(&mut self, seeds: &[&dyn Section]) {
        for (number, task) in self.probes.iter_mut().enumerate() {
            let heads_in = |seed: &&dyn Section| downcast_section::<Self>(*seed).probes[number].heads.clone();
            let of_seeds: Vec<Vec<HeadProbe>> = seeds.iter().map(heads_in).collect();
            task.largest_untrained_gain = of_seeds.iter().flatten().filter_map(|head| head.gain).reduce(f64::max);
            for (place, head) in task.heads.iter_mut().enumerate() {
                let mean = |value: fn(&HeadProbe) -> Option<f64>| {
                    let values: Option<Vec<f64>> = of_seeds.iter().map(|heads| value(&heads[place])).collect();
                    values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
                };
                head.untrained = Some(Untrained { gain: mean(|head| head.gain), accuracy: mean(|head| head.accuracy) });
            }
        }
    }
}
