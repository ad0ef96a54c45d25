//! The section `relations` of the report: corrected for the number of tests, shown as a table, with its caveats.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assessment::{accuracy_of, label_of, of_relation};
use super::relation::RelationMetrics;
use super::table::{MAY_GO, table};
use super::thresholds::{BEYOND_MARGIN, MIN_COUNT, Q};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::stats::significance::benjamini_hochberg;
use crate::study::labels::evidence::{Direction, Reach};
use crate::study::labels::policy::Policy;
use crate::study::labels::{Label, Verdict};
use crate::study::metrics::number::{Number, Part, most_blocks};
use crate::study::section::{Completion, Exports, HeadCard, Section, section, stored};
use crate::study::show::figure::Figure;
use crate::study::show::summary::Summary;
use crate::study::show::table::Table;
use crate::study::upstream::ArcClaim;
use crate::study::{Caveat, CaveatSubject, Labelling};
use crate::system::counted::{counted, plural};
use crate::system::printable::printable;

/// All relations of a corpus, by name, and the tests on them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Relations {
    /// One object per dependency relation; empty for a corpus without trees.
    pub relations: Vec<RelationMetrics>,
    /// How many tests the syntactic labels rest on.
    pub tests: Tests,
}

/// How many tests of a head against a fixed offset a run makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tests {
    /// Tests: every head in both directions, on every relation with enough words.
    pub count: usize,
    /// Those with a q-value of at most `settings.policy.syntactic_q`; null where that is, and no significance is asked.
    pub significant: Option<usize>,
}

impl Relations {
    /// The relations; every head on each of them; the best head of each by distance.
    pub(super) fn tables(&self) -> Vec<Table> {
        /// The values of a relation, with its name.
        #[derive(Serialize)]
        struct RelationEntry<'a, T> {
            relation: &'a str,
            #[serde(flatten)]
            entry: &'a T,
        }
        fn of<'a, T>(relation: &'a RelationMetrics, entries: &'a [T]) -> impl Iterator<Item = RelationEntry<'a, T>> {
            entries.iter().map(|entry| RelationEntry { relation: &relation.relation, entry })
        }
        let all = &self.relations;
        vec![
            Table::of("relations", all),
            Table::of("by_head", all.iter().flat_map(|relation| of(relation, &relation.by_head))),
            Table::of("by_distance", all.iter().flat_map(|relation| of(relation, &relation.by_distance))),
        ]
    }

    /// How many tests there are, and how many have a q-value of at most `most`, if there is such a bound.
    fn tests(&self, most: Option<f64>) -> Tests {
        let comparisons = self.relations.iter().flat_map(RelationMetrics::comparisons);
        let tested: Vec<f64> = comparisons.filter_map(|comparison| comparison.q).collect();
        let significant = most.map(|most| tested.iter().filter(|&&q| q <= most).count());
        Tests { count: tested.len(), significant }
    }

    /// The arcs that the syntactic labels of these verdicts claim heads to follow.
    pub(super) fn claims(&self, verdicts: &[Verdict]) -> Vec<ArcClaim> {
        let of_label = |place: usize, label: &Label| {
            let relation = self.relations.iter().find(|relation| label.label == label_of(&relation.relation))?;
            let (label, direction, name) = (label.label.clone(), label.direction?, relation.relation.clone());
            Some(ArcClaim { place, label, relation: name, direction, offset: relation.baseline.offset })
        };
        let heads = verdicts.iter().enumerate();
        heads
            .flat_map(|(place, verdict)| verdict.labels.iter().filter_map(move |label| of_label(place, label)))
            .collect()
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        if self.relations.is_empty() {
            return writeln!(out, "No word of the corpus has an annotated head, so no syntactic label was tested.");
        }
        let least = policy.count(&MIN_COUNT);
        let mut shown: Vec<&RelationMetrics> =
            self.relations.iter().filter(|relation| relation.count >= least).collect();
        shown.sort_by_key(|relation| Reverse(relation.count));
        if shown.is_empty() {
            let most = self.relations.iter().max_by_key(|relation| relation.count).map_or(0, |relation| relation.count);
            return writeln!(
                out,
                "No relation has {}, the fewest that are tested, so there is no syntactic label; the most that \
                 one has is {most}. `--min-count` sets the fewest.",
                counted(least, "word")
            );
        }
        writeln!(
            out,
            "Best head of each relation with at least {}, in % of words, ± half of the 95 % interval:\n",
            counted(least, "word")
        )?;
        let (better, others): (Vec<&RelationMetrics>, Vec<&RelationMetrics>) =
            shown.iter().partition(|relation| relation.accuracy > relation.baseline.accuracy);
        if !better.is_empty() {
            out.table_without(table(&better), MAY_GO);
        }
        if !others.is_empty() {
            let named: Vec<String> = others.iter().map(|relation| printable(&relation.relation)).collect();
            writeln!(out, "\nNo head is better than the best fixed offset at {}.", named.join(", "))?;
        }
        let Tests { count, significant } = self.tests;
        let tests = counted(count, "test");
        if let Some((significant, rate)) = significant.zip(policy.rule(&Q)) {
            let are = plural(&significant, "is", "are");
            writeln!(out, "\n{significant} of {tests} of a head against the offset {are} significant (q <= {rate}).")?;
        } else {
            writeln!(out, "\n{tests} of a head against the offset; no significance is asked of a label.")?;
        }
        self.write_reach(out, policy)?;
        let rare = self.relations.len() - shown.len();
        if rare > 0 {
            let is = plural(&rare, "is", "are");
            let relations = counted(rare, "rarer relation");
            writeln!(out, "{relations} {is} in the report only, and {is} not tested.")?;
        }
        Ok(())
    }

    /// How many syntactic labels reach beyond word classes, where there are any.
    fn write_reach(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        let places = |relation: &RelationMetrics| 0..relation.by_head.len();
        let labels = self.relations.iter().flat_map(|relation| {
            places(relation).filter_map(|place| of_relation(relation, place, policy)).filter(|label| label.fires)
        });
        let reaches: Vec<Reach> = labels.filter_map(|assessment| assessment.label.beyond).collect();
        if reaches.is_empty() {
            return Ok(());
        }
        let beyond = reaches.iter().filter(|reach| **reach == Reach::Tags).count();
        writeln!(
            out,
            "{beyond} of {} {} beyond tags: the head also finds more than the nearest word of a word \
             class does.",
            counted(reaches.len(), "syntactic label"),
            plural(&beyond, "reaches", "reach"),
        )
    }

    /// Corrects the tests against the better of both baselines for their number, as [`Section::correct`] does those
    /// against the offset.
    fn correct_beyond(&mut self, policy: &Policy) {
        let (min_count, margin) = (policy.count(&MIN_COUNT), policy.share(&BEYOND_MARGIN));
        let mut tested = Vec::new();
        for relation in &mut self.relations {
            let (tests, enough) = (relation.tests_beyond(margin), relation.count >= min_count);
            for (comparison, p) in relation.tag_comparisons_mut().zip(tests) {
                (comparison.p, comparison.q) = (p, None);
                if enough && p.is_some() {
                    tested.push(comparison);
                }
            }
        }
        let p: Vec<f64> = tested.iter().filter_map(|comparison| comparison.p).collect();
        tested.into_iter().zip(benjamini_hochberg(&p)).for_each(|(comparison, q)| comparison.q = Some(q));
    }
}

/// The limits of what the study shows.
pub(super) const CAVEATS: &[Caveat] = &[
    Caveat {
        id: "words-of-a-sentence",
        text: "The significance tests take words as independent, which those of one sentence are not; \
            the intervals of the differences do not.",
        about: CaveatSubject::Certainty,
        applies: has_trees,
    },
    Caveat {
        id: "significance-not-asked",
        text: "The policy asks no significance of syntactic labels: some may be there by chance.",
        about: CaveatSubject::Certainty,
        applies: |labels| labels.policy.rule(&Q).is_none() && labels.has_label(|label| label.starts_with("syntactic:")),
    },
    Caveat {
        id: "selection",
        text: "The best head of a relation is the best of many tried: its `accuracy` is biased upwards, \
            `heldout_accuracy` is not.",
        about: CaveatSubject::Certainty,
        applies: has_trees,
    },
    Caveat {
        id: "no-trees",
        text: "No word of the corpus has an annotated head: no syntactic label could be tested.",
        about: CaveatSubject::Certainty,
        applies: |labels| !has_trees(labels),
    },
];

/// Whether some word has a head.
fn has_trees(labels: &Labelling<'_>) -> bool {
    !section::<Relations>(labels.section).relations.is_empty()
}

impl RelationMetrics {
    /// The accuracy of each head in each direction.
    fn numbers(&self, min_count: u64) -> Vec<Number<'_>> {
        // Reports of 0.1 do not say in how many blocks it has a word.
        let most = most_blocks(self.sentences.unwrap_or(self.count));
        let (blocks, enough) = (if self.blocks > 0 { self.blocks } else { most }, self.count >= min_count);
        let mut numbers = Vec::new();
        for (head, entry) in self.by_head.iter().enumerate() {
            for direction in Direction::BOTH {
                numbers.push(Number {
                    part: Part::Relations,
                    head,
                    of: self.relation.clone(),
                    name: accuracy_of(&self.relation, direction),
                    value: Some(*entry.accuracy.get(direction)),
                    ci95: *entry.ci95.get(direction),
                    blocks,
                    trials: Some(self.count),
                    enough,
                    left_out: entry.left_out.get(direction).as_ref(),
                });
            }
        }
        numbers
    }
}

stored!(Relations { relations: Vec<RelationMetrics>, tests: Tests });

impl Section for Relations {
    fn complete(&mut self, known: &Completion<'_>) {
        if let Completion::Policy(policy) = known {
            self.correct(policy);
        }
    }

    fn summary(&self, policy: &Policy) -> Summary {
        Summary::written(|out| self.write_summary(out, policy))
    }

    /// The accuracy of each head in each direction, for every relation. The interval of a chosen head, the best one or
    /// a held-out one, ignores the choice, so a test of it would not hold its level.
    fn numbers(&self, policy: &Policy) -> Vec<Number<'_>> {
        self.relations.iter().flat_map(|relation| relation.numbers(policy.count(&MIN_COUNT))).collect()
    }

    fn of_head(&self, place: HeadPlace, policy: &Policy) -> HeadCard {
        let least = policy.count(&MIN_COUNT);
        let of_it = |relation: &&RelationMetrics| relation.place == place && relation.count >= least;
        let mut best: Vec<&RelationMetrics> = self.relations.iter().filter(of_it).collect();
        best.sort_by_key(|relation| Reverse(relation.count));
        best.into_iter().map(RelationMetrics::of_best_head).collect()
    }

    fn exports(&self) -> Exports {
        Exports { tracked: self.relations.iter().map(RelationMetrics::tracked).collect(), ..Exports::default() }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = self.relations.iter().find(|relation| {
            let whole = grid.is(relation.by_head.iter().map(|entry| entry.place));
            !whole || grid.stray([relation.place]).is_some()
        });
        broken.map(|relation| format!("the relation `{}` does not list every head", relation.relation))
    }

    fn figures(&self, policy: &Policy) -> Vec<Figure> {
        super::figure::figures(self, policy)
    }

    fn tables(&self) -> Vec<Table> {
        self.tables()
    }
}

impl Relations {
    /// Corrects for the number of tests: sets the q-values of all relations with at least as many words as the policy
    /// requires, and removes the q-values of the others, which are not tested.
    fn correct(&mut self, policy: &Policy) {
        let min_count = policy.count(&MIN_COUNT);
        let tested = self.relations.iter().filter(|relation| relation.count >= min_count);
        let p: Vec<f64> = tested.flat_map(RelationMetrics::comparisons).map(|comparison| comparison.p).collect();
        let mut q = benjamini_hochberg(&p).into_iter();
        for relation in &mut self.relations {
            let tested = relation.count >= min_count;
            relation.comparisons_mut().for_each(|comparison| comparison.q = if tested { q.next() } else { None });
        }
        self.correct_beyond(policy);
        self.relations.iter_mut().for_each(RelationMetrics::compare_best);
        self.tests = self.tests(policy.rule(&Q));
    }
}

#[cfg(test)]
mod tests;
