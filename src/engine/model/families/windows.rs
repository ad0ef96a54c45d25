//! Layers with a window beside layers without, and the rotation of either kind.

use anyhow::{Result, anyhow, ensure};

use crate::model::config::{Config, rotary};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

/// The types of layers, by their names in `layer_types` and in `rope_parameters`. In one of the first type a token sees all
/// tokens, of a decoder all before it; in one of the second those around it, of a decoder those just before it.
const TYPES: [&str; 2] = ["full_attention", "sliding_attention"];

/// The type of each layer, by its place in [`TYPES`]: as `layer_types` of the config has them, or else by the family's pattern,
/// which says whether a layer sees every token.
/// Fails if there are not as many as layers, or one is unknown.
pub(super) fn layer_types(
    given: Option<&[String]>,
    layers: usize,
    is_full: impl Fn(usize) -> bool,
) -> Result<Vec<usize>> {
    let Some(names) = given else { return Ok((0..layers).map(|layer| usize::from(!is_full(layer))).collect()) };
    ensure!(names.len() == layers, "layer_types has {} entries, and num_hidden_layers is {layers}", names.len());
    let known = |name: &String| {
        TYPES.iter().position(|known| known == name).ok_or_else(|| {
            anyhow!("layer_types has {} (supported: {})", shortened(name), TYPES.join(", ")).of_value(name)
        })
    };
    names.iter().map(known).collect()
}

/// The keys that the queries of each layer see, by its type.
pub(super) fn visible(types: &[usize], of_types: [Visibility; 2]) -> LayerClasses {
    LayerClasses::new(&types.iter().map(|layer_type| of_types[*layer_type]).collect::<Vec<_>>())
}

/// The config with the rotation of its layers, all of which turn alike; `theta` has the key and the default of the base of the
/// frequencies, `share` is the share of a head's dimensions that turn where no key says it.
pub(super) fn turning(mut config: Config, text: &str, theta: (&'static str, f64), share: f64) -> Result<Config> {
    let rotary = rotary(text, None, theta, share, &config)?;
    config.rotary = vec![Some(rotary); config.num_hidden_layers];
    Ok(config)
}

/// The config with the rotation of each layer, and with the keys that its queries see, by its type.
///
/// `theta` has the key and the default of the frequencies' base for each type of layers.
pub(super) fn with_layer_types(
    mut config: Config,
    text: &str,
    (types, of_types): (&[usize], [Visibility; 2]),
    theta: [(&'static str, f64); 2],
) -> Result<Config> {
    let of_layer =
        |&layer_type: &usize| rotary(text, Some(TYPES[layer_type]), theta[layer_type], 1.0, &config).map(Some);
    config.rotary = types.iter().map(of_layer).collect::<Result<_>>()?;
    config.visibility = visible(types, of_types);
    Ok(config)
}
