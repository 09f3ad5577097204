"""The workflows and hooks of the repository, which cannot run here, are well formed and ask for no more than needed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
SECONDS = 60

SYSTEMS = {"ubuntu-latest", "macos-latest", "windows-latest"}


def linted(program, *arguments):
    """Run a linter of the environment, without a network, and give its exit code and all that it says."""
    done = subprocess.run(
        [str(BIN / program), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def workflow(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))


def pythons():
    """Give the versions of Python that the package says it supports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"])
    return {match[1] for match in found if match}


def test_the_workflows_fit_the_schema():
    """No key is misspelt, no value of a kind that the service would refuse."""
    code, said = linted("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS))

    assert len(WORKFLOWS) == 2
    assert code == 0, said


def test_the_workflows_are_safe():
    code, said = linted(
        "zizmor", "--offline", "--no-progress", "--persona", "pedantic", "--config", ".github/zizmor.yml", *WORKFLOWS
    )

    assert code == 0, said


@pytest.mark.parametrize(("name", "job"), [("ci.yml", "tests"), ("release.yml", "try")])
def test_every_supported_system_and_python_is_in_the_matrix(name, job):
    """What the package claims to support is what would be run."""
    matrix = workflow(name)["jobs"][job]["strategy"]["matrix"]

    assert set(matrix["system"]) == SYSTEMS
    assert set(matrix["python"]) == pythons()


def test_only_publishing_may_write():
    jobs = {(file.stem, name): job for file in WORKFLOWS for name, job in workflow(file.name)["jobs"].items()}
    writing = {key for key, job in jobs.items() if "write" in job.get("permissions", {}).values()}

    assert writing == {("release", "publish"), ("release", "release")}
    assert [file.name for file in WORKFLOWS if "secrets." in file.read_text("utf-8")] == []


def test_the_hooks_run_what_the_project_has():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    programs = {hook["entry"].split()[0].rpartition("/")[2] for hook in repository["hooks"]}

    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert all((BIN / program).exists() or (BIN / f"{program}.exe").exists() for program in programs)
    named = {part for hook in repository["hooks"] for part in hook["entry"].split() if part.startswith("tests/")}
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_what_the_pages_tell_others_to_run_fits_the_schemas(tmp_path):
    """The workflow and the hook of the page on audits are whole, and safe."""
    page = (ROOT / "docs/how-to/audit.md").read_text("utf-8")
    blocks = {next(iter(yaml.safe_load(text))): text for text in re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)}
    (tmp_path / ".github/workflows").mkdir(parents=True)
    flow = tmp_path / ".github/workflows/audit.yml"
    flow.write_text(blocks["name"], "utf-8")

    for arguments in (
        ("check-jsonschema", "--builtin-schema", "vendor.github-workflows", str(flow)),
        ("zizmor", "--offline", "--no-progress", "--config", ".github/zizmor.yml", str(flow)),
    ):
        code, said = linted(*arguments)
        assert code == 0, said
    (repository,) = yaml.safe_load(blocks["repos"])["repos"]
    assert [{*hook} >= {"id", "name", "entry", "language"} for hook in repository["hooks"]] == [True]
