//! `headscope compare`: are the labels of heads stable between two analyses?

pub mod outcome;
#[cfg(test)]
mod simulation;
mod tables;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, anyhow};

use super::sides::matching::HeadMatching;
use super::sides::standing::{self, Idleness, LabelStanding, same_rule};
use super::sides::{self, Side, SidesOptions, described};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::tables::csv;
use crate::export::{Writer, json};
use crate::report::roles::is_role;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::studies::registry;
use crate::study::labels::policy::Policy;
use crate::study::labels::{ABSENT, Assessment, REMOVED, Verdict};
use crate::system::errors::{Class, Facts};
use crate::system::terminal;
pub use outcome::FailOn;
use outcome::{
    ChoiceComparison, CompareOutcome, Doubt, FamilyComparison, Fate, HeadAgreement, HeadComparison, LabelComparison,
    LabelEvidence, MatchedHeads, OutcomeCounts, SCHEMA_VERSION, UntoldCounts,
};
pub use tables::ComparedTable;
pub use text::{firm_in_words, share};

#[derive(Clone, Debug)]
pub struct CompareOptions {
    pub sides: SidesOptions,
    pub pairing: Pairing,
    pub fail_on: Vec<FailOn>,
    pub outputs: OutcomeOutputs,
    pub table: ComparedTable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// The models' relation is unknown: heads are paired by place.
    Unknown,
    /// One model was trained further from the other: heads are paired by place.
    OneLineage,
    Matched(PathBuf),
}

/// Compares the labels of two analyses and prints the outcome; returns `false` if a finding of `--fail-on` is met.
/// Fails if an analysis cannot be read, the models have different heads, or an output cannot be written.
/// Fails also if `--fail-on` asks about lost labels and no label could be tested.
pub fn compare(options: &CompareOptions) -> Result<bool> {
    let outputs = options.outputs.open()?;
    let outcome = outcome(&options.sides, &options.pairing)?;
    let render = |writer| match writer {
        Writer::Json(form) => json::render(&outcome, form),
        Writer::Csv => csv::table(&options.table.of(&outcome)),
        Writer::Html => tables::page(&outcome),
    };
    let text = |detail, _: &[_]| text::render(&outcome, detail == Detail::Full).fit(terminal::width());
    reporting::write_each(outputs, render, text)?;
    if options.fail_on.iter().any(|finding| finding.is_met(&outcome)) {
        return Ok(false);
    }
    let asks = options.fail_on.iter().any(|finding| finding.concerns_lost_labels());
    match outcome.why_none_tested().filter(|_| asks) {
        Some(why) => Err(anyhow!("--fail-on: {why}").of_option("fail-on").hint("analyse more text, by one command"))
            .class(Class::Input),
        None => Ok(true),
    }
}

/// Reads and compares two analyses.
/// Fails if either cannot be read, or the models have different heads.
pub fn outcome(sides: &SidesOptions, pairing: &Pairing) -> Result<CompareOutcome> {
    let [a, b] = sides::read(sides).class(Class::Input)?;
    [&a, &b].into_iter().try_for_each(Side::ensure_labelled).class(Class::Input)?;
    let matching = match pairing {
        Pairing::Matched(file) => {
            let matching = HeadMatching::read(file).class(Class::Input)?;
            let partners = matching.partners([&a, &b]).cannot("use the matched heads of", file.display());
            Some((partners.class(Class::Input)?, matching.halves_agree))
        }
        Pairing::Unknown | Pairing::OneLineage => None,
    };
    Ok(compared([&a, &b], matching, *pairing == Pairing::Unknown))
}

/// Compares two analyses of models with equal numbers of layers and heads. Heads are paired by place or by `matching`.
/// `matching`: index in `b` of each head's partner, `[layers * heads]`, and how many partners both halves of the text agree on.
/// `is_unknown`: whether nothing is known of how the models are related, which adds a caveat.
pub fn compared([a, b]: [&Side; 2], matching: Option<(Vec<usize>, usize)>, is_unknown: bool) -> CompareOutcome {
    let grid = a.context.model.grid();
    let places: Vec<usize> = (0..grid.count()).collect();
    let partners = matching.as_ref().map_or(&places, |(partners, _)| partners);
    let heads = of_heads(a, b, partners);
    let idle = standing::one_sided(a, b, partners);
    let by_choice = || heads.iter().filter_map(|head| head.choice.as_ref());
    let with_choices = by_choice().next().is_some();
    let choice_of_all = heads.iter().map(|head| head.choice.as_ref().map_or(outcome::Fate::None, |of| of.outcome));
    let heads_by_outcome = OutcomeCounts::of(heads.iter().map(|head| head.outcome));
    let choices_by_outcome = with_choices.then(|| OutcomeCounts::of(choice_of_all));
    CompareOutcome {
        schema_version: SCHEMA_VERSION,
        corpora: a.other_corpus(b),
        lineage: (is_unknown && !a.same_weights(b)).then(|| UNKNOWN_LINEAGE.to_owned()),
        matched: matching.map(|(partners, halves_agree)| MatchedHeads {
            moved: partners.iter().zip(&places).filter(|(partner, place)| partner != place).count(),
            halves_agree,
            first_label: ShareByChance::new(&first_labels(&heads), grid.heads),
            firm_labels: ShareByChance::new(&firm_labels(&heads), grid.heads),
        }),
        idle,
        unread: sides::unread(a, b),
        too_few_units: sides::too_few_units(a, b),
        changed: heads_by_outcome.any_change() || choices_by_outcome.is_some_and(|counts| counts.any_change()),
        agreement: agreement(&heads, with_choices),
        heads_by_outcome,
        choices_by_outcome,
        labels_by_outcome: OutcomeCounts::of(heads.iter().flat_map(|head| &head.labels).map(|label| label.outcome)),
        untold: UntoldCounts::of(heads.iter().flat_map(|head| &head.labels)),
        families: families(&heads),
        heads,
        not_shared: described::not_shared([&a.context, &b.context]),
        a: a.described(),
        b: b.described(),
    }
}

/// Caveat printed if the relation of the two models is unknown.
const UNKNOWN_LINEAGE: &str = "The models have other weights, and their heads are compared by place. That says something only where \
    one was trained on from the other (--matched); for other models pair heads first: `headscope match`, --match.";

fn first_labels(heads: &[HeadComparison]) -> Vec<(&str, &str)> {
    heads.iter().map(|head| (&*head.primary_a, &*head.primary_b)).collect()
}

fn firm_labels(heads: &[HeadComparison]) -> Vec<(BTreeSet<&str>, BTreeSet<&str>)> {
    fn firm(head: &HeadComparison, side: usize) -> BTreeSet<&str> {
        head.labels.iter().filter(|label| label.firm()[side]).map(|label| &*label.label).collect()
    }
    heads.iter().map(|head| (firm(head, 0), firm(head, 1))).collect()
}

fn agreement(heads: &[HeadComparison], with_choices: bool) -> HeadAgreement {
    let choices: Vec<_> = heads
        .iter()
        .map(|head| head.choice.as_ref().map_or((None, None), |choice| (choice.a.as_deref(), choice.b.as_deref())))
        .collect();
    HeadAgreement {
        first_label: CategoryAgreement::of(&first_labels(heads)),
        firm_labels: CategoryAgreement::of(&firm_labels(heads)),
        choice: with_choices.then(|| CategoryAgreement::of(&choices)),
    }
}

/// Compares the two analyses per label family that some head has, in the order of the detectors.
fn families(heads: &[HeadComparison]) -> Vec<FamilyComparison> {
    let labels: Vec<Vec<&LabelComparison>> = heads.iter().map(|head| head.all_labels().collect()).collect();
    let order: BTreeMap<&str, usize> =
        registry::detectors().enumerate().map(|(place, detector)| (detector.explanation.name, place)).collect();
    let met: BTreeSet<(usize, &str)> = (labels.iter().flatten())
        .map(|label| (order.get(&*label.family).copied().unwrap_or(order.len()), &*label.family))
        .collect();
    let family = |(_, family): (usize, &str)| {
        let own = |labels: &[&'_ LabelComparison]| -> (bool, bool) {
            let own = || labels.iter().filter(|label| label.family == family);
            (own().any(|label| label.firm()[0]), own().any(|label| label.firm()[1]))
        };
        let firm: Vec<(bool, bool)> = labels.iter().map(|labels| own(labels)).collect();
        let count = |wanted: fn(&(bool, bool)) -> bool| firm.iter().filter(|pair| wanted(pair)).count();
        let all = labels.iter().flatten().filter(|label| label.family == family);
        FamilyComparison {
            family: family.to_owned(),
            heads_a: count(|(a, _)| *a),
            heads_b: count(|(_, b)| *b),
            heads_both: count(|(a, b)| *a && *b),
            outcomes: OutcomeCounts::of(all.map(|label| label.outcome)),
            agreement: CategoryAgreement::of(&firm),
        }
    };
    met.into_iter().map(family).collect()
}

/// Entry in place of the first label of a head that writes a constant in this analysis and not in the other.
const CONSTANT: &str = "constant";

struct Assessed<'a> {
    studies: Vec<&'static str>,
    policy: &'a Policy,
    is_read: bool,
    absent: &'a [usize],
    /// Assessments of every head for every label (except for labels of how it chooses), `[heads][labels]`.
    roles: Vec<Vec<Assessment>>,
    choices: Vec<Vec<Assessment>>,
}

impl<'a> Assessed<'a> {
    fn new(side: &'a Side) -> Self {
        let policy = &side.context.settings.policy;
        Self {
            studies: side.results.studies().into_iter().map(|study| study.card().name).collect(),
            policy,
            is_read: side.results.is_read,
            absent: &side.results.absent,
            roles: side.results.assessments(policy),
            choices: side.results.assessments_of_choices(policy),
        }
    }

    /// First label of a head. For a head that does nothing, the reason in its place.
    fn primary(&self, place: usize, idle: Option<Idleness>) -> String {
        match idle {
            Some(Idleness::Absent) => ABSENT.to_owned(),
            Some(Idleness::Removed) => REMOVED.to_owned(),
            Some(Idleness::WritesConstant) => CONSTANT.to_owned(),
            None => Verdict::new(self.roles[place].clone()).primary,
        }
    }
}

/// Compares every head of `a`, unless both models lack it, with its partner in `b`. `partners`: indices, `[layers * heads]`.
fn of_heads(a: &Side, b: &Side, partners: &[usize]) -> Vec<HeadComparison> {
    let grid = a.context.model.grid();
    let like_counts = |label: &str| a.has_comparable_counts(b, label);
    let idleness = |place: usize| standing::idleness([(a, place), (b, partners[place])]);
    let [a, b] = [a, b].map(Assessed::new);
    let both = [&a, &b];
    let head = |place: usize| {
        let of_both = [(&a, place), (&b, partners[place])];
        let roles = of_both.map(|(side, place)| roles_of(&side.roles[place]));
        let idle = idleness(place);
        let labels = compare_labels((both, idle), &like_counts, roles.each_ref().map(|roles| &**roles));
        let [primary_a, primary_b] = [0, 1].map(|side| of_both[side].0.primary(of_both[side].1, idle[side]));
        let of_choice = compare_labels((both, idle), &like_counts, of_both.map(|(side, place)| &*side.choices[place]));
        let [chosen_a, chosen_b] = of_both.map(|(side, place)| {
            let chosen = side.choices[place].iter().find(|one| one.fires);
            chosen.map(|one| one.label.label.clone())
        });
        HeadComparison {
            place: grid.place(place),
            partner: grid.place(partners[place]),
            outcome: head_fate(&labels),
            primary_a,
            primary_b,
            labels,
            choice: (!of_choice.is_empty()).then(|| ChoiceComparison {
                outcome: head_fate(&of_choice),
                a: chosen_a,
                b: chosen_b,
                labels: of_choice,
            }),
        }
    };
    let is_there = |place: &usize| !(a.absent.contains(place) && b.absent.contains(&partners[*place]));
    (0..grid.count()).filter(is_there).map(head).collect()
}

/// Keeps the assessments of labels that are roles. Other labels hold for untrained heads as well, so they cannot be lost.
fn roles_of(assessed: &[Assessment]) -> Vec<Assessment> {
    assessed.iter().filter(|one| is_role(&one.label)).cloned().collect()
}

/// Compares each label, firm or borderline, that a head has in at least one analysis.
/// `idle`: why the head does nothing in an analysis, in which it then has no labels.
fn compare_labels(
    (sides, idle): ([&Assessed<'_>; 2], [Option<Idleness>; 2]),
    like_counts: &dyn Fn(&str) -> bool,
    assessed: [&[Assessment]; 2],
) -> Vec<LabelComparison> {
    let by_label = |all: &'_ [Assessment]| -> BTreeMap<String, Assessment> {
        all.iter().map(|one| (one.label.label.clone(), one.clone())).collect()
    };
    let at_work = assessed.iter().zip(idle).filter(|(_, idle)| idle.is_none());
    let fired = at_work.flat_map(|(all, _)| all.iter()).filter(|one| one.fires);
    let names: BTreeSet<&str> = fired.map(|one| one.label.label.as_str()).collect();
    let known = assessed.map(by_label);
    let comparison = |label: &str| {
        let found = known.each_ref().map(|known| known.get(label));
        let is_measured = |side: &&Assessed<'_>| {
            let study = registry::study_of_label(label).map(|study| study.card().name);
            study.is_none_or(|study| side.studies.contains(&study))
        };
        let told = if !sides.iter().all(is_measured) {
            Err(Doubt::NotMeasured)
        } else if sides.iter().any(|side| !side.is_read) {
            Err(Doubt::Unread)
        } else if !like_counts(label) {
            Err(Doubt::OtherCounts)
        } else if same_rule(label, sides.map(|side| side.policy)) {
            label_fate([0, 1].map(|side| standing(found[side], idle[side])))
        } else {
            Err(Doubt::OtherThresholds)
        };
        let [a, b] = [0, 1].map(|side| found[side].map(|one| evidence(one, idle[side])));
        LabelComparison {
            label: label.to_owned(),
            family: registry::detector_of(label).map_or(label, |of| of.explanation.name).to_owned(),
            outcome: told.unwrap_or(Fate::CouldNotTell),
            doubt: told.err(),
            a,
            b,
        }
    };
    names.into_iter().map(comparison).collect()
}

/// Standing of a head for a label in one analysis; `None`: not assessed. A missing head is out of reach of every label.
fn standing(assessed: Option<&Assessment>, idle: Option<Idleness>) -> Option<LabelStanding> {
    match idle {
        Some(Idleness::WritesConstant) => Some(LabelStanding::WritesConstant),
        Some(Idleness::Absent | Idleness::Removed) => Some(LabelStanding::OutOfReach),
        None => assessed.map(LabelStanding::of),
    }
}

/// Fate of a label, from its standings in both analyses; a standing is `None` if the label could not be assessed.
/// The head must have the label in at least one of them. Fails with the reason if the standings cannot tell.
fn label_fate(sides: [Option<LabelStanding>; 2]) -> Result<Fate, Doubt> {
    use LabelStanding::{Borderline, Firm, OutOfReach, Untested, WithinReach, WritesConstant};
    match sides {
        [Some(Firm), Some(Firm)] => Ok(Fate::Kept),
        [Some(Firm), Some(OutOfReach | WritesConstant)] => Ok(Fate::Lost),
        [Some(OutOfReach | WritesConstant), Some(Firm)] => Ok(Fate::Gained),
        [None, _] | [_, None] => Err(Doubt::TooLittle),
        [Some(Borderline), _] | [_, Some(Borderline)] => Err(Doubt::Borderline),
        [Some(Untested), _] | [_, Some(Untested)] => Err(Doubt::Untested),
        [Some(WithinReach), _] | [_, Some(WithinReach)] => Err(Doubt::WithinReach),
        [Some(OutOfReach | WritesConstant), Some(OutOfReach | WritesConstant)] => {
            unreachable!("the head has the label on one side")
        }
    }
}

/// Fate of a head, from the fates of all labels that it has in either analysis.
fn head_fate(labels: &[LabelComparison]) -> Fate {
    let any = |fates: &[Fate]| labels.iter().any(|label| fates.contains(&label.outcome));
    let firm = [0, 1].map(|side| labels.iter().any(|label| label.firm()[side]));
    match (any(&[Fate::Lost, Fate::Gained]), firm) {
        (true, [true, true]) => Fate::Changed,
        (true, [true, false]) => Fate::Lost,
        (true, _) => Fate::Gained,
        (false, _) if any(&[Fate::Kept]) => Fate::Kept,
        (false, _) if labels.is_empty() => Fate::None,
        (false, _) => Fate::CouldNotTell,
    }
}

fn evidence(assessment: &Assessment, idle: Option<Idleness>) -> LabelEvidence {
    let label = &assessment.label;
    LabelEvidence {
        standing: standing(Some(assessment), idle).unwrap_or(LabelStanding::OutOfReach),
        number: label.number.clone(),
        score: label.score,
        ci95: label.ci95,
        threshold: label.threshold,
        q: label.test.q,
        beyond: label.beyond.filter(|_| assessment.fires),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(outcome: Fate, firm: [bool; 2]) -> LabelComparison {
        let evidence = |firm: bool| LabelEvidence {
            standing: if firm { LabelStanding::Firm } else { LabelStanding::OutOfReach },
            number: "n".to_owned(),
            score: 0.5,
            ci95: None,
            threshold: 0.5,
            q: None,
            beyond: None,
        };
        let [a, b] = firm.map(|firm| Some(evidence(firm)));
        LabelComparison { label: "l".to_owned(), family: "l".to_owned(), outcome, doubt: None, a, b }
    }

    #[test]
    fn a_label_is_lost_only_where_both_tests_say_so() {
        use LabelStanding::{Borderline, Firm, OutOfReach, Untested, WithinReach};
        let of = |a, b| label_fate([Some(a), Some(b)]);
        assert_eq!((of(Firm, Firm), of(Firm, OutOfReach)), (Ok(Fate::Kept), Ok(Fate::Lost)));
        assert_eq!(of(OutOfReach, Firm), Ok(Fate::Gained));
        assert_eq!(of(Firm, LabelStanding::WritesConstant), Ok(Fate::Lost));
        // The estimate is below the threshold, or above it, and more sentences might turn it.
        assert_eq!((of(Firm, WithinReach), of(Firm, Borderline)), (Err(Doubt::WithinReach), Err(Doubt::Borderline)));
        assert_eq!(
            (of(Borderline, OutOfReach), of(Borderline, Borderline)),
            (Err(Doubt::Borderline), Err(Doubt::Borderline))
        );
        assert_eq!((of(Untested, Firm), label_fate([None, Some(Firm)])), (Err(Doubt::Untested), Err(Doubt::TooLittle)));
    }

    #[test]
    fn a_head_changes_where_it_has_a_label_before_and_after() {
        let (kept, lost, gained) =
            (label(Fate::Kept, [true; 2]), label(Fate::Lost, [true, false]), label(Fate::Gained, [false, true]));
        let untold = label(Fate::CouldNotTell, [false, true]);
        assert_eq!(head_fate(&[]), Fate::None);
        assert_eq!(head_fate(std::slice::from_ref(&lost)), Fate::Lost);
        assert_eq!(head_fate(std::slice::from_ref(&gained)), Fate::Gained);
        assert_eq!(head_fate(std::slice::from_ref(&untold)), Fate::CouldNotTell);
        assert_eq!(head_fate(&[label(Fate::Lost, [true, false]), gained]), Fate::Changed);
        assert_eq!(head_fate(&[label(Fate::Lost, [true, false]), label(Fate::Kept, [true; 2])]), Fate::Changed);
        // One label is gone, and another is firm there that cannot be told to be new.
        assert_eq!(head_fate(&[lost, label(Fate::CouldNotTell, [false, true])]), Fate::Changed);
        assert_eq!(head_fate(&[kept, untold]), Fate::Kept);
    }
}
