//! Fresh weights whose attention is as sharp as that of trained weights, and outputs that are rotated at random.

use headscope::model::controls::matched_sharpness::SharpnessSample;
use headscope::model::forward::batch::{Batch, BatchInput};
use headscope::model::forward::rows::Rows;
use headscope::model::forward::visitor::{HeadView, Needs, Visitor};
use headscope::model::forward::{Encoder, Scratch};

use crate::golden;
use crate::support::fixture;

/// For each layer: the sum of `1 - sum √(a / n)` over heads and rows, and the number of rows. Also the hidden states
/// after the first layer.
#[derive(Default)]
struct Seen {
    layers: Vec<(f64, f64)>,
    states: Vec<f32>,
}

impl Visitor for Seen {
    fn needs(&self) -> Needs {
        Needs { hidden_states: true, ..Needs::ATTENTION }
    }

    fn head(&mut self, _: usize, view: &HeadView<'_>) {
        self.layers.resize(self.layers.len().max(view.layer + 1), (0.0, 0.0));
        for row in view.attention.rows() {
            let even = 1.0 / row.len() as f64;
            let (sum, rows) = &mut self.layers[view.layer];
            *sum += 1.0 - row.iter().map(|&weight| (f64::from(weight) * even).sqrt()).sum::<f64>();
            *rows += 1.0;
        }
    }

    fn hidden_states(&mut self, _: usize, layer: usize, states: Rows<'_>) {
        if layer == 1 {
            states.iter().for_each(|row| self.states.extend_from_slice(row));
        }
    }
}

fn seen(encoder: &dyn Encoder, batch: &Batch<'_>) -> Seen {
    let mut seen = Seen::default();
    encoder.forward(batch, &mut Scratch::default(), &mut seen).unwrap();
    seen
}

/// Fifty sequences of pseudo-random tokens.
fn ids() -> Vec<Vec<u32>> {
    (0..50_u32).map(|number| (0..6 + number % 20).map(|at| 5 + (number * 97 + at * 31) % 900).collect()).collect()
}

#[test]
fn sharp_layers_are_as_far_from_even_as_trained_layers() {
    let ids = ids();
    let segments: Vec<Vec<u32>> = ids.iter().map(|ids| vec![0; ids.len()]).collect();
    let inputs = ids.iter().zip(&segments).map(|(ids, segments)| BatchInput { ids, segments, ..BatchInput::default() });
    let batch = Batch { inputs: inputs.collect() };
    let rows: Vec<Vec<usize>> = ids.iter().map(|ids| (0..ids.len()).collect()).collect();
    let model = golden::load(&fixture("models/small"));
    let fresh = model.sharp_untrained_encoder(1, &SharpnessSample { batch: batch.clone(), rows: &rows }).unwrap();
    let [trained, sharp] = [&*model.encoder, &*fresh].map(|encoder| seen(encoder, &batch).layers);
    assert_eq!((trained.len(), sharp.len()), (4, 4));
    for (trained, sharp) in trained.iter().zip(&sharp) {
        let [trained, sharp] = [trained, sharp].map(|(sum, rows)| sum / rows);
        assert!((sharp / trained - 1.0).abs() < 0.02, "{sharp} {trained}");
    }
}

/// The first layer attends as before, but its output is rotated.
#[test]
fn rotated_outputs_keep_the_attention_of_the_first_layer() {
    let model = golden::load(&fixture("models/small"));
    let ids = ids();
    let segments = [0; 40];
    let inputs = ids.iter().map(|ids| BatchInput { ids, segments: &segments[..ids.len()], ..BatchInput::default() });
    let batch = Batch { inputs: inputs.collect() };
    let [turned, again, other] = [3, 3, 4].map(|seed| seen(&*model.rotated_encoder(seed).unwrap(), &batch));
    let whole = seen(&*model.encoder, &batch);
    assert_eq!(turned.layers[0], whole.layers[0]);
    assert!(turned.layers[1] != whole.layers[1] && turned.states != whole.states);
    assert!(turned.states == again.states && turned.states != other.states);
}
