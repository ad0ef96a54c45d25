//! Labels of content: to what a head attends beyond uniform attention and preferred offsets (docs/methodology/labels.md).

use super::evidence::LABEL_Q;
use super::policy::{Policy, Threshold};
use super::{Assessment, Evidence, MeasuredScore, assess_all};

/// Multiple of the position-matched chance level that a label of content must exceed.
///
/// The chance level is accurate to about a tenth, since it assumes equal offset preferences for all queries. The factor
/// allows for an error more than twice as large.
pub const POSITION_FACTOR: f64 = 1.25;

pub const CONTENT_MASS: Threshold = Threshold::rule(
    "content_mass",
    0.1,
    "how far above uniform attention the mass of a label by what a head attends to is: ten points, as Voita et al. 2019 \
        ask of syntactic heads over their baseline",
);

const OVER_CHANCE: &str = "_over_chance";
const OVER_POSITION: &str = "_over_position";

/// Thresholds of a label of content (a label about the attended tokens), `[margin, LABEL_Q]`. `margin` is the threshold of the
/// lead over uniform attention.
pub const fn thresholds(margin: &'static Threshold) -> [&'static Threshold; 2] {
    [margin, &LABEL_Q]
}

/// Assesses `label` by block tests of two leads (differences) of `metric`, at `key` if the metric has keys. The lead over
/// uniform attention must reach `margin`. The lead over [`POSITION_FACTOR`] times the position-matched chance level must reach
/// 0.
pub fn assess_content(
    label: &str,
    metric: &str,
    key: Option<&str>,
    margin: &Threshold,
    (evidence, policy): (&Evidence<'_>, &Policy),
) -> Vec<Assessment> {
    let measured = [OVER_CHANCE, OVER_POSITION].map(|ending| evidence.metric(&format!("{metric}{ending}"), key));
    assess_content_leads(label, (metric, key), measured, policy.rule(margin)).into_iter().collect()
}

/// As [`assess_content`], from the two leads of a metric: over uniform attention, and over position-matched chance.
pub fn assess_content_leads(
    label: &str,
    (metric, key): (&str, Option<&str>),
    [over_chance, over_position]: [MeasuredScore; 2],
    margin: Option<f64>,
) -> Option<Assessment> {
    let name = |ending: &str| key.map_or_else(|| format!("{metric}{ending}"), |key| format!("{metric}{ending}[{key}]"));
    assess_all(
        label,
        [(name(OVER_CHANCE), over_chance, margin), (name(OVER_POSITION), over_position, margin.map(|_| 0.0))],
    )
}

/// Metric of the attention head alone from which a lead or an expected value is computed, such as `x` of
/// `x_over_chance`. `None` for other metrics.
pub fn base_metric(metric: &str) -> Option<&str> {
    ["_expected", OVER_CHANCE, OVER_POSITION].iter().find_map(|ending| metric.strip_suffix(ending))
}

/// Level that a lead is measured from, in words, given the lead's name (`x_over_chance[key]`). `None` if `number` names
/// no lead.
pub fn lead_reference_text(number: &str) -> Option<&'static str> {
    let metric = number.split('[').next().unwrap_or_default();
    match metric {
        _ if metric.ends_with(OVER_CHANCE) => Some("chance"),
        _ if metric.ends_with(OVER_POSITION) => Some("1.25 times what its offsets let expect"),
        _ => None,
    }
}

/// Splits the name of a lead over chance (`x_over_chance[key]`) into metric and key. `None` if `number` names no such
/// lead.
pub fn parse_lead_over_chance(number: &str) -> Option<(&str, Option<&str>)> {
    let (metric, key) = number.split_once('[').map_or((number, None), |(metric, key)| (metric, key.strip_suffix(']')));
    Some((metric.strip_suffix(OVER_CHANCE)?, key))
}

/// Explanation of a metric's position-matched chance.
macro_rules! expected {
    ($metric:literal) => {
        Explanation {
            name: concat!($metric, "_expected"),
            measures: concat!("The `", $metric, "` of a head with the same preference for offsets that is blind otherwise."),
            formula: "sum over bins k of M[k] X[k]: M the head's mean weight in the bin over the queries of the metric, X \
                the mean of the target over pairs in the bin, weighted as uniform attention would",
            chance: "that of the metric: what uniform attention scores is what its offsets let expect",
            source: "Defined here.",
            caveats: "It takes the preference for offsets as the same for all queries: right to about a tenth.",
        }
    };
}

/// Explanation of a metric's lead over uniform attention.
macro_rules! over_chance {
    ($metric:literal) => {
        Explanation {
            name: concat!($metric, "_over_chance"),
            measures: concat!("How far the `", $metric, "` is above that of uniform attention."),
            formula: concat!($metric, " - chance.", $metric),
            chance: "0",
            source: "Defined here.",
            caveats: "Position alone can be the reason: compare it with the position-matched chance.",
        }
    };
}

/// Explanation of a metric's lead over [`POSITION_FACTOR`] times its position-matched chance, the metric of a head with
/// the same preference for offsets and no other.
macro_rules! over_position {
    ($metric:literal) => {
        Explanation {
            name: concat!($metric, "_over_position"),
            measures: concat!("How far the `", $metric, "` is above 1.25 times its position-matched chance."),
            formula: concat!($metric, " - 1.25 ", $metric, "_expected"),
            chance: "a quarter of the metric's chance below 0",
            source: "Defined here.",
            caveats: "The position-matched chance is right to about a tenth, hence the quarter.",
        }
    };
}

pub(crate) use {expected, over_chance, over_position};

#[cfg(test)]
mod simulation;
