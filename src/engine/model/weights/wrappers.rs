//! The prefixes that programs put before all names of a model: what is left of a name without them.

use std::collections::BTreeSet;

use crate::model::families::Architecture;

/// Parts of names that wrappers of PyTorch modules add anywhere: `torch.compile`, fully sharded training, checkpointed
/// activations, deepspeed.
const WRAPPERS: [&str; 4] = ["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_forward_module"];

/// A name without the parts that wrappers add.
pub(super) fn unwrapped(name: &str) -> String {
    name.split('.').filter(|part| !WRAPPERS.contains(part)).collect::<Vec<_>>().join(".")
}

/// The prefix before all names of a checkpoint that neither the family nor its task heads know: what stands before the output
/// projection of the first layer, if that is one thing. `None` if the names are known as they are.
pub(super) fn prefix<'a>(names: impl Iterator<Item = &'a str> + Clone, architecture: &Architecture) -> Option<String> {
    let family = architecture.family;
    let signs = architecture.names.signs();
    let before = |name: &'a str| signs.iter().find_map(|sign| name.strip_suffix(sign.as_str()));
    let found: BTreeSet<&str> =
        names.filter_map(before).filter(|before| before.is_empty() || before.ends_with('.')).collect();
    if found.contains("") || found.contains(family.prefix) {
        return None;
    }
    let of_family: Vec<&str> = found.iter().filter_map(|before| before.strip_suffix(family.prefix)).collect();
    match (&of_family[..], found.len()) {
        ([one], _) => Some((*one).to_owned()),
        ([], 1) => found.first().map(|before| (*before).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::families::bert::SMALL;

    const SIGN: &str = "encoder.layer.0.attention.output.dense.weight";

    fn found(before: &[&str]) -> Option<String> {
        let names: Vec<String> = before.iter().map(|before| format!("{before}{SIGN}")).collect();
        prefix(names.iter().map(String::as_str), &Architecture::parse(SMALL).unwrap())
    }

    #[test]
    fn a_prefix_is_what_stands_before_the_familys_own() {
        assert_eq!([found(&[""]), found(&["bert."]), found(&[])], [const { None }; 3]);
        assert_eq!(found(&["model.bert."]).as_deref(), Some("model."));
        assert_eq!(found(&["0.auto_model."]).as_deref(), Some("0.auto_model."));
        // The family's own tells one of several; without it there is no telling.
        assert_eq!(found(&["a.bert.", "b."]).as_deref(), Some("a."));
        assert_eq!(found(&["a.", "b."]), None);
    }

    #[test]
    fn wrappers_are_taken_out_of_names() {
        assert_eq!(unwrapped("_orig_mod.bert._fsdp_wrapped_module.x"), "bert.x");
        assert_eq!(unwrapped("bert.x"), "bert.x");
    }
}
