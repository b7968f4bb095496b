"""The reference of the experiment file: its examples are valid, and have every key that there is."""

import json
import re

import pytest
import yaml
from conftest import EXAMPLES, ROOT, execute

REFERENCE = ROOT / "docs/reference.md"
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", REFERENCE.read_text(), re.M | re.S)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_examples_are_valid(belljar, workdir, number):
    for file in EXAMPLES.iterdir():
        (workdir / file.name).symlink_to(file)
    (workdir / "exp.yaml").write_text(BLOCKS[number])
    done = execute([belljar, "validate", "exp.yaml"], cwd=workdir)
    assert done.status == 0, f"{BLOCKS[number]}\n{done}"


def keys_of_schema(schema):
    """Every place of the schema with properties, as the name of the definition or section and the key."""
    found = set()

    def walk(node, place):
        if isinstance(node, list):
            for one in node:
                walk(one, place)
        elif isinstance(node, dict):
            for key, value in node.items():
                if key == "properties":
                    for name, inner in value.items():
                        # Conditions are not descriptions: `{"required": [...]}` and the like have no keys of their own.
                        if inner is not True and inner != {}:
                            found.add(name)
                            walk(inner, name)
                elif key != "propertyNames":
                    walk(value, place)

    walk(schema, "")
    return found


def keys_of(value):
    if isinstance(value, dict):
        return set(map(str, value)) | {key for inner in value.values() for key in keys_of(inner)}
    return {key for inner in value for key in keys_of(inner)} if isinstance(value, list) else set()


def test_every_key_has_an_example():
    schema = json.loads((ROOT / "crates/cli/src/experiment.schema.json").read_text())
    shown = {key for block in BLOCKS for key in keys_of(yaml.safe_load(block))}
    shown |= set(re.findall(r"\b(\w+):", " ".join(re.findall(r"`([^`\n]*\{[^`\n]*: [^`\n]*)`", REFERENCE.read_text()))))
    patterns = re.findall(r'"\^\(([\w|]+)\)', json.dumps(schema))
    events = {name for alternatives in patterns for name in alternatives.split("|")}
    missing = sorted((keys_of_schema(schema) | events) - shown)
    assert not missing, f"docs/reference.md has no example of {missing}"
