//! The surprisal of an outcome, which is the loss of a language model that predicts it.

/// The surprisal `-ln p` of an outcome, in nats; `p` is the softmax of the logits.
pub fn surprisal(logits: &[f32], outcome: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from((logit - largest).exp())).sum();
    sum.ln() - f64::from(logits[outcome as usize] - largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_by_hand() {
        assert!((surprisal(&[0.0; 4], 2) - 4.0_f64.ln()).abs() < 1e-12);
        // e² / (e² + 1 + e) and 1 / the same.
        let all = 2.0_f64.exp() + 1.0 + 1.0_f64.exp();
        assert!((surprisal(&[2.0, 0.0, 1.0], 0) - (all.ln() - 2.0)).abs() < 1e-6);
        assert!((surprisal(&[1002.0, 1000.0, 1001.0], 1) - all.ln()).abs() < 1e-6);
    }
}
