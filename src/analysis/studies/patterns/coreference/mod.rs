//! Study `coreference`: how often an attention head points from a mention to an earlier mention of the same entity
//! (docs/methodology/coreference.md).

mod anaphors;
mod metrics;
mod sums;

use std::fmt::{self, Write};
use std::num::NonZeroU64;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::ControlKind;
use crate::passes::observer::by_class::ByLayerClass;
use crate::passes::pass::{Pass, Sequences};
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::blocks::PerBlock;
use crate::stats::interval::Interval;
use crate::study::instruments::fold_scores::FoldScores;
use crate::study::instruments::linked::rules::first_best;
use crate::study::labels::evidence::MIN_QUERIES;
use crate::study::metrics::metric;
use crate::study::section::{Section, View, ViewContext, downcast_section, stored};
use crate::study::show::wording::{TableColumn, column_table, percent, plus_minus_percent, signed_decimal};
use crate::study::show::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::{
    Card, Caveat, CaveatSubject, Estimates, EstimationContext, ObservedPasses, PassSpec, Policy, Study, Summary,
    TableRows, columns,
};
use crate::system::counts::{format_count, plural};
use crate::system::printable::one_line;
use anaphors::{ANAPHOR_KINDS, BASELINES, MentionCounts};
use metrics::{COREFERENCE_DETECTOR, CoreferenceInputs, METRICS, best_baselines};
use sums::{CoreferenceSums, DIRECTION_NAMES, KindSums};

/// Study `coreference`: which attention heads find the antecedents of mentions.
pub struct CoreferenceStudy;

impl Study for CoreferenceStudy {
    type Section = Coreference;

    const CARD: Card = Card {
        name: "coreference",
        question: "Which heads attend from a mention of an entity to an earlier one, better than nearness, the same lemma or \
            agreement find it?",
        needs: "a corpus with `Entity=` annotation, read twice",
        runs_on_builtin_corpus: true,
        controls: &ControlKind::ALL,
        metrics: || metric::explanations_with_keys(METRICS),
        labels: &[COREFERENCE_DETECTOR],
        caveats: CAVEATS,
        range: |metric| if metric == "coreference_accuracy" { 0.0..=1.0 } else { -1.0..=1.0 },
        is_share_metric: |metric| metric == "coreference_accuracy",
        figures: &["coreference"],
        tables: &["coreference"],
        needs_language: true,
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new_by_class(Pass { sequences: Sequences::Windows, ..Pass::PLAIN }, |subject, visibility| {
            CoreferenceSums::new(subject.grid, visibility, subject.from_token)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &ByLayerClass<CoreferenceSums> = observed.first_sums();
        let classes = sums.map(|sums| {
            let blocks = sums.blocks.with_total();
            let best = best_baselines(blocks.total());
            (blocks, best, sums.visibility)
        });
        let of_head = |number: Option<usize>, place: usize| {
            let (blocks, best, visibility) = classes.for_layer(context.grid.layer_and_head(place).0);
            let block = blocks.sums(number);
            let right = std::array::from_fn(|kind| block[kind].heads[place].map(|right| right as f64));
            CoreferenceInputs { block, visibility: *visibility, best_baselines: *best, hits: right }.metric_values()
        };
        let of_chance = |number: Option<usize>, class: usize| {
            let (blocks, best, visibility) = &classes.values()[class];
            let block = blocks.sums(number);
            // A head that chooses every candidate with equal chance.
            let right = std::array::from_fn(|kind| [block[kind].chance.value(); DIRECTION_NAMES.len()]);
            CoreferenceInputs { block, visibility: *visibility, best_baselines: *best, hits: right }.metric_values()
        };
        let section = Coreference::new(sums, context);
        (Estimates::new_by_class(&columns(self), context, sums.classes(), of_head, of_chance), section)
    }
}

const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "no-entities",
        text: "No word of the corpus has an entity annotated: no coreference label could be tested.",
        subject: CaveatSubject::Certainty,
        applies: |labelling| downcast_section::<Coreference>(labelling.section).mentions == 0,
    },
    Caveat {
        id: "given-mentions",
        text: "The mentions that coreference chooses from are those of the annotation: that a head finds them by itself is not \
            shown.",
        subject: CaveatSubject::Meaning,
        applies: |labelling| downcast_section::<Coreference>(labelling.section).mentions > 0,
    },
];

/// Mentions and anaphors of the corpus, and how well attention heads and rules find antecedents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coreference {
    /// Number of windows of whole sentences that were read.
    pub windows: u64,
    /// Number of mentions with a syntactic head word; 0 if the corpus has no `Entity=` annotation.
    pub mentions: u64,
    /// Number of mentions left out: no syntactic head word is annotated or found, or it is the first word in a decoder.
    pub headless: u64,
    /// Number of brackets left out because they open or close no mention.
    pub unmatched: u64,
    /// Number of anaphors not scored because every candidate is right.
    pub unscored: u64,
    /// Number of anaphors without a visible antecedent in the layers with the narrowest window, which do not score them. Absent
    /// if 0. The counts in `kinds` are for the layers that see most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub out_of_sight: Option<NonZeroU64>,
    /// Accuracies for each kind of anaphors in the corpus.
    pub kinds: Vec<KindMetrics>,
}

/// Accuracies of attention heads and rules in finding the antecedents of one kind of anaphors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindMetrics {
    /// Kind of anaphors: `all`; by the UPOS of the head word `pronoun` (PRON), `proper` (PROPN) and `common` (others);
    /// `other-lemma`, anaphors without an antecedent of the same lemma.
    pub kind: String,
    /// Number of scored anaphors of this kind.
    pub count: u64,
    /// Number of windows with a scored anaphor of this kind, one per group of related windows.
    pub windows: u64,
    /// Attention head with the highest accuracy on all data.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Direction in which the best attention head is most accurate: `anaphor->antecedent` or `antecedent->anaphor`.
    pub direction: String,
    /// Accuracy of the best attention head on all data. Biased upwards, since the head was chosen on these data. The accuracy of
    /// each head is in its metrics.
    #[schemars(range(min = 0, max = 1))]
    pub accuracy: f64,
    /// Accuracy of attention heads chosen on one half of the blocks and scored on the other, pooled. Null if a half has no
    /// anaphor.
    #[schemars(range(min = 0, max = 1))]
    pub heldout_accuracy: Option<f64>,
    /// Accuracy of each rule that uses no attention.
    pub baselines: Baselines,
    /// Chance level: mean over anaphors of right candidates / candidates.
    #[schemars(range(min = 0, max = 1))]
    pub chance: f64,
    /// 95 % intervals of the accuracies.
    pub ci95: KindIntervals,
}

/// Accuracy of each rule that chooses a candidate without attention.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baselines {
    /// Accuracy of the nearest candidate.
    #[schemars(range(min = 0, max = 1))]
    pub nearest: f64,
    /// Accuracy of the nearest candidate with the same lemma, else the nearest.
    #[schemars(range(min = 0, max = 1))]
    pub same_lemma: f64,
    /// Accuracy of the nearest candidate that agrees in number, gender and person where both are annotated, else the nearest.
    #[schemars(range(min = 0, max = 1))]
    pub agreement: f64,
}

/// 95 % intervals of the accuracies for one kind of anaphors. The chosen attention heads and rules are treated as fixed. Null
/// if fewer than 10 blocks have a scored anaphor of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindIntervals {
    /// Interval of the best attention head's accuracy on all data.
    pub accuracy: Option<Interval>,
    /// Interval of `heldout_accuracy`: heads are chosen on one half of the blocks and scored on the other.
    pub heldout_accuracy: Option<Interval>,
    /// Interval of the best attention head's accuracy minus the best rule's.
    pub gain: Option<Interval>,
}

impl Coreference {
    /// Creates the section from the counts of the layers with the widest attention window, which see most antecedents.
    pub fn new(classes: &ByLayerClass<CoreferenceSums>, context: &EstimationContext) -> Self {
        let out_of_sight = classes.values().iter().map(|sums| sums.met.out_of_sight).max().and_then(NonZeroU64::new);
        let sums = classes.values().iter().min_by_key(|sums| sums.met.out_of_sight).expect("a class of layers");
        let MentionCounts { windows, mentions, headless, unmatched, unscored, .. } = sums.met;
        let total = sums.blocks.total();
        let best = best_baselines(&total);
        let kinds = (0..ANAPHOR_KINDS.len()).filter(|&kind| total[kind].anaphors > 0).map(|kind| {
            let blocks: Vec<Option<&KindSums>> = sums.blocks.iter().map(|block| Some(&block[kind])).collect();
            KindMetrics::new(kind, &FoldScores::new(&blocks, &KindSums::new(context.grid)), best[kind], context)
        });
        Self { windows, mentions, headless, unmatched, unscored, out_of_sight, kinds: kinds.collect() }
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        let Self { windows, mentions, headless, unmatched, unscored, out_of_sight, kinds } = self;
        if *mentions == 0 {
            writeln!(
                out,
                "No word of the corpus has an entity annotated (`Entity=`), so no coreference label was tested."
            )?;
        } else if let Some(all) = kinds.first() {
            writeln!(
                out,
                "Coreference, {} in {windows} {} of whole sentences: best head for each kind of anaphor \
                 beside rules without a head, in % of anaphors, ± half of the 95 % interval:\n",
                format_count(*mentions, "mention"),
                plural(windows, "window", "windows")
            )?;
            let min_count = policy.count(&MIN_QUERIES);
            // Kinds too rare for a label are only in the report, except the first.
            let shown: Vec<&KindMetrics> =
                kinds.iter().filter(|kind| kind.kind == all.kind || kind.count >= min_count).collect();
            out.table_with_optional_columns(column_table(&COLUMNS, &shown), COLUMN_DROP_ORDER);
            writeln!(out)?;
            if all.count < min_count {
                writeln!(out, "A coreference label needs {}, so none was tested.", format_count(min_count, "anaphor"))?;
            }
            if *unscored > 0 {
                let are = plural(unscored, "is", "are");
                let anaphors = format_count(*unscored, "more anaphor");
                writeln!(out, "{anaphors} {are} not scored: every candidate is right.")?;
            }
            if let Some(hidden) = out_of_sight {
                let anaphors = format_count(hidden.get(), "anaphor");
                writeln!(out, "In layers with a window, {anaphors} without an antecedent in sight: not scored there.")?;
            }
        } else {
            writeln!(
                out,
                "No mention of the corpus has right and wrong candidates before it, so no coreference was tested."
            )?;
        }
        if headless + unmatched > 0 {
            writeln!(
                out,
                "Left out of coreference: {} of `Entity=` that {} no mention, {} without a head word.",
                format_count(*unmatched, "bracket"),
                plural(unmatched, "opens or closes", "open or close"),
                format_count(*headless, "mention")
            )?;
        }
        Ok(())
    }
}

/// Returns the index and the direction of the attention head with most right choices. Among equals, the lowest index, then
/// the first direction.
fn best_head(sums: &KindSums) -> (usize, usize) {
    let cells = (0..sums.heads.len()).cartesian_product(0..DIRECTION_NAMES.len());
    first_best(cells, |&(head, direction)| sums.heads[head][direction]).expect("there are heads")
}

impl KindMetrics {
    /// Computes the accuracies for one kind of anaphors; `best` is the index in [`BASELINES`] of its most accurate rule.
    fn new(kind: usize, scored: &FoldScores<'_, KindSums>, best: usize, context: &EstimationContext) -> Self {
        let total = &scored.total;
        let (place, direction) = best_head(total);
        let jackknife = |right: &PerBlock| Jackknife::new(right, &scored.words);
        let right = scored.per_block(|sums| sums.heads[place][direction] as f64);
        let by_rule = scored.per_block(|sums| sums.baselines[best] as f64);
        let (heldout_accuracy, heldout_interval) =
            scored.held_out_accuracy(best_head, |sums, &(place, direction)| sums.heads[place][direction]);
        let [nearest, same_lemma, agreement] = total.baselines.map(|right| scored.accuracy(right));
        Self {
            kind: ANAPHOR_KINDS[kind].to_owned(),
            count: total.anaphors,
            windows: total.windows,
            place: context.grid.head_place(place),
            direction: DIRECTION_NAMES[direction].to_owned(),
            accuracy: scored.accuracy(total.heads[place][direction]),
            heldout_accuracy,
            baselines: Baselines { nearest, same_lemma, agreement },
            chance: total.chance.value() / total.anaphors as f64,
            ci95: KindIntervals {
                accuracy: scored.accuracy_interval(&right),
                heldout_accuracy: heldout_interval,
                gain: jackknife(&right).minus(&jackknife(&by_rule)).with_scale(Scale::Difference).interval(),
            },
        }
    }

    /// Accuracy of the best attention head minus that of the best rule.
    fn lead_over_best_rule(&self) -> f64 {
        let Baselines { nearest, same_lemma, agreement } = self.baselines;
        self.accuracy - nearest.max(same_lemma).max(agreement)
    }
}

const COLUMNS: [TableColumn<KindMetrics>; 11] = [
    ("anaphors", true, |kind| one_line(&kind.kind)),
    ("number", false, |kind| kind.count.to_string()),
    ("head", true, |kind| kind.place.to_string()),
    ("direction", true, |kind| one_line(&kind.direction)),
    ("accuracy", false, |kind| percent(Some(kind.accuracy)) + &plus_minus_percent(kind.ci95.accuracy)),
    ("held-out", false, |kind| percent(kind.heldout_accuracy) + &plus_minus_percent(kind.ci95.heldout_accuracy)),
    ("nearest", false, |kind| percent(Some(kind.baselines.nearest))),
    ("same lemma", false, |kind| percent(Some(kind.baselines.same_lemma))),
    ("agreement", false, |kind| percent(Some(kind.baselines.agreement))),
    ("chance", false, |kind| percent(Some(kind.chance))),
    ("over best rule", false, |kind| {
        signed_decimal(100.0 * kind.lead_over_best_rule(), 1) + &plus_minus_percent(kind.ci95.gain)
    }),
];

/// Indices of [`COLUMNS`] dropped when the table is too wide, first to last.
const COLUMN_DROP_ORDER: &[usize] = &[8, 9, 1, 7, 6, 3, 10, 4, 5];

const _: () = assert!(BASELINES.len() == 3, "the table has a column for each");

stored!(Coreference as coreference);

impl Section for Coreference {
    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            summary: Summary::from_writer(|out| self.write_summary(out, policy)),
            figures: figures(self),
            tables: vec![TableRows::new("coreference", &self.kinds)],
            ..View::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = self.kinds.iter().find(|kind| grid.first_outside([kind.place]).is_some());
        broken.map(|kind| format!("the best head for anaphors of the kind `{}` is none of the model's", kind.kind))
    }
}

fn figures(coreference: &Coreference) -> Vec<Figure> {
    if coreference.kinds.is_empty() {
        return Vec::new();
    }
    let row = |kind: &KindMetrics| {
        let Baselines { nearest, same_lemma, agreement } = kind.baselines;
        let rules = [nearest, same_lemma, agreement].map(|accuracy| Mark::from_value(Some(accuracy), None));
        let head = Mark::from_value(kind.heldout_accuracy, kind.ci95.heldout_accuracy);
        let marks = [head].into_iter().chain(rules).collect();
        ForestRow { name: format!("{} ({})", kind.kind, kind.count), note: kind.place.to_string(), marks }
    };
    let marks = ["best head, held out", "nearest", "same lemma", "agreement"];
    let rows = coreference.kinds.iter().map(row).collect();
    vec![Figure {
        name: "coreference",
        title: "Antecedents beside rules without a head".to_owned(),
        reading: "For each kind of anaphors the share whose antecedent is found: by the head that is best on one half of the \
            sentences, scored on the other, with its 95 % interval, and by three rules that use no head."
            .to_owned(),
        chart: Chart::Forest(Forest::in_percent("anaphors whose antecedent is found", marks, rows)),
    }]
}

#[cfg(test)]
mod tests;
