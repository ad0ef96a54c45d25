"""What tests/python_client.rs asks of huggingface_hub: python_client.py (files | snapshot) ID REVISION, or scan."""

import sys
from pathlib import Path

import huggingface_hub
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

NAMES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
ORIGINALS = Path(__file__).parent.parent / "fixtures/models/tiny-bert"


def check(path: Path) -> None:
    """A file of the cache must be the model's own, byte for byte."""
    assert path.read_bytes() == (ORIGINALS / path.name).read_bytes(), path
    print(path)


print("huggingface_hub", huggingface_hub.__version__)
match sys.argv[1:]:
    case ["files", model, revision]:
        for name in NAMES:
            check(Path(hf_hub_download(model, name, revision=revision)))
    case ["snapshot", model, revision]:
        folder = Path(snapshot_download(model, revision=revision))
        for name in NAMES:
            check(folder / name)
    case ["scan"]:
        cache = scan_cache_dir()
        assert not cache.warnings, cache.warnings
        (model,) = cache.repos
        refs = {ref: revision.commit_hash for revision in model.revisions for ref in revision.refs}
        assert model.repo_id == "acme/tiny-bert" and set(refs) == {"main", "v1", "refs/pr/5"}, cache
        assert all(len(revision.files) == len(NAMES) for revision in model.revisions), cache
        print(len(model.revisions), "revisions, refs", refs)
    case other:
        sys.exit(f"unknown arguments: {other}")
