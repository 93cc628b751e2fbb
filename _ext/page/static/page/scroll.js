// Lets the keyboard scroll formulas and code that are wider than the screen. The theme looks after code, too, but only
// when the window changes, and so misses what is unfolded later.

{
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const it of document.querySelectorAll(".katex-display, pre")) observer.observe(it);
}
