//! Addresses of models on the Hub, as a browser shows them.

/// The Hub's hosts.
const HOSTS: [&str; 3] = ["huggingface.co/", "hf.co/", "www.huggingface.co/"];

/// The pages of a model that are about one revision of it: `/org/name/tree/REVISION`.
const OF_REVISION: [&str; 5] = ["tree", "blob", "resolve", "raw", "commit"];

/// The pages that are no models.
const NO_MODELS: [&str; 6] = ["datasets", "spaces", "docs", "models", "papers", "collections"];

/// The model that an address names, as `org/name` or `org/name@revision`; `None` if it names none.
pub(super) fn model(address: &str) -> Option<String> {
    let address = ["https://", "http://"].iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or(address);
    let path = HOSTS.iter().find_map(|host| address.strip_prefix(host))?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if NO_MODELS.contains(parts.first()?) {
        return None;
    }
    // The oldest models have no organisation.
    let page = parts.iter().position(|part| OF_REVISION.contains(part)).filter(|page| (1..=2).contains(page));
    let id = parts[..page.unwrap_or(parts.len()).min(2)].join("/");
    // A slash in the name of a revision.
    let revision = page.and_then(|page| parts.get(page + 1)).map(|revision| revision.replace("%2F", "/"));
    Some(revision.map_or_else(|| id.clone(), |revision| format!("{id}@{revision}")))
}

/// Whether a text is the address of something.
pub(super) fn is_address(text: &str) -> bool {
    text.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_model_name_it() {
        for (address, expected) in [
            ("https://huggingface.co/acme/tiny-bert", "acme/tiny-bert"),
            ("http://hf.co/acme/tiny-bert/", "acme/tiny-bert"),
            ("huggingface.co/acme/tiny-bert?library=transformers", "acme/tiny-bert"),
            ("https://huggingface.co/acme/tiny-bert/tree/main", "acme/tiny-bert@main"),
            ("https://huggingface.co/acme/tiny-bert/blob/refs%2Fpr%2F5/config.json", "acme/tiny-bert@refs/pr/5"),
            ("https://huggingface.co/acme/tiny-bert/discussions/3#x", "acme/tiny-bert"),
            ("https://huggingface.co/bert-base-uncased", "bert-base-uncased"),
            ("https://huggingface.co/bert-base-uncased/resolve/v1/vocab.txt", "bert-base-uncased@v1"),
        ] {
            assert_eq!(model(address).as_deref(), Some(expected));
        }
        for other in [
            "acme/tiny-bert",
            "https://huggingface.co/",
            "https://huggingface.co/datasets/a/b",
            "https://example.org/a/b",
        ] {
            assert_eq!(model(other), None);
        }
    }
}
