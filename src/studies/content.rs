//! Labels by what a head attends to: above uniform attention, and above what its preference for offsets alone would
//! give (METHODOLOGY, "Labels of content").

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::{MIN_QUERIES, MIN_SENTENCES};
use super::label::{Assessment, Bound, Evidence, Measured, assess};
use super::metric::{Bench, Column, Fraction, cell_names};
use super::policy::{Policy, Threshold};
use super::section::{Section, section};
use crate::model::grid::HeadGrid;
use crate::stats::block_test::{p_value, standard_error};
use crate::stats::blocks::BLOCKS;
use crate::stats::significance::benjamini_hochberg;

/// How many times the position-matched chance a label of content asks for: that chance is right to about a tenth, for
/// it takes a head's preference for offsets as the same for all queries, so a label keeps twice that away.
pub const TIMES_EXPECTED: f64 = 1.25;

/// The ending of the metric that is the position-matched chance of another.
pub const EXPECTED: &str = "_expected";

/// Largest q-value of a label of content.
pub const CONTENT_Q: Threshold = Threshold::rule(
    "content_q",
    0.05,
    "largest q-value of a label by what a head attends to: the rate of false discoveries among the heads and tags that \
        are significant; if off, no significance is asked of it",
);

/// The labels of one detector: those whose name begins so, with the threshold that is their margin over chance.
pub struct Family {
    /// The label, or the part of it before the colon.
    pub name: &'static str,
    /// The margin over uniform attention.
    pub margin: &'static Threshold,
}

/// A label of content, and how every head stands to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContentLabel {
    /// The label.
    pub label: String,
    /// The metric that it rests on; after a dot the key, where it has several.
    pub metric: String,
    /// Eligible queries.
    pub count: u64,
    /// Sentences with any.
    pub sentences: u64,
    /// Blocks of sentences with any.
    pub blocks: usize,
    /// Every head.
    pub by_head: Vec<HeadTest>,
}

/// One head against both of a label's baselines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadTest {
    /// Layer.
    pub layer: usize,
    /// Head within the layer.
    pub head: usize,
    /// The metric less that of uniform attention.
    pub over_chance: Lead,
    /// The metric less 1.25 times its position-matched chance.
    pub over_position: Lead,
    /// The larger p-value of two block tests: of the lead over chance against the label's margin, and of the lead over
    /// position against 0; 1 where the head is not above both, null where one cannot be tested.
    pub p: Option<f64>,
    /// `p` corrected by Benjamini & Hochberg for all heads and labels of the family; null where there is too little
    /// evidence to be tested.
    pub q: Option<f64>,
}

/// A difference with its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lead {
    /// The difference; null where the metric has no value.
    pub difference: Option<f64>,
    /// Its standard error, by leaving out one block at a time; null where fewer than 20 have a denominator.
    pub standard_error: Option<f64>,
}

impl Lead {
    /// The ratio of sums over blocks less `times` another one, by pairs of those; their denominators are the same.
    fn of(blocks: impl Iterator<Item = (Fraction, Fraction)>, times: f64) -> Self {
        let parts = blocks.map(|(value, other)| (value.numerator() - times * other.numerator(), value.denominator()));
        let (above, below): (Vec<f64>, Vec<f64>) = parts.unzip();
        let (sum, count): (f64, f64) = (above.iter().sum(), below.iter().sum());
        let difference = (count > 0.0).then(|| sum / count);
        Self { difference, standard_error: standard_error(&above, &below) }
    }

    /// The p-value of the lead being above `margin`: 1 where it is not.
    ///
    /// The block test has two sides; what is surely below the margin is no discovery, and must not count as one when
    /// the tests are corrected for their number.
    fn p(&self, margin: f64, blocks: usize) -> Option<f64> {
        let excess = self.difference? - margin;
        if excess <= 0.0 { Some(1.0) } else { p_value(excess, self.standard_error?, blocks) }
    }
}

/// A metric and its position-matched chance, by their names: those of cells, with the key after a dot.
fn expected_of(metric: &str) -> String {
    match metric.split_once('.') {
        Some((id, key)) => format!("{id}{EXPECTED}.{key}"),
        None => format!("{metric}{EXPECTED}"),
    }
}

/// How every head stands to labels, each given with the metric that it rests on, of a study with these `columns`.
///
/// `of_head` and `of_chance` are what its [`Estimates`](super::metric::Estimates) are made of. A label without a query
/// in the corpus is left out.
///
/// # Panics
///
/// If there is no metric of such a name, or not its position-matched chance.
pub fn tested(
    labels: impl IntoIterator<Item = (String, String)>,
    columns: &[Column],
    bench: &Bench,
    of_head: impl Fn(Option<usize>, usize) -> Vec<Fraction>,
    of_chance: impl Fn(Option<usize>) -> Vec<Fraction>,
) -> Vec<ContentLabel> {
    let names: Vec<String> = cell_names(columns).collect();
    let cell = |name: &str| names.iter().position(|known| known == name).expect("a metric of the study");
    let chance: Vec<Vec<Fraction>> = (0..BLOCKS).map(|block| of_chance(Some(block))).collect();
    let of_label = |(label, metric): (String, String)| {
        let cells = [cell(&metric), cell(&expected_of(&metric))];
        let rests_on = || chance.iter().map(|block| block[cells[0]].rests_on());
        let found = ContentLabel {
            label,
            metric,
            count: rests_on().map(|denominator| denominator.count).sum(),
            sentences: rests_on().map(|denominator| denominator.sentences).sum(),
            blocks: chance.iter().filter(|block| block[cells[0]].denominator() > 0.0).count(),
            by_head: Vec::new(),
        };
        (found, cells)
    };
    let mut found: Vec<(ContentLabel, [usize; 2])> = labels.into_iter().map(of_label).collect();
    found.retain(|(label, _)| label.count > 0);
    for place in 0..bench.grid.count() {
        let (layer, head) = bench.grid.at(place);
        let blocks: Vec<Vec<Fraction>> = (0..BLOCKS).map(|block| of_head(Some(block), place)).collect();
        for (label, [metric, expected]) in &mut found {
            let value = || blocks.iter().map(|block| block[*metric]);
            let over_chance = Lead::of(value().zip(chance.iter().map(|block| block[*metric])), 1.0);
            let over_position = Lead::of(value().zip(blocks.iter().map(|block| block[*expected])), TIMES_EXPECTED);
            label.by_head.push(HeadTest { layer, head, over_chance, over_position, p: None, q: None });
        }
    }
    found.into_iter().map(|(label, _)| label).collect()
}

impl ContentLabel {
    /// Whether it is of the family.
    fn is_of(&self, family: &str) -> bool {
        self.label.split(':').next() == Some(family)
    }

    /// Whether it rests on enough to be tested.
    fn has_evidence(&self, policy: &Policy) -> bool {
        self.count >= policy.count(&MIN_QUERIES) && self.sentences >= policy.count(&MIN_SENTENCES)
    }
}

/// The labels of content of one study, as a section of the report.
pub struct Content {
    /// Its key in the report.
    key: &'static str,
    families: &'static [Family],
    labels: Vec<ContentLabel>,
    /// The words of the summary where nothing could be tested.
    none: &'static str,
}

impl Content {
    /// The section under this key; the families are those of all `labels`, and `none` is said where there are none.
    #[must_use]
    pub fn new(key: &'static str, families: &'static [Family], none: &'static str, labels: Vec<ContentLabel>) -> Self {
        Self { key, families, labels, none }
    }

    /// Sets the p- and q-values of one family.
    fn correct_family(&mut self, family: &Family, policy: &Policy) {
        let margin = policy.rule(family.margin);
        let mut tested = Vec::new();
        for label in self.labels.iter_mut().filter(|label| label.is_of(family.name)) {
            let (enough, blocks) = (label.has_evidence(policy), label.blocks);
            for test in &mut label.by_head {
                let both = margin
                    .and_then(|margin| Some([test.over_chance.p(margin, blocks)?, test.over_position.p(0.0, blocks)?]));
                (test.p, test.q) = (both.map(|[chance, position]| chance.max(position)), None);
                if enough && test.p.is_some() {
                    tested.push(test);
                }
            }
        }
        let p: Vec<f64> = tested.iter().filter_map(|test| test.p).collect();
        tested.into_iter().zip(benjamini_hochberg(&p)).for_each(|(test, q)| test.q = Some(q));
    }

    /// How a head stands to the labels of a family, which rest on metrics of the study.
    #[must_use]
    pub fn assess(evidence: &Evidence<'_>, family: &Family, policy: &Policy) -> Vec<Assessment> {
        let content: &Self = section(evidence.section);
        let labels = content.labels.iter().filter(|label| label.is_of(family.name));
        labels.filter_map(|label| content_label(label, evidence, family, policy)).collect()
    }
}

/// How a head stands to one label.
fn content_label(
    label: &ContentLabel,
    evidence: &Evidence<'_>,
    family: &Family,
    policy: &Policy,
) -> Option<Assessment> {
    let (id, key) = label.metric.split_once('.').map_or((label.metric.as_str(), None), |(id, key)| (id, Some(key)));
    let measured = evidence.metric(id, key);
    let (chance, expected) = (measured.baseline?, evidence.metric(&expected_of(id), key).score?);
    let threshold = (chance + policy.rule(family.margin)?).max(TIMES_EXPECTED * expected);
    let measured = Measured { baseline: Some(chance.max(expected)), ..measured };
    let metric = key.map_or(id.to_owned(), |key| format!("{id}[{key}]"));
    let mut assessment = assess(&label.label, &metric, measured, Bound::Above, Some(threshold))?;
    if let Some(most) = policy.rule(&CONTENT_Q) {
        let q = label.by_head[evidence.place].q;
        assessment.fires &= q.is_some_and(|q| q <= most);
        write!(assessment.label.rule, " and q <= {most}").expect("writing to a string does not fail");
    }
    Some(assessment)
}

impl Section for Content {
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        vec![(self.key, &self.labels)]
    }

    fn correct(&mut self, policy: &Policy) {
        let families = self.families;
        families.iter().for_each(|family| self.correct_family(family, policy));
    }

    fn summary(&self, policy: &Policy) -> String {
        let tested = self.labels.iter().filter(|label| label.has_evidence(policy));
        if tested.count() == 0 { format!("{}\n", self.none) } else { String::new() }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = self.labels.iter().find(|label| {
            let listed = label.by_head.iter().map(|test| (test.layer, test.head));
            !listed.eq((0..grid.count()).map(|place| grid.at(place)))
        });
        broken.map(|label| format!("the label `{}` does not list every head", label.label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::policy::Value;

    const MARGIN: Threshold = Threshold::rule("margin", 0.1, "a margin");
    const FAMILY: Family = Family { name: "tag", margin: &MARGIN };
    const OTHER: Family = Family { name: "other", margin: &MARGIN };

    fn lead(difference: f64) -> Lead {
        Lead { difference: Some(difference), standard_error: Some(0.01) }
    }

    /// A label of heads with these leads over chance and over position.
    fn label(name: &str, count: u64, leads: &[(f64, f64)]) -> ContentLabel {
        let test = |(head, &(chance, position)): (usize, &(f64, f64))| HeadTest {
            layer: 0,
            head,
            over_chance: lead(chance),
            over_position: lead(position),
            p: None,
            q: None,
        };
        let by_head = leads.iter().enumerate().map(test).collect();
        ContentLabel { label: name.to_owned(), metric: "m".to_owned(), count, sentences: 30, blocks: 64, by_head }
    }

    fn policy(margin: Value) -> Policy {
        Policy::of([&MARGIN, &CONTENT_Q, &MIN_QUERIES, &MIN_SENTENCES]).with([("margin", margin)])
    }

    fn q(content: &Content, label: usize) -> Vec<Option<f64>> {
        content.labels[label].by_head.iter().map(|test| test.q).collect()
    }

    #[test]
    fn a_label_claims_to_be_above_both_baselines() {
        let leads = [(0.15, 0.05), (0.05, 0.05), (0.15, -0.05), (0.13, 0.2)];
        let labels = vec![label("tag:NOUN", 100, &leads), label("other", 100, &leads[..1]), label("tag:X", 99, &leads)];
        let mut content = Content::new("key", &[FAMILY, OTHER], "", labels);
        content.correct(&policy(MARGIN.default));
        let p = |head: usize| content.labels[0].by_head[head].p.unwrap();
        // Five standard errors above both: 0.15 - 0.1 and 0.05. Three above the margin.
        let of = |t: f64| p_value(t, 1.0, 64).unwrap();
        assert!((p(0) / of(5.0) - 1.0).abs() < 1e-6 && (p(3) / of(3.0) - 1.0).abs() < 1e-6);
        // Not above one of the two.
        assert_eq!([p(1), p(2)], [1.0; 2]);
        // Four tests of the family: a label of too little evidence is none of them, nor is another family's.
        let found = q(&content, 0);
        assert!((found[0].unwrap() / (4.0 * of(5.0)) - 1.0).abs() < 1e-6);
        assert!((found[3].unwrap() / (2.0 * of(3.0)) - 1.0).abs() < 1e-6);
        assert_eq!((found[1], found[2]), (Some(1.0), Some(1.0)));
        assert!((q(&content, 1)[0].unwrap() / of(5.0) - 1.0).abs() < 1e-6);
        assert_eq!(q(&content, 2), [None; 4]);
        // Another margin makes other tests, and none at all if it is off.
        content.correct(&policy(Value::Share(0.14)));
        assert!(content.labels[0].by_head[3].p == Some(1.0));
        content.correct(&policy(Value::Off));
        assert_eq!(q(&content, 0), [None; 4]);
    }

    #[test]
    fn names_of_expected_metrics() {
        assert_eq!(
            ["tag_mass.NOUN", "same_tag_mass"].map(expected_of),
            ["tag_mass_expected.NOUN", "same_tag_mass_expected"]
        );
    }
}
