//! Relations in a sentence, where no head has a label of one.

use super::super::assessment::{MARGIN, MIN_COUNT, of_relation};
use super::super::relation::{HeadAccuracy, RelationMetrics};
use super::Relations;
use crate::model::grid::HeadPlace;
use crate::study::labels::evidence::{Direction, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::show::in_brief::{InBrief, Shortage};
use crate::study::show::wording::percent_of;
use crate::system::printable::one_line;

impl Relations {
    /// Why there is no syntactic label, where there is none; labels are told of with their heads.
    pub(super) fn in_brief(&self, policy: &Policy) -> InBrief {
        let (all, least) = (&self.relations, policy.count(&MIN_COUNT));
        let Some(commonest) = all.iter().max_by_key(|relation| relation.count) else {
            return InBrief::found(
                "No word of the corpus has an annotated head, so no relation was tested.".to_owned(),
            );
        };
        if commonest.count < least {
            let of_it = match commonest.relation.as_str() {
                "all" => "of all relations together".to_owned(),
                _ => format!("of {}, the most frequent relation", one_line(&commonest.title())),
            };
            let words = ["word", "words"].map(|words| format!("{words} {of_it}"));
            let mut shortage = Shortage::new("a syntactic label", [commonest.count, least], words);
            let sentences = commonest.sentences.filter(|&sentences| sentences > 0);
            let of_sentences = sentences.map(|sentences| policy.count(&MIN_SENTENCES) as f64 / sentences as f64);
            shortage.times = shortage.times.zip(of_sentences).map(|(words, sentences)| words.max(sentences));
            return InBrief { shortage: Some(shortage), ..InBrief::default() };
        }
        let tested = || all.iter().filter(|relation| relation.count >= least);
        let fires = |relation: &RelationMetrics| {
            let mut heads = (0..relation.by_head.len()).flat_map(|place| of_relation(relation, place, policy));
            heads.any(|found| found.fires)
        };
        if tested().any(fires) {
            return InBrief::default();
        }
        let points = 100.0 * policy.share(&MARGIN);
        let nearest = tested().filter_map(Lead::of).max_by(|a, b| a.difference.total_cmp(&b.difference));
        let nearest = nearest.map_or_else(String::new, |lead| format!("; {}", lead.sentence()));
        InBrief::found(format!(
            "No head follows a dependency relation: none is {points:.0} points above the best fixed offset{nearest}."
        ))
    }
}

/// The head that is farthest above a relation's best fixed offset.
struct Lead<'a> {
    relation: &'a RelationMetrics,
    head: HeadPlace,
    difference: f64,
}

impl<'a> Lead<'a> {
    fn of(relation: &'a RelationMetrics) -> Option<Self> {
        let of_head = |entry: &HeadAccuracy| {
            let differences = Direction::BOTH.map(|direction| entry.versus_offset.get(direction).as_ref());
            let largest = differences.into_iter().flatten().map(|versus| versus.difference).max_by(f64::total_cmp)?;
            Some(Self { relation, head: entry.place, difference: largest })
        };
        relation.by_head.iter().filter_map(of_head).max_by(|a, b| a.difference.total_cmp(&b.difference))
    }

    fn sentence(&self) -> String {
        let Self { relation, head, difference } = self;
        let offset = relation.baseline.accuracy;
        format!(
            "nearest is {head} on {}: {} of words, the offset {}",
            one_line(&relation.title()),
            percent_of(offset + difference),
            percent_of(offset)
        )
    }
}
