//! The projections to queries, keys and values, from every layout that checkpoints use.

use anyhow::Result;

use super::layer_parts::Linear;
use crate::model::config::Config;
use crate::model::families::{QueryKeyValue, TensorNames};
use crate::model::weights::Tensors;

/// Loads a layer's projections to queries, keys and values, stacked; each has one head after the other. Shared keys and values
/// are copied for each query head. Heads that are not in `present` are zeros. `name` turns a part of the layer into a tensor
/// name.
pub(super) fn load(
    tensors: &impl Tensors,
    (config, names): (&Config, &TensorNames),
    present: &[usize],
    name: &impl Fn(&str) -> String,
) -> Result<Linear> {
    let (hidden, heads, size) = (config.hidden_size, present.len(), config.head_dim());
    let groups = config.key_value_heads.unwrap_or(heads);
    let (width, narrow, biased) = (heads * size, groups * size, names.biases.query_key_value);
    // Queries, keys and values of a layer that stores all three for each head in turn.
    let head_by_head = |part: &str, biased| -> Result<[Linear; 3]> {
        let all = Linear::load(tensors, &name(part), [3 * width, hidden], biased)?;
        let rows = |head: usize, place: usize| (0..size).map(move |row| (3 * head + place) * size + row);
        Ok([0, 1, 2].map(|place| all.select_outputs((0..heads).flat_map(|head| rows(head, place)))))
    };
    let [query, key, value] = match names.layer_parts.query_key_value {
        QueryKeyValue::Separate(parts) => {
            let outputs = [width, narrow, narrow];
            let load = |place: usize| {
                let (name, shape) = (name(parts[place]), [outputs[place], hidden]);
                match &names.convolutions {
                    Some(groups) => Linear::load_grouped(tensors, &name, shape, groups.query_key_value[place]),
                    None => names.linear(tensors, &name, shape, biased),
                }
            };
            [load(0)?, load(1)?, load(2)?]
        }
        QueryKeyValue::Stacked(part) => {
            let all = names.linear(tensors, &name(part), [width + 2 * narrow, hidden], biased)?;
            let rows = |start: usize, count: usize| all.select_outputs(start..start + count);
            [rows(0, width), rows(width, narrow), rows(width + narrow, narrow)]
        }
        QueryKeyValue::HeadByHead(part) => {
            let [query, key, value] = head_by_head(part, biased)?;
            // The checkpoint rotates neighbouring dimensions together, this encoder the two halves of a head.
            let halves_together = |part: Linear| {
                part.select_outputs((0..heads).flat_map(|head| {
                    let half_rows = move |half: usize| (0..size / 2).map(move |pair| head * size + 2 * pair + half);
                    half_rows(0).chain(half_rows(1))
                }))
            };
            [halves_together(query), halves_together(key), value]
        }
        QueryKeyValue::HeadByHeadInHalves(part) => head_by_head(part, biased)?,
        QueryKeyValue::HeadByHeadBiased { part, biases } => {
            let [query, key, value] = head_by_head(part, false)?;
            let [query_bias, value_bias] = biases.map(|bias| tensors.tensor(&name(bias), &[width]));
            [Linear { bias: query_bias?, ..query }, key, Linear { bias: value_bias?, ..value }]
        }
    };
    let shared = heads / groups;
    let copied_for_heads = |part: Linear| {
        if shared == 1 {
            part
        } else {
            part.select_outputs((0..width).map(|row| row / (shared * size) * size + row % size))
        }
    };
    let all = [query, copied_for_heads(key), copied_for_heads(value)]
        .map(|part| part.with_outputs_for_all_heads(present, config.num_attention_heads));
    Ok(Linear::stack(all))
}
