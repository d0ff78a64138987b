import shutil
import subprocess

import pytest

from myxtts.cli.main import main


def bash_offers(script: str, *words: str) -> list[str]:
    """What a real bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _myxtts\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    result = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert not result.stderr
    return result.stdout.split()


@pytest.fixture
def script(capsys):
    assert main(["completion", "bash"]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_values_and_files(script, tmp_path, monkeypatch):
    (tmp_path / "my-corpus").mkdir()
    monkeypatch.chdir(tmp_path)
    assert bash_offers(script, "myxtts", "syn") == ["synthesize"]
    assert bash_offers(script, "myxtts", "voice", "r") == ["remove"]
    assert bash_offers(script, "myxtts", "train", "--max-s") == ["--max-steps"]
    assert bash_offers(script, "myxtts", "train", "--model-size", "t") == ["tiny"]
    assert bash_offers(script, "myxtts", "train", "my") == ["my-corpus"]
    assert bash_offers(script, "myxtts", "voice", "add", "--rep") == ["--replace"]


def test_other_shells(capsys):
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("autoload -U +X bashcompinit && bashcompinit\n")
    assert main(["completion", "fish"]) == 0
    fish = capsys.readouterr().out
    assert "'__fish_seen_subcommand_from train' -l model-size -x -a 'tiny small normal big'" in fish
