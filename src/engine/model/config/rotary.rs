//! Rotary positions (Su et al. 2021): the angle by which each pair of an attention head's dimensions rotates from one token to
//! the next, and how a `config.json` gives it.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::fields::{parse_fields, wrong_value};
use crate::system::errors::ErrorExt;
use crate::system::printable::shorten;

/// Rotation of one layer's queries and keys by their positions. Dimension `i` of the first half of the rotating dimensions makes
/// a pair with dimension `i` of the second half.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Base of the rotary frequencies.
    pub theta: f64,
    /// Number of leading dimensions of an attention head that rotate; even.
    pub dims: usize,
    /// Change of the frequencies that `theta` gives.
    pub scaling: RotaryScaling,
}

/// Change of the rotary frequencies that lets a model read longer texts than in its first training.
#[derive(Clone, Debug, PartialEq)]
pub enum RotaryScaling {
    /// All frequencies stay.
    Default,
    /// All frequencies are divided by `factor`.
    Linear { factor: f64 },
    /// Frequencies with long wavelengths are divided by `factor`, those with short wavelengths stay, and those between
    /// are interpolated (Grattafiori et al. 2024).
    Llama3 {
        factor: f64,
        /// Wavelengths above `original / low` tokens are long: their frequencies are divided by `factor`.
        low: f64,
        /// Wavelengths below `original / high` tokens are short: their frequencies stay.
        high: f64,
        /// Maximum text length in the first training, in tokens.
        original: f64,
    },
    /// Slow dimensions' frequencies are divided by `factor`, fast dimensions' frequencies stay, and frequencies between are
    /// interpolated. Cosines and sines are multiplied by `attention` (Peng et al. 2024).
    Yarn {
        factor: f64,
        /// Factor of cosines and sines.
        attention: f64,
        /// Dimensions with more rotations than this within `original` tokens are fast.
        fast: f64,
        /// Dimensions with fewer rotations than this within `original` tokens are slow.
        slow: f64,
        /// Maximum text length in the first training, in tokens.
        original: f64,
        /// Whether the bounds of the interpolated dimensions are rounded to whole dimensions.
        truncate: bool,
    },
}

impl Rotary {
    /// Returns (angle per position in radians of each pair of dimensions, `[dims / 2]`; factor of all cosines and sines).
    #[expect(clippy::cast_possible_truncation, reason = "models compute angles in f32")]
    pub fn frequencies(&self) -> (Vec<f32>, f32) {
        let of_base = |pair: usize| self.theta.powf(-((2 * pair) as f64) / self.dims as f64);
        let scaled = |pair: usize| {
            let frequency = of_base(pair);
            match self.scaling {
                RotaryScaling::Default => frequency,
                RotaryScaling::Linear { factor } => frequency / factor,
                RotaryScaling::Llama3 { factor, low, high, original } => {
                    let turns = original * frequency / (2.0 * PI);
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    frequency * (kept + (1.0 - kept) / factor)
                }
                RotaryScaling::Yarn { factor, .. } => {
                    let [first, last] = self.yarn_bounds();
                    let divided = ((pair as f64 - first) / (last - first)).clamp(0.0, 1.0);
                    frequency * (1.0 - divided + divided / factor)
                }
            }
        };
        let attention = if let RotaryScaling::Yarn { attention, .. } = self.scaling { attention } else { 1.0 };
        ((0..self.dims / 2).map(|pair| scaled(pair) as f32).collect(), attention as f32)
    }

    /// Bounds `[first, last]` of YaRN's interpolation, as indices of dimension pairs, which may be fractional without
    /// `truncate`. Pairs up to `first` keep their frequencies, and pairs from `last` on have frequencies divided by `factor`.
    fn yarn_bounds(&self) -> [f64; 2] {
        let RotaryScaling::Yarn { fast, slow, original, truncate, .. } = self.scaling else { return [0.0, 1.0] };
        let dims = self.dims as f64;
        // Index of the pair that makes this number of rotations within the original length.
        let pair = |turns: f64| dims * (original / (turns * 2.0 * PI)).ln() / (2.0 * self.theta.ln());
        let (mut first, mut last) = (pair(fast), pair(slow));
        if truncate {
            (first, last) = (first.floor(), last.ceil());
        }
        (first, last) = (first.max(0.0), last.min(dims - 1.0));
        // transformers avoids a division by zero in this way (`modeling_rope_utils.py`, `linear_ramp_factor`).
        [first, if first == last { last + 0.001 } else { last }]
    }
}

/// Keys of a `config.json` about rotary positions. transformers 5 replaces `rope_theta` and `rope_scaling` by `rope_parameters`.
#[derive(Deserialize)]
struct RotaryConfig {
    rope_scaling: Option<Value>,
    rope_parameters: Option<Value>,
    partial_rotary_factor: Option<f64>,
    /// All other keys of the file, by name.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Base and scaling of rotary frequencies: the value of `rope_scaling` or `rope_parameters`.
#[derive(Deserialize)]
struct RopeParameters {
    rope_type: Option<String>,
    /// Key `type`: the name of `rope_type` before transformers 4.45.
    #[serde(rename = "type")]
    old_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    factor: Option<f64>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
    truncate: Option<bool>,
}

/// Parses the rotation in a `config.json` by transformers' order of precedence (`modeling_rope_utils.py`,
/// `convert_rope_params_to_dict`). `layer_type` selects the layers in files that distinguish types. `head_dim` is the width of
/// an attention head, `positions` the model's number of positions. `theta` is the default of the base of the frequencies, which
/// `key` names. `rotating_share` is the default share of an attention head's dimensions that rotate. Fails if the file names an
/// unsupported type, lacks a key of its type, or has an invalid value.
pub fn parse_rotary(
    text: &str,
    layer_type: Option<&str>,
    (key, theta): (&str, f64),
    rotating_share: f64,
    (head_dim, positions): (usize, usize),
) -> Result<Rotary> {
    let config: RotaryConfig = parse_fields(text)?;
    let non_empty = |value: Option<Value>| value.filter(|value| value.as_object().is_some_and(|keys| !keys.is_empty()));
    let (name, section) = match non_empty(config.rope_scaling) {
        Some(section) => ("rope_scaling", Some(section)),
        None => ("rope_parameters", non_empty(config.rope_parameters)),
    };
    let nested = layer_type.and_then(|layer_type| section.as_ref()?.get(layer_type).cloned());
    let parameters = nested.or(section).unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let parameters: RopeParameters = serde_json::from_value(parameters).map_err(|error| anyhow!("{name}: {error}"))?;
    let theta = match (parameters.rope_theta, config.others.get(key)) {
        (Some(theta), _) => theta,
        (None, None | Some(Value::Null)) => theta,
        (None, Some(theta)) => {
            let shown = shorten(&theta.to_string());
            theta.as_f64().with_context(|| format!("{key} is {shown}: a number is expected"))?
        }
    };
    let rotating_share = parameters.partial_rotary_factor.or(config.partial_rotary_factor).unwrap_or(rotating_share);
    ensure!(theta.is_finite() && theta > 1.0, wrong_value(key, theta, "a number above 1 is expected"));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down, as in transformers")]
    let dims = (head_dim as f64 * rotating_share) as usize;
    let is_even_share = rotating_share > 0.0 && rotating_share <= 1.0 && dims > 0 && dims.is_multiple_of(2);
    let reason = format_args!("a share of the {head_dim} dimensions of a head that is an even number is expected");
    ensure!(is_even_share, wrong_value("partial_rotary_factor", rotating_share, reason));
    let rope_type = parameters.rope_type.as_deref().or(parameters.old_type.as_deref()).unwrap_or("default");
    let needed = |key: &str, value: Option<f64>| -> Result<f64> {
        let value = value.with_context(|| format!("{name}: rope_type is {rope_type}, and {key} is missing"))?;
        let is_positive = value.is_finite() && value > 0.0;
        ensure!(is_positive, wrong_value(&format!("{name}: {key}"), value, "a number above 0 is expected"));
        Ok(value)
    };
    let original = || {
        let given = parameters.original_max_position_embeddings.unwrap_or(positions as f64);
        needed("original_max_position_embeddings", Some(given))
    };
    let scaling = match rope_type {
        "default" => RotaryScaling::Default,
        "linear" => RotaryScaling::Linear { factor: needed("factor", parameters.factor)? },
        "llama3" => {
            let low = needed("low_freq_factor", parameters.low_freq_factor)?;
            let high = needed("high_freq_factor", parameters.high_freq_factor)?;
            ensure!(low < high, "{name}: low_freq_factor is {low}, which is not below high_freq_factor {high}");
            RotaryScaling::Llama3 { factor: needed("factor", parameters.factor)?, low, high, original: original()? }
        }
        "yarn" => {
            let factor = needed("factor", parameters.factor)?;
            RotaryScaling::Yarn {
                factor,
                attention: needed("attention_factor", Some(attention_factor(&parameters, factor)))?,
                fast: parameters.beta_fast.filter(|beta| *beta != 0.0).unwrap_or(32.0),
                slow: parameters.beta_slow.filter(|beta| *beta != 0.0).unwrap_or(1.0),
                original: original()?,
                truncate: parameters.truncate.unwrap_or(true),
            }
        }
        other => {
            let shown = shorten(other);
            bail!(anyhow!("{name}: rope_type is {shown} (supported: default, linear, llama3, yarn)").with_value(other));
        }
    };
    Ok(Rotary { theta, dims, scaling })
}

/// YaRN's factor of cosines and sines (Peng et al. 2024, equation 22; transformers' `_compute_yarn_parameters`).
fn attention_factor(parameters: &RopeParameters, factor: f64) -> f64 {
    let factor_of_scale = |scale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 };
    let nonzero = |value: Option<f64>| value.filter(|value| *value != 0.0);
    parameters.attention_factor.unwrap_or_else(|| {
        match (nonzero(parameters.mscale), nonzero(parameters.mscale_all_dim)) {
            (Some(scale), Some(all)) => factor_of_scale(scale) / factor_of_scale(all),
            _ => factor_of_scale(1.0),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rotation of heads of 8 values over 512 positions.
    fn of_layers(text: &str, layer_type: Option<&str>) -> Result<Rotary> {
        parse_rotary(text, layer_type, ("rope_theta", 10_000.0), 1.0, (8, 512))
    }

    fn found(text: &str) -> Rotary {
        of_layers(text, None).unwrap()
    }

    fn error(text: &str) -> String {
        of_layers(text, None).unwrap_err().to_string()
    }

    #[test]
    fn frequencies_of_the_base() {
        let plain = found("{}");
        assert_eq!((plain.theta, plain.dims), (1e4, 8));
        assert_eq!(plain.frequencies(), (vec![1.0, 0.1, 0.01, 0.001], 1.0));
        let linear = found(r#"{"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 16}"#);
        assert_eq!(linear.frequencies(), (vec![0.5, 0.25, 0.125, 0.0625], 1.0));
        let half = found(r#"{"rope_parameters": {"rope_theta": 16, "partial_rotary_factor": 0.5}}"#);
        assert_eq!((half.dims, half.frequencies().0), (4, vec![1.0, 0.25]));
    }

    #[test]
    fn what_wins() {
        let both = r#"{"rope_theta": 3, "rope_scaling": {"rope_theta": 4}, "rope_parameters": {"rope_theta": 5}}"#;
        assert_eq!(found(both).theta, 4.0);
        assert_eq!(found(r#"{"rope_theta": 3, "rope_scaling": null, "rope_parameters": {"factor": 5}}"#).theta, 3.0);
        let nested = r#"{"rope_theta": 3, "rope_parameters": {"full_attention": {"rope_theta": 7}}}"#;
        assert_eq!(of_layers(nested, Some("full_attention")).unwrap().theta, 7.0);
        assert_eq!(of_layers(nested, Some("sliding_attention")).unwrap().theta, 3.0);
    }

    #[test]
    fn long_waves_of_llama_are_divided() {
        // Waves of 6.3, 63, 628 and 6283 tokens; of a text of 512 those above 512 are long, those below 128 short.
        let text = r#"{"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 512}}"#;
        assert_eq!(found(text).frequencies().0, [1.0, 0.1, 0.01 / 8.0, 0.001 / 8.0]);
    }

    #[test]
    fn yarn_mixes_by_how_often_a_pair_turns() {
        let text = r#"{"rope_parameters": {"rope_type": "yarn", "factor": 4, "beta_fast": 16, "beta_slow": 1}}"#;
        let (frequencies, attention) = found(text).frequencies();
        // 512 tokens are 16 turns of pair 4 ln(512 / (32 pi)) / ln 10^4 = 0.71, rounded down, and one of pair 1.91, rounded up.
        assert_eq!(frequencies, [1.0, 0.0625, 0.01 / 4.0, 0.001 / 4.0]);
        assert!((attention - 1.138_629_4).abs() < 1e-6, "{attention}");
    }

    #[test]
    fn what_no_rotation_has() {
        assert_eq!(
            error(r#"{"rope_scaling": {"rope_type": "dynamic", "factor": 2}}"#),
            "rope_scaling: rope_type is dynamic (supported: default, linear, llama3, yarn)"
        );
        assert_eq!(
            error(r#"{"rope_parameters": {"rope_type": "linear"}}"#),
            "rope_parameters: rope_type is linear, and factor is missing"
        );
        for factor in [0, -1] {
            let text =
                format!(r#"{{"rope_parameters": {{"rope_type": "yarn", "factor": 4, "attention_factor": {factor}}}}}"#);
            let expected = format!("rope_parameters: attention_factor is {factor}: a number above 0 is expected");
            assert_eq!(error(&text), expected);
        }
        assert_eq!(error(r#"{"rope_theta": 0}"#), "rope_theta is 0: a number above 1 is expected");
        assert_eq!(
            error(r#"{"partial_rotary_factor": 0.4}"#),
            "partial_rotary_factor is 0.4: a share of the 8 dimensions of a head that is an even number is expected"
        );
    }
}
