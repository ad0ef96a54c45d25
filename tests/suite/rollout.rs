//! `maps --rollout`, compared with products of the attention that `maps` writes for the sentence.

use std::fs;

use crate::support::answers::Answers;
use crate::support::{path, run};
use safetensors::SafeTensors;

fn tensors(model: &str, more: &[&str], names: &[&str]) -> Vec<(Vec<usize>, Vec<f64>)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("maps.safetensors");
    let arguments = ["maps", model, "--text", "The old map hangs in the hall.", "-o", path(&file)];
    run(&[&arguments[..], more].concat()).unwrap();
    let bytes = fs::read(&file).unwrap();
    let maps = SafeTensors::deserialize(&bytes).unwrap();
    let mut actual = maps.names();
    actual.sort_unstable();
    assert_eq!(actual, names);
    let read_tensor = |name: &&str| {
        let view = maps.tensor(name).unwrap();
        let weights = view.data().as_chunks::<4>().0.iter().map(|&bytes| f64::from(f32::from_le_bytes(bytes)));
        (view.shape().to_vec(), weights.collect())
    };
    names.iter().map(read_tensor).collect()
}

/// `R_l[i][j] = 1/2 R_(l-1)[i][j] + 1/2 sum_k mean over heads of A_l[i][k] R_(l-1)[k][j]`, starting from the identity.
fn products(attention: impl Fn(usize, usize, usize) -> f64, layers: usize, n: usize) -> Vec<f64> {
    let mut before: Vec<f64> = (0..n * n).map(|cell| if cell / n == cell % n { 1.0 } else { 0.0 }).collect();
    let mut all = Vec::new();
    for layer in 0..layers {
        let cell = |cell: usize| {
            let (i, j) = (cell / n, cell % n);
            let through: f64 = (0..n).map(|k| attention(layer, i, k) * before[k * n + j]).sum();
            f64::midpoint(before[cell], through)
        };
        before = (0..n * n).map(cell).collect();
        all.extend(&before);
    }
    all
}

fn check(model: &str, sees: fn(usize, usize) -> bool) {
    let [(shape, attention)] = &tensors(model, &[], &["attentions.0"])[..] else { panic!("one tensor") };
    let [(rollout_shape, rollout), (even_shape, even)] =
        &tensors(model, &["--rollout"], &["rollout.0", "rollout_even.0"])[..]
    else {
        panic!("two tensors")
    };
    let &[layers, heads, n, _] = &shape[..] else { panic!("{shape:?}") };
    assert_eq!((rollout_shape, even_shape), (&vec![layers, n, n], &vec![layers, n, n]));
    let mean = |layer: usize, i: usize, k: usize| {
        let head_weight = |head: usize| attention[((layer * heads + head) * n + i) * n + k];
        (0..heads).map(head_weight).sum::<f64>() / heads as f64
    };
    let seen = |i: usize| (0..n).filter(|&k| sees(i, k)).count() as f64;
    let evenly = |_: usize, i: usize, k: usize| if sees(i, k) { 1.0 / seen(i) } else { 0.0 };
    for (actual, expected) in [(rollout, products(mean, layers, n)), (even, products(evenly, layers, n))] {
        for (actual, expected) in actual.iter().zip(expected) {
            assert!((actual - expected).abs() < 1e-6, "{actual} is not {expected}");
        }
        for row in actual.chunks(n) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-5);
        }
    }
}

#[test]
fn rollout_multiplies_mean_attention_and_the_residual_stream() {
    check("box:small", |_, _| true);
}

#[test]
fn decoder_rollout_covers_visible_keys() {
    check("box:causal", |query, key| key <= query);
}

#[test]
fn rollout_of_single_heads_or_layers_is_refused() {
    let mut answers = Answers::new();
    for more in [["--head", "L0H0"], ["--layer", "1"], ["--remove", "L0H0"]] {
        let arguments = ["maps", "--rollout", "--text", "a", "-o", "x.safetensors"];
        answers.refused(&more.join(" "), &run(&[&arguments[..], &more].concat()).unwrap_err());
    }
    answers.held("rollout-refusals");
}
