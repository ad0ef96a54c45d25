//! The fuzz target that `FUZZ_TARGET` names; see `run`.
#![no_main]

use std::sync::LazyLock;

mod properties;

static TARGET: LazyLock<properties::Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let known = properties::TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    properties::target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET is `{name}`: give one of {known}"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    TARGET(data);
});
