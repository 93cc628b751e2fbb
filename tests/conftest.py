"""Settings of every test run: in CI nothing may be skipped unnoticed."""

import os

os.environ["TRANSFORMER_BLOCK_PROGRESS"] = ""  # a check in a test is no learner's progress


def pytest_sessionfinish(session):
    """Fail a run in CI in which a test was skipped: there the model and every tool should have been present."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if os.environ.get("CI") == "true" and skipped and session.exitstatus == 0:
        reporter.write_line(f"\nCI=true makes skips failures: {', '.join(report.nodeid for report in skipped)}")
        session.exitstatus = 1
