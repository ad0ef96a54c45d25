//! The section `relations` of the report: corrected for the number of tests, shown as a table, with its caveats.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use comfy_table::CellAlignment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::relation::RelationMetrics;
use super::thresholds::{MIN_COUNT, Q};
use crate::model::grid::{HeadGrid, head_name};
use crate::stats::significance::benjamini_hochberg;
use crate::studies::policy::Policy;
use crate::studies::section::Section;
use crate::studies::study::{About, Caveat, Judged};
use crate::studies::wording::{percent, plain_table, plus_minus, significance};
use crate::system::terminal::printable;

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
    /// How many tests there are, and how many have a q-value of at most `most`, if there is such a bound.
    fn tests(&self, most: Option<f64>) -> Tests {
        let comparisons = self.relations.iter().flat_map(RelationMetrics::comparisons);
        let tested: Vec<f64> = comparisons.filter_map(|comparison| comparison.q).collect();
        let significant = most.map(|most| tested.iter().filter(|&&q| q <= most).count());
        Tests { count: tested.len(), significant }
    }

    fn write_summary(&self, out: &mut String, policy: &Policy) -> fmt::Result {
        if self.relations.is_empty() {
            return writeln!(out, "No word of the corpus has an annotated head, so no syntactic label was tested.");
        }
        let least = policy.count(&MIN_COUNT);
        let mut shown: Vec<&RelationMetrics> =
            self.relations.iter().filter(|relation| relation.count >= least).collect();
        shown.sort_by_key(|relation| Reverse(relation.count));
        writeln!(
            out,
            "Best head of each relation with at least {least} words, in % of words, ± half of the 95 % interval:\n"
        )?;
        let mut table = plain_table();
        table.set_header([
            "relation",
            "words",
            "head",
            "direction",
            "accuracy",
            "held-out",
            "offset",
            "baseline",
            "held-out",
            "gain",
            "q",
        ]);
        shown.iter().for_each(|relation| {
            table.add_row(row(relation));
        });
        for (column, number) in table.column_iter_mut().enumerate() {
            let text = [0, 2, 3].contains(&column);
            number.set_cell_alignment(if text { CellAlignment::Left } else { CellAlignment::Right });
        }
        writeln!(out, "{table}")?;
        let Tests { count, significant } = self.tests;
        match significant.zip(policy.rule(&Q)) {
            Some((significant, rate)) => writeln!(
                out,
                "\n{significant} of {count} tests of a head against the offset are significant (q <= {rate})."
            )?,
            None => {
                writeln!(out, "\n{count} tests of a head against the offset; no significance is asked of a label.")?;
            }
        }
        let rare = self.relations.len() - shown.len();
        if rare > 0 {
            writeln!(out, "{rare} rarer relations are in the report only, and are not tested.")?;
        }
        Ok(())
    }

    /// The caveats that apply to a run.
    pub fn caveats(&self, judged: &Judged<'_>) -> Vec<&'static Caveat> {
        let has_trees = !self.relations.is_empty();
        let untested = judged.policy.rule(&Q).is_none() && judged.has_label(|label| label.starts_with("syntactic:"));
        let all = [
            (&WORDS_OF_A_SENTENCE, has_trees),
            (&SIGNIFICANCE_NOT_ASKED, untested),
            (&SELECTION, has_trees),
            (&NO_TREES, !has_trees),
        ];
        all.into_iter().filter(|(_, applies)| *applies).map(|(caveat, _)| caveat).collect()
    }
}

static WORDS_OF_A_SENTENCE: Caveat = Caveat {
    id: "words-of-a-sentence",
    text: "The significance tests take words as independent, which those of one sentence are not; \
        the intervals of the differences do not.",
    about: About::Certainty,
};

static SIGNIFICANCE_NOT_ASKED: Caveat = Caveat {
    id: "significance-not-asked",
    text: "The policy asks no significance of syntactic labels: some may be there by chance.",
    about: About::Certainty,
};

static SELECTION: Caveat = Caveat {
    id: "selection",
    text: "The best head of a relation is the best of many tried: its `accuracy` is biased upwards, \
        `heldout_accuracy` is not.",
    about: About::Certainty,
};

static NO_TREES: Caveat = Caveat {
    id: "no-trees",
    text: "No word of the corpus has an annotated head: no syntactic label could be tested.",
    about: About::Certainty,
};

/// One relation's row of the table.
fn row(relation: &RelationMetrics) -> [String; 11] {
    let baseline = &relation.baseline;
    let (versus, ci95) = (&relation.versus_offset, &relation.ci95);
    [
        printable(&relation.relation),
        relation.count.to_string(),
        head_name(relation.layer, relation.head),
        relation.direction.name().to_owned(),
        percent(Some(relation.accuracy)) + &plus_minus(ci95.accuracy),
        percent(relation.heldout_accuracy) + &plus_minus(ci95.heldout_accuracy),
        format!("{:+}", baseline.offset),
        percent(Some(baseline.accuracy)),
        percent(baseline.heldout_accuracy),
        format!("{:+.1}{}", versus.difference * 100.0, plus_minus(versus.ci95)),
        versus.q.map_or_else(|| "-".to_owned(), significance),
    ]
}

impl Section for Relations {
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        vec![("relations", &self.relations), ("tests", &self.tests)]
    }

    /// Corrects for the number of tests: sets the q-values of all relations with at least as many words as the policy
    /// asks for, and takes away those of the others, which are not tested.
    fn correct(&mut self, policy: &Policy) {
        let min_count = policy.count(&MIN_COUNT);
        let tested = self.relations.iter().filter(|relation| relation.count >= min_count);
        let p: Vec<f64> = tested.flat_map(RelationMetrics::comparisons).map(|comparison| comparison.p).collect();
        let mut q = benjamini_hochberg(&p).into_iter();
        for relation in &mut self.relations {
            let tested = relation.count >= min_count;
            relation.comparisons_mut().for_each(|comparison| comparison.q = if tested { q.next() } else { None });
            relation.compare_best();
        }
        self.tests = self.tests(policy.rule(&Q));
    }

    fn summary(&self, policy: &Policy) -> String {
        let mut text = String::new();
        self.write_summary(&mut text, policy).expect("writing to a string does not fail");
        text
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = self.relations.iter().find(|relation| {
            let listed = relation.by_head.iter().map(|entry| (entry.layer, entry.head));
            let best_is_listed = relation.layer < grid.layers && relation.head < grid.heads;
            !best_is_listed || !listed.eq((0..grid.count()).map(|place| grid.at(place)))
        });
        broken.map(|relation| format!("the relation `{}` does not list every head", relation.relation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::dependency::{HeadAccuracy, OffsetBaseline, RelationIntervals};
    use crate::studies::evidence::{ByDirection, Comparison, Direction};
    use crate::studies::policy::Value;

    #[test]
    fn q_values_go_to_the_tests_they_are_of() {
        let relation = |name: &str, count: u64, p: [f64; 2]| {
            let comparison =
                |p| Comparison { difference: 0.0, ci95: None, head_only: 0, offset_only: 0, p, q: Some(0.5) };
            let [dependent_to_head, head_to_dependent] = p;
            let versus_offset = ByDirection {
                dependent_to_head: comparison(dependent_to_head),
                head_to_dependent: comparison(head_to_dependent),
            };
            RelationMetrics {
                relation: name.to_owned(),
                count,
                layer: 0,
                head: 0,
                direction: Direction::HeadToDependent,
                accuracy: 0.0,
                heldout_accuracy: None,
                baseline: OffsetBaseline { offset: 1, accuracy: 0.0, heldout_accuracy: None },
                ci95: RelationIntervals::default(),
                versus_offset: comparison(head_to_dependent),
                by_head: vec![HeadAccuracy {
                    layer: 0,
                    head: 0,
                    accuracy: ByDirection::default(),
                    ci95: ByDirection::default(),
                    versus_offset,
                }],
            }
        };
        let relations = vec![
            relation("few", 9, [0.5, 0.0]),
            relation("many", 10, [0.5, 0.01]),
            relation("rare", 1, [0.0, 0.0]),
            relation("some", 11, [0.25, 0.125]),
        ];
        let mut found = Relations { relations, tests: Tests::default() };
        let policy = |min_count: u64, most: Value| {
            let values = [(MIN_COUNT.name, Value::Count(min_count)), (Q.name, most)];
            Policy::of([&MIN_COUNT, &Q]).with(values)
        };
        found.correct(&policy(10, Value::Share(0.3)));
        let q: Vec<Option<f64>> =
            found.relations.iter().flat_map(RelationMetrics::comparisons).map(|comparison| comparison.q).collect();
        // Four tests: 0.01 x 4, 0.125 x 2, 0.25 x 4/3, 0.5.
        let expected = [None, None, Some(0.5), Some(0.04), None, None, Some(1.0 / 3.0), Some(0.25)];
        assert_eq!(q, expected);
        // The best head of `many` is the second direction's.
        assert_eq!(found.relations[1].versus_offset.q, Some(0.04));
        assert_eq!(found.relations[0].versus_offset.q, None);
        assert_eq!(found.tests, Tests { count: 4, significant: Some(2) });
        found.correct(&policy(10, Value::Off));
        assert_eq!(found.tests, Tests { count: 4, significant: None });
        found.correct(&policy(12, Value::Share(1.0)));
        assert_eq!(found.tests, Tests { count: 0, significant: Some(0) });
    }
}
