//! The room that texts take. Whoever looks at a figure has fonts of their own, so the widths are those of the widest of the common
//! sans-serif fonts: no text is wider than it was taken to be, and most are narrower.

/// The advance widths of the characters from U+0020 to U+007E in thousandths of the font's size, in `DejaVu` Sans 2.37 (its table `hmtx`),
/// which is the `sans-serif` of most Linux systems. Those of Arial, Helvetica, Liberation Sans, Roboto and Segoe UI are smaller.
#[rustfmt::skip]
const ADVANCES: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
    603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635,
    634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// How far letters reach above the base line, and below it, as shares of the font's size: `ascent` and `descent` of the same font (its
/// table `hhea`).
const ASCENT: f64 = 0.928;
const DESCENT: f64 = 0.236;

/// The width of a text in pixels, at most.
pub fn width_of(text: &str, size: f64) -> f64 {
    let of_letter = |c: char| match u32::from(c) {
        code @ 0x20..=0x7e => f64::from(ADVANCES[code as usize - 0x20]) / 1000.0,
        // Dashes, ellipses, arrows; the widest letters of Latin, Greek and Cyrillic.
        0x7f..0x1100 | 0x2000..0x2e80 => 1.0,
        // Pictures, in the fonts that have them.
        0x1f000.. => 1.3,
        // Scripts whose letters have a whole em.
        _ => 1.05,
    };
    text.chars().map(of_letter).sum::<f64>() * size
}

/// The room beside texts, in pixels.
const BESIDE: f64 = 4.0;

/// The smallest box around texts: its left, top, right and bottom.
#[derive(Clone, Copy)]
pub(super) struct Extent([f64; 4]);

impl Extent {
    /// The letters of no text.
    pub(super) const NONE: Self = Self([f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY]);

    /// Takes in a text of this width whose base line begins at a place.
    pub(super) fn add(&mut self, [left, base]: [f64; 2], width: f64, size: f64) {
        // A place that is infinite is drawn as 0.
        if !(left.is_finite() && base.is_finite()) {
            return;
        }
        let Self([x1, y1, x2, y2]) = *self;
        self.0 = [x1.min(left), y1.min(base - ASCENT * size), x2.max(left + width), y2.max(base + DESCENT * size)];
    }

    /// The left, the top, the width and the height of a figure that is meant to be so large, and no smaller than its texts.
    pub(super) fn within(self, [width, height]: [f64; 2]) -> [f64; 4] {
        let Self([x1, y1, x2, y2]) = self;
        let [left, top] = [x1 - BESIDE, y1].map(|end| end.floor().min(0.0));
        [left, top, (x2 + BESIDE).ceil().max(width) - left, y2.ceil().max(height) - top]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_letters() {
        // L .557, 0 .636 twice, H .752.
        assert!((width_of("L0H0", 10.0) - 25.81).abs() < 1e-9);
        assert_eq!((width_of("", 12.0), width_of("…", 12.0)), (0.0, 12.0));
        assert!(width_of("猫", 10.0) >= 10.0 && width_of("\u{1f408}", 10.0) > 10.0);
    }

    #[test]
    fn a_figure_has_room_for_its_texts() {
        assert_eq!(Extent::NONE.within([10.0, 20.0]), [0.0, 0.0, 10.0, 20.0]);
        let mut extent = Extent::NONE;
        extent.add([4.0, 12.0], 5.0, 10.0);
        assert_eq!(extent.within([13.0, 20.0]), [0.0, 0.0, 13.0, 20.0], "what fits changes nothing");
        // From -7.2 to 20.8, and from 2 - 9.28 to 12 + 2.36.
        extent.add([-3.2, 2.0], 20.0, 10.0);
        assert_eq!(extent.within([10.0, 12.0]), [-8.0, -8.0, 29.0, 23.0]);
    }
}
