"use strict";
// One page at a time, by the fragment of the address; without this script all of them stand one below the other.
const pages = [...document.querySelectorAll("article.page")];
function show(key) {
  const chosen = pages.find((page) => page.id === key) || pages[0];
  for (const page of pages) page.hidden = page !== chosen;
  for (const link of document.querySelectorAll("[data-page]")) {
    if (link.dataset.page === chosen.id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
addEventListener("hashchange", () => {
  show(decodeURIComponent(location.hash.slice(1)));
  document.getElementById("main").focus();
  scrollTo(0, 0);
});
if (pages.length) show(decodeURIComponent(location.hash.slice(1)));

document.querySelector("[data-theme-button]").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      // A page that is opened as a file may not have the clipboard; selecting still works.
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  });
}
