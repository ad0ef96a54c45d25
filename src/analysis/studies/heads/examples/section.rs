//! The section `examples` of the report: sentences that show what labels say.

use super::figure;
use super::report::{Example, Examples, HeadExamples};
use super::sums::Rank;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::study::labels::policy::Policy;
use crate::study::section::{CardTable, HeadCard, Section, View, stored};
use crate::system::counted::counted;

const COLUMNS: [&str; 4] = ["example", "shows it", "sentence", "words"];

pub struct ExamplesSection {
    pub examples: Examples,
}

stored!(ExamplesSection { examples: Examples });

impl Section for ExamplesSection {
    fn view(&self, _: &Policy) -> View<'_> {
        let Examples { least_words, most_words, sentences, heads } = &self.examples;
        let shown: usize = heads.iter().map(|head| head.examples.len()).sum();
        let summary = format!(
            "Examples: {} of the labels of {}, among {sentences} of {least_words} to {most_words} words. They are on the cards of the \
             heads (`show REPORT HEAD --all`, or the page).\n",
            counted(shown, "sentence"),
            counted(heads.len(), "head"),
        );
        let typical = |head: &HeadExamples| {
            let example = head.examples.iter().find(|example| example.rank == Rank::Typical)?;
            Some((head.place, example.sentence))
        };
        View { typical: heads.iter().filter_map(typical).collect(), ..View::saying(summary) }
    }

    fn of_head(&self, head: HeadPlace, _: &Policy) -> HeadCard {
        let Some(of) = self.examples.of(head) else { return HeadCard::default() };
        let line = |example: &Example| format!("{}: {}", figure::about(of, example), example.drawn.text());
        let row = |example: &Example| {
            let [rank, score] = figure::rank_and_score(of, example);
            vec![rank, score, example.sentence.to_string(), example.drawn.text()]
        };
        let rows: Vec<Vec<String>> = of.examples.iter().map(row).collect();
        HeadCard {
            table: (!rows.is_empty()).then_some(CardTable { columns: &COLUMNS, rows }),
            lines: of.examples.iter().map(line).collect(),
            figures: figure::figure(of).into_iter().collect(),
            ..HeadCard::default()
        }
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        if let Some(stray) = grid.stray(self.examples.heads.iter().map(|head| head.place)) {
            return Some(format!("`examples` has {stray}, which the model has not"));
        }
        let broken = |head: &&HeadExamples| head.examples.iter().any(|example| !example.drawn.is_whole());
        let HeadExamples { place, .. } = self.examples.heads.iter().find(broken)?;
        Some(format!("`examples` has a sentence of {place} whose lists do not fit"))
    }
}
