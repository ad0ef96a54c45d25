//! Study `links`: how often an attention head points from a word to the words that the user linked to it
//! (docs/methodology/links.md).

mod link;
mod measure;
mod section;
mod sums;

use anstyle::AnsiColor;

use crate::passes::control::ControlKind;
use crate::passes::pass::Pass;
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::{Detector, LabelStyle, Parameter, VerbPhrase};
use crate::study::{
    Card, Estimates, EstimationContext, Explanation, ObservedPasses, PassSpec, Study, Term, VerdictRule,
};
use crate::system::parallel::parallel_map;
use link::{BEATEN_RULES_MARGIN, LinkMetrics, MARGIN};
use section::{LinksSection, assess_on_links};
use sums::LinksSums;

const TERMS: &[Term] = &[Term {
    name: "class rules",
    other_names: &["same class", "sources", "to special"],
    meaning: "In tables of links: `sources` are the words that a link starts from; `place` is the best rule by places alone, `same class` \
        the best that takes a candidate of the source's class, `class rules` the nearest candidate of a class chosen for each class; \
        `to special` is how often a special token has more weight than every candidate.",
    page: "links.md",
}];

pub struct Links;

impl Study for Links {
    type Section = LinksSection;

    const CARD: Card = Card {
        name: "links",
        question: "Which of your links between words does each head's attention follow, and better than \
            rules of place and of classes do?",
        needs: "a corpus with links: in its file, or by --links-from, --links or --link-rules",
        is_default: true,
        controls: &ControlKind::ALL,
        labels: &[LINK_DETECTOR],
        verdicts: &[BEATEN_RULES_VERDICT],
        caveats: section::CAVEATS,
        figures: &["links"],
        tables: &["links", "links_by_head", "link_rules", "paper_links"],
        terms: TERMS,
        options: &["links-from", "links", "link-rules", "undirected", "min-distance"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        vec![PassSpec::new(Pass::PLAIN, |subject| {
            LinksSums::new(subject.grid, subject.classes.clone(), subject.from_token)
        })]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        let sums: &LinksSums = observed.first_sums();
        let links = parallel_map(context.threads, &sums.types, |(key, sums)| LinkMetrics::new(key, sums, context));
        let links = links.into_iter().flatten().collect();
        (Estimates::without_metrics(context.grid.head_count()), LinksSection { links })
    }
}

/// Verdict on a link label: which groups of rules does the attention head beat?
const BEATEN_RULES_VERDICT: VerdictRule = VerdictRule {
    verdict: "a label of links is beyond rules of the same class, or beyond every rule",
    statistic: "accuracy less that of each rule: of the rules of the same class, or of all; and where the source's class has targets, \
        accuracy among candidates of the class less chance, above 0",
    margin: "link_beyond_margin {link_beyond_margin}",
    test_family: "all heads, directions and types, for each step",
    min_evidence: "{min_queries} sources in {min_sentences} sentences",
    printed: "the least lead, q",
};

/// Label `link:TYPE` of attention heads that point from sources to targets, or back.
const LINK_DETECTOR: Detector = Detector {
    thresholds: &[&MARGIN, &MIN_QUERIES, &MIN_SENTENCES, &LABEL_Q, &BEATEN_RULES_MARGIN],
    parameter: Parameter::Any("link", |_| false),
    phrase: VerbPhrase::Directed {
        to_head: "attends from words to their targets by links of {}",
        to_dependent: "attends from the targets of links of {} to their sources",
    },
    style: LabelStyle { code: None, colour: AnsiColor::Green, is_named_in_controls: true },
    assess: |evidence, policy| {
        let LinksSection { links } = evidence.section();
        links.iter().flat_map(|links| assess_on_links(links, evidence.place, policy)).collect()
    },
    ..Detector::new_role(Explanation {
        name: "link:<type>",
        measures: "The head's attention points from a word to a word that the corpus links it to (from), or from the target to the \
            source (to), for links of one type.",
        formula: "at least {min_queries} sources in {min_sentences} sentences, accuracy >= that of every rule of place + {link_margin}; \
            firm if the largest p of the block tests of these leads has q <= {label_q} over all heads, directions and types",
        chance: "the best rule of place: a fixed offset, the k-th candidate before or after, the first or last candidate, candidates in \
            the order of sources, candidates in proportion, the longest candidate, or chance; in `beyond` how far the label reaches, by \
            block tests of q <= {label_q}: `place`; `class` if it is also {link_beyond_margin} above the rules that take a candidate of \
            the source's class, and above chance among these; `all` if it is {link_beyond_margin} above every rule",
        source: "Heads that follow links of the user's own: atom maps, Schwaller et al. 2021; contacts of proteins, Vig et al. 2021 and \
            Rao et al. 2021. Ten points above the baseline: Voita et al. 2019, section 5.2. An intersection-union test of several \
            leads: Berger 1982.",
        caveats: "The accuracy of the best head is biased upwards: compare `heldout_accuracy`. A label that is beyond rules of place alone may \
            be that of a head that copies the class of the word, as an element of an atom.",
    })
};

#[cfg(test)]
mod tests;
