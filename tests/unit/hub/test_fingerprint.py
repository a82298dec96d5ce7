"""The fingerprint names a folder by what it holds, as it names a file by its bytes."""
import json
import shutil

from folders import MODELS, probe, write_folder


def digest(folder, tmp_path):
    return probe(folder, tmp_path)[0]["hash"]


def test_the_hash_names_the_contents(tmp_path):
    folder = write_folder.write(MODELS["llama"], tmp_path / "folder")
    seen = {digest(folder, tmp_path)}
    moved = tmp_path / "elsewhere" / "folder"
    shutil.copytree(folder, moved)
    (moved / "README.md").write_text("no part of the model")
    assert digest(moved, tmp_path) in seen

    def is_new():
        made = digest(folder, tmp_path)
        added = made not in seen
        seen.add(made)
        return added

    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 0x80  # the sign of the last number
    (folder / "model.safetensors").write_bytes(weights)
    assert is_new()
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert is_new()
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"]["factor"] = 4.0  # a tensor of factors follows from it
    write_folder.write_json(folder / "config.json", config)
    assert is_new()
    tokenizer = write_folder.tokenizer_json()
    tokenizer["model"]["merges"].reverse()
    write_folder.write_json(folder / "tokenizer.json", tokenizer)
    assert is_new()
