//! Labels of heads whose attention follows a dependency relation: `syntactic:<relation>`.

use anstyle::AnsiColor;

use super::assessment::{BEYOND_MARGIN, MARGIN, MIN_COUNT, SPECIFIC_MARGIN, of_relation};
use super::section::Relations;
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::{Detector, LabelStyle, Parameter, Phrase};
use crate::study::metrics::explanation::Explanation;
use crate::study::verdict_rule::VerdictRule;

/// The relations of Universal Dependencies, version 2 (<https://universaldependencies.org/u/dep/index.html>), and all of them.
const UNIVERSAL: &str = "all acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse \
    dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root \
    vocative xcomp";

/// Whether a word is one of these, with or without a subtype: `nsubj:pass`.
fn is_universal(relation: &str) -> bool {
    let main = relation.split_once(':').map_or(relation, |(main, _)| main);
    UNIVERSAL.split_whitespace().any(|known| known == main)
}

/// Whether a syntactic label is of its relation.
pub(super) const SPECIFIC: VerdictRule = VerdictRule {
    verdict: "a syntactic label is beyond other arcs",
    statistic: "accuracy on the relation less that on the other arcs of the same sentences",
    margin: "syntactic_specific_margin {syntactic_specific_margin}",
    family: "all syntactic labels, firm or borderline, with such a difference",
    least: "{syntactic_min_count} words of the relation; none of `all`",
    printed: "the difference with its interval, q",
};

/// How far a syntactic label reaches.
pub(super) const BEYOND: VerdictRule = VerdictRule {
    verdict: "a syntactic label is beyond word classes, of those beyond other arcs",
    statistic: "accuracy less that of the better of the best offset and the best tags, on the same words",
    margin: "syntactic_beyond_margin {syntactic_beyond_margin}",
    family: "all heads, directions and relations with such a lead",
    least: "{syntactic_min_count} words with a tag baseline",
    printed: "the lead over tags with its interval, q",
};

pub(super) const SYNTACTIC: Detector = Detector {
    explanation: Explanation {
        name: "syntactic:<relation>",
        measures: "The head's attention points from a word to its head in the dependency tree (dep->head), \
            or from the head to the word (head->dep), for words of one Universal Dependencies relation. \
            The relation `all` pools every relation but `punct`; `nsubj` pools its subtypes, such as `nsubj:pass`, which also \
            have labels of their own.",
        formula: "count >= {syntactic_min_count}, accuracy >= baseline + {syntactic_margin}, the baseline being the best fixed offset on the same words; firm if \
            the block test of the difference has q <= {label_q} over all heads, directions and relations",
        chance: "the accuracy of the best fixed offset (\"the head is the word at d+k\"), for each relation; beside it \
            that of the best tags (\"the head is the nearest word of a UPOS on one side\", by the UPOS of d), and in \
            `beyond` how far the label reaches, by block tests of q <= {label_q}: beyond the offset (`offset`); beyond other arcs \
            (`relation`) if the head is also better on the relation than on the other arcs of the same sentences by \
            {syntactic_specific_margin}; beyond word classes (`tags`) if it is then also above the better of both baselines by \
            {syntactic_beyond_margin}",
        source: "Ten points over the best fixed offset: Voita et al. 2019, section 5.2. \
            Accuracy by the most attended word: Clark et al. 2019, section 4.2. \
            Significance: block test against the margin, corrected by Benjamini & Hochberg 1995 for all heads, directions \
            and relations.",
        caveats: "The accuracy of the best head is biased upwards: compare `heldout_accuracy`. \
            A label that is beyond the offset alone may be that of a head that follows all arcs alike. Most labels are not beyond \
            word classes: that the head knows more than these is then not shown. \
            A tree is one theory of syntax, and the labels depend on it.",
    },
    thresholds: &[&MARGIN, &MIN_COUNT, &LABEL_Q, &SPECIFIC_MARGIN, &BEYOND_MARGIN],
    is_role: true,
    parameter: Parameter::Any("syntactic", is_universal),
    phrase: Phrase::Directed {
        to_head: "attends from {} words to their heads",
        to_dependent: "attends from heads to their {} words",
    },
    shown: LabelStyle { code: None, colour: AnsiColor::Green, in_controls: true },
    assess: |evidence, policy| {
        let Relations { relations, .. } = evidence.section();
        relations.iter().flat_map(|relation| of_relation(relation, evidence.place, policy)).collect()
    },
};
