"""The command line's frame: help is quick, errors are one line, signals leave nothing behind."""

import ctypes
import importlib
import io
import os
import signal
import subprocess
import sys
import time
import types
import warnings

import pytest

from septum import __version__, cli
from septum.cli import main, option
from septum.cli.progress import Progress, say
from septum.dmri import sample
from septum.errors import InvalidInputError, MissingExtraError

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture
def command(monkeypatch):
    """Install a command named "try" that runs what it is given."""

    def install(run):
        module = types.ModuleType("septum.cli.show", "A command for tests.")
        module.EXAMPLE = "septum show x"
        module.add_arguments = lambda parser: parser.add_argument("word")
        module.run = run
        monkeypatch.setattr(cli, "available", lambda: cli.COMMANDS)
        monkeypatch.setitem(sys.modules, "septum.cli.show", module)
        return ["show", "x"]

    return install


def one_line(capsys):
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def test_help_lists_the_commands_that_are_there(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in cli.available():
        assert name in text
        assert importlib.util.find_spec(f"septum.cli.{name}")
    assert "example" in text


@pytest.mark.parametrize("name", list(cli.available()))
def test_every_command_has_help_with_an_example_and_the_shared_options(name, capsys):
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    for word in (f"septum {name} ", "example:", "--n-threads", "--seed", "--force", "-q", "-v", "--version"):
        assert word in text


def test_the_version_is_said(capsys):
    assert main(["--version"]) == 0
    assert main(["phantom", "--version"]) == 0
    assert capsys.readouterr().out == f"septum {__version__}\n" * 2


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from septum.cli import main\n"
        "for words in (['--help'], ['phantom', '--help'], ['odf', '-h']): assert main(words) == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'nibabel', 'dipy', 'matplotlib', 'rich', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - start < 5


def test_python_dash_m_is_the_command():
    for name in ("septum", "septum.cli"):
        done = subprocess.run(
            [sys.executable, "-m", name, "--version"], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"septum {__version__}\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["phantmo"], "did you mean 'phantom'"),
        (["zzzzzz"], "unknown command 'zzzzzz' (septum -h"),
        (["phantom"], "-o/--output"),
        (["phantom", "-o", "x", "--snr", "10,-3"], "'-3' is not a positive number"),
        (["phantom", "-o", "x", "--snr", "ten"], "'ten' is not a positive number"),
        (["phantom", "-o", "x", "--slices", "3"], "not first:last"),
        (["phantom", "-o", "x", "--n-threads", "0"], "at least 1"),
        (["phantom", "-o", "x", "--seed", "-1"], "at least 0"),
        (["phantom", "-o", "x", "--noise", "pink"], "pink"),
        (["phantom", "-o", "x", "--nonsense"], "--nonsense"),
    ],
)
def test_wrong_words_are_one_line_and_status_two(words, reason, capsys):
    assert main(words) == 2
    text = one_line(capsys)
    assert text.startswith("septum: error: ")
    assert reason in text


def test_no_command_is_help_on_standard_error(capsys):
    assert main([]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert "COMMAND" in found.err


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (InvalidInputError("the image\nis bad"), 2, "error: the image is bad"),
        (MissingExtraError("dipy"), 2, "pip install 'septum[dmri]'"),
        (ModuleNotFoundError("No module named 'nibabel'", name="nibabel"), 2, "pip install 'septum[dmri]'"),
        (FileNotFoundError(2, "No such file", "a.nii"), 2, "a.nii: No such file"),
        (MemoryError("3 GB"), 2, "not enough memory"),
        (KeyboardInterrupt(), 130, "nothing was left half-written"),
        (ZeroDivisionError("x"), 1, "unexpected ZeroDivisionError"),
    ],
)
def test_errors_are_one_line(command, error, status, words, capsys):
    def run(args):
        raise error

    assert main(command(run)) == status
    assert words in one_line(capsys)


def test_faults_keep_their_place_when_asked(command):
    def run(args):
        raise ZeroDivisionError("x")

    with pytest.raises(ZeroDivisionError):
        main([*command(run), "-v"])


def test_a_status_is_passed_on(command):
    assert main(command(lambda args: 3)) == 3
    assert main(command(lambda args: None)) == 0


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_kill_runs_the_clean_up(command, number, status, capsys):
    seen = []

    def run(args):
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        finally:
            seen.append("cleaned")

    before = signal.getsignal(number)
    assert main(command(run)) == status
    assert seen == ["cleaned"]
    assert signal.getsignal(number) == before
    assert "stopped" in one_line(capsys)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_inside_a_callback_of_c_code_is_not_lost(command, number, status, capsys):
    # ctypes cannot pass on what a callback raises: it is dropped, and the command would go on.
    seen = []

    @ctypes.CFUNCTYPE(None)
    def callback():
        os.kill(os.getpid(), number)
        time.sleep(0.01)

    def run(args):
        try:
            callback()
            seen.append("went on")
            time.sleep(5)
        finally:
            seen.append("cleaned")

    hook = sys.unraisablehook
    assert main(command(run)) == status
    assert seen == ["went on", "cleaned"]
    assert sys.unraisablehook is hook
    one_line(capsys)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_killed_command_leaves_nothing(tmp_path, number, status):
    process = subprocess.Popen(
        [sys.executable, "-m", "septum", "phantom", "-o", str(tmp_path / "out"), "--size", "200"],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "out").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away_is_no_fault():
    done = subprocess.run(
        f"{sys.executable} -m septum odf --help | head -1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_a_broken_pipe_while_working_has_its_own_status(command, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stdout", stream)

    def run(args):
        print("x" * 100000)

    assert main(command(run)) == cli.EXIT_BROKEN_PIPE
    stream.close()


def test_warnings_of_septum_are_one_line_and_others_are_kept_quiet(command, capsys):
    def run(args):
        warnings.warn_explicit("look here", UserWarning, "f.py", 1, module="septum.dmri.image")
        warnings.warn_explicit("old", DeprecationWarning, "f.py", 1, module="numpy")

    assert main(command(run)) == 0
    assert one_line(capsys) == "septum: warning: look here\n"
    assert main([*command(run), "-q"]) == 0
    assert capsys.readouterr().err == ""


def test_threads_are_set_and_given_back(command):
    from numba import get_num_threads
    from threadpoolctl import threadpool_info

    before = get_num_threads()
    seen = []

    def run(args):
        seen.append(
            (
                args.n_threads,
                get_num_threads(),
                {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"},
            )
        )

    assert main([*command(run), "--n-threads", "1"]) == 0
    assert seen == [(1, 1, {1})]
    assert get_num_threads() == before


def test_values_of_options():
    assert option.positive_floats("10,30") == [10.0, 30.0]
    assert option.slice_range("3:9") == (3, 9)
    assert option.usable_cpus() >= 1


# --- progress --------------------------------------------------------------------------------------------


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_progress_in_a_log_is_plain_lines(monkeypatch):
    clock, stream = Clock(monkeypatch), io.StringIO()
    with Progress("denoise", stream=stream) as report:
        for step in range(101):
            clock.now += 2
            report(step / 100, "slab")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "septum: denoise: 10% (slab), about 3 min 18 s left"
    assert lines[-1] == "septum: denoise: done in 3 min 22 s"
    assert 10 <= len(lines) <= 12
    assert "\x1b" not in stream.getvalue()


def test_progress_is_silent_when_quiet_and_stops_on_an_error():
    stream = io.StringIO()
    with Progress("x", -1, stream=stream) as report:
        report(0.5)
    with pytest.raises(ValueError, match="stop"), Progress("x", stream=stream):
        raise ValueError("stop")
    assert stream.getvalue() == ""


def test_progress_on_a_terminal_is_a_bar():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with Progress("denoise", stream=stream) as report:
        report(0.25, "slab")
        report(1.0, "slab")
    assert "denoise" in stream.getvalue()


def test_lines_take_the_bars_place_when_rich_is_missing(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    with Progress("denoise", stream=stream) as report:
        report(0.5)
    assert stream.getvalue().startswith("septum: denoise: done in ")


def test_what_is_said_depends_on_the_verbosity(capsys):
    say("always")
    say("hidden", -1)
    say("detail", 0, level=1)
    say("shown", 1, level=1)
    assert capsys.readouterr().out == "always\nshown\n"


@pytest.mark.parametrize("words", [["phantom", "-o"], ["odf", str(sample().dwi), "-o"]])
def test_a_missing_extra_is_said_at_once(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    assert main([*words, str(tmp_path / "out")]) == 2
    assert "pip install 'septum[dmri]'" in one_line(capsys)
    assert list(tmp_path.iterdir()) == []
