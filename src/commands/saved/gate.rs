//! `headscope gate`: has a model lost a firm role of its heads?
//!
//! A release stops for a label that is firm before and shown to be below its threshold after, and for nothing else. The
//! judgement is that of `compare`; a gate asks for more than `compare` does: both reports over the same text, and every
//! firm label measured on both sides, so that no label is passed for want of a measurement.

use anyhow::{Result, anyhow, ensure};

use super::compare::outcome::{CompareOutcome, Doubt, Fate, LabelComparison};
use super::compare::{Pairing, outcome};
use super::sides::SidesOptions;
use super::sides::standing::LabelStanding;
use crate::model::grid::HeadPlace;
use crate::study::show::wording::decimal;
use crate::system::counted::{counted, plural};
use crate::system::errors::{Class, Facts};
use crate::system::printable::one_line;
use crate::system::terminal::print;

/// Two analyses of a model, and the roles that it must keep.
#[derive(Clone, Debug)]
pub struct GateOptions {
    /// The analyses before and after a change of the model.
    pub sides: SidesOptions,
    /// Categories of labels that count ([`category`]); empty for all roles.
    pub categories: Vec<String>,
    /// Whether the line is printed.
    pub is_printed: bool,
}

/// The category of a label: its name up to the colon, as `syntactic` of `syntactic:obj`.
pub fn category(label: &str) -> &str {
    label.split_once(':').map_or(label, |(category, _)| category)
}

/// Prints whether a firm role of these categories was lost; true if none was.
/// Fails if a report cannot be read, the models have other heads, the texts differ, nothing is firm before, or a label that
/// is firm before could not be measured after.
pub fn gate(options: &GateOptions) -> Result<bool> {
    let judged = Judged::new(&outcome(&options.sides, &Pairing::OneLineage)?, &options.categories)?;
    if options.is_printed {
        print(&format!("{}\n", judged.in_words()))?;
    }
    Ok(judged.lost.is_empty())
}

/// The firm labels of the first analysis, by what became of them.
struct Judged {
    /// One of them: a label, or one of the categories.
    named: String,
    firm: usize,
    kept: usize,
    lost: Vec<String>,
}

impl Judged {
    fn new(outcome: &CompareOutcome, categories: &[String]) -> Result<Self> {
        let [before, after] = [&outcome.a.file, &outcome.b.file];
        if let Some(corpora) = &outcome.corpora {
            let corpora = corpora.trim_end_matches('.');
            return Err(anyhow!(
                "a gate needs two reports over the same text, `{before}` and `{after}` are not: {corpora}"
            )
            .class(Class::Input)
            .hint("analyse both models over the same text"));
        }
        if let Some(units) = &outcome.too_few_units {
            return Err(anyhow!("no label can be tested: {units}").class(Class::Input).hint("analyse more text"));
        }
        if let Some(unread) = &outcome.unread {
            return Err(anyhow!("no label can be lost or kept: {}", unread.trim_end_matches('.')).class(Class::Input));
        }
        let is_wanted = |label: &LabelComparison| {
            categories.is_empty() || categories.iter().any(|wanted| wanted == category(&label.label))
        };
        let labels = outcome.heads.iter().flat_map(|head| head.labels.iter().map(|label| (head.place, label)));
        let firm: Vec<_> = labels.filter(|(_, label)| label.firm()[0] && is_wanted(label)).collect();
        let named =
            if categories.is_empty() { "label".to_owned() } else { format!("{} label", categories.join(" or ")) };
        ensure!(
            !firm.is_empty(),
            anyhow!("`{before}` has no firm {named}, so that none can be lost")
                .class(Class::Input)
                .hint("`headscope show` lists the firm labels of a report; analyse more text, or name other labels")
        );
        let unmeasured = |doubt| {
            matches!(doubt, Some(Doubt::NotMeasured | Doubt::OtherThresholds | Doubt::TooLittle | Doubt::Untested))
        };
        if let Some((place, LabelComparison { label, doubt: Some(doubt), .. })) =
            firm.iter().find(|(_, label)| unmeasured(label.doubt))
        {
            let label = one_line(label);
            return Err(anyhow!("`{after}` does not say whether {place} {label} is lost: {}", doubt.words())
                .class(Class::Input)
                .hint("analyse both models by the same command"));
        }
        let of = |fate: Fate| firm.iter().filter(move |(_, label)| label.outcome == fate);
        Ok(Self { named, firm: firm.len(), kept: of(Fate::Kept).count(), lost: of(Fate::Lost).map(in_words).collect() })
    }

    fn in_words(&self) -> String {
        let Self { named, firm, kept, lost } = self;
        let untold = match firm - kept - lost.len() {
            0 => String::new(),
            untold => format!(", {untold} not shown to be lost"),
        };
        match &lost[..] {
            [] => format!("pass: no firm {named} is lost ({kept} of {firm} kept{untold})"),
            lost => format!(
                "fail: {} of {} {} lost ({kept} kept{untold}): {}",
                lost.len(),
                counted(*firm, &format!("firm {named}")),
                plural(&lost.len(), "is", "are"),
                lost.join(", ")
            ),
        }
    }
}

/// The label with its scores before and after, beside the threshold of the latter.
fn in_words((place, label): &(HeadPlace, &LabelComparison)) -> String {
    let score = |score: f64| decimal(score, 2);
    let scores = label.a.as_ref().zip(label.b.as_ref()).map(|(before, after)| match after.standing {
        LabelStanding::WritesConstant => format!(" {} -> {}", score(before.score), after.standing.words()),
        _ => format!(" {} -> {} (threshold {})", score(before.score), score(after.score), score(after.threshold)),
    });
    format!("{place} {}{}", one_line(&label.label), scores.unwrap_or_default())
}
