//! The sections of the studies: their caveats, their figures, their numbers; and the studies that were not run.

use minijinja::value::Value;
use serde::Serialize;

use crate::evaluation::askable::Askable;
use crate::export::figures;
use crate::export::svg::Medium;
use crate::report::{Caveat, Report};
use crate::studies::registry::STUDIES;
use crate::study::labels::Verdict;
use crate::study::section::{Section, View};
use crate::study::show::figure::Figure;
use crate::study::{AnyStudy, Labelling};

/// The results of a study.
#[derive(Serialize)]
pub struct StudySection {
    name: &'static str,
    question: &'static str,
    pub caveats: Vec<Caveat>,
    figures: Vec<FigureWithNumbers>,
    summary: String,
}

/// A figure with its numbers.
#[derive(Serialize)]
struct FigureWithNumbers {
    title: String,
    reading: String,
    svg: Value,
    numbers: Numbers,
}

/// A table of numbers.
#[derive(Serialize)]
struct Numbers {
    caption: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A study that was not run.
#[derive(Serialize)]
pub struct StudyNotRun {
    name: &'static str,
    question: &'static str,
}

/// Studies that cannot be asked of the model.
#[derive(Serialize)]
pub struct StudyBeyond {
    names: Vec<&'static str>,
    /// A sentence without its subject, the model.
    why: String,
}

/// The studies of a report that have something to show beside metrics and labels.
pub fn of(report: &Report) -> Vec<StudySection> {
    let policy = &report.settings.policy;
    let verdicts: Vec<Verdict> = report
        .heads
        .iter()
        .map(|head| Verdict {
            primary: head.primary.clone(),
            labels: head.labels.clone(),
            nearest: head.nearest.clone(),
        })
        .collect();
    let section = |(study, section): &(&'static dyn AnyStudy, Box<dyn Section>)| {
        let labelling = Labelling { verdicts: &verdicts, policy, section: &**section };
        let ids: Vec<&str> = study.card().caveats_of(&labelling).iter().map(|caveat| caveat.id).collect();
        let caveats = report.caveats.iter().filter(|caveat| ids.contains(&caveat.id.as_str())).cloned().collect();
        let drawn = |figure: Figure| {
            let (columns, rows) = figures::table(report, &figure);
            let svg = Value::from_safe_string(figures::draw(report, &figure, Medium::Page));
            let Figure { title, reading, .. } = figure;
            FigureWithNumbers { numbers: Numbers { caption: title.clone(), columns, rows }, title, reading, svg }
        };
        let View { figures, summary, .. } = section.view(policy);
        StudySection {
            name: study.card().name,
            question: study.card().question,
            caveats,
            figures: figures.into_iter().map(drawn).collect(),
            summary: summary.fit(Some(WIDTH)).trim_end().to_owned(),
        }
    };
    let mut sections: Vec<StudySection> = report.sections.0.iter().map(section).collect();
    sections.retain(|section| !(section.figures.is_empty() && section.summary.is_empty()));
    sections
}

/// The width of what studies say in words, in columns: room for every column of their tables.
const WIDTH: usize = 160;

/// The studies that a report does not have and that can be asked of its model; and those that cannot, each with the reason.
pub fn missing(report: &Report) -> (Vec<StudyNotRun>, Vec<StudyBeyond>) {
    let askable = Askable::of(&report.model);
    let (mut missing, mut beyond) = (Vec::new(), Vec::<StudyBeyond>::new());
    let ran = |name: &str| report.sections.0.iter().any(|(study, _)| study.card().name == name);
    for study in STUDIES.iter().filter(|study| !ran(study.card().name)) {
        let card = study.card();
        match askable.beyond_or_without_loss(*study) {
            None => missing.push(StudyNotRun { name: card.name, question: card.question }),
            Some(why) => match beyond.iter_mut().find(|other| other.why == why) {
                Some(other) => other.names.push(card.name),
                None => beyond.push(StudyBeyond { names: vec![card.name], why }),
            },
        }
    }
    (missing, beyond)
}
