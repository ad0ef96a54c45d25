//! Links: how often a head's attention points from a word to the words that the user linked it to
//! (docs/methodology/links.md).

mod labels;
mod link;
mod measure;
mod section;
mod sums;

use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::study::metrics::estimates::{Estimates, EstimationContext};
use crate::study::show::terms::Term;
use crate::study::{Card, Observed, PassSpec, Study};
use crate::system::parallel::in_parallel;
use link::LinkMetrics;
use section::LinksSection;
use sums::LinksSums;

/// The word for what a head of links is held against.
const CLASS_RULES: Term = Term {
    name: "class rules",
    also: &["same class", "sources", "to special"],
    meaning: "In tables of links: `sources` are the words that a link starts from; `place` is the best rule by places alone, `same class` \
        the best that takes a candidate of the source's class, `class rules` the nearest candidate of a class chosen for each class; \
        `to special` is how often a special token has more weight than every candidate.",
    page: "links.md",
};

/// The links that each head's attention follows.
pub struct Links;

impl Study for Links {
    type Section = LinksSection;

    const CARD: Card = Card {
        name: "links",
        question: "Which of your links between words does each head's attention follow, and better than \
            rules of place and of classes do?",
        needs: "a corpus with links: in its file, or by --links-from, --links or --link-rules",
        by_default: true,
        controls: &ControlKind::ALL,
        labels: &[labels::LINK],
        verdicts: &[labels::BEYOND],
        caveats: section::CAVEATS,
        figures: &["links"],
        tables: &["links", "links_by_head", "link_rules", "paper_links"],
        terms: &[CLASS_RULES],
        options: &["links-from", "links", "link-rules", "undirected", "min-distance"],
        ..Card::NEW
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| LinksSums::new(subject.grid, subject.classes.clone(), subject.from))]
    }

    fn measure(&self, observed: &Observed<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &LinksSums = observed.sums();
        let links = in_parallel(context.threads, &sums.types, |(key, sums)| LinkMetrics::new(key, sums, context));
        let links = links.into_iter().flatten().collect();
        (Estimates::none(context.grid.count()), LinksSection { links })
    }
}

#[cfg(test)]
mod tests;
