//! Report sections `cluster_effect` and `cluster_shift`: loss and output without clusters of similar heads.

use std::fmt::{self, Write};

use comfy_table::Table;
use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sets::{ClusterShifts, Clusters, all_but_one};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::model::parameters::Objective;
use crate::passes::ablation::equivalence_margin;
use crate::sequences::derived::task::TaskKind;
use crate::sequences::reading::Context;
use crate::stats::block_test::Jackknife;
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::stats::significance::{q_values_above_margin, q_values_of_present};
use crate::studies::ablation::losses::loss_unit;
use crate::studies::ablation::removal::{
    LossQuantity, PerTokenChange, RemovalQuantity, RemovalSums, scored_counts_text,
};
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::section::{LateFact, Section, View, ViewContext, stored};
use crate::study::show::wording::{aligned_table, counted_sequences, plus_minus, signed_decimal, significance_text};
use crate::study::{EstimationContext, Summary};
use crate::system::counts::format_count;

/// Rise of the loss without clusters of similar heads, in nats per scored token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// Number of sentences with a scored token.
    pub sentences: u64,
    /// Prediction objective whose loss is measured; null if nothing was predicted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Kind of items, if the loss is of a user's task. Then `masked_tokens` counts items, and `sentences` counts sampling units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TaskKind")]
    pub task: Option<TaskKind>,
    /// Number of scored tokens: masked tokens, all text tokens for a discriminator, or all but the first for a decoder.
    pub masked_tokens: u64,
    /// Equivalence margin, in nats: the largest change of the loss that counts as negligible, by the rule of `effect.band`.
    /// Null if nothing was removed.
    pub band: Option<f64>,
    /// Results for each cluster, in order of their first heads.
    pub clusters: Vec<ClusterEffects>,
}

/// Rise of the loss without one cluster of similar heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterEffects {
    /// Rise of the loss when the cluster's heads are removed: all together, each alone, and all but one.
    #[serde(flatten)]
    pub removed: Removed,
    /// Accuracy on the task without the cluster minus the accuracy with all heads; absent for losses of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change")]
    pub right: Option<Change>,
    /// Two-sided p-value of the block test of `difference` against 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all clusters.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
    /// Whether the heads of the cluster stand in for each other.
    pub verdict: Interplay,
    /// p-value that one head suffices, whichever is kept: each change in `all_but` is within ± `band`. Largest p-value of the
    /// equivalence tests (intersection–union test).
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub p_one_will_do: Option<f64>,
    /// q-value: twice `p_one_will_do`, corrected by Benjamini & Hochberg. Only clusters whose estimates in `all_but` are all
    /// within ± `band` are tested; null for other clusters.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1))]
    pub q_one_will_do: Option<f64>,
    /// Whether one head of the cluster suffices, whichever is kept: `q_one_will_do` is at most `settings.policy.label_q`.
    pub one_will_do: bool,
    /// Random sets for comparison, with as many heads per layer; none is the cluster itself.
    #[serde(default)]
    pub random_sets: Vec<RandomSet>,
    /// Number of `random_sets` that pass the test of `one_will_do`: whichever head of the set is kept, the loss stays within ±
    /// `band`.
    #[serde(default)]
    pub random_sets_of_which_one_would_do: u64,
}

/// Random set of heads that is tested in place of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RandomSet {
    /// Heads of the set, layer by layer.
    pub heads: Vec<HeadPlace>,
    /// p-value that the loss stays within ± `band` without all but one head of the set, whichever is kept; see `p_one_will_do`.
    #[schemars(range(min = 0, max = 1))]
    pub p: Option<f64>,
    /// q-value: twice `p`, corrected by Benjamini & Hochberg together with the other clusters' tests. Null unless the change
    /// is within ± `band` whichever head of the set is kept.
    #[schemars(range(min = 0, max = 1))]
    pub q: Option<f64>,
}

/// Verdict on whether the heads of a cluster stand in for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interplay {
    /// Removing all heads together costs more than the sum of their removals: `difference` is above 0, and `q` at most
    /// `settings.policy.label_q`.
    StandIn,
    /// Removing all heads together costs less than the sum of their removals: `difference` is below 0, and `q` at most
    /// `settings.policy.label_q`.
    Share,
    /// No significant difference between removing all heads together and the sum of their removals.
    NotSeen,
}

impl Interplay {
    fn text(self) -> &'static str {
        match self {
            Self::StandIn => "stand in for each other",
            Self::Share => "less than their sum",
            Self::NotSeen => "no difference seen",
        }
    }
}

/// How far the output moves without clusters of similar heads, as `1 - cos`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputShifts {
    /// Number of sentences with a text token.
    pub sentences: u64,
    /// Number of text tokens.
    pub tokens: u64,
    /// Shifts for each cluster, in order of their first heads.
    pub clusters: Vec<Removed>,
}

/// Change of the loss, the output or the accuracy when heads are removed, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Mean change, above 0 for a rise: loss per scored token or item, output as `1 - cos` per text token, or accuracy. The
    /// loss is in nats, for a task of triples in cosines.
    pub value: f64,
    /// 95 % interval of `value`.
    pub ci95: Option<Interval>,
}

/// Changes of the loss or output when a cluster's heads are removed: all together, each alone, and all but one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// Heads of the cluster, layer by layer.
    pub heads: Vec<HeadPlace>,
    /// Change when all of `heads` are removed together.
    pub together: Change,
    /// Change when each of `heads` is removed alone.
    pub alone: Vec<Change>,
    /// Sum of the changes in `alone`.
    pub sum: Change,
    /// Change when removed together minus the sum of the changes when removed alone.
    pub difference: Change,
    /// Change when all of `heads` but one are removed, for each head that is kept.
    pub all_but: Vec<Change>,
    /// Mean of `all_but` over the kept heads: change when all heads but one are removed.
    pub all_but_one: Change,
}

/// Change of the loss or of the output when heads of clusters are removed, by jackknife block.
struct ClusterChanges<'a, Q> {
    sums: &'a RemovalSums<Clusters, Q>,
    /// Number of tokens per block, by which summed changes are divided to give means.
    counts: PerBlock,
}

impl<'a, Q: RemovalQuantity + PerTokenChange> ClusterChanges<'a, Q> {
    fn new(sums: &'a RemovalSums<Clusters, Q>) -> Self {
        Self { sums, counts: sums.per_block(|block| block.tokens() as f64) }
    }

    /// Change of the loss or output, summed in each block, when exactly the heads with these indices are removed.
    fn changes_without(&self, places: &[usize]) -> PerBlock {
        let variant = self.sums.variant_removing(places);
        self.sums.per_block(|block| block.change(variant))
    }

    /// Change of the loss or output, summed in each block, when each head is removed alone, `[heads]`.
    fn single_removal_changes(&self, places: &[usize]) -> Vec<PerBlock> {
        places.iter().map(|&place| self.changes_without(&[place])).collect()
    }

    /// Change of the loss or output, summed in each block, when all heads but one are removed, for each kept head.
    fn all_but_one_changes(&self, places: &[usize]) -> Vec<PerBlock> {
        (0..places.len()).map(|kept| self.changes_without(&all_but_one(places, kept))).collect()
    }

    /// Mean change of the loss or output per token, from the change in each block.
    fn mean_change(&self, blocks: &PerBlock) -> Jackknife {
        Jackknife::new(blocks, &self.counts)
    }

    /// Mean change of the loss or output per token, with its 95 % interval.
    fn change(&self, blocks: &PerBlock) -> Change {
        let mean = self.mean_change(blocks);
        Change { value: mean.value(), ci95: mean.interval() }
    }

    /// Change of the loss or output when all heads are removed together, minus the sum when each is removed alone, by
    /// block.
    fn joint_minus_summed(&self, places: &[usize]) -> PerBlock {
        let (together, sum) = (self.changes_without(places), sum_by_block(&self.single_removal_changes(places)));
        std::array::from_fn(|block| together[block] - sum[block])
    }

    /// Intersection–union p-value for equivalence: whichever head of the cluster is kept alone, the change stays within
    /// ± `band`. The second value, for the correction over clusters, is `None` unless all estimates are within ± `band`.
    fn sufficiency_p_values(&self, places: &[usize], band: f64) -> (Option<f64>, Option<f64>) {
        let rests: Option<Vec<_>> =
            self.all_but_one_changes(places).iter().map(|rest| self.mean_change(rest).estimate()).collect();
        let p = rests.as_ref().map(|rests| rests.iter().map(|rest| rest.p_between(-band, band)).fold(0.0, f64::max));
        let is_within = rests.is_some_and(|rests| rests.iter().all(|rest| rest.value.abs() < band));
        (p, p.filter(|_| is_within))
    }

    /// Changes of the loss or output for every cluster, in order of the clusters; empty if no token was scored.
    fn clusters(&self, context: &EstimationContext) -> Vec<Removed> {
        if self.counts.iter().sum::<f64>() == 0.0 {
            return Vec::new();
        }
        let changes = |sums: &[PerBlock]| sums.iter().map(|blocks| self.change(blocks)).collect();
        let cluster = |places: &Vec<usize>| {
            let (alone, all_but) = (self.single_removal_changes(places), self.all_but_one_changes(places));
            let mean = sum_by_block(&all_but).map(|sum| sum / all_but.len() as f64);
            Removed {
                heads: head_places(places, context),
                together: self.change(&self.changes_without(places)),
                sum: self.change(&sum_by_block(&alone)),
                difference: self.change(&self.joint_minus_summed(places)),
                alone: changes(&alone),
                all_but: changes(&all_but),
                all_but_one: self.change(&mean),
            }
        };
        self.sums.removals.clusters.iter().map(cluster).collect()
    }
}

/// Adds up `parts` block by block.
fn sum_by_block(parts: &[PerBlock]) -> PerBlock {
    std::array::from_fn(|block| parts.iter().map(|blocks| blocks[block]).sum())
}

impl<Q: LossQuantity> ClusterChanges<'_, Q> {
    /// Change of the accuracy on the task when the heads `places` are removed; `None` without a task.
    fn accuracy_change(&self, places: &[usize]) -> Option<Change> {
        let variant = self.sums.variant_removing(places);
        let change = self.sums.per_block(|block| block.correct_count(Some(variant)) - block.correct_count(None));
        let mean = Jackknife::new(&change, &self.sums.per_block(Q::prediction_count));
        self.sums.conditions.task.map(|_| Change { value: mean.value(), ci95: mean.interval() })
    }

    fn cluster_effects(&self, found: Vec<Removed>, band: f64, context: &EstimationContext) -> Vec<ClusterEffects> {
        let Clusters { clusters, random_sets } = &self.sums.removals;
        let (p_one_will_do, within): (Vec<_>, Vec<_>) =
            clusters.iter().map(|set| self.sufficiency_p_values(set, band)).unzip();
        let q_one_will_do = q_values_above_margin(&within);
        let difference = |places: &Vec<usize>| self.mean_change(&self.joint_minus_summed(places)).estimate();
        let p: Vec<Option<f64>> = clusters.iter().map(|places| Some(difference(places)?.p_different(0.0))).collect();
        let q = q_values_of_present(&p);
        let cluster = |(number, removed): (usize, Removed)| {
            let random_set = |places: &Vec<usize>| {
                let mut instead = within.clone();
                let (p, tested) = self.sufficiency_p_values(places, band);
                instead[number] = tested;
                RandomSet { heads: head_places(places, context), p, q: q_values_above_margin(&instead)[number] }
            };
            ClusterEffects {
                removed,
                right: self.accuracy_change(&clusters[number]),
                p: p[number],
                q: q[number],
                verdict: Interplay::NotSeen,
                p_one_will_do: p_one_will_do[number],
                q_one_will_do: q_one_will_do[number],
                one_will_do: false,
                random_sets: random_sets[number].iter().map(random_set).collect(),
                random_sets_of_which_one_would_do: 0,
            }
        };
        found.into_iter().enumerate().map(cluster).collect()
    }
}

/// Layer and number of the heads with these indices.
fn head_places(places: &[usize], context: &EstimationContext) -> Vec<HeadPlace> {
    places.iter().map(|&place| context.grid.head_place(place)).collect()
}

impl Effects {
    pub fn new<Q: LossQuantity>(sums: &RemovalSums<Clusters, Q>, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        let changes = ClusterChanges::new(sums);
        let found = changes.clusters(context);
        let all: Vec<usize> = (0..context.grid.head_count()).collect();
        let worth = |places: &[usize]| changes.changes_without(places).iter().sum::<f64>() / total.tokens() as f64;
        let band = (!found.is_empty()).then(|| equivalence_margin(worth(&all), context.grid.head_count()));
        Self {
            sentences: total.sampling_units(),
            objective: sums.conditions.objective,
            task: sums.conditions.task,
            masked_tokens: total.tokens(),
            band,
            clusters: band.map_or_else(Vec::new, |band| changes.cluster_effects(found, band, context)),
        }
    }
}

impl OutputShifts {
    pub fn new(sums: &ClusterShifts, context: &EstimationContext) -> Self {
        let total = sums.blocks.total();
        Self { sentences: total.sentences, tokens: total.tokens, clusters: ClusterChanges::new(sums).clusters(context) }
    }
}

/// Indices of the table columns that are dropped when the table is too wide: first the sum of the single effects,
/// then the joint effect.
const COLUMN_DROP_ORDER: &[usize] = &[2, 1];

fn table<'a, const N: usize>(
    clusters: impl Iterator<Item = (&'a Removed, [String; N])>,
    last: [&str; N],
    places: usize,
) -> Table {
    let cell = |Change { value, ci95 }: &Change| signed_decimal(*value, places) + &plus_minus(*ci95, places);
    let row = |(Removed { heads, together, sum, difference, all_but_one, .. }, last): (&Removed, [String; N])| {
        let cells = [heads.iter().join(" "), cell(together), cell(sum), cell(difference), cell(all_but_one)];
        cells.into_iter().chain(last)
    };
    let header = ["without", "together", "sum of each", "difference", "all but one"];
    aligned_table(header.iter().chain(&last), clusters.map(row), 1..5)
}

fn write_effects(effects: &Effects, read: Context, out: &mut Summary) -> fmt::Result {
    let Effects { sentences, objective, task, masked_tokens, band, clusters } = effects;
    let Some(band) = band else {
        return writeln!(out, "No cluster of heads held under resampling, so none was removed as a whole.");
    };
    let of_what = scored_counts_text([*masked_tokens, *sentences], *objective, *task, read);
    writeln!(
        out,
        "Clusters of heads that look alike, removed together, one by one, and all but one (mean over the one kept): rise of the \
         loss in {}, over {of_what}. One will do: whichever head is kept, the rise is within ±{band:.4} by \
         the equivalence test. Random sets have as many heads of the same layers.\n",
        loss_unit(*task),
    )?;
    let shown = |q: Option<f64>| q.map_or_else(|| "-".to_owned(), significance_text);
    let words = |cluster: &ClusterEffects| {
        let interplay = format!("{} (q {})", cluster.verdict.text(), shown(cluster.q));
        let one = format!("{} (q {})", if cluster.one_will_do { "yes" } else { "no" }, shown(cluster.q_one_will_do));
        let sets = format!("{} of {}", cluster.random_sets_of_which_one_would_do, cluster.random_sets.len());
        [interplay, one, sets]
    };
    let rows = clusters.iter().map(|cluster| (&cluster.removed, words(cluster)));
    out.table_with_optional_columns(table(rows, ["interplay", "one will do", "random sets"], 4), COLUMN_DROP_ORDER);
    Ok(())
}

fn write_shifts(shifts: &OutputShifts, read: Context, out: &mut Summary) -> fmt::Result {
    let OutputShifts { sentences, tokens, clusters } = shifts;
    if clusters.is_empty() {
        return writeln!(out, "No cluster of heads held under resampling, so none was removed as a whole.");
    }
    writeln!(
        out,
        "Clusters of heads that look alike, removed together, one by one, and all but one (mean over the one kept): change of the \
         last hidden states of {} of {}, as 1 - cosine.\n",
        format_count(*tokens, "token"),
        counted_sequences(*sentences, read)
    )?;
    out.table_with_optional_columns(table(clusters.iter().map(|cluster| (cluster, [])), [], 5), COLUMN_DROP_ORDER);
    Ok(())
}

fn defect<'a>(name: &str, mut clusters: impl Iterator<Item = &'a Removed>, grid: HeadGrid) -> Option<String> {
    let is_invalid = |removed: &&Removed| {
        let Removed { heads, alone, all_but, .. } = removed;
        grid.first_outside(heads.iter().copied()).is_some() || [alone.len(), all_but.len()] != [heads.len(); 2]
    };
    clusters
        .find(is_invalid)
        .map(|_| format!("a cluster of `{name}` is not one of heads of the model, each removed and kept"))
}

stored!(Effects as cluster_effect);

impl Section for Effects {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        let LateFact::Policy(policy) = completion else { return };
        let enough = self.masked_tokens >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES);
        let most = policy.rule(&LABEL_Q).unwrap_or(1.0);
        let significant = |q: Option<f64>| enough && q.is_some_and(|q| q <= most);
        for cluster in &mut self.clusters {
            let difference = cluster.removed.difference.value;
            cluster.verdict = match significant(cluster.q) {
                true if difference > 0.0 => Interplay::StandIn,
                true if difference < 0.0 => Interplay::Share,
                _ => Interplay::NotSeen,
            };
            cluster.one_will_do = significant(cluster.q_one_will_do);
            let passed = cluster.random_sets.iter().filter(|set| significant(set.q));
            cluster.random_sets_of_which_one_would_do = passed.count() as u64;
        }
    }

    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View::from_summary(Summary::from_writer(|out| write_effects(self, run.read, out)))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let clusters = &self.clusters;
        let drawn = clusters.iter().flat_map(|cluster| &cluster.random_sets).flat_map(|set| set.heads.iter().copied());
        let broken = || defect("cluster_effect", clusters.iter().map(|cluster| &cluster.removed), grid);
        grid.stray_head_defect("cluster_effect", drawn).or_else(broken)
    }
}

stored!(OutputShifts as cluster_shift);

impl Section for OutputShifts {
    fn view(&self, ViewContext { run, .. }: ViewContext<'_>) -> View<'_> {
        View::from_summary(Summary::from_writer(|out| write_shifts(self, run.read, out)))
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        defect("cluster_shift", self.clusters.iter(), grid)
    }
}
