//! `headscope compare`: are the labels of heads stable between two analyses?

pub mod outcome;
#[cfg(test)]
mod simulation;
mod tables;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, anyhow};

use super::sides::head_state::{self, Idleness, LabelStanding, assessments_by_label, has_same_thresholds};
use super::sides::matching::HeadMatching;
use super::sides::{self, Side, SidesOptions, description};
use crate::commands::reporting::{self, OutcomeOutputs};
use crate::export::summary::Detail;
use crate::export::tables::csv;
use crate::export::{ReportFormat, json};
use crate::report::firm::is_role;
use crate::stats::agreement::{CategoryAgreement, ShareByChance};
use crate::studies::registry;
use crate::study::labels::{ABSENT, Assessment, REMOVED, Verdict};
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::terminal;
pub use outcome::FailOn;
use outcome::{
    ChoiceComparison, CompareOutcome, Doubt, FamilyComparison, Fate, HeadAgreement, HeadComparison, LabelComparison,
    LabelEvidence, MatchedHeads, OutcomeCounts, SCHEMA_VERSION, UntoldCounts,
};
pub use tables::ComparedTable;
pub use text::{agreement_share, chance_share_text, firm_count_text};

/// How the heads of two models are paired.
#[derive(PartialEq, Eq)]
pub enum Pairing {
    /// The models' relation is unknown: heads are paired by place.
    UnknownRelation,
    /// One model was trained further from the other: heads are paired by place.
    OneLineage,
    /// Heads are paired by this file, which `headscope match` wrote.
    MatchingFile(PathBuf),
}

/// Compares the labels of two analyses and prints the outcome; returns `false` if a condition in `fail_on` holds.
/// `table` is written to CSV files.
/// Fails if an analysis cannot be read, the models have different heads, or an output cannot be written.
/// Fails also if `--fail-on` asks about lost labels and no label could be tested.
pub fn compare(
    sides: &SidesOptions,
    pairing: &Pairing,
    fail_on: &[FailOn],
    outputs: &OutcomeOutputs,
    table: ComparedTable,
) -> Result<bool> {
    let outputs = outputs.open_outputs()?;
    let outcome = read_and_compare(sides, pairing)?;
    let render = |writer| match writer {
        ReportFormat::Json(form) => json::to_json(&outcome, form),
        ReportFormat::Csv => csv::table_csv(&table.build(&outcome)),
        ReportFormat::Html => tables::render_page(&outcome),
    };
    let text = |detail, _: &[_]| text::render(&outcome, detail == Detail::Full).fit(terminal::stdout_width());
    reporting::write_outputs(outputs, render, text)?;
    if fail_on.iter().any(|finding| finding.is_met(&outcome)) {
        return Ok(false);
    }
    // A finding about labels of the first analysis is undecided if none of them could be tested.
    let asks_for_lost = fail_on.iter().any(|finding| matches!(finding, FailOn::Lost | FailOn::NoLongerFirm));
    match outcome.no_test_reason().filter(|_| asks_for_lost) {
        Some(why) => Err(anyhow!("--fail-on: {why}").with_option("fail-on").hint("analyse more text, by one command"))
            .class(ErrorClass::Input),
        None => Ok(true),
    }
}

/// Reads and compares two analyses.
/// Fails if either cannot be read, or the models have different heads.
pub fn read_and_compare(sides: &SidesOptions, pairing: &Pairing) -> Result<CompareOutcome> {
    let [a, b] = sides::read_sides(sides).class(ErrorClass::Input)?;
    [&a, &b].into_iter().try_for_each(Side::ensure_labelled).class(ErrorClass::Input)?;
    let matching = match pairing {
        Pairing::MatchingFile(file) => {
            let matching = HeadMatching::read(file).class(ErrorClass::Input)?;
            let partners = matching.partners([&a, &b]).cannot("use the matched heads of", file.display());
            Some((partners.class(ErrorClass::Input)?, matching.halves_agree))
        }
        Pairing::UnknownRelation | Pairing::OneLineage => None,
    };
    Ok(compare_sides([&a, &b], matching, *pairing == Pairing::UnknownRelation))
}

/// Compares two analyses of models with equal numbers of layers and heads. Heads are paired by place or by `matching`.
/// `matching`: index in `b` of each head's partner, `[layers * heads]`; number of partners found in both text halves.
/// `is_unknown`: whether the relation of the models is unknown, which adds a caveat.
pub fn compare_sides([a, b]: [&Side; 2], matching: Option<(Vec<usize>, usize)>, is_unknown: bool) -> CompareOutcome {
    let grid = a.context.model.grid();
    let places: Vec<usize> = (0..grid.head_count()).collect();
    let partners = matching.as_ref().map_or(&places, |(partners, _)| partners);
    let heads = compare_heads(a, b, partners);
    let idle = head_state::heads_idle_on_one_side(a, b, partners);
    let has_choices = heads.iter().any(|head| head.choice.is_some());
    let choice_fates = heads.iter().map(|head| head.choice.as_ref().map_or(Fate::None, |choice| choice.outcome));
    let heads_by_outcome = OutcomeCounts::from_fates(heads.iter().map(|head| head.outcome));
    let choices_by_outcome = has_choices.then(|| OutcomeCounts::from_fates(choice_fates));
    CompareOutcome {
        schema_version: SCHEMA_VERSION,
        corpora: a.corpus_difference(b),
        lineage: (is_unknown && !a.has_same_weights(b)).then(|| UNKNOWN_LINEAGE_CAVEAT.to_owned()),
        matched: matching.map(|(partners, halves_agree)| MatchedHeads {
            moved: partners.iter().zip(&places).filter(|(partner, place)| partner != place).count(),
            halves_agree,
            first_label: ShareByChance::new(&first_label_pairs(&heads), grid.heads),
            firm_labels: ShareByChance::new(&firm_label_pairs(&heads), grid.heads),
        }),
        idle,
        unread: sides::unreadable_corpus_sentence(a, b),
        too_few_units: sides::too_few_units_reason(a, b),
        changed: heads_by_outcome.has_change() || choices_by_outcome.is_some_and(|counts| counts.has_change()),
        agreement: head_agreement(&heads, has_choices),
        heads_by_outcome,
        choices_by_outcome,
        labels_by_outcome: OutcomeCounts::from_fates(
            heads.iter().flat_map(|head| &head.labels).map(|label| label.outcome),
        ),
        untold: UntoldCounts::from_labels(heads.iter().flat_map(|head| &head.labels)),
        families: compare_families(&heads),
        heads,
        not_shared: description::differing_facts([&a.context, &b.context]),
        a: a.description(),
        b: b.description(),
    }
}

/// Caveat that is printed if the relation of the two models is unknown.
const UNKNOWN_LINEAGE_CAVEAT: &str = "The models have other weights, and their heads are compared by place. That says something only where \
    one was trained on from the other (--matched); for other models pair heads first: `headscope match`, --match.";

/// First label of each head in both analyses, as (a, b).
fn first_label_pairs(heads: &[HeadComparison]) -> Vec<(&str, &str)> {
    heads.iter().map(|head| (&*head.primary_a, &*head.primary_b)).collect()
}

/// Names of the firm labels of each head in both analyses, as (a, b).
fn firm_label_pairs(heads: &[HeadComparison]) -> Vec<(BTreeSet<&str>, BTreeSet<&str>)> {
    fn names(head: &HeadComparison, side: usize) -> BTreeSet<&str> {
        head.labels.iter().filter(|label| label.is_firm_by_side()[side]).map(|label| &*label.label).collect()
    }
    heads.iter().map(|head| (names(head, 0), names(head, 1))).collect()
}

fn head_agreement(heads: &[HeadComparison], has_choices: bool) -> HeadAgreement {
    let choices_of = |choice: &'_ ChoiceComparison| (choice.a.clone(), choice.b.clone());
    let choices: Vec<_> = heads.iter().map(|head| head.choice.as_ref().map(choices_of).unwrap_or_default()).collect();
    HeadAgreement {
        first_label: CategoryAgreement::new(&first_label_pairs(heads)),
        firm_labels: CategoryAgreement::new(&firm_label_pairs(heads)),
        choice: has_choices.then(|| CategoryAgreement::new(&choices)),
    }
}

/// Compares the two analyses per label family that some head has, in the order of the detectors.
fn compare_families(heads: &[HeadComparison]) -> Vec<FamilyComparison> {
    let labels: Vec<Vec<&LabelComparison>> = heads.iter().map(|head| head.all_labels().collect()).collect();
    let order_of: BTreeMap<&str, usize> =
        registry::detectors().enumerate().map(|(place, detector)| (detector.explanation.name, place)).collect();
    let present: BTreeSet<(usize, &str)> = (labels.iter().flatten())
        .map(|label| (order_of.get(&*label.family).copied().unwrap_or(order_of.len()), &*label.family))
        .collect();
    let family = |(_, family): (usize, &str)| {
        let is_firm = |labels: &[&'_ LabelComparison], side: usize| {
            labels.iter().any(|label| label.family == family && label.is_firm_by_side()[side])
        };
        let firm: Vec<(bool, bool)> = labels.iter().map(|labels| (is_firm(labels, 0), is_firm(labels, 1))).collect();
        let count = |wanted: fn(&(bool, bool)) -> bool| firm.iter().filter(|pair| wanted(pair)).count();
        let all = labels.iter().flatten().filter(|label| label.family == family);
        FamilyComparison {
            family: family.to_owned(),
            heads_a: count(|(a, _)| *a),
            heads_b: count(|(_, b)| *b),
            heads_both: count(|(a, b)| *a && *b),
            outcomes: OutcomeCounts::from_fates(all.map(|label| label.outcome)),
            agreement: CategoryAgreement::new(&firm),
        }
    };
    present.into_iter().map(family).collect()
}

/// Text shown as the first label of a head that writes a constant in one analysis only.
const CONSTANT_HEAD_LABEL: &str = "constant";

/// First label of a head by its assessments; for a head that does nothing, the reason.
fn first_label(assessed: &[Assessment], idle: Option<Idleness>) -> String {
    match idle {
        Some(Idleness::Absent) => ABSENT.to_owned(),
        Some(Idleness::Removed) => REMOVED.to_owned(),
        Some(Idleness::WritesConstant) => CONSTANT_HEAD_LABEL.to_owned(),
        None => Verdict::new(assessed.to_vec()).primary,
    }
}

/// Compares every head of `a`, unless both models lack it, with its partner in `b`. `partners`: indices, `[layers * heads]`.
fn compare_heads(a: &Side, b: &Side, partners: &[usize]) -> Vec<HeadComparison> {
    let grid = a.context.model.grid();
    let policies = [a, b].map(|side| &side.context.settings.policy);
    let roles = [a.results.assessments(policies[0]), b.results.assessments(policies[1])];
    let choices = [a.results.choice_assessments(policies[0]), b.results.choice_assessments(policies[1])];
    let head = |place: usize| {
        let assessed = [&roles[0][place], &roles[1][partners[place]]];
        let choices = [&*choices[0][place], &*choices[1][partners[place]]];
        let idle = head_state::pair_idleness([(a, place), (b, partners[place])]);
        // Labels that are no roles hold for untrained heads as well, so they cannot be lost.
        let roles = assessed.map(|all| all.iter().filter(|one| is_role(&one.label)).cloned().collect::<Vec<_>>());
        let labels = compare_labels([a, b], idle, roles.each_ref().map(|roles| &**roles));
        let choice_labels = compare_labels([a, b], idle, choices);
        let [primary_a, primary_b] = [0, 1].map(|side| first_label(assessed[side], idle[side]));
        let first_fired = |all: &[Assessment]| all.iter().find(|one| one.meets_rule).map(|one| one.label.label.clone());
        let [choice_a, choice_b] = choices.map(first_fired);
        HeadComparison {
            place: grid.head_place(place),
            partner: grid.head_place(partners[place]),
            outcome: head_fate(&labels),
            primary_a,
            primary_b,
            labels,
            choice: (!choice_labels.is_empty()).then(|| ChoiceComparison {
                outcome: head_fate(&choice_labels),
                a: choice_a,
                b: choice_b,
                labels: choice_labels,
            }),
        }
    };
    let is_present =
        |place: &usize| !(a.results.absent_heads.contains(place) && b.results.absent_heads.contains(&partners[*place]));
    (0..grid.head_count()).filter(is_present).map(head).collect()
}

/// Compares each label, firm or borderline, that a head has in at least one analysis.
/// `idle`: why the head does nothing in an analysis, so that its labels there are ignored; `None` if it does something.
fn compare_labels(
    sides: [&Side; 2],
    idle: [Option<Idleness>; 2],
    assessed: [&[Assessment]; 2],
) -> Vec<LabelComparison> {
    let at_work = assessed.iter().zip(idle).filter(|(_, idle)| idle.is_none());
    let fired = at_work.flat_map(|(all, _)| all.iter()).filter(|one| one.meets_rule);
    let names: BTreeSet<&str> = fired.map(|one| one.label.label.as_str()).collect();
    let by_label = assessed.map(assessments_by_label);
    let comparison = |label: &str| {
        let assessments = by_label.each_ref().map(|by_label| by_label.get(label).copied());
        let fate = if !sides.iter().all(|side| side.has_study_of_label(label)) {
            Err(Doubt::NotMeasured)
        } else if sides.iter().any(|side| !side.results.could_read_text) {
            Err(Doubt::Unread)
        } else if !sides[0].has_comparable_counts(sides[1], label) {
            Err(Doubt::OtherCounts)
        } else if has_same_thresholds(label, sides.map(|side| &side.context.settings.policy)) {
            label_fate([0, 1].map(|side| label_standing(assessments[side], idle[side])))
        } else {
            Err(Doubt::OtherThresholds)
        };
        let [a, b] = [0, 1].map(|side| assessments[side].map(|one| label_evidence(one, idle[side])));
        LabelComparison {
            label: label.to_owned(),
            family: registry::detector_of_label(label).map_or(label, |of| of.explanation.name).to_owned(),
            outcome: fate.unwrap_or(Fate::CouldNotTell),
            doubt: fate.err(),
            a,
            b,
        }
    };
    names.into_iter().map(comparison).collect()
}

/// Test result of a label for a head in one analysis, such as firm or borderline; `None` if the label was not assessed.
/// A head that is absent or removed counts as significantly below every threshold ([`LabelStanding::OutOfReach`]).
fn label_standing(assessed: Option<&Assessment>, idle: Option<Idleness>) -> Option<LabelStanding> {
    match idle {
        Some(Idleness::WritesConstant) => Some(LabelStanding::WritesConstant),
        Some(Idleness::Absent | Idleness::Removed) => Some(LabelStanding::OutOfReach),
        None => assessed.map(LabelStanding::new),
    }
}

/// Outcome of a label (kept, gained or lost), from its test results in both analyses; `None`: label not assessed.
/// The head must have the label in at least one analysis. Fails with the reason if the outcome cannot be told.
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

/// Outcome of a head, from the outcomes of all labels that it has in either analysis.
fn head_fate(labels: &[LabelComparison]) -> Fate {
    let any = |fates: &[Fate]| labels.iter().any(|label| fates.contains(&label.outcome));
    let firm = [0, 1].map(|side| labels.iter().any(|label| label.is_firm_by_side()[side]));
    match (any(&[Fate::Lost, Fate::Gained]), firm) {
        (true, [true, true]) => Fate::Changed,
        (true, [true, false]) => Fate::Lost,
        (true, _) => Fate::Gained,
        (false, _) if any(&[Fate::Kept]) => Fate::Kept,
        (false, _) if labels.is_empty() => Fate::None,
        (false, _) => Fate::CouldNotTell,
    }
}

fn label_evidence(assessment: &Assessment, idle: Option<Idleness>) -> LabelEvidence {
    let label = &assessment.label;
    LabelEvidence {
        standing: label_standing(Some(assessment), idle).unwrap_or(LabelStanding::OutOfReach),
        number: label.number.clone(),
        score: label.score,
        ci95: label.ci95,
        threshold: label.threshold,
        q: label.test.q,
        beyond: label.beyond.filter(|_| assessment.meets_rule),
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
