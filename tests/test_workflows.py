"""The workflows and hooks of the repository, which cannot run here, are well formed and ask for no more than needed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import check_jsonschema
import pytest
import yaml
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
SECONDS = 60

SYSTEMS = {"ubuntu-latest", "macos-latest", "windows-latest"}


def zizmor(*arguments):
    """Run the linter for workflows, without a network, which must have nothing to say."""
    line = [BIN / "zizmor", "--offline", "--no-progress", "--config", ".github/zizmor.yml", *arguments]
    done = subprocess.run(line, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def fit_schema(name, *files):
    """Whether files fit a schema that comes with check-jsonschema."""
    done = CliRunner().invoke(check_jsonschema.main, ["--builtin-schema", f"vendor.{name}", *map(str, files)])
    assert done.exit_code == 0, done.output


def workflow(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))


def pythons():
    """Give the versions of Python that the package says it supports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"])
    return {match[1] for match in found if match}


@pytest.fixture
def blocks():
    """What the page on audits tells others to run: first key → YAML."""
    page = (ROOT / "docs/how-to/audit.md").read_text("utf-8")
    return {next(iter(yaml.safe_load(text))): text for text in re.findall(r"```yaml\n(.+?)```", page, re.DOTALL)}


def test_the_workflows_fit_the_schema_and_are_safe(blocks, tmp_path):
    """Ours and that of the page: no key is misspelt, no value of a kind that the service would refuse."""
    (tmp_path / ".github/workflows").mkdir(parents=True)
    shown = tmp_path / ".github/workflows/audit.yml"
    shown.write_text(blocks["name"], "utf-8")
    assert len(WORKFLOWS) == 2
    fit_schema("github-workflows", *WORKFLOWS, shown)
    zizmor("--persona", "pedantic", *WORKFLOWS)
    zizmor(shown)


@pytest.mark.parametrize(("name", "job"), [("ci.yml", "tests"), ("release.yml", "try")])
def test_every_supported_system_and_python_is_in_the_matrix(name, job):
    """What the package claims to support is what would be run."""
    matrix = workflow(name)["jobs"][job]["strategy"]["matrix"]
    assert set(matrix["system"]) == SYSTEMS
    assert set(matrix["python"]) == pythons()


def test_only_publishing_may_write_and_the_hooks_run_what_the_project_has(blocks):
    jobs = {(file.stem, name): job for file in WORKFLOWS for name, job in workflow(file.name)["jobs"].items()}
    writing = {key for key, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writing == {("release", "publish"), ("release", "release")}
    assert [file.name for file in WORKFLOWS if "secrets." in file.read_text("utf-8")] == []

    # And that of the page is whole.
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    programs = {hook["entry"].split()[0].rpartition("/")[2] for hook in repository["hooks"]}
    named = {part for hook in repository["hooks"] for part in hook["entry"].split() if part.startswith("tests/")}
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}
    assert all((BIN / program).exists() or (BIN / f"{program}.exe").exists() for program in programs)
    assert [path for path in named if not (ROOT / path).exists()] == []
    (shown,) = yaml.safe_load(blocks["repos"])["repos"]
    assert [{*hook} >= {"id", "name", "entry", "language"} for hook in shown["hooks"]] == [True]
