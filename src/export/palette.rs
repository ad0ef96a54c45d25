//! The colours of figures and of the page, on white and on black.
//!
//! The seven colours of labels are tints of the palette of Okabe & Ito (2008, "Color Universal Design"), used under text.
//! People with red-green colour blindness can tell them apart.
//! No figure conveys anything by colour alone.
//! Text has a contrast of at least 4.5 to 1 (WCAG 2.2, level AA), which a test checks.

use anstyle::AnsiColor;

/// Colours for the parts of a figure, each with a variant on white and one on black.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    Text,
    /// Secondary text and axes.
    Muted,
    /// Thin lines of grids and axes, which guide the eye.
    Guide,
    /// Background of the figure.
    Ground,
    /// Emphasis, and lines of curves.
    Accent,
    /// A second line, in contrast to `Accent`.
    Second,
    /// Background or stroke in the colour of a label.
    Label(Hue),
    /// Background of a number in a heat map; step 0 is for the least number, the last step for the largest.
    Step(usize),
    /// Text on a heat-map cell with the background [`Ink::Step`] of this number.
    TextOnStep(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hue {
    /// Heads without a label.
    Grey,
    Blue,
    Sky,
    Green,
    Orange,
    Purple,
    Vermillion,
}

impl Hue {
    pub const ALL: [Self; 7] =
        [Self::Grey, Self::Blue, Self::Sky, Self::Green, Self::Orange, Self::Purple, Self::Vermillion];

    /// Hue that stands for a label's colour on the terminal.
    pub fn from_ansi(colour: AnsiColor) -> Self {
        match colour {
            AnsiColor::Blue | AnsiColor::BrightBlue => Self::Blue,
            AnsiColor::Cyan | AnsiColor::BrightCyan => Self::Sky,
            AnsiColor::Green | AnsiColor::BrightGreen => Self::Green,
            AnsiColor::Yellow | AnsiColor::BrightYellow => Self::Orange,
            AnsiColor::Magenta => Self::Purple,
            AnsiColor::BrightMagenta | AnsiColor::Red | AnsiColor::BrightRed => Self::Vermillion,
            AnsiColor::Black | AnsiColor::BrightBlack | AnsiColor::White | AnsiColor::BrightWhite => Self::Grey,
        }
    }
}

pub const HEAT_MAP_STEPS: usize = 9;

/// Blues of falling lightness: on white, the largest number is the darkest.
const LIGHT_STEPS: [&str; HEAT_MAP_STEPS] =
    ["#f1f6fc", "#dde9f5", "#c6dbef", "#abcee6", "#8bbedb", "#68abd1", "#4b97c9", "#2272b4", "#0a4a90"];
const DARK_STEPS: [&str; HEAT_MAP_STEPS] =
    ["#18222d", "#1a2e42", "#1b3d5b", "#1c4c73", "#1d5b8b", "#2a6fa3", "#5596c6", "#86b6db", "#c5dbee"];

impl Ink {
    pub fn all_inks() -> impl Iterator<Item = Self> {
        let others = [Self::Text, Self::Muted, Self::Guide, Self::Ground, Self::Accent, Self::Second];
        let steps = (0..HEAT_MAP_STEPS).flat_map(|step| [Self::Step(step), Self::TextOnStep(step)]);
        others.into_iter().chain(Hue::ALL.map(Self::Label)).chain(steps)
    }

    /// Name of the ink in the style sheet of the page.
    pub fn name(self) -> String {
        match self {
            Self::Label(hue) => format!("{hue:?}").to_lowercase(),
            Self::Step(step) => format!("s{step}"),
            Self::TextOnStep(step) => format!("t{step}"),
            plain => format!("{plain:?}").to_lowercase(),
        }
    }

    /// Hex colours of the ink, `[on white, on black]`.
    pub fn colours(self) -> [&'static str; 2] {
        match self {
            Self::Text => ["#1a1c1f", "#e8eaed"],
            Self::Muted => ["#5a6068", "#a6adb6"],
            Self::Guide => ["#d9dde2", "#363c44"],
            Self::Ground => ["#ffffff", "#121417"],
            Self::Accent => ["#0b5cad", "#7db7f0"],
            Self::Second => ["#b34e00", "#f0a35e"],
            Self::Label(Hue::Grey) => ["#e6e8eb", "#2b2f35"],
            Self::Label(Hue::Blue) => ["#9ec9e2", "#094364"],
            Self::Label(Hue::Sky) => ["#cfe9fb", "#2d5a75"],
            Self::Label(Hue::Green) => ["#9edaca", "#095945"],
            Self::Label(Hue::Orange) => ["#f6db9e", "#6b4e0a"],
            Self::Label(Hue::Purple) => ["#ecccde", "#6f465f"],
            Self::Label(Hue::Vermillion) => ["#efb48a", "#74390c"],
            Self::Step(step) => [LIGHT_STEPS[step], DARK_STEPS[step]],
            Self::TextOnStep(step) => {
                [["#1a1c1f", "#ffffff"][usize::from(step > 6)], ["#ffffff", "#0d0f11"][usize::from(step > 5)]]
            }
        }
    }

    /// Ink of a text on this background.
    pub fn text_ink(self) -> Self {
        if let Self::Step(step) = self { Self::TextOnStep(step) } else { Self::Text }
    }
}

/// Step of the heat map for a number between the least and the largest; the middle step if both are equal.
pub fn heat_map_step(value: f64, [least, most]: [f64; 2]) -> usize {
    if most <= least {
        return HEAT_MAP_STEPS / 2;
    }
    let share = (value - least) / (most - least);
    (1..HEAT_MAP_STEPS).filter(|&step| share >= step as f64 / HEAT_MAP_STEPS as f64).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance: WCAG 2.2.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_stands_out() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        let on_ground = [Ink::Text, Ink::Muted, Ink::Accent, Ink::Second].map(|text| (text, Ink::Ground));
        let on_others =
            Ink::all_inks().filter(|ink| matches!(ink, Ink::Label(_) | Ink::Step(_))).map(|ink| (ink.text_ink(), ink));
        for (text, behind) in on_ground.into_iter().chain(on_others) {
            for side in [0, 1] {
                let contrast = contrast(text.colours()[side], behind.colours()[side]);
                assert!(contrast >= 4.5, "{text:?} on {behind:?}: {contrast}");
            }
        }
    }

    /// Style sheets of users may name the inks, so these names stay.
    #[test]
    fn inks_have_fixed_names() {
        let names: Vec<String> = Ink::all_inks().map(Ink::name).collect();
        let hues = "grey blue sky green orange purple vermillion";
        let steps = "s0 t0 s1 t1 s2 t2 s3 t3 s4 t4 s5 t5 s6 t6 s7 t7 s8 t8";
        assert_eq!(names.join(" "), format!("text muted guide ground accent second {hues} {steps}"));
    }

    #[test]
    fn steps_go_from_the_least_to_the_most() {
        assert_eq!([0.0, 0.1, 0.5, 0.999, 1.0].map(|value| heat_map_step(value, [0.0, 1.0])), [0, 0, 4, 8, 8]);
        assert_eq!(
            (heat_map_step(3.0, [3.0, 3.0]), heat_map_step(-1.0, [0.0, 1.0]), heat_map_step(2.0, [0.0, 1.0])),
            (4, 0, 8)
        );
        assert_eq!(heat_map_step(0.5, [f64::NAN, f64::NAN]), 0);
    }
}
