//! How a head stands to a label of links, and how far the label reaches.

use super::link::{LinkMetrics, REACHES};
use super::thresholds::MARGIN;
use crate::stats::block_test::TAIL;
use crate::study::labels::evidence::{Direction, LABEL_Q, MIN_QUERIES, MIN_SENTENCES, MarginTest, Reach};
use crate::study::labels::policy::Policy;
use crate::study::labels::{Assessment, Bound, Measured, assess};

/// The accuracy of a head on a type of links, as rules name it.
pub(super) fn accuracy_of(links: &str, direction: Direction) -> String {
    format!("accuracy({links}, {})", direction.name())
}

/// Whether a type of links has enough sources for a test.
pub(super) fn is_tested(links: &LinkMetrics, policy: &Policy) -> bool {
    links.count >= policy.count(&MIN_QUERIES) && links.sentences >= policy.count(&MIN_SENTENCES)
}

/// The directions of one head on one type of links; none if it has too few sources, or they are of too few sentences.
pub(super) fn of_links(links: &LinkMetrics, place: usize, policy: &Policy) -> Vec<Assessment> {
    if !is_tested(links, policy) {
        return Vec::new();
    }
    let (head, baseline) = (&links.by_head[place], links.by_place.accuracy);
    let of_direction = |direction: Direction| {
        let (score, leads) = (*head.accuracy.get(direction), head.leads.get(direction).as_ref()?);
        let margin = policy.rule(&MARGIN)?;
        let measured =
            Measured { score, ci95: *head.ci95.get(direction), baseline: Some(baseline), ..Measured::default() };
        let metric = accuracy_of(&links.name, direction);
        let label = format!("link:{}", links.name);
        let mut assessment = assess(&label, &metric, measured, Bound::AtLeast, Some(baseline + margin))?;
        let least = links.rules.iter().zip(&leads.rules).find(|(rule, _)| rule.rule == links.by_place.rule);
        let estimate = least.and_then(|(_, &lead)| links.estimate(lead));
        assessment.p_of_failing = estimate.map(|estimate| estimate.p_below(margin));
        let standard_error = estimate.map(|estimate| estimate.standard_error);
        let label = &mut assessment.label;
        label.test = MarginTest { standard_error, p: leads.over_place.p, q: None };
        label.direction = Some(direction);
        let reached = REACHES[1..].iter().take_while(|&&reach| {
            let test = leads.over(reach);
            let is_shown = |q: Option<f64>, most: f64| q.is_some_and(|q| q <= most);
            policy.rule(&LABEL_Q).map_or_else(|| is_shown(test.p, TAIL), |most| is_shown(test.q, most))
        });
        label.beyond = Some(reached.last().copied().unwrap_or(Reach::Place));
        Some(assessment)
    };
    Direction::OF_LINKS.into_iter().filter_map(of_direction).collect()
}
