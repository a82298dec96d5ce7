"""Completion in real shells: what the Tab key makes of the beginning of a command line."""
import os
import pty
import re
import select
import subprocess
import time

import pytest
from patience import PATIENCE_S
from programs import BIN, millrace, program
from test_help import commands, options, shown

# What is typed before the Tab key, and the words that the command must then get.
TYPED = [
    ("millrace tok", ["tokenize"]),
    ("millrace jobs sh", ["jobs", "show"]),
    ("millrace jobs ls --sta", ["jobs", "ls", "--state"]),
    ("millrace jobs ls --state canc", ["jobs", "ls", "--state", "cancelled"]),
    ("millrace run --model mod", ["run", "--model", "model.gguf"]),
    ("millrace run --model jobs --outp", ["run", "--model", "jobs", "--output"]),
    ("millrace submit a", ["submit", "a file.jsonl"]),
    ("millrace keys init fol", ["keys", "init", "folder/"]),
    ("millrace --log-j", ["--log-json"]),
    ("millrace results --log-j", ["results", "--log-json"]),
    ("millrace-broker --print-c", ["--print-config"]),
]
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
# Reads the scripts, then puts a function that prints its words in the place of each program.
START = {
    "bash": 'eval "$(millrace completion bash)"; eval "$(millrace-broker --print-completion bash)";'
            " f() { printf '<%s>' \"$@\"; echo; };"
            ' millrace() { f "$@"; }; millrace-broker() { f "$@"; }',
    "zsh": "autoload -Uz compinit; compinit -u -D; source <(millrace completion zsh);"
           " source <(millrace-broker --print-completion zsh);"
           " f() { printf '<%s>' \"$@\"; echo; };"
           ' millrace() { f "$@"; }; millrace-broker() { f "$@"; }',
    "fish": "millrace completion fish | source; millrace-broker --print-completion fish | source;"
            " function f; printf '<%s>' $argv; echo; end;"
            " function millrace; f $argv; end; function millrace-broker; f $argv; end",
}


class Shell:
    """A shell on a terminal of its own, in a folder with some files."""

    def __init__(self, name, folder):
        self.seen = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(PATH=f"{BIN}:{os.environ['PATH']}", TERM="dumb", HOME=str(folder),
                              PS1="$ ", HISTFILE="", XDG_CONFIG_HOME=str(folder),
                              XDG_DATA_HOME=str(folder))
            os.execvp(SHELLS[name][0], SHELLS[name])

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, text):
        """Zsh takes the slash of a folder away again at the end of a line."""
        end = time.monotonic() + PATIENCE_S
        while not any(one.encode() in self.seen for one in (text, text.replace("/>", ">"))):
            assert time.monotonic() < end, f"{text} is not in: {self.seen.decode()}"
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.seen += os.read(self.terminal, 65536)
        self.seen = b""

    def close(self):
        os.close(self.terminal)  # the shell gets SIGHUP
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("name", SHELLS)
def test_the_tab_key_completes(name, tmp_path):
    for file in ("model.gguf", "a file.jsonl", "folder.txt", "config.toml"):
        (tmp_path / file).touch()
    (tmp_path / "folder").mkdir()
    shell = Shell(name, tmp_path)
    try:
        shell.type(START[name] + "\n")
        shell.type("f rea''dy\n")
        shell.wait_for("<ready>")
        for typed, words in TYPED:
            shell.type(typed + "\t\n")
            shell.wait_for("".join(f"<{word}>" for word in words))
    finally:
        shell.close()


def bash_offers(line, folder):
    """All words that bash's function offers at the end of a line."""
    script = """eval "$(millrace completion bash)"
compopt() { :; }
read -ra COMP_WORDS <<< "$1"
case $1 in *' ') COMP_WORDS+=('') ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_millrace
printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script, "bash", line], cwd=folder, text=True, check=True,
                          env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
                          capture_output=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_every_command_and_option_of_the_help_is_offered(tmp_path):
    assert set(commands()) < set(bash_offers("millrace ", tmp_path))
    for command in commands():
        offered = bash_offers(f"millrace {command} -", tmp_path)
        for name in options(shown("millrace", command, "--help")):
            if name.startswith("-"):
                assert set(re.findall(r"--?[\w-]+", name)) <= set(offered), (command, name)
        assert "--json" in offered, command
    assert bash_offers("millrace jobs ls --state ", tmp_path) == [
        "queued", "leased", "completed", "failed", "cancelled", "expired"]
    assert bash_offers("millrace jobs ls --limit ", tmp_path) == []


def test_an_unknown_shell_is_refused():
    done = millrace("completion", "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no completion for the shell tcsh" in done.stderr
    assert "bash, zsh or fish" in done.stderr


def test_programs_that_are_no_command_have_completions_too():
    for name in ("millrace-broker", "millrace-engine"):
        for shell in SHELLS:
            done = subprocess.run([program(name), "--print-completion", shell], text=True,
                                  capture_output=True, check=True)
            assert "--log-level" in done.stdout or "-l log-level" in done.stdout
            checked = subprocess.run([shell, "-n"], input=done.stdout, text=True,
                                     capture_output=True)
            assert (checked.returncode, checked.stderr) == (0, ""), (name, shell)
