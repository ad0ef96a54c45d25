//! Simulated coverage of the 95 % intervals of gains. Words with known tags and noisy vectors go through sums,
//! discriminants, right predictions by block, and intervals.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::tests::{TestWord, probed};
use crate::corpus::Upos;

/// A simulated sentence of one to ten words with one of two tags. A word's embedding and its context in the second
/// head are its tag plus noise. The context in the first head is noise alone.
///
/// The amplitude of the noise in the second head's contexts is drawn for each sentence.
fn draw_sentence(rng: &mut ChaCha8Rng) -> Vec<TestWord> {
    let (words, spread) = (rng.random_range(1..11), rng.random_range(0.6..2.0_f32));
    let word = |rng: &mut ChaCha8Rng| {
        let tag = rng.random_range(0..2_usize);
        let side = tag as f32 - 0.5;
        let mut noise = |spread: f32| rng.random_range(-spread..spread);
        let (embedding, context) = ([side + noise(1.5), noise(1.0)], [side + noise(spread), noise(1.0)]);
        let other = [noise(1.0), noise(1.0)];
        TestWord::new(String::new(), [Upos::Noun, Upos::Verb][tag], embedding, [other, context])
    };
    (0..words).map(|_| word(rng)).collect()
}

#[test]
fn intervals_of_gains_cover() {
    const CORPORA: usize = 400;
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    let found: Vec<_> = (0..CORPORA)
        .map(|_| {
            let sentences: Vec<_> = (0..200).map(|_| draw_sentence(&mut rng)).collect();
            probed(&sentences, &[]).remove(0).heads
        })
        .collect();
    for (head, name) in ["a head without the tag", "a head with the tag"].into_iter().enumerate() {
        let mean = |of: &dyn Fn(&super::section::HeadProbe) -> f64| {
            found.iter().map(|heads| of(&heads[head])).sum::<f64>() / CORPORA as f64
        };
        // The gain of discriminants that were trained on this many words, over many corpora.
        let truth = mean(&|probe| probe.gain.unwrap());
        let accuracy = mean(&|probe| probe.accuracy.unwrap());
        let covers = |low: f64, high: f64, truth: f64| f64::from(u8::from(low <= truth && truth <= high));
        let gains = mean(&|probe| probe.gain_ci95.map_or(0.0, |ci95| covers(ci95.low(), ci95.high(), truth)));
        let alone = mean(&|probe| probe.ci95.map_or(0.0, |ci95| covers(ci95.low(), ci95.high(), accuracy)));
        let adds = mean(&|probe| f64::from(u8::from(probe.adds == Some(true))));
        println!(
            "{name}: gain {truth:.4}, covered {gains:.3}; accuracy {accuracy:.4}, covered {alone:.3}; adds {adds:.3}"
        );
        assert!((0.90..=0.98).contains(&gains), "{name}: gains are covered in {gains}");
        if head == 0 {
            assert!(truth.abs() < 0.01 && adds <= 0.08, "{truth} {adds}");
        } else {
            assert!((0.91..=0.98).contains(&alone), "{name}: accuracies are covered in {alone}");
            assert!(truth > 0.05 && adds > 0.9, "{truth} {adds}");
        }
    }
}
