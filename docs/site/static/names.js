// Names for parts of the theme that a screen reader cannot name.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("summary").forEach((one) => {
    if (!one.textContent.trim()) one.setAttribute("aria-label", "Show or hide the pages below");
  });
  document.querySelectorAll(".sphx-glr-thumbcontainer a").forEach((one) => one.setAttribute("aria-label", one.textContent));
  document.querySelectorAll(".search-button__button").forEach((one) => one.removeAttribute("aria-label"));
});
