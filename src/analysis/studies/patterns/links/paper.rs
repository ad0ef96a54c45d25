//! The table of links as a paper shows it: the best head of each type beside the best rules without a head.

use serde::Serialize;

use super::assessment::of_links;
use super::link::LinkMetrics;
use crate::study::labels;
use crate::study::labels::policy::Policy;
use crate::study::show::table::TableRows;
use crate::study::show::wording::with_interval;

/// The digits of accuracies.
const DIGITS: usize = 3;

/// A type with its best head.
#[derive(Serialize)]
struct PaperRow {
    links: String,
    sources: u64,
    /// The head and its direction.
    head: String,
    /// Its accuracy, with the interval.
    accuracy: String,
    /// Accuracy of the best rule of place.
    place: f64,
    /// Accuracy of the best rule of the same class.
    same_class: f64,
    held_out: Option<f64>,
    /// Whether the head has a firm label of the type in this direction.
    firm: bool,
}

/// The types with enough sources for a label, which are `tested`.
pub(super) fn table(tested: Vec<&LinkMetrics>, policy: &Policy) -> TableRows<'static> {
    let row = |links: &LinkMetrics| PaperRow {
        links: links.title(),
        sources: links.count,
        head: format!("{} {}", links.place, links.direction.name()),
        accuracy: with_interval(links.accuracy, links.ci95.accuracy, DIGITS),
        place: links.by_place.accuracy,
        same_class: links.by_class.accuracy,
        held_out: links.heldout_accuracy,
        firm: is_firm(links, policy),
    };
    TableRows::of("paper_links", tested.into_iter().map(row).collect::<Vec<_>>())
}

/// Whether the best head has a firm label of the type in its direction. Its q-value is corrected in the section.
fn is_firm(links: &LinkMetrics, policy: &Policy) -> bool {
    let place = links.by_head.iter().position(|head| head.place == links.place);
    let assessed = place.map_or_else(Vec::new, |place| of_links(links, place, policy));
    let leads = links.best().and_then(|head| head.leads.get(links.direction).as_ref());
    let test = leads.map_or([None; 2], |leads| [leads.over_place.p, leads.over_place.q]);
    labels::is_firm(&assessed, links.direction, test, policy)
}
