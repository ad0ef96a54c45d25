//! The figure of a head's sentences: arcs from each word to where its attention goes.

use super::report::{Example, HeadExamples};
use super::sums::Rank;
use crate::study::labels::evidence::Direction;
use crate::study::show::figure::{Arc, ArcMatch, ArcSentence, Arcs, Chart, Figure};
use crate::system::counted::counted;

/// A sentence in a few words: `typical, 3 of 5 arcs, sentence 12`.
pub fn about(of: &HeadExamples, example: &Example) -> String {
    let [rank, score] = rank_and_score(of, example);
    format!("{rank}, {score}, sentence {}", example.sentence)
}

pub fn rank_and_score(of: &HeadExamples, example: &Example) -> [String; 2] {
    let Example { rank, score, queries, .. } = example;
    let rank = match rank {
        Rank::Best => "best",
        Rank::Typical => "typical",
        Rank::Worst if of.direction.is_some() && *score < 1.0 => "a failure",
        Rank::Worst => "weakest",
    };
    let score = match of.direction {
        Some(_) => format!("{:.0} of {}", score * *queries as f64, counted(*queries, "arc")),
        None => format!("{score:.2}"),
    };
    [rank.to_owned(), score]
}

pub fn figure(of: &HeadExamples) -> Option<Figure> {
    let HeadExamples { place, label, direction, mean, scored, examples } = of;
    if examples.is_empty() {
        return None;
    }
    let name = place.to_string();
    let sentence = |example: &Example| {
        let drawn = &example.drawn;
        let stand = |unit: usize| match (drawn.right.contains(&unit), drawn.wrong.contains(&unit)) {
            (true, _) => ArcMatch::Right,
            (_, true) => ArcMatch::Wrong,
            _ => ArcMatch::Neutral,
        };
        // All words are drawn if the label says nothing of any word.
        let speaks = !(drawn.right.is_empty() && drawn.wrong.is_empty());
        let arc = |unit: usize| {
            let (stand, to, weight) = (stand(unit), drawn.to[unit], drawn.weights[unit]);
            let shown = weight > 0.0 && !(speaks && stand == ArcMatch::Neutral);
            let (from, to) = if *direction == Some(Direction::HeadToDependent) { (to, unit) } else { (unit, to) };
            shown.then_some(Arc { from, to, weight, stand })
        };
        let missed = |&unit: &usize| {
            let head = *drawn.heads.get(unit)?;
            (head != unit).then_some(if *direction == Some(Direction::HeadToDependent) {
                [head, unit]
            } else {
                [unit, head]
            })
        };
        ArcSentence {
            about: about(of, example),
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
        let speaks = examples.iter().any(|one| !(one.drawn.right.is_empty() && one.drawn.wrong.is_empty()));
        let how =
            if speaks { "solid where the label says so, dashed where not" } else { "thicker with more attention" };
        format!(
            "Arcs go from each word to where it attends most: {how}. The score is the one of the label, {mean:.2} in the corpus."
        )
    };
    Some(Figure {
        name: "examples",
        title: format!("{name}, {label}: sentences that show it, out of {scored}"),
        reading,
        chart: Chart::Arcs(Arcs { sentences: examples.iter().map(sentence).collect() }),
    })
}
