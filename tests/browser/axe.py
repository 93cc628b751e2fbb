"""What axe-core finds wrong with a page for those who cannot see it, or use no mouse."""

from tests.browser.site import ROOT

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async (within) => {
  await Promise.all(document.getAnimations().filter((it) => it.effect.getTiming().iterations !== Infinity)
    .map((it) => it.finished.catch(() => {})));  // a colour halfway between two themes has no contrast
  const { violations } = await axe.run(within ?? document, { resultTypes: ["violations"] });
  return violations.flatMap(({ id, impact, nodes }) => nodes.map((node) =>
    `${id} (${impact}): ${node.target.join(" ")}: ${node.failureSummary.replace(/\\s+/g, " ")}`));
}"""


def violations(page, within=None):
    """What axe-core finds, one line each, [] for a good page.

    page : of Playwright; within : a selector, to look at a part of the page only.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate(RUN, within)
