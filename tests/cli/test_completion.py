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
def test_bash_completes_commands_flags_and_values(script):
    assert bash_offers(script, "myxtts", "syn") == ["synthesize"]
    assert bash_offers(script, "myxtts", "voice", "r") == ["remove"]
    assert bash_offers(script, "myxtts", "train", "--max-s") == ["--max-steps"]
    assert bash_offers(script, "myxtts", "train", "--model-size", "t") == ["tiny"]
    # Nothing is offered for a file: bash completes its name.
    assert bash_offers(script, "myxtts", "train", "my") == []
    assert bash_offers(script, "myxtts", "voice", "add", "--rep") == ["--replace"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_without_settings_knows_the_command(capsys, tmp_path):
    assert main(["completion", "zsh"]) == 0
    program = capsys.readouterr().out + "\nprint $_comps[myxtts]"
    result = subprocess.run(
        ["zsh", "-f", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert not result.stderr
    assert result.stdout.split()[-1] == "_myxtts"


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes_commands_and_values(capsys, tmp_path):
    assert main(["completion", "fish"]) == 0
    script = capsys.readouterr().out

    def offers(line: str) -> list[str]:
        program = f"{script}\ncomplete -C '{line}'"
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        result = subprocess.run(
            ["fish", "-c", program], capture_output=True, text=True, check=True, env=environment
        )
        return result.stdout.split()

    assert "synthesize" in offers("myxtts syn")
    assert offers("myxtts train --model-size t") == ["tiny"]


def test_scripts_of_other_shells(capsys):
    assert main(["completion", "zsh"]) == 0
    assert "bashcompinit\n" in capsys.readouterr().out
    assert main(["completion", "fish"]) == 0
    fish = capsys.readouterr().out
    assert "'__fish_seen_subcommand_from train' -l model-size -x -a 'tiny small normal big'" in fish
