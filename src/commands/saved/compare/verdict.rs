//! A comparison in a few sentences: what became of labels, which were lost, and what became of heads.

use super::outcome::{
    CompareOutcome, Doubt, Fate, HeadComparison, LabelComparison, MatchedHeads, OutcomeCounts, UntoldCounts,
};
use crate::commands::saved::sides::standing;
use crate::stats::agreement::ShareByChance;
use crate::study::labels::evidence::Reach;
use crate::study::show::wording::decimal;
use crate::system::counted::{counted, plural};
use crate::system::printable::one_line;

/// So many labels that are firm on either side.
pub fn firm_in_words(count: usize) -> String {
    format!("{} firm in a or b", counted(count, "label"))
}

impl CompareOutcome {
    /// The fate of the labels, in a sentence.
    pub fn verdict(&self) -> String {
        if let Some(units) = &self.too_few_units {
            return format!("Could not tell: {units}");
        }
        let OutcomeCounts { kept, gained, lost, .. } = self.labels_by_outcome;
        let untold = self.untold.firm();
        format!("{}: {kept} kept, {lost} lost, {gained} gained, {untold} could not tell", self.firm_in_words())
    }

    /// How many labels are firm in either analysis, but for `broad` and for how heads choose.
    pub fn firm_labels(&self) -> usize {
        let OutcomeCounts { kept, gained, lost, .. } = self.labels_by_outcome;
        kept + lost + gained + self.untold.firm()
    }

    fn firm_in_words(&self) -> String {
        firm_in_words(self.firm_labels())
    }

    /// Why a finding about labels of the first analysis says nothing, if none is firm there or could be tested in the second.
    pub fn why_none_tested(&self) -> Option<String> {
        let labels = self.heads.iter().flat_map(HeadComparison::all_labels);
        let firm: Vec<&LabelComparison> = labels.filter(|label| label.firm()[0]).collect();
        let is_tested =
            |label: &&LabelComparison| matches!(label.doubt, None | Some(Doubt::Borderline | Doubt::WithinReach));
        match firm.first() {
            None => Some(format!("`{}` has no firm label, so that none can be lost", self.a.file)),
            Some(first) if !firm.iter().any(is_tested) => {
                let why = first.doubt.map_or("", Doubt::words);
                Some(format!("`{}` says of no label whether it is lost: {why}", self.b.file))
            }
            Some(_) => None,
        }
    }

    /// The sentences after the verdict, with at most `most` labels named in each.
    pub fn findings(&self, most: usize) -> Vec<String> {
        let UntoldCounts { firm_in_a, firm_in_b, firm_in_neither, firm_in_both } = self.untold;
        let of_fate = |title: &str, fate: Fate| {
            let names = self.names(most, |label| label.outcome == fate);
            names.map(|names| format!("{title}: {names}."))
        };
        let one_sided = |count: usize, [has, lacks]: [&str; 2], firm: [bool; 2]| {
            let names = self.names(most, |label| label.outcome == Fate::CouldNotTell && label.firm() == firm)?;
            let labels = counted(count, "label");
            Some(format!(
                "Could not tell: {labels} firm in {has} but not in {lacks}, without a significant change: {names}."
            ))
        };
        let neither = (firm_in_neither > 0).then(|| {
            let are = plural(&firm_in_neither, "is", "are");
            format!("{} {are} firm in neither, but borderline in one or both.", counted(firm_in_neither, "label"))
        });
        let both = (firm_in_both > 0).then(|| {
            let are = plural(&firm_in_both, "is", "are");
            format!("{} {are} firm in both, under other thresholds or counts of words.", counted(firm_in_both, "label"))
        });
        let beyond_one = |[has, lacks]: [&str; 2], is_beyond: [bool; 2]| {
            let names = self.names(most, |label| {
                let reach = label.reach();
                let is_told = reach.iter().all(Option::is_some) && label.outcome == Fate::Kept;
                is_told && reach.map(|reach| reach == Some(Reach::Tags)) == is_beyond
            });
            names
                .map(|names| format!("Kept, and shown to be beyond word classes in {has} but not in {lacks}: {names}."))
        };
        let all = [
            self.unread.clone(),
            self.corpora.clone(),
            self.lineage.clone(),
            self.matched_in_words(),
            standing::idle_in_words(&self.idle, most),
            of_fate("Lost", Fate::Lost),
            of_fate("Gained", Fate::Gained),
            beyond_one(["a", "b"], [true, false]),
            beyond_one(["b", "a"], [false, true]),
            one_sided(firm_in_a, ["a", "b"], [true, false]),
            one_sided(firm_in_b, ["b", "a"], [false, true]),
            both,
            neither,
            Some(self.heads_in_words()),
            self.choices_in_words(),
        ];
        all.into_iter().flatten().collect()
    }

    /// How heads were matched, and what agreement comes to by chance.
    fn matched_in_words(&self) -> Option<String> {
        let MatchedHeads { moved, halves_agree, first_label, firm_labels } = self.matched?;
        let chance = |of: ShareByChance| {
            let [mean, low, high] =
                [of.mean, of.range95.low(), of.range95.high()].map(|share| decimal(100.0 * share, 0));
            format!("{mean} % [{low}, {high}]")
        };
        Some(format!(
            "Heads are matched: {moved} of {} have their partner at another place, and {halves_agree} the same one by both halves of \
             the text. In random order within layers {} agree on the first label, {} on all firm ones.",
            self.heads.len(),
            chance(first_label),
            chance(firm_labels),
        ))
    }

    /// The fate of the heads, each by all its labels, in a sentence.
    fn heads_in_words(&self) -> String {
        let OutcomeCounts { kept, gained, lost, changed, could_not_tell, none } = self.heads_by_outcome;
        let have = |count: usize| plural(&count, "has", "have");
        let parts = [
            (kept, "kept their labels".to_owned()),
            (changed, format!("lost or gained a label and {} another firm one in both", have(changed))),
            (lost, "lost every firm label".to_owned()),
            (gained, "gained a first one".to_owned()),
            (could_not_tell, format!("{} only borderline labels or such as could not be told", have(could_not_tell))),
            (none, format!("{} no role in either", have(none))),
        ];
        let told = parts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
        format!("Heads: {}.", told.collect::<Vec<_>>().join(", "))
    }

    /// The fate of how the heads choose, in a sentence; `None` where neither analysis says.
    fn choices_in_words(&self) -> Option<String> {
        let OutcomeCounts { kept, gained, lost, changed, could_not_tell, none } = self.choices_by_outcome?;
        Some(format!(
            "How heads choose: {kept} kept, {lost} lost, {gained} gained, {changed} changed, {could_not_tell} could not tell, \
             {none} without such a label in either.",
        ))
    }

    /// The labels of heads of which something holds, at most so many of them by name; `None` of none.
    fn names(&self, most: usize, holds: impl Fn(&LabelComparison) -> bool) -> Option<String> {
        let of_head = |head: &super::outcome::HeadComparison| -> Vec<String> {
            let labels = head.labels.iter().filter(|label| holds(label));
            labels.map(|label| format!("{} {}", head.place, one_line(&label.label))).collect()
        };
        let names: Vec<String> = self.heads.iter().flat_map(of_head).collect();
        let more = names.len().saturating_sub(most);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("{}{more}", names[..names.len().min(most)].join(", ")))
    }
}
