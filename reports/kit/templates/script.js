"use strict";
// Playback: at most one [data-playback] an article holds [data-step] elements, which are numbered 1, 2, … in their order.
// One step is current (aria-current="step", class is-current; earlier ones: is-past), at first [data-step-start] or step 1.
// [data-playback-move="first|previous|play|next|last"] are its buttons; Left, Right, Home and End move while the page is shown.
// [data-playback-text] says "Step 3 of 12: " and the step's data-text, or else its text.
// Elsewhere in the article, data-at-step="3 4" gives class is-at-step at these steps, data-from-step="3" is-from-step from then on.
// The article has class is-played and receives an event "playback" with detail.number at each move.

const say = (text) => { document.querySelector("[data-said]").textContent = text; };
for (const element of document.querySelectorAll("[data-needs-script]")) element.hidden = false;

// Pages: one at a time, by the fragment of the address; without this script all of them stand one below the other.
const pages = [...document.querySelectorAll("article.page")];
const title = document.title;
let shown = null;

function show(page) {
  shown = page;
  for (const other of pages) {
    other.hidden = other !== page;
    other.classList.toggle("is-shown", other === page);
  }
  for (const link of document.querySelectorAll("nav.pages a")) {
    if (link.hash === `#${page.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page.querySelector("h2").textContent} · ${title}`;
}

function follow(isOpening) {
  const target = document.getElementById(location.hash.slice(1));
  const page = target?.closest("article.page") ?? pages[0];
  show(page);
  if (target && target !== page) target.scrollIntoView();
  else if (!isOpening) scrollTo(0, 0);
  if (!isOpening) page.querySelector("h2").focus({ preventScroll: true });
}

// On a narrow screen the list of pages would push the page itself out of sight.
const narrow = matchMedia("(max-width: 56rem)");
const list = document.querySelector("nav.pages details");
const fold = () => { list.open = !narrow.matches; };
narrow.addEventListener("change", fold);
fold();

if (pages.length) {
  addEventListener("hashchange", () => { fold(); follow(false); });
  follow(true);
}
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});

// Light and dark: as the system has it, until the button is used.
const root = document.documentElement;
const dark = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.querySelector("[data-theme-button]");
const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const nameTheme = () => { themeButton.textContent = isDark() ? "Light" : "Dark"; };
themeButton.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
dark.addEventListener("change", nameTheme);
nameTheme();

// Copying: a page opened as a file may have no access to the clipboard, so there is a fallback.
function copySelected(line, element) {
  getSelection().selectAllChildren(element);
  const put = (event) => { event.clipboardData.setData("text/plain", line); event.preventDefault(); };
  document.addEventListener("copy", put);
  const isCopied = document.execCommand("copy");
  document.removeEventListener("copy", put);
  return isCopied;
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const line = button.dataset.copy;
    const isCopied = await navigator.clipboard?.writeText(line).then(() => true, () => false)
      || copySelected(line, button.parentElement.querySelector("code"));
    button.textContent = isCopied ? "Copied" : "Selected";
    say(isCopied ? "The line is copied." : "The line is selected; copy it with the keyboard.");
  });
}

// Playback, as described at the top.
const PLAY_STEP_MILLISECONDS = 1500;
const playbacks = new Map();

function startPlayback(article, element) {
  const steps = [...element.querySelectorAll("[data-step]")];
  const marked = [...article.querySelectorAll("[data-at-step], [data-from-step]")];
  const text = element.querySelector("[data-playback-text]");
  const playButton = element.querySelector('[data-playback-move="play"]');
  let current = -1;
  let timer = null;

  function go(index, isAsked) {
    current = Math.min(Math.max(index, 0), steps.length - 1);
    const number = current + 1;
    steps.forEach((step, position) => {
      step.classList.toggle("is-current", position === current);
      step.classList.toggle("is-past", position < current);
      if (position === current) step.setAttribute("aria-current", "step");
      else step.removeAttribute("aria-current");
    });
    for (const mark of marked) {
      mark.classList.toggle("is-at-step", (mark.dataset.atStep ?? "").split(" ").includes(String(number)));
      mark.classList.toggle("is-from-step", "fromStep" in mark.dataset && number >= Number(mark.dataset.fromStep));
    }
    const words = (steps[current].dataset.text ?? steps[current].textContent).replace(/\s+/g, " ").trim();
    if (text) text.textContent = `Step ${number} of ${steps.length}: ${words}`;
    if (isAsked) steps[current].scrollIntoView({ block: "nearest", inline: "nearest" });
    article.dispatchEvent(new CustomEvent("playback", { detail: { number } }));
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    if (playButton) playButton.textContent = "Play";
  }

  function play() {
    go(current === steps.length - 1 ? 0 : current, true);
    playButton.textContent = "Pause";
    timer = setInterval(() => {
      if (article.hidden || current === steps.length - 1) stop();
      else go(current + 1, true);
    }, PLAY_STEP_MILLISECONDS);
  }

  function move(name) {
    const isPlaying = timer !== null;
    stop();
    if (name === "play") {
      if (!isPlaying) play();
    } else {
      go({ first: 0, previous: current - 1, next: current + 1, last: steps.length - 1 }[name], true);
    }
  }

  for (const button of element.querySelectorAll("[data-playback-move]")) {
    button.addEventListener("click", () => move(button.dataset.playbackMove));
  }
  steps.forEach((step, index) => step.addEventListener("click", () => { stop(); go(index, false); }));
  article.classList.add("is-played");
  go(Math.max(steps.findIndex((step) => "stepStart" in step.dataset), 0), false);
  return move;
}

for (const element of document.querySelectorAll("[data-playback]")) {
  const article = element.closest("article.page");
  if (element.querySelector("[data-step]")) playbacks.set(article, startPlayback(article, element));
}

const PLAYBACK_KEYS = { ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last" };
document.addEventListener("keydown", (event) => {
  const name = PLAYBACK_KEYS[event.key];
  const move = playbacks.get(shown);
  if (!name || !move || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  // In a focused wide table the arrow keys scroll it.
  const wide = event.target.closest(".scroll");
  if (wide?.matches(":focus-visible") && wide.scrollWidth > wide.clientWidth) return;
  event.preventDefault();
  move(name);
});

// Filters: [data-filter] shows those rows of its article that have all words of its text and the chosen values.
for (const form of document.querySelectorAll("[data-filter]")) {
  const rows = [...form.closest("article").querySelectorAll("[data-filter-row]")];
  const text = form.querySelector("[data-filter-text]");
  const choices = [...form.querySelectorAll("[data-filter-by]")];
  const filter = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shownCount = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      const isShown = words.every((word) => content.includes(word))
        && choices.every((choice) => !choice.value || row.dataset[choice.dataset.filterBy] === choice.value);
      row.hidden = !isShown;
      shownCount += isShown;
    }
    form.querySelector("[data-filter-count]").textContent = `${shownCount} of ${rows.length}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
}
