"""Every message that the loader can give stands in a test of the loader, word for word.

The messages are the texts in the loader's sources; what is filled in when they are given splits them into fragments, of
which the longest must occur in a test that expects it.
"""

import re

from conftest import ROOT

LOADER = ["crates/config/src/load", "crates/config/src/yaml", "crates/config/src/programs.rs", "crates/config/src/signals.rs", "crates/config/src/overrides.rs",
          "crates/net/src/graph", "crates/net/src/units.rs", "crates/net/src/addresses.rs", "crates/net/src/dns.rs"]
TESTS = ["crates/config/src/load/tests", "crates/config/src/load/tests.rs", "crates/net/src/graph/tests", "crates/net/src/graph/tests.rs",
         "crates/net/src/units_tests.rs", "tests/errors", "tests/command/test_cli.py", "tests/network/test_dns.py", "tests/command/test_events.py",
         "tests/network/test_mss_clamp.py", "tests/kernel/test_root.py"]
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"', re.S)


def files(paths):
    for path in (ROOT / p for p in paths):
        yield from sorted(file for file in path.rglob("*.*") if file.suffix != ".pyc") if path.is_dir() else [path] if path.exists() else []


def is_test(file):
    return "tests" in file.parts or file.name in ("tests.rs", "units_tests.rs")


def unescaped(text):
    text = re.sub(r"\\\n\s*", "", text)
    return text.replace(r"\"", '"').replace(r"\\", "\\").replace(r"\n", "\n")


def code_and_tests(file):
    """The code of a file before its own tests, and those tests; without comments."""
    text = file.read_text()
    if file.suffix != ".rs":
        return "", text
    text = re.sub(r"^\s*//.*$", "", text, flags=re.M)
    # A quote as a character opens no text.
    text = text.replace("'\"'", "0")
    text = re.sub(r'r#".*?"#|\bexpect\("[^"]*"\)', "", text, flags=re.S)
    code, _, tests = text.partition("#[cfg(test)]\nmod tests {")
    return ("", text) if is_test(file) else (code, tests)


def fragments(literal):
    parts = re.split(r"\{[^{}]*\}", literal.replace("{{", "\1").replace("}}", "\2"))
    return [part.replace("\1", "{").replace("\2", "}") for part in parts if part.strip()]


def messages():
    for file in files(LOADER):
        code, _ = code_and_tests(file)
        for found in LITERAL.finditer(code):
            text = unescaped(found[1])
            # A message is a sentence: words and what is filled in. Keys and names are single words.
            if len(re.findall(r"[A-Za-z]{2,}", text)) >= 3 and " " in text.strip():
                yield file.relative_to(ROOT), text


def test_every_message_of_the_loader_has_a_test():
    expected = "".join(unescaped(code_and_tests(file)[1]) for file in [*files(TESTS), *files(LOADER)])
    all_messages = list(messages())
    assert len(all_messages) > 200
    missing = [f"{file}: {text}" for file, text in all_messages if max(fragments(text), key=len, default="") not in expected]
    assert not missing, "no test expects these:\n" + "\n".join(missing)


def test_the_search_finds_what_has_no_test():
    assert max(fragments("there is no {name} like {{ this }} one"), key=len) == " like { this } one"
