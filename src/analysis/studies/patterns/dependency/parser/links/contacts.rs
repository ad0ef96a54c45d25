//! Contact prediction from the attention of all heads (Rao et al. 2021): logistic regression of whether two words are linked on their
//! symmetrised and corrected attention, with an L1 penalty.

use super::choices::{add_rows, score};
use super::kept::KeptLinks;
use crate::studies::patterns::dependency::parser::curvature::{Curvature, ROWS};
use crate::studies::patterns::dependency::parser::optimum::{FitCourse, proximal_newton};

/// The weight of the loss beside the sum of the absolute weights: `C` of scikit-learn (Rao et al. 2021, section 3.4, chose it over
/// proteins that were not in the test).
pub const LOSS_WEIGHT: f64 = 0.15;

/// The length of the shortest subgradient at which a fit ends: a ten-thousandth of the slope of the penalty.
pub const CONTACT_TOLERANCE: f64 = 1e-4;

#[derive(Clone, Debug, PartialEq)]
pub struct ContactModel {
    /// The weight of the corrected attention of each head, `[heads]`.
    pub weights: Vec<f64>,
    bias: f64,
    pub course: FitCourse,
}

impl ContactModel {
    /// Fits a model of `heads` heads to all pairs; some must be linked and some not.
    pub fn new(links: &[&KeptLinks], heads: usize) -> Self {
        let (pairs, linked) = links
            .iter()
            .filter_map(|links| links.pairs.as_ref())
            .fold((0, 0), |(all, linked), pairs| (all + pairs.pairs().len() as u64, linked + pairs.linked() as u64));
        let mut start = vec![0.0; heads + 1];
        // Without weights the share of linked pairs is the likeliest.
        start[heads] = (linked as f64 / (pairs - linked) as f64).ln();
        let (mut rows, mut scores) = (Vec::new(), Vec::new());
        let loss_at = |at: &[f64], gradient: &mut [f64]| {
            gradient.fill(0.0);
            let (slopes, of_bias) = gradient.split_at_mut(heads);
            let mut loss = 0.0;
            for_each_part(links, &mut rows, |rows, labels| {
                score(rows, &at[..heads], labels.len(), &mut scores);
                for (score, &(.., is_linked)) in scores.iter_mut().zip(labels) {
                    let logit = *score + at[heads];
                    let signed = if is_linked { -logit } else { logit };
                    // ln (1 + e^s) in the form that does not overflow.
                    loss += signed.max(0.0) + (-signed.abs()).exp().ln_1p();
                    *score = LOSS_WEIGHT * (share(logit) - f64::from(u8::from(is_linked)));
                    of_bias[0] += *score;
                }
                add_rows(rows, &scores, slopes);
            });
            LOSS_WEIGHT * loss
        };
        let found = proximal_newton((start, heads), CONTACT_TOLERANCE, loss_at, |at| curvature(links, at));
        let penalty: f64 = found.at[..heads].iter().map(|weight| weight.abs()).sum();
        Self {
            weights: found.at[..heads].to_vec(),
            bias: found.at[heads],
            course: found.course(pairs, (found.value - penalty) / LOSS_WEIGHT / pairs as f64),
        }
    }

    /// The linked pairs among those that are likeliest to be, as many as the sentence has words.
    pub fn right(&self, links: &KeptLinks) -> u64 {
        let Some(pairs) = &links.pairs else { return 0 };
        let (mut logits, mut scores, mut rows) = (Vec::with_capacity(pairs.pairs().len()), Vec::new(), Vec::new());
        for_each_part(&[links], &mut rows, |rows, labels| {
            score(rows, &self.weights, labels.len(), &mut scores);
            logits.extend(scores.iter().map(|score| score + self.bias));
        });
        pairs.right(&logits)
    }
}

fn share(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Shows some pairs at a time: the corrected weights of all heads, `[pairs, heads]`, and the pairs.
fn for_each_part(links: &[&KeptLinks], rows: &mut Vec<f32>, mut show: impl FnMut(&[f32], &[(usize, usize, bool)])) {
    for links in links {
        let pairs = links.pairs.as_ref().map_or(&[][..], |pairs| pairs.pairs());
        for (part, labels) in pairs.chunks(ROWS).enumerate() {
            let start = part * ROWS;
            links.of_pairs(start..start + labels.len(), rows);
            show(rows, labels);
        }
    }
}

/// The second derivatives of the loss by the weights and the bias, `[heads + 1, heads + 1]`: `C sum p (1 - p) x xᵀ`.
#[expect(clippy::cast_possible_truncation, reason = "second derivatives need not be exact")]
fn curvature(links: &[&KeptLinks], at: &[f64]) -> Vec<f64> {
    let (size, heads) = (at.len(), at.len() - 1);
    let (mut sums, mut own, mut scores) = (Curvature::new(size, 0.0), Vec::new(), Vec::new());
    for_each_part(links, &mut Vec::new(), |rows, labels| {
        score(rows, &at[..heads], labels.len(), &mut scores);
        own.clear();
        for (row, score) in rows.chunks_exact(heads).zip(&scores) {
            let share = share(score + at[heads]);
            let root = (LOSS_WEIGHT * share * (1.0 - share)).sqrt() as f32;
            own.extend(row.iter().map(|x| root * x));
            own.push(root);
        }
        sums.add(&own, 1.0);
    });
    sums.whole
}
