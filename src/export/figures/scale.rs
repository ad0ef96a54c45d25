//! A scale: numbers to pixels, with ticks at round numbers.

pub struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    /// A scale that has all finite ones of these numbers, on the pixels between `from` and `to`, with about `ticks` ticks.
    pub fn new(numbers: impl Iterator<Item = f64>, [from, to]: [f64; 2], ticks: usize) -> Self {
        let [least, most] = Self::ends(numbers);
        let step = round_step((most - least) / ticks.max(1) as f64);
        // A number that is round but for the last bit is round.
        let (least, most) = ((least / step + 1e-9).floor() * step, (most / step - 1e-9).ceil() * step);
        Self { least, most, from, to, step }
    }

    /// The least and the most of the finite ones, which are never the same.
    pub fn ends(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
        let finite = numbers.filter(|number| number.is_finite());
        let (mut least, mut most) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), number| (least.min(number), most.max(number)));
        if least > most {
            (least, most) = (0.0, 1.0);
        }
        if most - least < 1e-9 {
            (least, most) = (least - 0.5, most + 0.5);
        }
        [least, most]
    }

    pub fn at(&self, number: f64) -> f64 {
        self.from + (number - self.least) / (self.most - self.least) * (self.to - self.from)
    }

    pub fn ticks(&self, show: impl Fn(f64, usize) -> String) -> Vec<(f64, String)> {
        let digits = digits(self.step);
        // Half a step beyond the end, because sums are not exact; a scale has at most the requested ticks, plus two.
        let numbers = (0_u32..64).map(|place| self.least + f64::from(place) * self.step);
        let numbers = numbers.take_while(|number| *number < self.most + self.step / 2.0);
        let tick = |number: f64| {
            // No minus before a zero.
            let number = if number.abs() < self.step / 2.0 { 0.0 } else { number };
            (self.at(number), show(number, digits))
        };
        numbers.map(tick).collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is no less.
fn round_step(least: f64) -> f64 {
    let mut power = 1e-12;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if power * factor >= least * (1.0 - 1e-9) {
                return power * factor;
            }
        }
        power *= 10.0;
    }
}

/// The decimals that a round step needs.
fn digits(step: f64) -> usize {
    let (mut step, mut digits) = (step, 0);
    while step < 0.999 && digits < 12 {
        (step, digits) = (step * 10.0, digits + 1);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_all_numbers() {
        let shown = |numbers: &[f64]| -> Vec<String> {
            let scale = Scale::new(numbers.iter().copied(), [0.0, 100.0], 5);
            scale.ticks(|number, digits| format!("{number:.digits$}")).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(shown(&[0.02, 0.97]), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(&[-0.013, 0.02]), ["-0.02", "-0.01", "0.00", "0.01", "0.02"]);
        assert_eq!(shown(&[f64::NAN]), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(shown(&[3.0, 3.0]).first().map(String::as_str), Some("2.4"));
        let scale = Scale::new([0.0, 1.0].into_iter(), [10.0, 20.0], 5);
        assert_eq!([0.0, 0.5, 1.0].map(|number| scale.at(number)), [10.0, 15.0, 20.0]);
    }
}
