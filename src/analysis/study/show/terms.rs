//! Glossary terms of reports that are neither labels, metrics nor studies. A study's own terms are on its card.

/// A glossary term of reports and summaries.
#[derive(Debug)]
pub struct Term {
    pub name: &'static str,
    /// Other names of the term, such as its key in reports.
    pub other_names: &'static [&'static str],
    pub meaning: &'static str,
    /// The page of docs/methodology/ that defines the term.
    pub page: &'static str,
}

/// Glossary terms that all studies share, in the order in which a reader of a summary meets them.
pub const TERMS: &[Term] = &[
    Term {
        name: "primary",
        other_names: &["first label"],
        meaning: "The label of a head that stands first: the firm one with the largest margin, a borderline one only where \
            none is firm, or `unlabelled`. The report lists all labels of the head; the grid shows how many more there \
            are (`case+7`).",
        page: "labels.md",
    },
    Term {
        name: "role",
        other_names: &["firm role", "roles", "all firm labels"],
        meaning: "A firm label of a head, but for `broad`, which heads of untrained models have, and for how it chooses \
            (`chooses:*`).",
        page: "labels.md",
    },
    Term {
        name: "strongest evidence",
        other_names: &["the strongest evidence"],
        meaning: "Of several labels the one that comes first by this order: firm before borderline, then the smaller q, then the larger \
            margin. A relation with a higher accuracy may have a better baseline.",
        page: "dependency.md",
    },
    Term {
        name: "threshold",
        other_names: &["thresholds", "preset"],
        meaning: "The least score of a label, or the most of some, which the policy of the analysis sets (`--policy`, `--preset`); \
            a syntactic label's is its baseline and a margin.",
        page: "labels.md",
    },
    Term {
        name: "margin",
        other_names: &[],
        meaning: "How far a score is beyond its threshold, as a share of the room that is left above it: (score - threshold) \
            / (1 - threshold). Labels of one head are ordered by it.",
        page: "labels.md",
    },
    Term {
        name: "borderline",
        other_names: &["?", "firm", "how sure"],
        meaning: "A label whose score is above its threshold while the test does not show it (`?` in the grid): another sample \
            of such text might not give it. A label that is not borderline is firm: its q is at most `label_q`, and the model could read the corpus (`health`). `?` alone is an \
            undecided head: it has no label, and the text does not rule one out.",
        page: "labels.md",
    },
    Term {
        name: "health",
        other_names: &["corpus.health"],
        meaning: "Whether the model could read the corpus: checks of unknown tokens, foreign scripts and the like, each against a \
            threshold of the policy. Where one about reading fails, no label is firm, and the first line of a summary says why.",
        page: "health.md",
    },
    Term {
        name: "nearest",
        other_names: &["shortfall", "not it"],
        meaning: "Of an unlabelled head the two labels with the largest margins, and by how much the score falls short of the \
            threshold.",
        page: "labels.md",
    },
    Term {
        name: "tied",
        other_names: &["~", "near tie"],
        meaning: "Of labels of one head that are as firm as its first: the intervals of the two margins meet, so that either might \
            stand first (`~` in the grid).",
        page: "labels.md",
    },
    Term {
        name: "rests_on",
        other_names: &["rests on"],
        meaning: "The label of the head that this one refines, as `sink:no-op` does of `first-special`: it stands after that \
            one, with no larger margin, and never ties with it.",
        page: "labels.md",
    },
    Term {
        name: "baselines",
        other_names: &["beside"],
        meaning: "In tables of labels the numbers to compare the score with: the chance level, or the best fixed offset and the best rule \
            by word classes, or the best rule of place for links; the report has the one that the label is tested against as `baseline`.",
        page: "labels.md",
    },
    Term {
        name: "family",
        other_names: &["families"],
        meaning: "Of sentences: equal ones, and those that the corpus says belong together, which are evidence once. Of labels: \
            those of one rule, as `offset:-2` is of `offset:k`. Of tests: those whose p-values are corrected together.",
        page: "units.md",
    },
    Term {
        name: "interval",
        other_names: &["ci95", "±", "jackknife", "sampling"],
        meaning: "The 95 % interval of a number, by leaving out one block of the corpus at a time; `±` is half of its width. It is \
            about more documents like these, or more sentences where the corpus marks none (`corpus.unit`), not about another \
            kind of text.",
        page: "verdicts.md",
    },
    Term {
        name: "chance",
        other_names: &["baseline", "even attention"],
        meaning: "What a head without any preference would score on the same corpus; of a relation the baseline is what a rule \
            without a head scores: the best fixed offset, or the best word classes.",
        page: "attention.md",
    },
    Term {
        name: "direction",
        other_names: &["dep->head", "head->dep"],
        meaning: "From which end of an arc the syntactic head is found: `dep->head`, the word that the dependent attends to \
            most; `head->dep`, the word that attends to the dependent most.",
        page: "dependency.md",
    },
    Term {
        name: "accuracy",
        other_names: &["recall"],
        meaning: "Of the words of a relation, the share whose syntactic head is the word that the head's attention \
            points to: the recall of its arcs. That of the best head is biased upwards, since it is the best of many.",
        page: "dependency.md",
    },
    Term {
        name: "held-out",
        other_names: &["heldout", "heldout_accuracy"],
        meaning: "The accuracy of the head that is best on one half of the sentences, scored on the other half, both ways: what \
            choosing the best of many heads has added to `accuracy` is gone from it.",
        page: "dependency.md",
    },
    Term {
        name: "offset",
        other_names: &["offset baseline", "best offset", "accuracy where the offset is wrong"],
        meaning: "The best rule `the syntactic head is the word so many places away`, with its accuracy: `+1: 58.9` is the next \
            word, right for 58.9 % of the words of the relation.",
        page: "dependency.md",
    },
    Term {
        name: "tags",
        other_names: &["word classes", "tag baseline", "tag_baseline"],
        meaning: "The accuracy of the best rules `the syntactic head is the nearest word of this word class on this side`, one \
            rule for each word class of the dependent.",
        page: "dependency.md",
    },
    Term {
        name: "gain",
        other_names: &["over offset", "over tags", "difference", "versus_offset", "versus_tags"],
        meaning: "A head's accuracy less that of a baseline on the same words, in percentage points: `over offset` and `over \
            tags` in the summary, `difference` in the report.",
        page: "labels.md",
    },
    Term {
        name: "writes a constant",
        other_names: &["constant head", "="],
        meaning: "A head whose value weights, or whose inputs of the output projection, are all 0 (`model.constant_heads`): what it writes does \
            not depend on where it attends, so its labels count in no number and as lost beside a head at work.",
        page: "comparing.md",
    },
    Term {
        name: "gain lost",
        other_names: &["second copy loses", "part in copying"],
        meaning: "Of a decoder that reads random tokens twice the gain is the loss of the first copy less that of the second. Gain lost: \
            how much smaller it is without a head. Second copy loses: how much more the second copy loses without it. A head with both \
            above 0 has a part in copying.",
        page: "repeats.md",
    },
    Term {
        name: "beyond",
        other_names: &["beyond the offset", "beyond other arcs", "beyond word classes", "below word classes"],
        meaning: "How far a firm syntactic label reaches. Beyond the offset (`offset`): ten points above the best fixed offset, as \
            every such label. Beyond other arcs (`relation`): the head is also five points better on the relation than on the other \
            arcs of the same sentences. Beyond word classes (`tags`): it is then also two points above the better of offset and \
            word classes. Each step has its q. Below word classes: the whole interval of accuracy less that of word classes is \
            below 0. A borderline label is not shown to be beyond anything. Labels of links are beyond rules of place (`place`), \
            rules of the same class (`class`) or every rule (`all`).",
        page: "labels.md",
    },
    Term {
        name: "p",
        other_names: &["p-value"],
        meaning: "How likely a lead over the baseline as large as the one found is if there is none, for one test by itself.",
        page: "verdicts.md",
    },
    Term {
        name: "q",
        other_names: &["q-value", "significant", "FDR", "false-discovery rate", "largest q"],
        meaning: "A p-value corrected for the number of tests of its kind whose estimates are above the threshold, by the procedure of \
            Benjamini & Hochberg 1995 over twice the p-values (Zhao, Small & Su 2019): of all tests with q of at most 0.05, at most 5 % are expected to be \
            false. A test whose estimate is below its threshold is not among them, and has no q (`-`). `<1e-6` is below one in a \
            million.",
        page: "verdicts.md",
    },
    Term {
        name: "tested",
        other_names: &["untested", "not tested", "not assessed", "not measured"],
        meaning: "Of a label, a relation or a head: there was text enough for a test, `min_queries` cases in `min_sentences` sentences and at \
            least 10 blocks. What is not tested is neither shown nor excluded.",
        page: "labels.md",
    },
    Term {
        name: "nats",
        other_names: &["cosines"],
        meaning: "The unit of a loss, of log-probabilities and of entropies: natural logarithms, 1 nat being 1.44 bits. Tasks of triples have \
            their loss in cosines.",
        page: "tasks.md",
    },
    Term {
        name: "lift",
        other_names: &["lifts"],
        meaning: "Of a decoder the attention of a word to another one over what an even head gives it: later words see more words, and so \
            give each less.",
        page: "causal.md",
    },
    Term {
        name: "block",
        other_names: &["blocks"],
        meaning: "One of 64 parts of the corpus: document d is in part d mod 64, or family f of sentences in part f mod 64 where \
            the corpus marks no documents. Intervals and tests leave out whole parts, so that what belongs together stays together.",
        page: "units.md",
    },
    Term {
        name: "control",
        other_names: &["controls", "random-init", "random-sharp", "rotated", "shuffled-words"],
        meaning: "The same analysis with something taken away: what was learned (`random-init`), or that but how sharply layers \
            attend (`random-sharp`), where labels are false positives; what heads write to each other (`rotated`), or the order of \
            words (`shuffled-words`), where a label that its head keeps does not rest on either.",
        page: "controls.md",
    },
    Term {
        name: "segment",
        other_names: &[],
        meaning: "256 sentences of a corpus in a row, the last with those that are left. No matrix product crosses a segment, so \
            that shards come to the same sums as one run; `headscope index` says where each stands in its file.",
        page: "sums.md",
    },
    Term {
        name: "shard",
        other_names: &["shards"],
        meaning: "The part of a corpus that one job runs (`analyze --shard I/N`): of its segments every N-th, from the I-th on. \
            `headscope merge` makes the report of all N.",
        page: "sums.md",
    },
    Term {
        name: "partial",
        other_names: &["partials", "part", "parts", ".headscope"],
        meaning: "A file (`.headscope`) with the exact sums of a run or of a shard, from which all numbers of a report follow, and \
            without labels: `merge` adds several up, and `compare` compares two.",
        page: "sums.md",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use crate::studies::registry;

    #[test]
    fn every_word_is_on_its_page_on_methodology_and_means_one_thing() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/methodology");
        let mut known = BTreeSet::new();
        for term in registry::glossary() {
            let page =
                fs::read_to_string(pages.join(term.page)).unwrap_or_else(|error| panic!("{}: {error}", term.page));
            assert!(page.to_lowercase().contains(&term.name.to_lowercase()), "{} is not on {}", term.name, term.page);
            for name in term.other_names.iter().chain([&term.name]) {
                assert!(known.insert(*name) && registry::find_entry(name).is_none(), "{name} is explained twice");
            }
        }
    }
}
