//! A study's finding in one sentence, for the opening of a report, or the evidence that it lacked.

use crate::study::labels::evidence::{EvidenceGap, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::metrics::metric::Denominator;

/// Part of a report's opening that a study adds.
#[derive(Debug, Default, PartialEq)]
pub struct InBrief {
    /// The finding, as a sentence that makes sense to somebody who has not seen the report; `None` without a
    /// finding.
    pub finding: Option<String>,
    /// The shortage of evidence that prevented a finding; `None` if there was enough.
    pub shortage: Option<Shortage>,
    /// Whether the finding stands before the findings of all other studies, because the run asked for this study by
    /// name.
    pub has_priority: bool,
}

impl InBrief {
    pub fn from_finding(sentence: String) -> Self {
        Self { finding: Some(sentence), ..Self::default() }
    }
}

/// A shortage of text, or of task items, that prevents a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Shortage {
    /// The finding that could not be made, as a noun.
    pub missing_finding: String,
    /// Number of `things` in the text or task.
    pub count: u64,
    /// Minimum number of `things` for the finding.
    pub required: u64,
    /// Noun of the things that `count` counts, as `[singular, plural]`: queries, sentences, items and so on.
    pub things: [String; 2],
    /// Name of the policy's threshold that was missed; `None` if the requirement is no threshold.
    pub threshold: Option<&'static str>,
    /// Factor by which the text must grow. `None` if there is nothing to extrapolate from, or if more text would
    /// not help.
    pub growth_factor: Option<f64>,
}

impl Shortage {
    /// Shortage of `things` for the finding `of`: there are `count`, and `asked` are required. Their number is assumed to
    /// grow in proportion to the text.
    pub fn new(of: &str, [count, asked]: [u64; 2], things: [String; 2]) -> Self {
        let times = (count > 0).then(|| asked as f64 / count as f64);
        Self { missing_finding: of.to_owned(), count, required: asked, things, threshold: None, growth_factor: times }
    }

    /// Shortage of task items for verdicts on heads, from the numbers of `[items, units]`. `None` if there are
    /// enough of both.
    pub fn from_item_counts(of: &str, [items, units]: [u64; 2], policy: &Policy) -> Option<Self> {
        let short = |count: u64, least, things: [&str; 2]| {
            let asked = policy.count(least);
            // More text adds no items.
            let shortage = || Self { growth_factor: None, ..Self::new(of, [count, asked], things.map(str::to_owned)) };
            (count < asked).then(shortage)
        };
        let of_units = || short(units, &MIN_SENTENCES, ["unit of items", "units of items"]);
        short(items, &MIN_QUERIES, ["item", "items"]).or_else(of_units)
    }

    /// Shortage of evidence that keeps labels from being tested; `None` if the evidence suffices. `of` names the missing
    /// finding, and `rests_on` is the available evidence.
    pub fn for_labels(of: String, rests_on: &Denominator, policy: &Policy) -> Option<Self> {
        let (count, things, least) = EvidenceGap::find(rests_on, policy)?.count_and_threshold();
        let both = [(rests_on.sentences, &MIN_SENTENCES), (rests_on.count, &MIN_QUERIES)];
        let times = both.map(|(count, least)| policy.count(least) as f64 / count as f64);
        let times = times.into_iter().fold(1.0, f64::max);
        let times = Some(times).filter(|times| times.is_finite());
        let (asked, things, threshold) = (policy.count(least), things.map(str::to_owned), Some(least.name));
        Some(Self { missing_finding: of, count, required: asked, things, threshold, growth_factor: times })
    }

    /// Number of further sentences that are needed, extrapolated from the `read` sentences and rounded up to two
    /// digits. `None` without a `growth_factor`.
    pub fn more_sentences(&self, read: u64) -> Option<u64> {
        let more = ((self.growth_factor? - 1.0) * read as f64).ceil().max(1.0);
        let unit = 10_f64.powf(more.log10().floor() - 1.0).max(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number above 0")]
        let more = ((more / unit).ceil() * unit) as u64;
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::registry::default_policy;

    fn more(count: u64, asked: u64, read: u64) -> Option<u64> {
        Shortage::new("it", [count, asked], ["word", "words"].map(str::to_owned)).more_sentences(read)
    }

    #[test]
    fn so_much_more_text_has_so_much_more_evidence() {
        // 95 of 700 sentences: 100 of 736.8.
        assert_eq!(more(95, 100, 700), Some(37));
        // 1 of 3 sentences: 100 of 300. 7 of 1000: 100 of 14285.7, of which 1000 are there.
        assert_eq!((more(1, 100, 3), more(7, 100, 1000)), (Some(300), Some(14_000)));
        // A part of a sentence is one.
        assert_eq!(more(99, 100, 10), Some(1));
        assert_eq!(more(0, 100, 700), None, "nothing of a kind says nothing of how rare it is");
    }

    #[test]
    fn labels_take_what_they_lack_most_of() {
        let (policy, of) = (default_policy(), || "labels".to_owned());
        let rests_on = |count, sentences| Denominator { count, sentences, ..Denominator::default() };
        assert_eq!(Shortage::for_labels(of(), &rests_on(100, 30), &policy), None);
        // Twice the sentences, but four times the queries.
        let few = Shortage::for_labels(of(), &rests_on(25, 15), &policy).unwrap();
        assert_eq!((few.count, few.required, &*few.things[1], few.growth_factor), (15, 30, "sentences", Some(4.0)));
        assert_eq!(Shortage::for_labels(of(), &rests_on(0, 0), &policy).unwrap().growth_factor, None);
    }
}
