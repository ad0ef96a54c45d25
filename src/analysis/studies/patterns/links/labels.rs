//! Labels of heads whose attention follows links: `link:<type>`.

use anstyle::AnsiColor;

use super::link::{BEYOND_MARGIN, MARGIN};
use super::section::{LinksSection, of_links};
use crate::study::labels::evidence::{LABEL_Q, MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::{Detector, LabelStyle, Parameter, Phrase};
use crate::study::metrics::explanation::Explanation;
use crate::study::verdict_rule::VerdictRule;

/// How far a label of links reaches.
pub(super) const BEYOND: VerdictRule = VerdictRule {
    verdict: "a label of links is beyond rules of the same class, or beyond every rule",
    statistic: "accuracy less that of each rule: of the rules of the same class, or of all; and where the source's class has targets, \
        accuracy among candidates of the class less chance, above 0",
    margin: "link_beyond_margin {link_beyond_margin}",
    family: "all heads, directions and types, for each step",
    least: "{min_queries} sources in {min_sentences} sentences",
    printed: "the least lead, q",
};

pub(super) const LINK: Detector = Detector {
    explanation: Explanation {
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
    },
    thresholds: &[&MARGIN, &MIN_QUERIES, &MIN_SENTENCES, &LABEL_Q, &BEYOND_MARGIN],
    is_role: true,
    parameter: Parameter::Any("link", |_| false),
    phrase: Phrase::Directed {
        to_head: "attends from words to their targets by links of {}",
        to_dependent: "attends from the targets of links of {} to their sources",
    },
    shown: LabelStyle { code: None, colour: AnsiColor::Green, in_controls: true },
    assess: |evidence, policy| {
        let LinksSection { links } = evidence.section();
        links.iter().flat_map(|links| of_links(links, evidence.place, policy)).collect()
    },
};
