//! The section `relations` of the report: results per dependency relation, corrected for the number of tests, with caveats.

mod tables;

use std::fmt::{self, Write};
use std::iter::{repeat, zip};
use std::num::NonZeroU64;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assessment::{
    BETTER_BASELINE_MARGIN, MARGIN, MIN_COUNT, SPECIFICITY_MARGIN, accuracy_name, assess_on_relation, label_name,
    testable_relations,
};
use super::figure::{self, figures};
use super::relation::{HeadAccuracy, MarginExcess, RelationMetrics, scored_directions};
use super::tags::Side;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::significance::q_values_above_margin;
use crate::study::labels::evidence::{Comparison, LABEL_Q, MIN_SENTENCES, Reach};
use crate::study::labels::{Assessment, Label, Verdict, best_of_each_label, correct_for_multiple_tests};
use crate::study::metrics::number::{Number, Part};
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext, downcast_section, stored};
use crate::study::show::Shortage;
use crate::study::show::wording::{column_table, whole_percent};
use crate::study::upstream::ArcClaim;
use crate::study::{Caveat, CaveatSubject, InBrief, Labelling, Policy, Summary, Unit};
use crate::system::counts::{format_count, plural};
use crate::system::printable::one_line;
use tables::{COLUMN_DROP_ORDER, COLUMNS, tables};

/// Results on all dependency relations of a corpus, by name, and counts of the tests on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Relations {
    /// Results on each dependency relation; empty for a corpus without trees.
    pub relations: Vec<RelationMetrics>,
    pub tests: Tests,
}

/// Counts of tests of an attention head against a fixed offset, and of words that are not scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tests {
    /// Number of tests: every attention head in both directions, on every relation with enough words.
    pub count: usize,
    /// Number of tests with a difference of at least `settings.policy.syntactic_margin`: the family of tests that is corrected.
    pub above: usize,
    /// Number of tests with a q-value of at most `settings.policy.label_q`. Null if the policy has no `label_q`.
    pub significant: Option<usize>,
    /// Number of words not scored because, in some layer, the word and its syntactic head cannot attend to each other. In a
    /// decoder, because the later of the two cannot attend to the earlier. Absent if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub out_of_sight: Option<NonZeroU64>,
    /// Number of words not scored because they or their syntactic heads have the first token of a decoder's input. Absent if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub with_first: Option<NonZeroU64>,
}

impl Relations {
    /// Returns why the report has no syntactic label. Empty if it has one.
    fn in_brief(&self, policy: &Policy) -> InBrief {
        let (all, least) = (&self.relations, policy.count(&MIN_COUNT));
        let Some(commonest) = all.iter().max_by_key(|relation| relation.count) else {
            return InBrief::from_finding(
                "No word of the corpus has an annotated head, so no relation was tested.".to_owned(),
            );
        };
        if commonest.count < least {
            let relation = match commonest.relation.as_str() {
                "all" => "of all relations together".to_owned(),
                _ => format!("of {}, the most frequent relation", one_line(&commonest.title())),
            };
            let words = ["word", "words"].map(|words| format!("{words} {relation}"));
            let mut shortage = Shortage::new("a syntactic label", [commonest.count, least], words);
            let sentences = commonest.sentences.filter(|&sentences| sentences > 0);
            let times = sentences.map(|sentences| policy.count(&MIN_SENTENCES) as f64 / sentences as f64);
            shortage.growth_factor = shortage.growth_factor.zip(times).map(|(words, sentences)| words.max(sentences));
            return InBrief { shortage: Some(shortage), ..InBrief::default() };
        }
        let tested = || all.iter().filter(|relation| relation.count >= least);
        let fires = |relation: &RelationMetrics| {
            (0..relation.by_head.len())
                .flat_map(|place| assess_on_relation(relation, place, policy))
                .any(|one| one.meets_rule)
        };
        if tested().any(fires) {
            return InBrief::default();
        }
        let points = 100.0 * policy.share(&MARGIN);
        let leads = tested().flat_map(|relation| {
            relation.per_head_and_direction(move |head, direction| {
                Some((head.versus_offset.get(direction).as_ref()?.difference, head.place, relation))
            })
        });
        let nearest = leads.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(difference, head, relation)| {
            let (title, offset) = (one_line(&relation.title()), relation.baseline.accuracy);
            let accuracies = [offset + difference, offset].map(whole_percent);
            format!("; nearest is {head} on {title}: accuracy {}, best offset {}", accuracies[0], accuracies[1])
        });
        let nearest = nearest.unwrap_or_default();
        InBrief::from_finding(format!(
            "No head follows a dependency relation: none is {points:.0} points above the best fixed offset{nearest}."
        ))
    }

    /// Counts the tests, and the significant ones. The latter count is `None` if the policy has no bound on q-values.
    fn count_tests(&self, policy: &Policy) -> Tests {
        let tested = testable_relations(&self.relations, policy);
        let comparisons: Vec<&Comparison> = tested.into_iter().flat_map(RelationMetrics::offset_comparisons).collect();
        let above: Vec<f64> = comparisons.iter().filter_map(|comparison| comparison.q).collect();
        let significant = policy.rule(&LABEL_Q).map(|most| above.iter().filter(|&&q| q <= most).count());
        Tests { count: comparisons.len(), above: above.len(), significant, ..self.tests }
    }

    /// Returns the arcs that attention heads follow, as claimed by the syntactic labels of `verdicts`.
    pub(super) fn arc_claims(&self, verdicts: &[Verdict]) -> Vec<ArcClaim> {
        let claim = |place: usize, label: &Label| {
            let direction = label.direction?;
            let is_labelled = |relation: &&RelationMetrics| {
                label.label == label_name(&relation.relation) && scored_directions(relation.side).contains(&direction)
            };
            let relation = self.relations.iter().find(is_labelled)?;
            let (label, name) = (label.label.clone(), relation.relation.clone());
            Some(ArcClaim { place, label, relation: name, direction, offset: relation.baseline.offset })
        };
        let labels = verdicts.iter().enumerate().flat_map(|(place, verdict)| zip(repeat(place), &verdict.labels));
        labels.filter_map(|(place, label)| claim(place, label)).collect()
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        if self.relations.is_empty() {
            return writeln!(out, "No word of the corpus has an annotated head, so no syntactic label was tested.");
        }
        let min_count = policy.count(&MIN_COUNT);
        let shown = testable_relations(&self.relations, policy);
        if shown.is_empty() {
            let most = self.relations.iter().map(|relation| relation.count).max().unwrap_or(0);
            return writeln!(
                out,
                "No relation has {}, so none is tested and there is no syntactic label; the most frequent has {most} \
                 (`--min-count` sets the fewest).",
                format_count(min_count, "word")
            );
        }
        let points = policy.share(&MARGIN) * 100.0;
        writeln!(
            out,
            "Best head of each relation with at least {}, in % of words, ± half of the 95 % interval (held-out: head chosen on one \
             half of the sentences, scored on the other; q: of the test that the head is more than {points:.0} points over the offset, - where \
             it is not):\n",
            format_count(min_count, "word")
        )?;
        let (better, others): (Vec<&RelationMetrics>, Vec<&RelationMetrics>) =
            shown.iter().partition(|relation| relation.accuracy > relation.baseline.accuracy);
        if !better.is_empty() {
            out.table_with_optional_columns(column_table(&COLUMNS, &better), COLUMN_DROP_ORDER);
        }
        if !others.is_empty() {
            let on_side = |side: Option<Side>| {
                let on_side = others.iter().filter(|one| one.side == side);
                let names: Vec<String> = on_side.map(|one| one_line(&one.relation)).collect();
                let place = side.map(|side| format!(" where the syntactic head is on the {}", side.name()));
                (!names.is_empty()).then(|| names.join(", ") + &place.unwrap_or_default())
            };
            let names = [None, Some(Side::Left), Some(Side::Right)].into_iter().filter_map(on_side).join("; ");
            writeln!(out, "\nRelations on which no head is above the best fixed offset: {names}.")?;
        }
        let Tests { count, above, significant, out_of_sight, with_first } = self.tests;
        let are = plural(&above, "is", "are");
        write!(out, "\n{above} of {count} head-relation pairs {are} {points:.0} points above the best offset")?;
        if let Some((significant, rate)) = significant.zip(policy.rule(&LABEL_Q)) {
            writeln!(out, ", {significant} significantly (firm: q <= {rate}).")?;
        } else {
            writeln!(out, "; the policy asks no significance.")?;
        }
        if let Some(words) = out_of_sight {
            let words = format_count(words.get(), "word");
            writeln!(out, "Not scored: {words} farther from the head than some layer's window reaches.")?;
        }
        if let Some(words) = with_first {
            let words = format_count(words.get(), "word");
            writeln!(
                out,
                "Not scored: {words} with an arc to or from the first token, which is attended to for its place."
            )?;
        }
        self.write_beaten_baselines(out, policy)?;
        let rare = self.relations.len() - shown.len();
        if rare > 0 {
            let (relations, is) = (format_count(rare, "rarer relation"), plural(&rare, "is", "are"));
            writeln!(out, "{relations} {is} not tested (in the report).")?;
        }
        Ok(())
    }

    /// Writes how many firm syntactic labels beat other arcs ([`Reach::Relation`]), and how many also word classes
    /// ([`Reach::Tags`]). Writes nothing without firm labels.
    fn write_beaten_baselines(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        let places = self.relations.iter().flat_map(|one| (0..one.by_head.len()).map(move |place| (one, place)));
        let mut assessed: Vec<Vec<Assessment>> =
            places.map(|(one, place)| assess_on_relation(one, place, policy)).collect();
        correct_for_multiple_tests(assessed.iter_mut().flatten(), policy);
        let firm =
            assessed.into_iter().flat_map(best_of_each_label).filter(|one| one.meets_rule && !one.label.borderline);
        let firm: Vec<Label> = firm.map(|one| one.label).collect();
        if firm.is_empty() {
            return Ok(());
        }
        let reaching = |least: Reach| firm.iter().filter(|label| label.beaten_baseline() >= Some(least)).count();
        let has_tags = firm.iter().any(|label| label.versus_tags.is_some());
        let tags = if has_tags { format!(", {} beyond word classes", reaching(Reach::Tags)) } else { String::new() };
        writeln!(
            out,
            "Of {}, {} {} beyond other arcs{tags} (`headscope explain beyond`).",
            format_count(firm.len(), "firm syntactic label"),
            reaching(Reach::Relation),
            plural(&reaching(Reach::Relation), "is", "are"),
        )
    }

    /// Computes the q-values of all tests, over the relations with at least as many words as the policy requires.
    fn set_q_values(&mut self, policy: &Policy) {
        let [margin, specific, beyond] =
            [&MARGIN, &SPECIFICITY_MARGIN, &BETTER_BASELINE_MARGIN].map(|margin| policy.share(margin));
        self.correct_for_multiple_tests(
            policy,
            |relation| relation.offset_tests(margin),
            |head| head.versus_offset.both_mut(),
            |comparison, test, q| (comparison.p, comparison.q) = (test.p, q),
        );
        // Over the labels that there are.
        self.correct_for_multiple_tests(
            policy,
            |relation| relation.specificity_tests(specific, margin),
            |head| head.specific.both_mut(),
            |specificity, test, q| (specificity.p, specificity.q) = (test.p, q),
        );
        self.correct_for_multiple_tests(
            policy,
            |relation| relation.better_baseline_tests(beyond),
            |head| head.versus_tags.both_mut(),
            |comparison, test, q| {
                (comparison.lead, comparison.lead_ci95) = (test.difference.value, test.difference.ci95);
                (comparison.p, comparison.q) = (test.p, q);
            },
        );
        self.relations.iter_mut().for_each(RelationMetrics::set_best_head_comparisons);
        self.tests = self.count_tests(policy);
    }

    /// Stores the result of each test with its q-value. Relations with too few words have no q-value, since they are
    /// outside the family of tests.
    ///
    /// `tests` and `tested` must list attention heads and directions in the same order.
    fn correct_for_multiple_tests<T>(
        &mut self,
        policy: &Policy,
        tests: impl Fn(&RelationMetrics) -> Vec<MarginExcess>,
        tested: impl Fn(&mut HeadAccuracy) -> [&mut Option<T>; 2],
        set: impl Fn(&mut T, MarginExcess, Option<f64>),
    ) {
        let min_count = policy.count(&MIN_COUNT);
        let tests: Vec<Vec<MarginExcess>> = self.relations.iter().map(tests).collect();
        let p = self.relations.iter().zip(&tests).flat_map(|(relation, tests)| {
            tests.iter().map(move |test| test.p.filter(|_| test.is_above_margin && relation.count >= min_count))
        });
        let mut q = q_values_above_margin(&p.collect::<Vec<_>>()).into_iter();
        for (relation, tests) in self.relations.iter_mut().zip(tests) {
            let results = relation.by_head.iter_mut().flat_map(&tested).flatten();
            results.zip(tests).for_each(|(result, test)| set(result, test, q.next().flatten()));
        }
    }

    /// Returns the accuracy of each attention head. The accuracy in the relation's entry, that of the selected best head, is
    /// left out: its interval ignores the selection, so a test would exceed its level.
    fn numbers<'a>(&'a self, policy: &Policy) -> Vec<Number<'a>> {
        let min_count = policy.count(&MIN_COUNT);
        let numbers_of = |relation: &'a RelationMetrics| {
            let cells = relation.by_head.iter().enumerate().cartesian_product(scored_directions(relation.side));
            cells.map(move |((head, entry), &direction)| Number {
                part: Part::Relations,
                head,
                subject: relation.relation.clone(),
                name: accuracy_name(&relation.relation, direction),
                unit: Unit::Shares,
                base_number: None,
                value: *entry.accuracy.get(direction),
                ci95: *entry.ci95.get(direction),
                blocks: relation.blocks,
                effective_blocks: relation.effective_blocks,
                trials: Some(relation.count),
                has_enough_evidence: relation.count >= min_count,
                jackknife: entry.left_out.get(direction).as_ref(),
            })
        };
        self.relations.iter().flat_map(numbers_of).collect()
    }
}

pub(super) const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "significance-not-asked",
        text: "The policy asks no significance of syntactic labels: some may be there by chance.",
        subject: CaveatSubject::Certainty,
        applies: |labels| {
            labels.policy.rule(&LABEL_Q).is_none() && labels.has_label(|label| label.starts_with("syntactic:"))
        },
    },
    Caveat {
        id: "selection",
        text: "The best head of a relation is the best of many tried: its `accuracy` is biased upwards, \
            `heldout_accuracy` is not.",
        subject: CaveatSubject::Certainty,
        applies: has_relations,
    },
    Caveat {
        id: "no-trees",
        text: "No word of the corpus has an annotated head: no syntactic label could be tested.",
        subject: CaveatSubject::Certainty,
        applies: |labels| !has_relations(labels),
    },
];

/// Whether the corpus has any dependency relation.
fn has_relations(labels: &Labelling<'_>) -> bool {
    !downcast_section::<Relations>(labels.section).relations.is_empty()
}

stored!(Relations { relations: Vec<RelationMetrics>, tests: Tests });

impl Section for Relations {
    fn add_late_fact(&mut self, known: &LateFact<'_>) {
        match known {
            LateFact::Policy(policy) => self.set_q_values(policy),
            LateFact::Rounded => self.relations.iter_mut().for_each(RelationMetrics::drop_unlabelled_comparisons),
            _ => {}
        }
    }

    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(policy),
            summary: Summary::from_writer(|out| self.write_summary(out, policy)),
            figures: figures(&self.relations, policy),
            tables: tables(&self.relations, policy),
            numbers: self.numbers(policy),
            relation_scores: self.relations.iter().map(RelationMetrics::ranked_heads).collect(),
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, ViewContext { policy, .. }: ViewContext<'_>) -> HeadCard {
        let best = testable_relations(&self.relations, policy).into_iter().filter(|relation| relation.place == place);
        let figures = figure::head_figures(&self.relations, place, policy);
        HeadCard { figures, ..best.map(RelationMetrics::best_head_line).collect() }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let has_all_heads = |relation: &RelationMetrics| {
            grid.equals_all_heads(relation.by_head.iter().map(|entry| entry.place))
                && grid.first_outside([relation.place]).is_none()
        };
        let defect = |is_valid: &dyn Fn(&RelationMetrics) -> bool, fault: &str| {
            let relation = self.relations.iter().find(|relation| !is_valid(relation))?;
            Some(format!("the relation `{}` does not {fault}", relation.relation))
        };
        defect(&has_all_heads, "list every head")
            .or_else(|| defect(&RelationMetrics::is_best_head_scored, "score its best head"))
    }
}

#[cfg(test)]
mod tests;
