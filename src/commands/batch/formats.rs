//! The formats in which a run is kept, by the endings of its files.

use crate::export::Writer;
use crate::passes::observation::partial;

/// A format in which a run is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunFormat {
    Report(Writer),
    /// Its sums, which no report has.
    Partial,
}

impl RunFormat {
    /// All formats by file extension.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let reports = Writer::ALL.iter().map(|(extension, writer)| (*extension, Self::Report(*writer)));
        reports.chain([(partial::EXTENSION, Self::Partial)])
    }

    /// How it is written, if it is one of a report.
    pub fn writer(self) -> Option<Writer> {
        match self {
            Self::Report(writer) => Some(writer),
            Self::Partial => None,
        }
    }

    /// Whether it has the whole report, of which its other formats can be made.
    pub fn is_whole(self) -> bool {
        self.writer().is_some_and(Writer::is_whole)
    }
}
