//! Study `examples`: the best, a typical and the worst sentence for each head's label (docs/methodology/examples.md).

mod sums;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::forward::visitor::Needs;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::pass::Pass;
use crate::study::aim::Aim;
use crate::study::labels::evidence::Direction;
use crate::study::section::{CardTable, HeadCard, Section, View, ViewContext, stored};
use crate::study::show::figure::{Arc, ArcMatch, ArcSentence, Arcs, Chart, Figure};
use crate::study::upstream::HeadAim;
use crate::study::{Card, Estimates, EstimationContext, ObservedPasses, PassSpec, Study, Subject};
use crate::system::counts::format_count;
use sums::{Candidate, Drawn, ExampleSums, HeadCandidates, MAX_WORDS, MIN_WORDS, Rank};

pub struct ExampleSentences;

/// The text that stands for a special token in drawings: the first of `tokens` that the vocabulary has, or
/// `otherwise` if it has none.
fn special_token_text(subject: &Subject<'_>, tokens: [&str; 2], otherwise: &str) -> String {
    tokens.into_iter().find(|token| (subject.token_id)(token).is_some()).unwrap_or(otherwise).to_owned()
}

impl Study for ExampleSentences {
    type Section = Examples;

    const CARD: Card = Card {
        name: "examples",
        question: "Which sentences show what the labels say?",
        needs: "a corpus in files, read once more when the labels are known; the report then holds sentences of the corpus",
        figures: &["examples:HEAD"],
        options: &["show-example"],
        ..Card::EMPTY
    };

    fn passes(&self) -> Vec<PassSpec> {
        let make = |subject: &Subject<'_>| {
            let special = [
                special_token_text(subject, ["[CLS]", "<s>"], "[first]"),
                special_token_text(subject, ["[SEP]", "</s>"], "[separator]"),
            ];
            let (classes, aims) = (subject.classes.clone(), subject.upstream.aims.clone());
            ExampleSums::new(subject.grid, classes, subject.from_token, aims, special)
        };
        vec![PassSpec::new(Pass::PLAIN, make).in_second_stage_from_kept(Needs::ATTENTION, sums::has_drawable_sentence)]
    }

    fn measure(&self, observed: &ObservedPasses<'_>, context: &EstimationContext) -> (Estimates, Self::Section) {
        (Estimates::without_metrics(context.grid.head_count()), Examples::new(observed.first_sums(), context.grid))
    }
}

const COLUMNS: [&str; 4] = ["example", "shows it", "sentence", "words"];

stored!(Examples as examples);

impl Section for Examples {
    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        let Examples { least_words, most_words, sentences, heads } = self;
        let shown: usize = heads.iter().map(|head| head.examples.len()).sum();
        let summary = format!(
            "Examples: {} of the labels of {}, among {sentences} of {least_words} to {most_words} words. They are on the cards of the \
             heads (`show REPORT HEAD --all`, or the page).\n",
            format_count(shown, "sentence"),
            format_count(heads.len(), "head"),
        );
        let typical = |head: &HeadExamples| {
            let example = head.examples.iter().find(|example| example.rank == Rank::Typical)?;
            Some((head.place, example.sentence))
        };
        View { typical_sentences: heads.iter().filter_map(typical).collect(), ..View::from_summary(summary) }
    }

    fn head_card(&self, head: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let Some(found) = self.heads.iter().find(|found| found.place == head) else { return HeadCard::default() };
        let line = |example: &Example| format!("{}: {}", example_caption(found, example), example.drawn.text());
        let row = |example: &Example| {
            let [rank, score] = rank_and_score_texts(found, example);
            vec![rank, score, example.sentence.to_string(), example.drawn.text()]
        };
        let rows: Vec<Vec<String>> = found.examples.iter().map(row).collect();
        HeadCard {
            table: (!rows.is_empty()).then_some(CardTable { columns: &COLUMNS, rows }),
            lines: found.examples.iter().map(line).collect(),
            figures: example_figure(found).into_iter().collect(),
            ..HeadCard::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let broken = |head: &&HeadExamples| head.examples.iter().any(|example| !example.drawn.is_valid());
        let broken = self.heads.iter().find(broken);
        let broken = broken.map(|head| format!("`examples` has a sentence of {} whose lists do not fit", head.place));
        grid.stray_head_defect("examples", self.heads.iter().map(|head| head.place)).or(broken)
    }
}

/// Describes an example sentence in a few words: `typical, 3 of 5 arcs, sentence 12`.
pub fn example_caption(head: &HeadExamples, example: &Example) -> String {
    let [rank, score] = rank_and_score_texts(head, example);
    format!("{rank}, {score}, sentence {}", example.sentence)
}

/// `[rank, score]` of an example sentence in words, such as `["typical", "3 of 5 arcs"]`.
pub fn rank_and_score_texts(head: &HeadExamples, example: &Example) -> [String; 2] {
    let Example { rank, score, queries, .. } = example;
    let rank = match rank {
        Rank::Best => "best",
        Rank::Typical => "typical",
        Rank::Worst if head.direction.is_some() && *score < 1.0 => "a failure",
        Rank::Worst => "weakest",
    };
    let score = match head.direction {
        Some(_) => format!("{:.0} of {}", score * *queries as f64, format_count(*queries, "arc")),
        None => format!("{score:.2}"),
    };
    [rank.to_owned(), score]
}

/// The figure of a head's example sentences; `None` if the head has no example.
pub fn example_figure(head: &HeadExamples) -> Option<Figure> {
    let HeadExamples { place, label, direction, mean, scored, examples } = head;
    if examples.is_empty() {
        return None;
    }
    let ends = |unit: usize, other: usize| {
        if *direction == Some(Direction::HeadToDependent) { [other, unit] } else { [unit, other] }
    };
    let speaks = |drawn: &Drawn| !(drawn.right.is_empty() && drawn.wrong.is_empty());
    let sentence = |example: &Example| {
        let drawn = &example.drawn;
        let stand = |unit: usize| match (drawn.right.contains(&unit), drawn.wrong.contains(&unit)) {
            (true, _) => ArcMatch::Right,
            (_, true) => ArcMatch::Wrong,
            _ => ArcMatch::Neutral,
        };
        // All words are drawn if the label says nothing of any word.
        let speaks = speaks(drawn);
        let arc = |unit: usize| {
            let (stand, weight, [from, to]) = (stand(unit), drawn.weights[unit], ends(unit, drawn.to[unit]));
            let shown = weight > 0.0 && !(speaks && stand == ArcMatch::Neutral);
            shown.then_some(Arc { from, to, weight, outcome: stand })
        };
        let missed = |&unit: &usize| {
            let head = *drawn.heads.get(unit)?;
            (head != unit).then_some(ends(unit, head))
        };
        ArcSentence {
            caption: example_caption(head, example),
            units: drawn.units.clone(),
            arcs: (0..drawn.units.len()).filter_map(arc).collect(),
            gold: if direction.is_some() { drawn.wrong.iter().filter_map(missed).collect() } else { Vec::new() },
        }
    };
    let reading = if direction.is_some() {
        format!(
            "Arcs of the relation go from the word that attends to the word that it takes for the other end: solid where that is so in \
             the tree, dashed where not, with the arc of the tree below. The head is right on {:.1} % of them in the corpus.",
            100.0 * mean
        )
    } else {
        let how = if examples.iter().any(|one| speaks(&one.drawn)) {
            "solid where the label says so, dashed where not"
        } else {
            "thicker with more attention"
        };
        format!(
            "Arcs go from each word to where it attends most: {how}. The score is the one of the label, {mean:.2} in the corpus."
        )
    };
    Some(Figure {
        name: "examples",
        title: format!("{place}, {label}: sentences that show it, out of {scored}"),
        reading,
        chart: Chart::Arcs(Arcs { sentences: examples.iter().map(sentence).collect() }),
    })
}

/// Example sentences for the labels of attention heads, chosen by how closely the head follows its label in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Examples {
    /// Minimum length of an example sentence, in words.
    pub least_words: usize,
    /// Maximum length of an example sentence, in words.
    pub most_words: usize,
    /// Number of sentences of suitable length, counting one per sentence family (equal or grouped sentences).
    pub sentences: u64,
    /// Attention heads with a label that says where they attend, each with its example sentences.
    pub heads: Vec<HeadExamples>,
}

/// Example sentences of one attention head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadExamples {
    /// The attention head, by layer and number in the layer.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Label that the sentences illustrate, as it was when they were chosen: the head's first label that says where the head
    /// attends.
    pub label: String,
    /// Direction of the label's arcs; null for a label that is not about arcs.
    pub direction: Option<Direction>,
    /// Mean score of the label over the whole corpus: how closely the attention head follows it.
    pub mean: f64,
    /// Number of sentences that were scored for the label, from which the examples were chosen.
    pub scored: u64,
    /// Chosen sentences: at most one for each rank, and none twice.
    pub examples: Vec<Example>,
}

/// Example sentence of an attention head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// Rank of the sentence among all scored sentences of the attention head.
    pub rank: Rank,
    /// Number of the sentence in the corpus, counted from 0.
    pub sentence: u64,
    /// Score of the label in this sentence, from 0 to 1: how closely the attention head follows its label.
    pub score: f64,
    /// Number of queries over which `score` is a mean: arcs, tokens or words.
    pub queries: u64,
    /// The sentence with the weights of the attention head, as data for a drawing.
    #[serde(flatten)]
    pub drawn: Drawn,
}

impl Examples {
    pub fn new(sums: &ExampleSums, grid: HeadGrid) -> Self {
        let of_head = |(HeadAim { place, label, aim, mean }, kept): (&HeadAim, &HeadCandidates)| {
            let direction = if let Aim::Partner { direction, .. } = aim { Some(*direction) } else { None };
            let example = |(rank, candidate): (Rank, &Candidate)| {
                let Candidate { sentence, score, queries, drawn } = candidate.clone();
                Example { rank, sentence, score, queries, drawn }
            };
            let examples = kept.chosen_candidates().into_iter().map(example).collect();
            let (place, label) = (grid.head_place(*place), label.clone());
            HeadExamples { place, label, direction, mean: *mean, scored: kept.scored, examples }
        };
        Self {
            least_words: MIN_WORDS,
            most_words: MAX_WORDS,
            sentences: sums.sentences,
            heads: sums.aims.iter().zip(&sums.kept).map(of_head).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
