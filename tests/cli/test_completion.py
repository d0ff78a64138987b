import shutil
import subprocess

import pytest

from myxtts.cli.main import main


@pytest.fixture
def script(capsys):
    def printed(shell: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(["--print-completion", shell])
        assert end.value.code == 0
        return capsys.readouterr().out

    return printed


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_and_values(script):
    def offers(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in words)
        program = (
            "shopt -s progcomp\n" + script("bash") + f"\nCOMP_WORDS=({line})\n"
            f"COMP_CWORD={len(words) - 1}\n_shtab_myxtts myxtts '{words[-1]}' '{words[-2]}'\n"
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        result = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        return result.stdout.split()

    assert offers("myxtts", "syn") == ["synthesize"]
    assert offers("myxtts", "voice", "r") == ["remove"]
    assert offers("myxtts", "train", "--max-st") == ["--max-steps"]
    assert offers("myxtts", "train", "--model-size", "t") == ["tiny"]
    assert offers("myxtts", "synthesize", "--voice", "ca") == ["callie"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh", "fish"])
def test_scripts_of_other_shells(script, shell):
    assert "synthesize" in script(shell)
