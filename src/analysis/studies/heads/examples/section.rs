//! The section `examples` of the report: sentences that show what labels say.

use std::fmt::Write as _;

use super::figure;
use super::report::{Example, Examples, HeadExamples};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::study::labels::policy::Policy;
use crate::study::section::{HeadCard, Section, stored};
use crate::study::show::summary::Summary;
use crate::system::counted::{counted, plural};

pub struct ExamplesSection {
    pub examples: Examples,
}

stored!(ExamplesSection { examples: Examples });

impl Section for ExamplesSection {
    fn summary(&self, _: &Policy) -> Summary {
        let Examples { least_words, most_words, sentences, heads } = &self.examples;
        let shown: usize = heads.iter().map(|head| head.examples.len()).sum();
        let mut text = String::new();
        writeln!(
            text,
            "{} of the corpus that {} the labels of {}, chosen among {sentences} of {least_words} to {most_words} words, {} on the \
             cards of the heads (`show REPORT HEAD`, or the page).",
            counted(shown, "sentence"),
            plural(&shown, "shows", "show"),
            counted(heads.len(), "head"),
            plural(&shown, "is", "are")
        )
        .expect("writing to a string does not fail");
        text.into()
    }

    fn of_head(&self, head: HeadPlace, _: &Policy) -> HeadCard {
        let Some(of) = self.examples.of(head) else { return HeadCard::default() };
        let line = |example: &Example| format!("{}: {}", figure::about(of, example), example.drawn.text());
        HeadCard {
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
