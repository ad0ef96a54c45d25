//! What each label and each metric is: the one text that `explain` prints and docs/detectors.md is made from.

use std::fmt::{self, Write as _};

use super::{DETECTORS, UNLABELLED};
use crate::studies::attention::sums::MAX_OFFSET;

/// The documentation of a label or a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its name in reports.
    pub name: &'static str,
    /// What it says of a head.
    pub measures: &'static str,
    /// How it is computed; symbols as in docs/METHODOLOGY.md.
    pub formula: &'static str,
    /// What a head without any preference would get.
    pub chance: &'static str,
    /// The default thresholds, each by its name in a policy; empty for a metric.
    pub threshold: &'static str,
    /// Where the definition or the threshold comes from.
    pub source: &'static str,
    /// What it does not say.
    pub caveats: &'static str,
}

const NO_LABEL: Explanation = Explanation {
    name: UNLABELLED,
    measures: "No rule fired. The report names the two labels that were nearest and how far off they were.",
    formula: "none of the other labels",
    chance: "not applicable",
    threshold: "none",
    source: "A head without a label is a finding, so it is said.",
    caveats: "It does not mean that the head does nothing: only that nothing that is looked for was found.",
};

/// Everything that can be explained: labels, then metrics, in the order of the tables.
pub fn explanations() -> impl Iterator<Item = &'static Explanation> {
    labels().chain(METRICS)
}

fn labels() -> impl Iterator<Item = &'static Explanation> {
    DETECTORS.iter().map(|detector| &detector.explanation).chain([&NO_LABEL])
}

/// The explanation of a label or metric; `offset:-3`, `syntactic:nsubj` and `offset_mass.-1` find those of their family.
#[must_use]
pub fn find(name: &str) -> Option<&'static Explanation> {
    let family = match (name.split_once(':'), name.split_once('.')) {
        (Some(("offset", k)), _) if k.parse::<i32>().is_ok_and(|k| (2..=MAX_OFFSET).contains(&k.abs())) => "offset:k",
        (Some(("syntactic", relation)), _) if !relation.is_empty() => "syntactic:<relation>",
        (None, Some((metric, _))) => metric,
        _ => name,
    };
    explanations().find(|explanation| [name, family].contains(&explanation.name))
}

/// The known name most like `name`, for "did you mean".
#[must_use]
pub fn closest(name: &str) -> Option<&'static str> {
    let similar = |known: &&str| strsim::jaro_winkler(known, name);
    explanations()
        .map(|explanation| explanation.name)
        .max_by(|a, b| similar(a).total_cmp(&similar(b)))
        // Below this two words share little more than a letter or two.
        .filter(|known| similar(known) > 0.7)
}

impl Explanation {
    fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let threshold = if self.is_label() { self.threshold } else { "" };
        [
            ("Formula", self.formula),
            ("Chance level", self.chance),
            ("Default threshold", threshold),
            ("Source", self.source),
            ("Caveats", self.caveats),
        ]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
    }

    fn is_label(&self) -> bool {
        labels().any(|label| label.name == self.name)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_label() { "label" } else { "metric" };
        writeln!(f, "{} ({kind})\n\n{}\n", self.name, self.measures)?;
        self.fields().try_for_each(|(name, text)| writeln!(f, "{name}: {text}"))
    }
}

/// docs/detectors.md.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Labels and metrics\n\n\
         This page is made from the program's own table: `headscope explain --markdown > docs/detectors.md`.\n\
         A metric is evidence; a label is a policy over evidence.\n\
         The symbols of the formulas are those of [METHODOLOGY.md](METHODOLOGY.md).\n",
    );
    for (title, entries) in [("Labels", labels().collect::<Vec<_>>()), ("Metrics", METRICS.iter().collect())] {
        write!(page, "\n## {title}\n").expect("writing to a string does not fail");
        for entry in entries {
            write!(page, "\n### `{}`\n\n{}\n\n", entry.name, entry.measures).expect("as above");
            for (name, text) in entry.fields() {
                let text = if name == "Formula" { format!("`{text}`") } else { text.to_owned() };
                writeln!(page, "- {name}: {text}").expect("as above");
            }
        }
    }
    page
}

const CLARK_3: &str = "Clark et al. 2019, section 3.";
const OURS: &str = "Defined here.";

/// A metric's entry.
const fn metric(
    name: &'static str,
    measures: &'static str,
    formula: &'static str,
    chance: &'static str,
    source: &'static str,
    caveats: &'static str,
) -> Explanation {
    Explanation { name, measures, formula, chance, threshold: "", source, caveats }
}

const METRICS: &[Explanation] = &[
    metric(
        "offset_mass",
        "How much a token attends to the token k places away, for each k of -8..8; k = 0 is the token itself.",
        "offset_mass[k] = mean of A[i, i+k] over i in T with i+k in T",
        "1/n on average",
        "Clark et al. 2019, section 3.1, for k of -1, 0, 1.",
        "The denominator is the number of tokens that have such a neighbour, not all tokens as in the notebook of Clark et al.",
    ),
    metric(
        "offset_argmax",
        "How often the token k places away is the most attended one.",
        "offset_argmax[k] = share of i in T with i+k in T whose argmax_j A[i, j] is i+k, j over all n positions",
        "1/n on average, if every key is as likely to be the largest",
        "Voita et al. 2019, section 5.1.",
        "It does not say how large the largest weight is: see confidence.",
    ),
    metric(
        "window_mass",
        "How much a token attends to the two tokens on either side.",
        "mean over i in T of the sum of A[i, j] over 0 < |i-j| <= 2, j in T",
        "a little under 4/n",
        OURS,
        "",
    ),
    metric(
        "mean_distance",
        "How far away, in tokens, the attention lies that stays on text.",
        "mean over i in T of (sum_j A[i, j] |i-j|) / (sum_j A[i, j]), j in T",
        "that of uniform attention: about a third of the sentence's length",
        OURS,
        "Attention to special tokens is left out, so for a head that attends mostly to them it rests on little.",
    ),
    metric(
        "first_special_mass",
        "How much a token attends to the first special token ([CLS]).",
        "mean over i in T of A[i, first special]",
        "1/n on average",
        CLARK_3,
        "",
    ),
    metric(
        "separator_mass",
        "How much a token attends to the separators ([SEP]).",
        "mean over i in T of the sum of A[i, j] over separators j",
        "the number of separators over n",
        "Clark et al. 2019, section 3.2.",
        "",
    ),
    metric(
        "separator_self_mass",
        "How much the separators attend to themselves and each other.",
        "mean over separators i of the sum of A[i, j] over separators j",
        "the number of separators over n",
        "Clark et al. 2019, section 3.2.",
        "There are far fewer separators than tokens: one or two in a sequence.",
    ),
    metric(
        "punctuation_mass",
        "How much a token attends to punctuation.",
        "mean over i in T of the sum of A[i, j] over tokens j that are all Unicode punctuation (category P)",
        "the share of tokens that are punctuation",
        "Clark et al. 2019, section 3.2, who count periods and commas only.",
        "",
    ),
    metric(
        "entropy",
        "How widely a token's attention is spread, in nats.",
        "mean over i in T of -sum_j A[i, j] ln A[i, j]",
        "the mean of ln n",
        "Clark et al. 2019, section 3.3.",
        "It grows with the length of the sentence: compare entropy_ratio.",
    ),
    metric(
        "entropy_ratio",
        "How widely a token's attention is spread, as a share of the widest possible.",
        "(sum over i in T of the row's entropy) / (sum over the same rows of ln n)",
        "1",
        OURS,
        "",
    ),
    metric(
        "first_special_entropy_ratio",
        "How widely the first special token itself attends.",
        "the entropy ratio of the first special token's rows",
        "1",
        "Clark et al. 2019, section 3.3, who give the entropy from [CLS] in nats.",
        "There is one such row in a sentence.",
    ),
    metric(
        "confidence",
        "How large the largest weight of a token's attention is.",
        "mean over i in T of max_j A[i, j], j over all positions but separators",
        "1/n on average",
        "Voita et al. 2019, section 4, who leave the end-of-sentence token out.",
        "",
    ),
    metric(
        "uuas",
        "How much of the undirected gold tree is in the maximum spanning tree of the head's attention.",
        "share of gold edges in the maximum spanning tree over max(W, W^T), punctuation and roots left out",
        "the chain of adjacent words (chance.uuas)",
        "Undirected unlabelled attachment score: Klein & Manning 2004; from attention: Raganato & Tiedemann 2018.",
        "The chain of neighbours already has about two edges in five of English.",
    ),
    metric(
        "uas",
        "How often the most attended word is the word's head in the gold tree, in each direction.",
        "the accuracy of the relation `all`",
        "the offset baseline of `all` in `relations`",
        "Clark et al. 2019, section 4.2.",
        "Predicted heads need not form a tree.",
    ),
];
