//! The figure of the output shift: the heads without which the output moves most and least.

use super::section::{HeadShift, MovedBy, OutputShiftReport};
use crate::study::show::figure::{Chart, Figure, Forest, ForestRow, Mark};
use crate::study::show::wording::{sequence, sequences};
use crate::system::counted::counted;

pub(super) fn figures(shift: &OutputShiftReport) -> Vec<Figure> {
    let OutputShiftReport { tokens, sentences, read, without_heads, most, least, .. } = shift;
    let Some(all) = without_heads.output_shift else { return Vec::new() };
    let row = |HeadShift { place, moved }: &HeadShift| {
        let MovedBy { output_shift, output_ci95, pooled_shift, pooled_ci95 } = *moved;
        let marks = vec![Mark::of(output_shift, output_ci95), Mark::of(pooled_shift, pooled_ci95)];
        ForestRow { name: place.to_string(), note: String::new(), marks }
    };
    let chart = Chart::Forest(Forest {
        scale: "1 - cosine of the output with and without the head".to_owned(),
        shares: false,
        nothing: Some(0.0),
        marks: vec!["tokens".to_owned(), format!("means of {}s", sequence(*read))],
        rows: most.iter().chain(least.iter().rev()).map(row).collect(),
    });
    vec![Figure {
        name: "output-shift",
        title: "How far the output turns without a head".to_owned(),
        reading: format!(
            "The last hidden states of {}, and the means of {}, with one head removed: the heads \
             without which they turn most, then those without which they turn least, with 95 % intervals. Without any head the \
             tokens turn by {all:.3}.",
            counted(*tokens, "token"),
            sequences(*sentences, *read)
        ),
        chart,
    }]
}
