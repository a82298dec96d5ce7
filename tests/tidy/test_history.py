"""Checks the subjects of new commits and the sizes of tracked files."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUBJECT_LIMIT = 72
FILE_LIMIT_BYTES = 256 * 1024
# The rule applies to the commits after this one.
BASE = "169d8e023c5c8ee3fccbee9f542ad5082694c70c"


def git(*words, folder=ROOT, check=True):
    return subprocess.run(["git", *words], cwd=folder, check=check, capture_output=True, text=True)


def new_messages(folder=ROOT, base=BASE):
    """Pairs of commit and message of each commit after `base`; of all where a shallow clone lacks
    it. Merges carry the words that git gives them."""
    has_base = git("merge-base", "--is-ancestor", base, "HEAD", folder=folder, check=False)
    commits = [f"{base}..HEAD"] if has_base.returncode == 0 else ["HEAD"]
    log = git("log", "--no-merges", "--format=%h%n%B%x00", *commits, folder=folder).stdout
    return [tuple(entry.lstrip("\n").split("\n", 1)) for entry in log.split("\0") if entry.strip()]


def complaint(message):
    subject, *rest = message.rstrip("\n").split("\n")
    if len(subject) > SUBJECT_LIMIT:
        return f"the subject has {len(subject)} characters, the limit is {SUBJECT_LIMIT}: {subject}"
    if not subject:
        return "the message has no subject"
    if rest and rest[0]:
        return f"the line after the subject is not blank: {rest[0]}"
    return None


def test_subjects_of_new_commits():
    bad = [f"{commit}: {what}" for commit, message in new_messages()
           if (what := complaint(message))]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("message, what", [
    ("Short", None), ("x" * 72 + "\n\nbody\n", None), ("x" * 73, "73 characters"),
    ("Two lines\nof subject", "not blank: of subject"), ("", "no subject"),
])
def test_what_a_message_must_be(message, what):
    said = complaint(message)
    assert said is None if what is None else what in said


def commit(folder, message):
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    git(*identity, "commit", "-q", "--allow-empty", "--cleanup=verbatim", "-m", message,
        folder=folder)
    return git("rev-parse", "HEAD", folder=folder).stdout.strip()


def test_commits_after_the_base_are_seen_also_in_a_shallow_clone(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    git("init", "-q", folder=whole)
    commit(whole, "Before")
    base = commit(whole, "The base")
    commit(whole, "After\nit")
    commit(whole, "Last\n\nwith a body\n")
    messages = [m for _, m in new_messages(whole, base)]
    assert messages == ["Last\n\nwith a body\n", "After\nit\n"]
    assert new_messages(whole, git("rev-parse", "HEAD", folder=whole).stdout.strip()) == []
    git("clone", "-q", "--depth", "1", f"file://{whole}", "shallow", folder=tmp_path)
    assert [m for _, m in new_messages(tmp_path / "shallow", base)] == ["Last\n\nwith a body\n"]


def test_tracked_files_are_small():
    names = git("ls-files", "-z").stdout.split("\0")
    sizes = [((ROOT / name).stat().st_size, name) for name in names if (ROOT / name).is_file()]
    assert sizes, "git lists no file"
    bad = [f"{name} has {size} bytes" for size, name in sorted(sizes) if size > FILE_LIMIT_BYTES]
    assert not bad, f"the limit is {FILE_LIMIT_BYTES} bytes:\n" + "\n".join(bad)
