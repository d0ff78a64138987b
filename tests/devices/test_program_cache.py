"""The folder of compiled programs, for machines whose files are laid out here."""

from pathlib import Path

from myxtts.devices.startup import cpu_fingerprint, program_cache

CORE = """processor\t: {number}
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: {model}
cpu MHz\t\t: {speed}
flags\t\t: fpu sse2 avx2{more}
bogomips\t: 4890.84

"""
ARM_CORE = """processor\t: {number}
BogoMIPS\t: 50.00
Features\t: fp asimd{more}
CPU implementer\t: 0x41
CPU part\t: {part}

"""


def machine(folder, *cores):
    (folder / "proc").mkdir(parents=True)
    (folder / "proc" / "cpuinfo").write_text("".join(cores))
    return folder


def amd_core(number=0, *, model=1, speed="2445.4", more=""):
    return CORE.format(number=number, model=model, speed=speed, more=more)


def arm_core(number=0, *, part="0xd0c", more=""):
    return ARM_CORE.format(number=number, part=part, more=more)


def test_cpus_of_one_kind_share_their_programs(tmp_path):
    one = machine(tmp_path / "one", amd_core())
    many = machine(tmp_path / "many", *(amd_core(index, speed="1500.0") for index in range(4)))
    assert cpu_fingerprint(one) == cpu_fingerprint(many)


def test_cpus_that_can_do_different_things_do_not(tmp_path):
    machines = {
        "plain": [amd_core()],
        "more instructions": [amd_core(more=" avx512f")],
        "another model": [amd_core(model=17)],
        "arm": [arm_core()],
        "arm with more": [arm_core(more=" sve")],
        "arm of two kinds": [arm_core(), arm_core(1, part="0xd41")],
    }
    folders = [machine(tmp_path / name, *cores) for name, cores in machines.items()]
    assert len({cpu_fingerprint(folder) for folder in folders}) == len(machines)


def test_a_system_that_does_not_tell_has_programs_of_its_own(monkeypatch, tmp_path):
    ours = cpu_fingerprint(tmp_path)
    assert cpu_fingerprint(tmp_path) == ours
    monkeypatch.setattr("platform.node", lambda: "another machine")
    assert cpu_fingerprint(tmp_path) != ours


def test_the_cache_is_in_the_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert program_cache(True) == tmp_path / "myxtts" / "xla" / cpu_fingerprint()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert program_cache(True) == Path.home() / ".cache" / "myxtts" / "xla" / cpu_fingerprint()
    assert program_cache(False) is None
