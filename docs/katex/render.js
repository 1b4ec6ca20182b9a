/* Sets the formulas of a page. KaTeX lies beside this file, so that the site loads nothing from elsewhere. */
document.addEventListener("DOMContentLoaded", () => {
  for (const formula of document.querySelectorAll(".arithmatex")) {
    const shown = formula.tagName === "DIV";
    katex.render(formula.textContent.replace(/^\\[([]|\\[)\]]$/g, ""), formula, {displayMode: shown, throwOnError: false});
  }
});
