//! Layers with a window beside layers without, and the rotation of either kind.

use anyhow::{Result, anyhow, ensure};

use crate::model::config::{Config, RotaryDefaults, rotary};
use crate::model::grid::visibility::{LayerClasses, Visibility};
use crate::system::errors::Facts;
use crate::system::printable::shortened;

/// A layer type, by its name in `layer_types` and in `rope_parameters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerType {
    /// A token sees all tokens, of a decoder all before it.
    Full,
    /// A token sees those around it, of a decoder those just before it.
    Sliding,
}

impl LayerType {
    const ALL: [Self; 2] = [Self::Full, Self::Sliding];

    fn name(self) -> &'static str {
        match self {
            Self::Full => "full_attention",
            Self::Sliding => "sliding_attention",
        }
    }
}

/// The type of each layer: as `layer_types` of the config has them, or else by the family's pattern, which says whether a layer
/// sees every token.
/// Fails if there are not as many as layers, or one is unknown.
pub(super) fn layer_types(
    given: Option<&[String]>,
    layers: usize,
    is_full: impl Fn(usize) -> bool,
) -> Result<Vec<LayerType>> {
    let Some(names) = given else {
        let by_pattern = |layer| if is_full(layer) { LayerType::Full } else { LayerType::Sliding };
        return Ok((0..layers).map(by_pattern).collect());
    };
    ensure!(names.len() == layers, "layer_types has {} entries, and num_hidden_layers is {layers}", names.len());
    let known = |name: &String| {
        LayerType::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            let supported = LayerType::ALL.map(LayerType::name).join(", ");
            anyhow!("layer_types has {} (supported: {supported})", shortened(name)).of_value(name)
        })
    };
    names.iter().map(known).collect()
}

/// The config with the rotation of its layers, all of which turn alike; `theta` has the key and the default of the base of the
/// frequencies, `share` is the share of a head's dimensions that turn where no key says it.
pub(super) fn turning(mut config: Config, text: &str, theta: (&'static str, f64), share: f64) -> Result<Config> {
    let rotary = rotary(text, None, RotaryDefaults::of(&config, theta, share))?;
    config.rotary = vec![Some(rotary); config.num_hidden_layers];
    Ok(config)
}

/// The config with the rotation of each layer, and with the keys that its queries see, by its type.
///
/// `theta` has the key and the default of the frequencies' base for a type of layers.
pub(super) fn with_layer_types(
    mut config: Config,
    text: &str,
    (types, visible): (&[LayerType], impl Fn(LayerType) -> Visibility),
    theta: impl Fn(LayerType) -> (&'static str, f64),
) -> Result<Config> {
    let of_layer = |layer_type: &LayerType| {
        let defaults = RotaryDefaults::of(&config, theta(*layer_type), 1.0);
        rotary(text, Some(layer_type.name()), defaults).map(Some)
    };
    config.rotary = types.iter().map(of_layer).collect::<Result<_>>()?;
    config.visibility = LayerClasses::new(&types.iter().map(|layer_type| visible(*layer_type)).collect::<Vec<_>>());
    Ok(config)
}
