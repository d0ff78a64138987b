"use strict";
// Shows the runs that the server or this file has. All text of a run is put in as text, never as HTML.

const SECONDS_BETWEEN_READS = 3;
const SAMPLES_SHOWN = 8;
const SERIES = 8;
const BUCKETS = ["compute", "data_wait", "host", "evaluation", "checkpoint", "compile", "start_up"];
const SPEECH = ["wer", "cer", "similarity", "own_similarity"];
const LOWER = ["wer", "cer", "mel_cepstral_distance", "pitch_error", "voicing_error", "clipping", "real_time_factor"];
const HIGHER = ["similarity", "own_similarity", "dnsmos", "distillmos"];
const SHARES = ["useful_utilisation", "steady_utilisation", "valid_frame_ratio"];
const DEVICE = [...SHARES, "buffer", "compilations_after_warmup", "compilations", "traces", "step_seconds", "data_wait_seconds"];
const OPTIMIZER = ["learning_rate", "gradient_norm"];
const COUNTS = ["compilations_after_warmup", "compilations", "traces", "buffer"];

const inFile = document.getElementById("data");
const hidden = new Set();
const charts = new Map();
const sounds = new Map();
let runs = [];
let readAt = null;
let isLost = false;
let allSamples = false;

const at = (id) => document.getElementById(id);
const colourOf = (run) => `series-${runs.indexOf(run) % SERIES}`;
const visible = () => runs.filter((run) => !hidden.has(run.path));

// Settings of the reader, which stay in this browser where it lets them.
function remembered(name, otherwise) {
  try {
    return localStorage.getItem(`myxtts.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`myxtts.${name}`, value);
  } catch { /* a file opened from the disk may not */ }
}

function applyTheme() {
  const chosen = at("theme").value;
  const dark = chosen === "dark" || (chosen === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function applyLanguage() {
  language = at("language").value;
  document.documentElement.lang = language;
  document.documentElement.dir = language === "fa" ? "rtl" : "ltr";
  for (const one of document.querySelectorAll("[data-word]")) one.textContent = word(one.dataset.word);
  document.title = `MyXTTS ${word("title")}`;
  sounds.clear();
  at("samples").querySelector(".sounds").replaceChildren();
  showAll();
}

function showAll() {
  showStatus();
  if (readAt === null) return;
  showRuns();
  showAdvice();
  showPanels();
  showTotals();
  showSamples();
}

function showStatus() {
  const status = at("status");
  const isLive = runs.some((run) => run.state === "running") && !inFile && !isLost;
  const kind = isLost ? "lost" : isLive ? "live" : "";
  // Read out when it changes, not the time of every read.
  status.setAttribute("aria-live", kind === status.className ? "off" : "polite");
  status.className = kind;
  if (inFile) status.textContent = word("exported");
  else if (readAt === null) status.textContent = word("loading");
  else status.textContent = word(isLost ? "lost" : isLive ? "live" : "still", clock(readAt));
}

function fact(list, name, ...value) {
  if (value.some((one) => one === undefined || one === null || one === "")) return;
  list.append(element("dt", {}, name), element("dd", {}, element("bdi", {}, ...value)));
}

function card(run) {
  const box = element("input", { type: "checkbox" });
  box.checked = !hidden.has(run.path);
  box.dataset.run = run.path;
  box.addEventListener("change", () => {
    if (box.checked) hidden.delete(run.path);
    else hidden.add(run.path);
    showPanels();
    showTotals();
    showSamples();
  });
  const state = element("span", { class: "state" }, named("states", run.state));
  state.dataset.state = run.state;
  const label = element("label", { title: run.path }, box, swatch(colourOf(run)), element("bdi", {}, run.name));
  const made = element("article", { class: "card" }, element("div", { class: "head" }, label, state));
  const total = run.planned_steps;
  const progress = element("progress", { max: total || 1, value: Math.min(run.step, total || 1), "aria-label": word("step") });
  made.append(progress);
  const list = element("dl");
  fact(list, word("step"), total ? `${number(run.step)} ${word("of")} ${number(total)}` : number(run.step));
  if (run.hours) fact(list, word("trained"), duration(run.hours));
  const useful = run.curves.useful_utilisation?.values.at(-1) ?? run.facts.useful_utilisation;
  if (useful !== undefined) fact(list, word("useful"), percent(useful));
  const compiled = run.curves.compilations_after_warmup?.values.at(-1) ?? run.facts.compilations_after_warmup;
  if (compiled !== undefined) fact(list, word("after_warmup"), number(compiled));
  if (run.best) fact(list, word("best"), `${named("metrics", run.best.metric)} ${number(run.best.value)} (${word("step")} ${number(run.best.step)})`);
  fact(list, word("mode"), run.facts.mode);
  fact(list, word("devices"), run.facts.model_devices);
  fact(list, word("strategy"), run.facts.strategy);
  if (run.updated) fact(list, word("updated"), dayAndClock(new Date(run.updated * 1000)));
  made.append(list);
  if (!Object.keys(run.curves).length && !run.problems.length) made.append(element("p", { class: "note" }, word("waiting")));
  for (const problem of run.problems) made.append(element("p", { class: "problem", dir: "auto", lang: "en" }, problem));
  return made;
}

function showRuns() {
  const cards = document.querySelector("#runs .cards");
  const focused = document.activeElement?.dataset.run;
  cards.replaceChildren(...runs.map(card));
  if (focused) [...cards.querySelectorAll("input")].find((box) => box.dataset.run === focused)?.focus();
}

function showAdvice() {
  const lines = runs.flatMap((run) => run.advice.map((sentence) => {
    const name = element("b", {}, swatch(colourOf(run)), " ", element("bdi", {}, run.name));
    return element("li", {}, name, element("span", { dir: "auto", lang: "en" }, sentence));
  }));
  at("advice").hidden = !lines.length;
  document.querySelector("#advice ul").replaceChildren(...lines);
}

function linesOf(metric, axis) {
  const names = metric === "buffer" ? ["buffer_batches", "buffer_size"] : [metric];
  return visible().flatMap((run) => names.filter((name) => run.curves[name]).map((name) => ({
    name: run.name, colour: colourOf(run), dashed: name === "buffer_size",
    xs: run.curves[name][axis], values: run.curves[name].values,
  })));
}

function metricsIn(section) {
  const found = new Set(runs.flatMap((run) => Object.keys(run.curves)));
  if (found.has("buffer_batches")) found.add("buffer");
  const isLoss = (name) => name === "loss" || name.endsWith("_loss") || name === "validation_mel_distance";
  if (section === "device") return DEVICE.filter((name) => found.has(name));
  if (section === "optimizer") return OPTIMIZER.filter((name) => found.has(name));
  if (section === "losses") {
    const order = (name) => [name.startsWith("validation_") ? 1 : 0, name.endsWith("loss") && name.replace("validation_", "") === "loss" ? 0 : 1, name].join();
    return [...found].filter(isLoss).sort((one, other) => order(one).localeCompare(order(other)));
  }
  const others = new Set([...DEVICE, ...OPTIMIZER, "buffer_batches", "buffer_size"]);
  const speech = [...found].filter((name) => !isLoss(name) && !others.has(name));
  const order = (name) => (SPEECH.indexOf(name) + 1 || 99);
  return speech.sort((one, other) => order(one) - order(other) || one.localeCompare(other));
}

function levelsOf(metric) {
  return visible().filter((run) => Object.hasOwn(run.recordings, metric)).map((run) => ({
    name: `${run.name}: ${word("recordings")}`, value: run.recordings[metric], colour: colourOf(run),
  }));
}

function hintOf(metric) {
  if (LOWER.includes(metric)) return word("better_lower");
  return HIGHER.includes(metric) ? word("better_higher") : "";
}

function panel(key, make) {
  if (!charts.has(key)) charts.set(key, make());
  return charts.get(key);
}

function showPanels() {
  const axis = at("axis").value;
  const unit = word(axis === "steps" ? "step" : "hours");
  const smoothing = Number(at("smoothing").value);
  for (const section of ["losses", "speech", "device", "optimizer"]) {
    const shown = [];
    for (const metric of metricsIn(section)) {
      const lines = linesOf(metric, axis);
      if (!lines.length) continue;
      const chart = panel(metric, () => new Chart(() => named("metrics", metric), () => hintOf(metric)));
      shown.push([chart, {
        lines, unit, levels: levelsOf(metric), isShare: SHARES.includes(metric),
        fromZero: SHARES.includes(metric) || COUNTS.includes(metric), toOne: true,
        logarithmic: section === "losses" && at("log").checked,
        smoothing: section === "losses" || metric === "gradient_norm" || metric === "step_seconds" ? smoothing : 0,
      }]);
    }
    place(section, shown);
  }
  const bands = visible().filter((run) => run.account).map((run) => [
    panel(`account of ${run.path}`, () => new Band(() => `${named("metrics", "account")}: ${run.name}`)),
    { unit, isShare: true, lines: BUCKETS.map((bucket) => ({
      name: named("buckets", bucket), colour: bucket, xs: run.account[axis], values: run.account.shares[bucket],
    })) },
  ]);
  document.querySelector("#time .legend").replaceChildren(
    ...BUCKETS.map((bucket) => element("li", {}, swatch(bucket), named("buckets", bucket))),
  );
  place("time", bands);
}

// Charts stay where they are, so that focus and cursor survive new numbers.
function place(section, shown) {
  const panels = at(section).querySelector(".panels");
  at(section).hidden = !shown.length && !(section === "time" && runs.some((run) => run.seconds));
  const wanted = shown.map(([chart]) => chart.figure);
  if (wanted.length !== panels.children.length || wanted.some((figure, number) => panels.children[number] !== figure)) {
    panels.replaceChildren(...wanted);
  }
  for (const [chart, content] of shown) chart.show(content);
}

function showTotals() {
  const totals = document.querySelector("#time .totals");
  const accounted = visible().filter((run) => run.seconds);
  totals.replaceChildren();
  if (!accounted.length) return;
  const row = (...cells) => element("tr", {}, ...cells);
  const head = row(element("td"), ...accounted.map((run) => element("th", { scope: "col" }, element("bdi", {}, run.name))));
  const walls = accounted.map((run) => BUCKETS.reduce((sum, bucket) => sum + run.seconds[bucket], 0));
  const rows = BUCKETS.map((bucket) => row(
    element("th", { scope: "row" }, swatch(bucket), ` ${named("buckets", bucket)}`),
    ...accounted.map((run, place) => element("td", {}, `${number(Math.round(run.seconds[bucket] * 10) / 10)} (${percent(run.seconds[bucket] / (walls[place] || 1))})`)),
  ));
  const sum = row(element("th", { scope: "row" }, word("total")), ...walls.map((wall) => element("td", {}, number(Math.round(wall)))));
  totals.append(element("table", {}, element("caption", {}, word("seconds")), element("thead", {}, head), element("tbody", {}, ...rows, sum)));
}

function addressOf(run, name) {
  return inFile ? name : `media/${runs.indexOf(run)}/${encodeURIComponent(name)}`;
}

function player(run, title, sample) {
  const heading = element("h3", {}, swatch(colourOf(run)), element("span", {}, element("bdi", {}, run.name), ` · ${title}`));
  const made = element("article", { class: "sound" }, heading);
  if (sample.sound) made.append(element("audio", { controls: "", preload: "none", src: addressOf(run, sample.sound), "aria-label": `${run.name}: ${title}` }));
  if (sample.alignment) made.append(element("img", { loading: "lazy", src: addressOf(run, sample.alignment), alt: word("alignment", number(sample.step)) }));
  return made;
}

function showSamples() {
  const heard = [];
  for (const run of visible()) {
    if (run.samples.recording) heard.push({ key: `${run.path} recording`, run, title: word("recording"), sample: { sound: run.samples.recording }, step: Infinity });
    for (const sample of run.samples.steps) {
      heard.push({ key: `${run.path} ${sample.step} ${sample.sound ? 1 : 0}${sample.alignment ? 1 : 0}`, run, title: word("sample_of", number(sample.step)), sample, step: sample.step });
    }
  }
  heard.sort((one, other) => (one.step === other.step ? 0 : other.step - one.step));
  const recordings = heard.filter((one) => one.step === Infinity).length;
  const shown = allSamples ? heard : heard.slice(0, recordings + SAMPLES_SHOWN);
  at("samples").hidden = !heard.length;
  const wanted = shown.map((one) => {
    if (!sounds.has(one.key)) {
      sounds.set(one.key, player(one.run, one.title, one.sample));
      if (one.step === Infinity) sounds.get(one.key).classList.add("recording");
    }
    return sounds.get(one.key);
  });
  const list = at("samples").querySelector(".sounds");
  // Moving a player would stop it, so only what is new or gone is touched.
  for (const old of [...list.children]) if (!wanted.includes(old)) old.remove();
  wanted.forEach((one, number) => {
    if (list.children[number] !== one) list.insertBefore(one, list.children[number] ?? null);
  });
  const more = at("samples").querySelector(".more");
  more.hidden = shown.length === heard.length;
  more.textContent = word("more", number(heard.length - shown.length));
  const leftOut = runs.reduce((sum, run) => sum + (run.samples.left_out ?? 0), 0);
  if (leftOut) at("samples").querySelector(".note").textContent = `${word("samples_note")} ${word("left_out", number(leftOut))}`;
}

async function read() {
  try {
    const answer = await fetch("runs.json");
    if (!answer.ok) throw new Error(answer.statusText);
    runs = await answer.json();
    readAt = new Date();
    isLost = false;
  } catch {
    isLost = readAt !== null;
  }
  showAll();
  setTimeout(read, SECONDS_BETWEEN_READS * 1000);
}

function begin() {
  const preferred = navigator.language?.startsWith("fa") ? "fa" : "en";
  at("language").value = document.documentElement.dataset.language ?? remembered("language", preferred);
  at("theme").value = remembered("theme", "auto");
  for (const name of ["axis", "log"]) at(name).addEventListener("change", showPanels);
  at("smoothing").addEventListener("input", showPanels);
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("language").addEventListener("change", () => { remember("language", at("language").value); applyLanguage(); });
  at("theme").addEventListener("change", () => { remember("theme", at("theme").value); applyTheme(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  at("samples").querySelector(".more").addEventListener("click", () => { allSamples = true; showSamples(); });
  applyTheme();
  if (inFile) {
    runs = JSON.parse(inFile.textContent);
    readAt = new Date();
  }
  applyLanguage();
  if (!inFile) read();
}

begin();
