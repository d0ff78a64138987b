// The page: forms, and what happens when they are used.

import { Recorder } from "./recorder.js";
import { Result } from "./result.js";
import { ServerError, ask, list, useToken } from "./server.js";
import { decoded } from "./sound.js";
import { EXAMPLES, changeLanguage, languageOfPage, nameOfLanguage, number, showWords, word } from "./words.js";

const MOST_UPLOAD_SECONDS = 60;
const SLIDERS = ["speed", "temperature", "steps"];
const $ = (id) => document.getElementById(id);

let models = [];
let voices = {};
let results = [];
let stopping = null;
let recorder = null;
let recording = null;

function show(problem) {
  $("problem").hidden = !problem;
  $("problem").textContent = problem ?? "";
}

// Runs an action and shows what went wrong; asks for the token if that is it.
async function careful(action) {
  show(null);
  try {
    return await action();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    $("status").textContent = "";
    if (error instanceof ServerError) {
      if (error.status === 401) $("token-form").hidden = false;
      show(error.message);
    } else {
      show(error instanceof TypeError ? word("offline") : error.message);
    }
    return undefined;
  }
}

function fill(select, choices, kept = select.value) {
  select.replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
  if (choices.some(([value]) => value === kept)) select.value = kept;
}

function fillChoices() {
  const model = $("model").value || models[0]?.id;
  fill($("model"), models.map(({ id }) => [id, id]));
  $("model-field").hidden = models.length < 2;
  const names = (voices[model] ?? []).map(({ id }) => [id, id]);
  fill($("voice"), names.length ? names : [["", word("noVoice")]]);
  const tags = models.find(({ id }) => id === model)?.languages ?? [];
  fill($("language"), tags.map((tag) => [tag, nameOfLanguage(tag)]));
  if (hasExample() && tags.includes(languageOfPage())) $("language").value = languageOfPage();
  showExample();
  const others = models.flatMap(({ id }) =>
    (voices[id] ?? []).map((voice) => [
      JSON.stringify([id, voice.id]),
      models.length > 1 ? `${voice.id} (${id})` : voice.id,
    ]));
  fill($("other"), [["", word("nothing")], ...others]);
  $("speak").disabled = !names.length;
  $("delete-voice").disabled = !names.length;
  if (!names.length) $("adding").open = true;
}

function hasExample() {
  return !$("text").value || Object.values(EXAMPLES).includes($("text").value);
}

function showExample() {
  if (hasExample()) $("text").value = EXAMPLES[$("language").value.split("-")[0]] ?? EXAMPLES.en;
}

async function load() {
  models = await list("/v1/models");
  voices = {};
  for (const { id } of models) voices[id] = await list(`/v1/voices?model=${encodeURIComponent(id)}`);
  $("token-form").hidden = true;
  fillChoices();
}

async function speak() {
  stopping = new AbortController();
  const { signal } = stopping;
  for (const result of results) result.remove();
  results = [];
  $("speak").disabled = true;
  $("stop").disabled = false;
  $("status").textContent = word("speaking");
  const common = { input: $("text").value, language: $("language").value };
  for (const id of SLIDERS) common[id] = Number($(id).value);
  const asked = [[$("model").value, $("voice").value]];
  if ($("other").value) asked.push(JSON.parse($("other").value));
  try {
    for (const [model, voice] of asked) {
      if (signal.aborted) break;
      const result = new Result($("results"), models.length > 1 ? `${voice} (${model})` : voice);
      results.push(result);
      await result.speak({ ...common, model, voice }, signal);
    }
    $("status").textContent = word(signal.aborted ? "stopped" : "done");
  } finally {
    if (signal.aborted) $("status").textContent = word("stopped");
    $("speak").disabled = false;
    $("stop").disabled = true;
  }
}

function offer(blob) {
  recording = blob;
  $("voice-audio").src = URL.createObjectURL(blob);
  $("voice-audio").hidden = false;
  $("save-voice").disabled = false;
}

async function chooseFile() {
  const file = $("voice-file").files[0];
  if (!file) return;
  try {
    offer(await decoded(await file.arrayBuffer(), MOST_UPLOAD_SECONDS));
  } catch {
    $("save-voice").disabled = true;
    throw new Error(word("notAudio"));
  }
}

async function record() {
  const button = $("record");
  if (recorder) {
    offer(recorder.stop());
    recorder = null;
  } else {
    const next = new Recorder();
    try {
      await next.start();
    } catch {
      throw new Error(word("noMicrophone"));
    }
    recorder = next;
  }
  button.dataset.word = recorder ? "stopRecording" : "record";
  button.textContent = word(button.dataset.word);
  $("status").textContent = recorder ? word("recording") : "";
}

async function saveVoice() {
  const form = new FormData();
  form.append("name", $("voice-name").value.trim());
  form.append("model", $("model").value);
  form.append("file", recording, "recording.wav");
  const { id } = await (await ask("/v1/voices", { method: "POST", body: form })).json();
  await load();
  $("voice").value = id;
  $("voice-form").reset();
  $("voice-audio").hidden = true;
  $("save-voice").disabled = true;
  $("status").textContent = `${word("saved")}: ${id}`;
}

async function removeVoice() {
  const name = $("voice").value;
  if (!window.confirm(`${word("really")} ${name}`)) return;
  const query = `?model=${encodeURIComponent($("model").value)}`;
  await ask(`/v1/voices/${encodeURIComponent(name)}${query}`, { method: "DELETE" });
  await load();
  $("status").textContent = `${word("removed")}: ${name}`;
}

function showSliders() {
  for (const id of SLIDERS) {
    const output = document.querySelector(`output[for=${id}]`);
    output.textContent = number(Number($(id).value), id === "steps" ? 0 : 1);
  }
}

function on(id, event, action) {
  $(id).addEventListener(event, (happened) => {
    if (event === "submit") happened.preventDefault();
    careful(action);
  });
}

on("speech-form", "submit", speak);
on("stop", "click", () => stopping?.abort());
on("token-form", "submit", () => { useToken($("token").value.trim()); return load(); });
on("voice-file", "change", chooseFile);
on("record", "click", record);
on("voice-form", "submit", saveVoice);
on("delete-voice", "click", removeVoice);
$("model").addEventListener("change", fillChoices);
$("language").addEventListener("change", showExample);
for (const id of SLIDERS) $(id).addEventListener("input", showSliders);
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("speech-form").requestSubmit();
});
$("other-language").addEventListener("click", () => {
  changeLanguage();
  showSliders();
  fillChoices();
  for (const result of results) result.describe();
});
window.addEventListener("resize", () => results.forEach((result) => result.samples && result.draw()));

showWords();
showSliders();
careful(load);
